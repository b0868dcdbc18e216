-- Statements that PostgreSQL and Tidegate answer with the same rows and column names, over the tables of relational.py.
-- They are read together with relational.sql, by its rules.

-- common tables that read a query around them
SELECT n.id, (WITH e AS (SELECT dst FROM edges WHERE src = n.id) SELECT count(*) FROM e) AS c FROM nodes n;
SELECT n.id, (WITH e AS (SELECT dst FROM edges WHERE src = n.id) SELECT count(*) FROM e a JOIN e b ON a.dst <= b.dst) AS c FROM nodes n;
SELECT n.id, (WITH w AS (SELECT n.weight * 2 AS x) SELECT x FROM w) AS x FROM nodes n;
SELECT n.id, l.a, l.b FROM nodes n, LATERAL (WITH e AS (SELECT dst FROM edges WHERE src = n.id), f AS (SELECT dst + 1 AS x FROM e) SELECT e.dst AS a, f.x AS b FROM e JOIN f ON f.x > e.dst) l;
SELECT n.id, l.c FROM nodes n LEFT JOIN LATERAL (WITH v AS (SELECT kind FROM events WHERE node = n.id) SELECT max(kind) AS c FROM v HAVING count(*) > 1) l ON true;
SELECT n.id FROM nodes n WHERE EXISTS (WITH v AS (SELECT * FROM events WHERE node = n.id) SELECT 1 FROM v WHERE v.kind = 'a');
SELECT n.id FROM nodes n WHERE n.id IN (WITH e AS MATERIALIZED (SELECT dst FROM edges WHERE cost > n.weight) SELECT dst FROM e);
SELECT n.id, (WITH e AS (SELECT src FROM edges) SELECT count(*) FROM e WHERE e.src > n.id) AS c FROM nodes n;
SELECT n.id, (WITH n AS (SELECT 5 AS id) SELECT id FROM n) AS c FROM nodes n;
SELECT n.id, (SELECT count(*) FROM (WITH e AS (SELECT dst FROM edges WHERE src = n.id) SELECT DISTINCT dst FROM e) x) AS c FROM nodes n;
SELECT n.id, (WITH RECURSIVE r (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < n.id) SELECT sum(k) FROM r) AS s FROM nodes n;
SELECT n.id, (WITH RECURSIVE up AS (SELECT n.parent AS p UNION ALL SELECT m.parent FROM nodes m JOIN up ON m.id = up.p) SELECT count(p) FROM up) AS depth FROM nodes n;
SELECT n.id, r.k FROM nodes n, LATERAL (WITH RECURSIVE r (k) AS (SELECT n.id UNION ALL SELECT k / 2 FROM r WHERE k > 1) SELECT k FROM r) r;

-- subqueries in ON of outer joins
SELECT n.id, e.dst FROM nodes n LEFT JOIN edges e ON e.src = n.id AND e.cost > (SELECT avg(cost) FROM edges);
SELECT n.id, e.dst FROM nodes n LEFT JOIN edges e ON e.dst = (SELECT max(dst) FROM edges x WHERE x.src = n.id);
SELECT n.id, e.dst FROM nodes n LEFT JOIN edges e ON e.src = n.id AND e.dst NOT IN (SELECT node FROM events WHERE node IS NOT NULL AND kind = 'a');
SELECT n.id, e.dst FROM nodes n RIGHT JOIN edges e ON e.src = n.id AND n.id >= ANY (SELECT node FROM events);
SELECT n.id, e.dst FROM nodes n FULL JOIN edges e ON e.src = n.id AND n.weight < (SELECT max(weight) FROM nodes) AND EXISTS (SELECT 1 FROM events v WHERE v.node = e.dst);
SELECT n.id FROM nodes n LEFT JOIN edges e ON e.src = n.id AND NOT EXISTS (SELECT 1 FROM events v WHERE v.node = e.dst) WHERE e.src IS NULL;

-- a select list that is empty
SELECT id FROM nodes n WHERE EXISTS (SELECT FROM edges e WHERE e.src = n.id);
SELECT EXISTS (SELECT FROM nodes WHERE id > 1000) AS a, NOT EXISTS (SELECT FROM nodes) AS b;
SELECT count(*) FROM (SELECT FROM nodes) x;

-- the least integers
SELECT pg_typeof(-2147483648) AS a, pg_typeof(-9223372036854775808) AS b, pg_typeof(2147483648) AS c, pg_typeof(9223372036854775808) AS d;
SELECT pg_typeof(-2147483648::int8) AS a, -9223372036854775808 AS b, -2147483648 + 1 AS c, -9223372036854775807 - 1 AS d;
SELECT id FROM nodes WHERE parent > -2147483648 AND id IN (-2147483648, 2, 3);

-- names of columns of functions
SELECT substr('foobar', 2, 3), substring('foobar' FROM 2), substring('foobar', 'o.b'), substr('foobar', 0);
SELECT to_char(timestamp '2024-01-31 13:04:05', 'TMMonth|TMDay|TMMon|Month|TMDD') AS t;

-- jsonpath: what lies below, and division
SELECT d, jsonb_path_query(d, '$.**') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, '$.**.b') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, 'strict $.**.b') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, '$.**{2}') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, '$.**{1 to 2}') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, '$.**{last}') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, '$.**{last to 2}') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, 'strict $.**[0]') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, '$.**{0 to 1}.*') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT d, jsonb_path_query(d, '$.**.b ? (@ / 3 > 0.3)') AS v FROM (SELECT x::jsonb AS d FROM (VALUES ('{"a":[{"b":1},{"b":[2,3]}],"b":null}'), ('[1,[2,[3,{"b":4}]]]'), ('5'), ('{"a":[],"b":{}}')) t (x)) u;
SELECT a, b, jsonb_path_query_array('{}', '$a / $b', jsonb_build_object('a', a, 'b', b)) AS q FROM (VALUES (1, 3), (10000, 3), (1, 7000), (-22, 7.5), (0.001, 3), (123456789012345, 7), (1e30, 3), (1, 1e25)) t (a, b);

-- ordered
SELECT id FROM nodes ORDER BY label USING >, id USING <;
SELECT id, row_number() OVER (ORDER BY label USING > NULLS LAST, id) FROM nodes ORDER BY id USING >;
(SELECT id FROM nodes ORDER BY id DESC) LIMIT 2;
((SELECT id FROM nodes ORDER BY id DESC) LIMIT 3) OFFSET 1;
(SELECT id FROM nodes LIMIT 3) ORDER BY id DESC;
(VALUES (2), (3), (1) ORDER BY 1 DESC) LIMIT 1;
((SELECT id FROM nodes ORDER BY id DESC) LIMIT 2) UNION ALL SELECT 0 ORDER BY 1;
WITH z AS (SELECT 3 AS n) (SELECT id FROM nodes WHERE id > (SELECT n FROM z) ORDER BY id DESC) LIMIT 2;
SELECT * FROM (SELECT id FROM nodes ORDER BY label, id DESC) x LIMIT 5;
SELECT id FROM (SELECT * FROM (SELECT id, label FROM nodes ORDER BY label DESC, id) y) x WHERE id > 2;
WITH x AS (SELECT id FROM nodes ORDER BY label, id DESC) SELECT id + 1 AS n FROM x;
SELECT * FROM (SELECT id FROM nodes UNION SELECT dst FROM edges ORDER BY 1 DESC) x LIMIT 4;
SELECT array_agg(id), string_agg(label, '') FROM (SELECT id, label FROM nodes ORDER BY label DESC, id) x;
SELECT array_agg(id) FILTER (WHERE id > 3), jsonb_agg(id), count(*) FROM (SELECT id FROM nodes ORDER BY id DESC) x;
SELECT label, array_agg(id) FROM (SELECT label, id FROM nodes ORDER BY id DESC) x GROUP BY label ORDER BY label;
WITH x AS (SELECT id FROM nodes ORDER BY label, id DESC) SELECT array_agg(id) FROM x;
SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM nodes ORDER BY id DESC) x;
SELECT row_number() OVER () AS n, lag(id) OVER () AS l, first_value(id) OVER () AS f, sum(id) OVER (ROWS 1 PRECEDING) AS s, rank() OVER () AS r, id FROM (SELECT id FROM nodes ORDER BY id DESC) x;
SELECT id, ARRAY(SELECT kind FROM (SELECT kind, id FROM events WHERE node = n.id ORDER BY id DESC) x) FROM nodes n ORDER BY id;
SELECT id, tags FROM nodes JOIN (SELECT DISTINCT src FROM edges) e ON e.src = id ORDER BY tags, id;
SELECT id FROM nodes LEFT JOIN edges e ON e.src = id AND e.cost > 6 ORDER BY tags DESC NULLS LAST, label, id, cost;
SELECT id FROM nodes ORDER BY ROW(label, tags), id;
SELECT id, rank() OVER (ORDER BY tags) AS r, sum(id) OVER (ORDER BY tags DESC) AS s FROM nodes ORDER BY id;
SELECT array_agg(id ORDER BY tags, id DESC) FROM nodes;
SELECT tags, count(*) FROM nodes JOIN edges e ON e.src = id GROUP BY tags ORDER BY tags;
WITH RECURSIVE r AS (SELECT id, ARRAY[id] AS path FROM nodes WHERE parent IS NULL UNION ALL SELECT n.id, path || n.id FROM nodes n JOIN r ON r.id = n.parent) SELECT path FROM r ORDER BY path;
SELECT id, row_number() OVER (PARTITION BY make_interval(days => id % 2 * 30, months => 1 - id % 2) ORDER BY id) AS n FROM nodes ORDER BY id;
SELECT id, count(*) OVER (PARTITION BY ARRAY[make_interval(hours => id % 2 * 24, days => 1 - id % 2)]) AS n FROM nodes ORDER BY id;

-- refused
SELECT -2147483648 - 1;
SELECT abs(-2147483648);
SELECT -9223372036854775808 - 1;
SELECT * FROM nodes n, (WITH w AS (SELECT n.id) SELECT * FROM w) x;
SELECT jsonb_path_query('{"n": 1}', '$.n / 0');
SELECT jsonb_path_query('{"n": 1}', '$.**{x}');
SELECT jsonb_path_query('{"n": "x"}', '$.n / 2');
