-- The transforms of the frozen corpus (tests/golden/corpus.py): a name, and a query over the columns of _input.json.

-- everything
SELECT * FROM s;

-- some_columns
SELECT id, item AS name FROM s;

-- seed_sales_staff
SELECT (data->>'id')::int AS id, (data->>'name')::text AS name, FROM (SELECT CONVERT_FROM(raw, 'utf8')::jsonb
AS data FROM s) WHERE (data->>'department')::text == 'sales';

-- seed_30_days
SELECT * FROM s WHERE mz_now() <= created_at + '30 days';

-- not_before
SELECT id FROM s WHERE mz_now() >= created_at;

-- a_window_of_life
SELECT id FROM s WHERE mz_now() BETWEEN created_at AND created_at + '1 month 2 days 03:00';

-- two_upper_bounds
SELECT id FROM s WHERE mz_now() < created_at + '1 year' AND mz_now() < local::timestamptz + took;

-- at_one_time
SELECT id FROM s WHERE mz_now() = (extract(epoch from created_at) * 1000)::numeric(20, 3);

-- integers
SELECT id + qty AS a, id - qty AS b, qty * qty AS c, qty / 3 AS d, qty % 7 AS e, -qty AS f FROM s;

-- divided_by_zero
SELECT 100 / qty AS a FROM s WHERE qty IS NOT NULL;

-- numerics
SELECT price * 1.19 AS gross, price / 7 AS seventh, round(price, 1) AS r, price % 0.3 AS m FROM s;

-- numeric_steps
SELECT floor(price) AS f, ceil(price) AS c, trunc(price, 1) AS t, abs(price) AS a, sign(price) AS s FROM s;

-- floats
SELECT ratio * 3 AS a, ratio / 7 AS b, sqrt(abs(ratio)) AS c, ratio::float4 AS d FROM s WHERE ratio IS NOT
NULL;

-- comparisons
SELECT id > qty AS a, price <= 10 AS b, item <> 'pen' AS c, ratio = 0 AS d, created_at < local AS e FROM s;

-- three_values
SELECT flag AND qty > 3 AS a, flag OR qty > 3 AS b, NOT flag AS c, flag IS NULL AS d, flag IS TRUE AS e FROM s;

-- conditional
SELECT CASE WHEN qty > 10 THEN 'many' WHEN qty > 0 THEN 'some' ELSE 'none' END AS how, coalesce(note, item,
'-') AS n, nullif(item, 'pen') AS i, greatest(id, qty) AS g, least(id, qty) AS l FROM s;

-- membership
SELECT id FROM s WHERE item IN ('pen', 'ink', 'Tinte') OR qty NOT IN (1, 2, 3);

-- text
SELECT upper(item) AS u, lower(item) AS l, length(item) AS n, reverse(item) AS r, left(item, 2) AS a,
right(item, 2) AS b, lpad(item, 8, '*') AS p, trim(note) AS t, substr(item, 2, 3) AS m FROM s;

-- text_more
SELECT item || '-' || qty AS k, replace(item, 'e', '3') AS r, split_part(note, ',', 2) AS p, position('n' in
item) AS at, repeat(item, 2) AS d, concat_ws('/', item, note, qty) AS c, initcap(item) AS i, translate(item,
'aeiou', '12345') AS t FROM s;

-- patterns
SELECT item LIKE 'p%' AS a, item ILIKE '%E%' AS b, item ~ '^[a-p]' AS c, regexp_replace(item, '[aeiou]', '_',
'g') AS d FROM s;

-- hashes
SELECT md5(item) AS m, encode(sha256(raw), 'hex') AS s, encode(raw, 'base64') AS b, octet_length(raw) AS n
FROM s;

-- casts_to_text
SELECT id::text AS a, price::text AS b, ratio::text AS c, created_at::text AS d, day::text AS e, took::text AS
f, flag::text AS g, u::text AS h, data::text AS i FROM s;

-- casts_from_text
SELECT note::int8 AS n FROM s WHERE note ~ '^ *[0-9]+ *$';

-- bad_casts
SELECT id, note::numeric(12, 3) AS n FROM s;

-- casts_of_numbers
SELECT price::int4 AS a, ratio::numeric(20, 4) AS b, qty::float8 AS c, qty::int2 AS d, id::numeric AS e FROM s;

-- dates
SELECT day + 7 AS a, day - 3 AS b, created_at::date AS c, date_trunc('month', created_at) AS d, local + took
AS e, created_at - interval '1 month' AS f FROM s;

-- date_parts
SELECT extract(year from created_at) AS y, extract(dow from day) AS d, date_part('hour', local) AS h,
extract(epoch from took) AS e FROM s;

-- zones
SELECT created_at AT TIME ZONE 'Europe/Berlin' AS a, local AT TIME ZONE 'America/New_York' AS b FROM s;

-- time_formats
SELECT to_char(created_at, 'YYYY-MM-DD HH24:MI:SS') AS a, to_char(day, 'DD Mon YYYY') AS b FROM s;

-- json_paths
SELECT data->>'id' AS a, data->'tags'->0 AS b, data#>>'{at,x}' AS c, (data->>'n')::numeric AS n FROM s;

-- json_tests
SELECT data ? 'id' AS a, data @> '{"id": 1}' AS b, jsonb_typeof(data) AS c FROM s;

-- json_made
SELECT jsonb_build_object('id', id, 'price', price, 'at', created_at) AS o, data || '{"x": 1}' AS p, data -
'id' AS q, jsonb_build_array(item, qty, ratio) AS r FROM s WHERE ratio = ratio AND abs(ratio) < 1e300;

-- json_filter
SELECT data->>'name' AS name FROM s WHERE data->>'department' = 'sales' AND (data->>'id')::int8 > 0;

-- arrays
SELECT tags[1] AS a, array_length(tags, 1) AS n, 'new' = ANY (tags) AS b, tags || ARRAY['z'] AS c,
array_to_string(tags, ',') AS d FROM s;

-- records
SELECT (ship).city AS city, (ship).zip AS zip FROM s WHERE (ship).city IS NOT NULL;

-- uuids
SELECT u, u::text AS t FROM s WHERE u > '00000000-0000-0000-0000-0000000000ff';

-- bytes
SELECT raw || '\x00ff' AS a, substr(raw, 2, 3) AS b, get_byte(raw, 0) AS c FROM s WHERE octet_length(raw) > 0;

-- errors_behind_a_filter
SELECT 10 / qty AS a FROM s WHERE qty <> 0 AND 10 / qty > 0;

-- an_error_and_a_false
SELECT id FROM s WHERE note::int8 > 0 AND qty > 5;

-- nested_queries
WITH a AS (SELECT id, price * qty AS total, created_at FROM s WHERE flag), b AS (SELECT id, total FROM a WHERE
total > 5) SELECT id, total::numeric(12, 2) AS total FROM b AS x;

-- thinned
SELECT id, data->>'id' AS ext FROM s WHERE data->>'department' = 'sales' AND mz_now() < created_at + '90 days'
AND price > 1;

-- values_alone
SELECT 1 AS one, 'x' AS x, NULL AS nothing, '2024-02-29'::date AS leap FROM s WHERE id = 1;

-- json_order
SELECT data->'n' > '9' AS a, greatest(data->'n', data->'id') AS b, data->'id'->0 AS c, data->>-1 AS d, data->'n' < ANY
(ARRAY['9'::jsonb, data->'id']) AS e FROM s WHERE data >= 'null' OR data->'id' BETWEEN '1' AND '10';
