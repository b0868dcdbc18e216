-- Aggregates and window functions that PostgreSQL and Tidegate answer alike; read by general_aggregates.py, a statement a line.

-- setup
CREATE TABLE s (id int4, g int4, x int4, b int8, small int2, n numeric(10,2), wide numeric(38,18), f float8, r float4,
  t text, d date, ts timestamp, tz timestamptz, tm time, i interval, j jsonb, ok bool, bin bytea, tags text[]);
CREATE TABLE k (g int4, name text);
CREATE TABLE nothing (x int4, f float8, t text);
INSERT INTO s VALUES
  (1, 1, 5, 9223372036854775807, 1, 1.50, 1.000000000000000001, 1.5, 1.5, 'b', '2024-01-31', '2024-01-31 10:00', '2024-01-31 10:00+00', '10:00', '1 day', '{"a": 1}', true, '\x01', ARRAY['a']),
  (2, 1, 5, -5, 2, 1.50, -2.5, 2.25, 2.25, 'a', '2024-02-01', '2024-02-01 10:00', '2024-02-01 10:00+00', '11:00', '2 days', '[1, 2]', false, '\x02', ARRAY['a','b']),
  (3, 1, NULL, 7, 3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, 2, -3, 7, 4, -2.25, 12345678901234567.123456789, 'NaN', 0, 'c', '2024-02-29', '2024-02-29 10:00', '2024-02-29 10:00+00', '23:30', '1 month', '"x"', true, '\xff', ARRAY['c']),
  (5, 2, 12, NULL, 5, 100.00, 3, 0.5, 0.5, 'a', '2024-02-29', '2024-02-29 10:30', '2024-02-29 10:30+00', '00:15', '-3 hours', '2', true, '\x01ff', ARRAY['c', NULL]),
  (6, 2, 5, 0, NULL, 0.00, 0.5, '-Infinity', -1, '', '2024-03-31', '2024-03-31 10:00', '2024-03-31 10:00+00', '12:00', '1 hour', 'null', NULL, '\x', ARRAY[]::text[]),
  (7, 3, 0, 1, 7, 3.33, 7.25, 3.5, 3.5, 'é', '2024-12-31', '2024-12-31 23:59:59.999999', '2024-12-31 23:59:59+00', '12:00', '1 year', '1', true, '\x00', ARRAY['z']),
  (8, NULL, 1, 2, 8, 4.44, 7.25, 7.75, 7.75, 'zz', '2023-01-01', '2023-01-01', '2023-01-01+00', '12:00:00.000001', '36 hours', 'true', false, NULL, NULL),
  (9, NULL, 1, 3, 9, 4.44, -7.25, -7.75, -7.75, 'z', NULL, '2023-01-02', NULL, NULL, '1 day', '{"b": [1.50]}', false, NULL, NULL),
  (10, 3, 8, 4, 10, 3.33, 7.25, 4.5, 4.5, 'é', '2024-12-30', '2024-12-30', '2024-12-30+00', '13:00', '1 day', '1', NULL, '\x00', ARRAY['z']);
INSERT INTO k VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four');

-- aggregates: over groups of s, over all of it, over nothing, and over groups of a join
array_agg(id ORDER BY id DESC)
array_agg(x ORDER BY x, id)
array_agg(x ORDER BY x DESC, id)
array_agg(x ORDER BY x NULLS FIRST, id)
array_agg(x ORDER BY x DESC NULLS LAST, id DESC)
array_agg(DISTINCT x)
array_agg(DISTINCT x ORDER BY x DESC)
array_agg(DISTINCT x ORDER BY x DESC NULLS LAST)
array_agg(DISTINCT t)
array_agg(DISTINCT t ORDER BY t DESC)
array_agg(t ORDER BY t, id) FILTER (WHERE x > 0)
array_agg(x ORDER BY id) FILTER (WHERE false)
array_agg(DISTINCT x) FILTER (WHERE id <> 5)
array_agg(n ORDER BY f, id)
array_agg(id ORDER BY f DESC, id)
array_agg(id ORDER BY i, id)
array_agg(id ORDER BY ts DESC, t, id)
array_agg(id ORDER BY length(t), id DESC)
array_agg(x + 1 ORDER BY x + 1, id)
array_agg(ok ORDER BY id)
array_agg(DISTINCT extract(hour FROM i)) FILTER (WHERE id < 6)
jsonb_agg(j ORDER BY j, id)
jsonb_agg(j ORDER BY j DESC, id)
jsonb_agg(DISTINCT j)
jsonb_agg(DISTINCT j ORDER BY j DESC)
jsonb_agg(DISTINCT i)
mode() WITHIN GROUP (ORDER BY j)
percentile_disc(0.5) WITHIN GROUP (ORDER BY j)
array_length(array_agg(DISTINCT i ORDER BY i DESC), 1)
array_agg(upper(t) ORDER BY id)
array_agg(ARRAY[id, x] ORDER BY id)
array_agg(ARRAY[t, 'y'] ORDER BY id DESC) FILTER (WHERE id <> 3)
string_agg(bin, '\x2c00' ORDER BY id)
jsonb_agg(x ORDER BY id)
jsonb_agg(t ORDER BY id DESC)
jsonb_agg(j ORDER BY id)
jsonb_agg(n ORDER BY id)
jsonb_agg(ts ORDER BY id)
jsonb_agg(f ORDER BY id)
jsonb_agg(tags ORDER BY id)
jsonb_agg(DISTINCT x)
jsonb_agg(DISTINCT x ORDER BY x DESC)
jsonb_agg(x ORDER BY id) FILTER (WHERE x IS NOT NULL)
jsonb_agg(x) FILTER (WHERE false)
jsonb_agg(x ORDER BY id) -> 0
json_agg(x ORDER BY id)::jsonb
jsonb_object_agg(id, x)
jsonb_object_agg(t, id ORDER BY id) FILTER (WHERE t IS NOT NULL)
jsonb_object_agg(t, id ORDER BY id DESC) FILTER (WHERE t IS NOT NULL)
jsonb_object_agg(DISTINCT t, x) FILTER (WHERE t IS NOT NULL)
jsonb_object_agg(d, j ORDER BY id) FILTER (WHERE d IS NOT NULL)
jsonb_object_agg(id, tags) FILTER (WHERE id < 3)
string_agg(t, ',' ORDER BY id)
string_agg(t, ',' ORDER BY t DESC, id)
string_agg(DISTINCT t, '|')
string_agg(DISTINCT t, '|' ORDER BY t DESC)
string_agg(t, ', ' ORDER BY id) FILTER (WHERE id > 2)
string_agg(t, '' ORDER BY id)
string_agg(t, NULL ORDER BY id)
string_agg(t, id::text ORDER BY id)
string_agg(t, CASE WHEN id > 2 THEN '/' END ORDER BY id)
string_agg(bin, '\x2c'::bytea ORDER BY id)
string_agg(id::text, ';' ORDER BY id)
stddev(x)
stddev_pop(x)
stddev_samp(b)
variance(x)
var_pop(x)
var_samp(small)
variance(n)
stddev(n)
stddev_pop(wide)
var_samp(wide) FILTER (WHERE id <> 4)
stddev(f)
var_pop(f)
var_samp(f) FILTER (WHERE f < 1000 AND f > -1000)
stddev_pop(r)
stddev(x) FILTER (WHERE x > 100)
variance(n * 2)
corr(x, n)
corr(n, f) FILTER (WHERE id NOT IN (4, 6))
covar_pop(x, n)
covar_samp(x, n)
covar_pop(f, x)
regr_slope(n, x)
regr_intercept(n, x)
regr_r2(n, x)
regr_avgx(n, f)
regr_avgy(n, x)
regr_sxx(n, x)
regr_syy(n, x)
regr_sxy(n, x)
regr_sxy(f, x)
regr_count(n, x)
regr_count(x, NULL)
bit_and(x)
bit_or(b)
bit_xor(small)
bit_or(x) FILTER (WHERE x > 4)
bool_and(ok)
bool_or(ok)
every(ok) FILTER (WHERE ok)
mode() WITHIN GROUP (ORDER BY x)
mode() WITHIN GROUP (ORDER BY x DESC)
mode() WITHIN GROUP (ORDER BY t)
mode() WITHIN GROUP (ORDER BY n) FILTER (WHERE id > 3)
mode() WITHIN GROUP (ORDER BY i)
percentile_cont(0.5) WITHIN GROUP (ORDER BY x)
percentile_cont(0) WITHIN GROUP (ORDER BY n)
percentile_cont(1) WITHIN GROUP (ORDER BY x DESC)
percentile_cont(0.3) WITHIN GROUP (ORDER BY n)
percentile_cont(0.5) WITHIN GROUP (ORDER BY f)
percentile_cont(0.25) WITHIN GROUP (ORDER BY i)
percentile_cont(NULL) WITHIN GROUP (ORDER BY x)
percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY n)
percentile_disc(0.5) WITHIN GROUP (ORDER BY x)
percentile_disc(0.5) WITHIN GROUP (ORDER BY t)
percentile_disc(0.9) WITHIN GROUP (ORDER BY ts)
percentile_disc(0.1) WITHIN GROUP (ORDER BY x DESC)
percentile_disc(0) WITHIN GROUP (ORDER BY d)
percentile_disc(ARRAY[0, 0.5, 1]) WITHIN GROUP (ORDER BY x)
percentile_disc(ARRAY[0.5, NULL]) WITHIN GROUP (ORDER BY x)
percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FILTER (WHERE x > 1)
sum(i)
avg(i)
sum(i) FILTER (WHERE id > 4)
min(t)
max(tz)
min(tags)
max(tags)
max(tags) FILTER (WHERE id < 7)
max(i)
min(tm)
sum(x ORDER BY id)
sum(DISTINCT x)
avg(DISTINCT n)
count(DISTINCT t)
count(*) FILTER (WHERE x = 5)
count(DISTINCT x) FILTER (WHERE x < 10)
sum(f) FILTER (WHERE id NOT IN (4, 6))
max(f)
min(f)
avg(r)
sum(r)

-- windows: over s
array_agg(x) OVER (ORDER BY id)
array_agg(x) FILTER (WHERE x > 0) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
jsonb_agg(x) OVER (PARTITION BY g ORDER BY id)
string_agg(t, '-') OVER (ORDER BY id)
string_agg(t, id::text) OVER (ORDER BY id)
jsonb_object_agg(id, x) OVER (PARTITION BY g ORDER BY id)
stddev(x) OVER (ORDER BY id)
variance(n) OVER (PARTITION BY g)
var_pop(f) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
stddev_pop(wide) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)
corr(x, n) OVER (ORDER BY id)
regr_slope(n, x) OVER (PARTITION BY g ORDER BY id)
bit_or(x) OVER (ORDER BY id)
max(tags) OVER (ORDER BY id)
bool_and(ok) OVER (ORDER BY id)
sum(i) OVER (ORDER BY id)
avg(i) OVER (PARTITION BY g)
avg(x) OVER (ORDER BY x)
sum(x) OVER (ORDER BY x)
sum(x) OVER (ORDER BY x DESC)
sum(x) OVER (ORDER BY x NULLS FIRST)
count(*) OVER (ORDER BY f)
count(*) OVER (ORDER BY f DESC)
count(x) OVER ()
count(*) FILTER (WHERE x = 5) OVER (PARTITION BY g)
sum(x) OVER (ORDER BY x, id ROWS UNBOUNDED PRECEDING)
sum(id) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)
sum(id) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)
sum(id) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING)
sum(id) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
sum(id) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 3 FOLLOWING)
sum(id) OVER (ORDER BY x DESC RANGE BETWEEN 4 PRECEDING AND CURRENT ROW)
sum(id) OVER (ORDER BY x RANGE BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING)
sum(id) OVER (ORDER BY x NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
sum(id) OVER (ORDER BY b RANGE BETWEEN 9223372036854775807 PRECEDING AND 1 FOLLOWING)
sum(id) OVER (ORDER BY n RANGE BETWEEN 1.5 PRECEDING AND 2 FOLLOWING)
sum(id) OVER (ORDER BY f RANGE BETWEEN 1.5 PRECEDING AND 0.75 FOLLOWING)
sum(id) OVER (ORDER BY f DESC RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)
sum(id) OVER (ORDER BY ts RANGE BETWEEN '1 month' PRECEDING AND CURRENT ROW)
sum(id) OVER (ORDER BY ts RANGE BETWEEN '1 month 1 day' PRECEDING AND '30 minutes' FOLLOWING)
sum(id) OVER (ORDER BY tz DESC RANGE BETWEEN interval '1 day' PRECEDING AND interval '1 month' FOLLOWING)
sum(id) OVER (ORDER BY d RANGE BETWEEN '1 month' PRECEDING AND '1 day' FOLLOWING)
sum(id) OVER (ORDER BY tm RANGE BETWEEN '1 hour' PRECEDING AND '90 minutes' FOLLOWING)
count(*) OVER (PARTITION BY g ORDER BY x RANGE BETWEEN 0 PRECEDING AND 0 FOLLOWING)
sum(id) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
sum(id) OVER (ORDER BY x GROUPS CURRENT ROW)
sum(id) OVER (ORDER BY x GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
sum(id) OVER (ORDER BY x GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)
sum(id) OVER (PARTITION BY g ORDER BY x DESC GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)
sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)
sum(id) OVER (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP)
sum(id) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES)
sum(id) OVER (ORDER BY x RANGE UNBOUNDED PRECEDING EXCLUDE NO OTHERS)
sum(id) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES)
min(id) OVER (ORDER BY x RANGE UNBOUNDED PRECEDING EXCLUDE GROUP)
max(t) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)
count(*) OVER (ORDER BY g GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW)
lag(x) OVER (ORDER BY id)
lag(x, 2) OVER (ORDER BY id)
lag(x, 2, -1) OVER (ORDER BY id)
lag(x, 1, id) OVER (PARTITION BY g ORDER BY id)
lag(t, 0) OVER (ORDER BY id)
lag(id, -1) OVER (ORDER BY id)
lead(x, 1, 0) OVER (PARTITION BY g ORDER BY id)
lead(n, 1, n * 2) OVER (ORDER BY id)
lead(t, 3, 'end') OVER (ORDER BY id)
first_value(t) OVER (PARTITION BY g ORDER BY id)
last_value(id) OVER (ORDER BY id)
last_value(id) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
nth_value(id, 2) OVER (ORDER BY id)
nth_value(x, 3) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
first_value(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)
ntile(3) OVER (ORDER BY id)
ntile(4) OVER (PARTITION BY g ORDER BY id)
row_number() OVER (PARTITION BY g ORDER BY id DESC)
rank() OVER (ORDER BY x)
dense_rank() OVER (ORDER BY x DESC)
percent_rank() OVER (ORDER BY x)
cume_dist() OVER (PARTITION BY g ORDER BY x)
rank() OVER ()
sum(sum(1)) OVER ()

-- queries: each sorts its rows, or has one
SELECT name, array_agg(x ORDER BY id) FROM s JOIN k ON s.g = k.g GROUP BY name ORDER BY name
SELECT name, jsonb_agg(x ORDER BY id), count(*) FROM k LEFT JOIN s ON s.g = k.g GROUP BY name ORDER BY name
SELECT k.g, stddev(n), percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM k LEFT JOIN s ON s.g = k.g GROUP BY k.g ORDER BY 1
SELECT g, percentile_disc(g / 10.0) WITHIN GROUP (ORDER BY x) FROM s WHERE g < 4 GROUP BY g ORDER BY g
SELECT g, string_agg(t, ',' ORDER BY id) FROM s GROUP BY g HAVING count(DISTINCT t) > 1 ORDER BY g
SELECT g, mode() WITHIN GROUP (ORDER BY x) AS m FROM s GROUP BY g ORDER BY m, g
SELECT g, name, sum(n), array_agg(id ORDER BY id) FROM s JOIN k USING (g) GROUP BY GROUPING SETS ((g), (name), ()) ORDER BY g, name
SELECT g, ok, stddev(x), jsonb_agg(id ORDER BY id) FROM s GROUP BY ROLLUP (g, ok) ORDER BY g, ok, min(id)
SELECT count(*), sum(i), stddev(s.f), array_agg(s.x), jsonb_agg(s.x), string_agg(s.t, ',') FROM nothing, s WHERE false
SELECT corr(f, x), regr_r2(f, x), mode() WITHIN GROUP (ORDER BY t), bit_and(x), percentile_cont(0.5) WITHIN GROUP (ORDER BY f) FROM nothing
SELECT x, array_agg(t) FROM nothing GROUP BY x
SELECT g, array_agg(id ORDER BY id) FROM s GROUP BY g ORDER BY stddev(x) NULLS FIRST, g
SELECT stddev(total) FROM (SELECT sum(n) AS total FROM s GROUP BY g) q
SELECT (SELECT jsonb_agg(name ORDER BY name) FROM k WHERE k.g > s.g) FROM s ORDER BY id
SELECT id, sum(x) OVER w, count(*) OVER w FROM s WINDOW w AS (PARTITION BY g ORDER BY id) ORDER BY id
SELECT id, sum(x) OVER (w ORDER BY id), avg(x) OVER w FROM s WINDOW w AS (PARTITION BY g) ORDER BY id
SELECT id, sum(x) OVER (w2 ROWS 1 PRECEDING) FROM s WINDOW w AS (PARTITION BY g), w2 AS (w ORDER BY id) ORDER BY id
SELECT id, first_value(id) OVER w, nth_value(id, 2) OVER w, last_value(id) OVER w FROM s WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) ORDER BY id
SELECT g, sum(x), sum(sum(x)) OVER (ORDER BY g), rank() OVER (ORDER BY sum(x) DESC NULLS LAST) FROM s GROUP BY g ORDER BY g
SELECT g, stddev(sum(n)) OVER () FROM s GROUP BY g ORDER BY g
SELECT g, array_agg(sum(x)) OVER (ORDER BY g) FROM s GROUP BY g ORDER BY g
SELECT id, x - lag(x, 1, 0) OVER (ORDER BY id) AS change FROM s ORDER BY id
SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY g ORDER BY n DESC, id) AS place FROM s) q WHERE place = 1 ORDER BY id
SELECT count(*), count(DISTINCT g), jsonb_agg(DISTINCT g) FROM s JOIN k USING (g)
SELECT jsonb_object_agg(name, total) FROM (SELECT name, sum(n) AS total FROM s JOIN k USING (g) GROUP BY name) q
SELECT g, jsonb_build_object('ids', jsonb_agg(id ORDER BY id), 'mean', avg(x)) -> 'ids' FROM s GROUP BY g ORDER BY g
SELECT DISTINCT g, count(*) OVER (PARTITION BY g) FROM s ORDER BY g
SELECT id, sum(x) FILTER (WHERE ok) OVER (PARTITION BY g) FROM s ORDER BY id
SELECT array_agg(x ORDER BY id)::text FROM s
SELECT (array_agg(x ORDER BY id))[2], cardinality(array_agg(x)) FROM s
SELECT array_length(array_agg(DISTINCT g), 1) FROM s
SELECT var_pop(x), var_samp(x), stddev_pop(f), stddev(f) FROM s WHERE id = 1
SELECT var_pop(f), var_samp(f), covar_pop(f, x), regr_sxx(x, f) FROM s WHERE id = 6
SELECT var_pop(f), stddev(f), corr(f, x), regr_slope(x, f), regr_r2(x, f), regr_intercept(x, f) FROM s WHERE id IN (4, 5, 6)
SELECT stddev(b), var_pop(b), variance(b) FROM s WHERE id > 1
SELECT stddev(b), stddev_pop(b) FROM s
SELECT corr(1, id), corr(id, 1), regr_r2(1, id), regr_slope(id, 2) FROM s

-- errors: of both
SELECT array_agg(DISTINCT x ORDER BY id) FROM s
SELECT string_agg(DISTINCT t, ',' ORDER BY id) FROM s
SELECT count(DISTINCT x, g) FROM s
SELECT array_agg(*) FROM s
SELECT array_agg() FROM s
SELECT string_agg(t) FROM s
SELECT jsonb_object_agg(t, x) FROM s
SELECT jsonb_object_agg(tags, x) FROM s
SELECT stddev(t) FROM s
SELECT sum(t) FROM s JOIN k USING (g)
SELECT bit_and(t) FROM s
SELECT bit_and(n) FROM s
SELECT bool_and(x) FROM s
SELECT corr(x) FROM s
SELECT corr(t, x) FROM s
SELECT mode(x) FROM s
SELECT mode() FROM s
SELECT mode(x) WITHIN GROUP (ORDER BY x) FROM s
SELECT sum(x) WITHIN GROUP (ORDER BY x) FROM s
SELECT array_agg(x) WITHIN GROUP (ORDER BY x) FROM s
SELECT percentile_cont(0.5) FROM s
SELECT percentile_cont(1.5) WITHIN GROUP (ORDER BY x) FROM s
SELECT percentile_disc(-0.1) WITHIN GROUP (ORDER BY x) FROM s
SELECT percentile_disc(ARRAY[0.5, 2]) WITHIN GROUP (ORDER BY x) FROM s
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY t) FROM s
SELECT percentile_cont(x) WITHIN GROUP (ORDER BY x) FROM s
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) OVER () FROM s
SELECT percentile_cont(DISTINCT 0.5) WITHIN GROUP (ORDER BY x) FROM s
SELECT mode() WITHIN GROUP (ORDER BY x, id) FROM s
SELECT stddev(sum(x)) FROM s
SELECT array_agg(sum(x)) FROM s GROUP BY g
SELECT x, array_agg(id) FROM s
SELECT g FROM s WHERE stddev(x) > 1
SELECT array_agg(x) FROM s GROUP BY array_agg(x)
SELECT upper(DISTINCT t) FROM s
SELECT upper(t) FILTER (WHERE true) FROM s
SELECT array_agg(x) FILTER (WHERE count(*) > 1) FROM s
SELECT array_agg(x) FILTER (WHERE x) FROM s
SELECT sum(DISTINCT x) OVER () FROM s
SELECT array_agg(x ORDER BY x) OVER () FROM s
SELECT rank() FROM s
SELECT rank(x) OVER (ORDER BY x) FROM s
SELECT lag() OVER (ORDER BY x) FROM s
SELECT lag(x, 1, 't') OVER (ORDER BY x) FROM s
SELECT ntile(0) OVER (ORDER BY x) FROM s
SELECT nth_value(x, 0) OVER (ORDER BY x) FROM s
SELECT first_value(x) FILTER (WHERE ok) OVER (ORDER BY id) FROM s
SELECT sum(x) OVER (ROWS BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING) FROM s
SELECT sum(x) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW) FROM s
SELECT sum(x) OVER (ORDER BY x ROWS -1 PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY x ROWS x PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY x RANGE -1 PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY x RANGE NULL PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY ts RANGE '-1 day' PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY ts RANGE 1 PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY t RANGE 1 PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY x RANGE 1.5 PRECEDING) FROM s
SELECT sum(x) OVER (ORDER BY x, id RANGE 1 PRECEDING) FROM s
SELECT sum(x) OVER (RANGE 1 PRECEDING) FROM s
SELECT sum(x) OVER (GROUPS 1 PRECEDING) FROM s
SELECT sum(x) OVER w FROM s
SELECT sum(x) OVER (w PARTITION BY g) FROM s WINDOW w AS (ORDER BY id)
SELECT sum(x) OVER (w ORDER BY id) FROM s WINDOW w AS (ORDER BY x)
SELECT sum(x) OVER (w ORDER BY id) FROM s WINDOW w AS (ROWS 1 PRECEDING)
SELECT sum(rank() OVER (ORDER BY x)) OVER () FROM s
SELECT id FROM s WHERE rank() OVER (ORDER BY x) = 1
SELECT sum(x) OVER (ORDER BY sum(x)) FROM s
