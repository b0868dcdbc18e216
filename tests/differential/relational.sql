-- Relational constructs that PostgreSQL and Tidegate answer with the same rows and column names; read by test_relational.py.
-- A statement ends with a semicolon at the end of its line.

-- joins
SELECT n.id, e.dst FROM nodes n JOIN edges e ON e.src = n.id;
SELECT n.id, e.dst FROM nodes n LEFT JOIN edges e ON e.src = n.id AND e.cost > 3;
SELECT n.id, e.src FROM edges e RIGHT JOIN nodes n ON e.dst = n.id;
SELECT n.id, e.src, e.dst FROM nodes n FULL JOIN edges e ON e.dst = n.id AND n.weight > 2;
SELECT count(*) FROM nodes CROSS JOIN edges;
SELECT a.id, b.id FROM nodes a, nodes b WHERE a.parent = b.parent AND a.id < b.id;
SELECT * FROM edges NATURAL JOIN (SELECT dst AS src, cost FROM edges) x;
SELECT * FROM (SELECT id, label FROM nodes) a JOIN (SELECT id, kind FROM events) b USING (id);
SELECT id, a.label, b.kind FROM (SELECT id, label FROM nodes) a FULL JOIN (SELECT id, kind FROM events) b USING (id);
SELECT a.*, b.cost FROM (SELECT src, dst FROM edges) a LEFT JOIN edges b USING (src, dst);
SELECT n.id, p.label, g.label FROM nodes n LEFT JOIN nodes p ON p.id = n.parent LEFT JOIN nodes g ON g.id = p.parent;
SELECT n.id FROM nodes n LEFT JOIN edges e ON e.src = n.id WHERE e.src IS NULL;
SELECT n.id, e.cost FROM nodes n LEFT JOIN (edges e JOIN nodes m ON m.id = e.dst) ON e.src = n.id;
SELECT x.id, y.kind FROM nodes x JOIN events y ON y.node = x.id AND y.amount BETWEEN x.id AND x.id + 10;
SELECT count(*) FROM nodes a JOIN nodes b ON a.label IS NOT DISTINCT FROM b.label;
SELECT n.id, e.id FROM nodes n FULL JOIN events e ON e.node = n.id AND e.kind = 'a' WHERE n.id IS NULL OR e.id IS NULL;
SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v (id, t) LEFT JOIN nodes USING (id);
SELECT n.id FROM nodes n JOIN edges e ON (n.id, n.parent) = (e.dst, e.src);
SELECT n.id, e.src FROM nodes n LEFT JOIN edges e ON n.id = e.dst AND n.parent = e.src AND false;

-- common tables that are read more than once
WITH t AS (SELECT src, sum(cost) AS s FROM edges GROUP BY src) SELECT * FROM t WHERE s = (SELECT max(s) FROM t);
WITH t AS (SELECT src, count(*) AS n FROM edges GROUP BY src) SELECT a.src, b.src FROM t a JOIN t b ON a.n = b.n AND a.src < b.src;
WITH t AS (SELECT src, count(*) AS n FROM edges GROUP BY src) SELECT a.src, b.n FROM t a, t b WHERE a.src = 2 AND b.src = 3;
WITH t AS (SELECT src, count(*) AS n FROM edges GROUP BY src) SELECT a.src, b.n FROM t a LEFT JOIN t b ON b.src = a.n AND b.n > 1 WHERE a.src > 1;
WITH t AS (SELECT n.id, e.dst FROM nodes n LEFT JOIN edges e ON e.src = n.id) SELECT id FROM t WHERE dst IS NULL UNION ALL SELECT dst FROM t WHERE id > 2;
WITH t AS MATERIALIZED (SELECT id, parent FROM nodes) SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.parent = b.id;
WITH t AS NOT MATERIALIZED (SELECT src, max(cost) AS m FROM edges GROUP BY src) SELECT a.m FROM t a JOIN t b ON a.src = b.m;
WITH a AS (SELECT src, count(*) AS n FROM edges GROUP BY src), b AS (SELECT x.src, y.n FROM a x JOIN a y ON x.src = y.n) SELECT x.src, y.n FROM b x JOIN b y ON x.n = y.n;
WITH a AS (SELECT src, count(*) AS n FROM edges GROUP BY src), b AS (SELECT * FROM a WHERE n > 1) SELECT x.src, y.src FROM b x, b y WHERE x.n <= y.n;
WITH t AS (SELECT DISTINCT label FROM nodes) SELECT n.id FROM nodes n WHERE n.label IN (SELECT label FROM t) AND (SELECT count(*) FROM t) > 1;
WITH t AS (SELECT id, row_number() OVER (ORDER BY id) AS r FROM nodes) SELECT a.id, b.id FROM t a JOIN t b ON b.r = a.r + 1;
WITH t AS (SELECT kind, max(amount) AS m FROM events GROUP BY kind) SELECT e.id, (SELECT m FROM t WHERE t.kind = e.kind) FROM events e WHERE EXISTS (SELECT 1 FROM t WHERE t.m = e.amount);
WITH t AS (SELECT src AS x, src AS y FROM edges GROUP BY src) SELECT a.x, b.y FROM t a JOIN t b ON a.y = b.x;
WITH t AS (SELECT src FROM edges GROUP BY src) SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM t WHERE src > 2);
WITH t (p, q) AS (SELECT src, min(dst) FROM edges GROUP BY src) SELECT p FROM t EXCEPT SELECT q FROM t;
WITH t AS (SELECT id FROM nodes ORDER BY id LIMIT 3) SELECT a.id, b.id FROM t a, t b;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 6) SELECT a.n, b.n FROM r a JOIN r b ON a.n = b.n * 2;
WITH RECURSIVE m AS (SELECT max(id) AS top FROM nodes), r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, m WHERE n < top) SELECT n FROM r;
WITH t AS (SELECT src, random() AS x FROM edges) SELECT count(*) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.src = a.src AND b.x = a.x);

-- semi- and anti-joins
SELECT id FROM nodes n WHERE EXISTS (SELECT 1 FROM edges e WHERE n.parent = e.src AND e.cost > 1 AND e.dst < 4) AND n.id > 0;
SELECT id FROM nodes n WHERE EXISTS (SELECT 1 FROM (SELECT src FROM edges UNION ALL SELECT dst FROM edges) e WHERE e.src = n.parent);
SELECT id FROM nodes n WHERE NOT EXISTS (SELECT 1 FROM (SELECT src FROM edges UNION ALL SELECT NULL) e WHERE e.src = n.parent);
SELECT id FROM nodes n WHERE EXISTS (SELECT 1 FROM edges e WHERE e.src = n.parent) OR n.label IS NULL;
SELECT id FROM nodes n WHERE EXISTS (SELECT 1 FROM edges e WHERE e.src = n.id);
SELECT id FROM nodes n WHERE NOT EXISTS (SELECT 1 FROM edges e WHERE e.src = n.id AND e.cost > n.id);
SELECT id FROM nodes WHERE id IN (SELECT dst FROM edges WHERE cost < 5);
SELECT id FROM nodes WHERE id NOT IN (SELECT parent FROM nodes);
SELECT id FROM nodes WHERE id NOT IN (SELECT parent FROM nodes WHERE parent IS NOT NULL);
SELECT id FROM nodes WHERE (id, parent) IN (SELECT dst, src FROM edges);
SELECT id FROM nodes WHERE (id, parent) NOT IN (SELECT dst, src FROM edges);
SELECT id, parent IN (SELECT dst FROM edges) FROM nodes;
SELECT id FROM nodes WHERE parent = ANY (SELECT src FROM edges) AND weight > ALL (SELECT cost FROM edges WHERE cost < 2);
SELECT id FROM nodes WHERE id <> ALL (SELECT src FROM edges WHERE src IS NOT NULL);
SELECT id FROM nodes WHERE id IN (VALUES (1), (3), (99));
SELECT id FROM nodes WHERE (id, label) IN ((1, 'a'), (2, 'b'), (3, NULL));
SELECT id FROM nodes WHERE EXISTS (SELECT 1 FROM events WHERE node = nodes.id) AND NOT EXISTS (SELECT 1 FROM edges WHERE dst = nodes.id);
SELECT id, EXISTS (SELECT 1 FROM edges WHERE src = nodes.id) OR parent IS NULL FROM nodes;

-- LATERAL
SELECT n.id, s.v FROM nodes n LEFT JOIN LATERAL (SELECT n.parent AS v) s ON false;
SELECT n.id, s.v FROM nodes n LEFT JOIN LATERAL (SELECT n.parent AS v WHERE n.id > 4) s ON true;
SELECT n.id, s.v FROM nodes n LEFT JOIN LATERAL (SELECT n.label AS v FROM edges e WHERE e.src = n.id) s ON true;
SELECT n.id FROM nodes n LEFT JOIN LATERAL (SELECT n.id AS v FROM edges e WHERE e.src = n.id) s ON true WHERE s.v IS NULL;
SELECT n.id, s.v, s.w FROM nodes n LEFT JOIN LATERAL (SELECT n.id AS v, n.id AS w FROM edges e WHERE e.src = n.id ORDER BY e.cost, e.dst LIMIT 1) s ON true;
SELECT n.id, s.v FROM nodes n LEFT JOIN LATERAL (SELECT DISTINCT n.id AS v FROM edges e WHERE e.src = n.id) s ON true;
SELECT n.id, s.v FROM nodes n LEFT JOIN LATERAL (SELECT n.id AS v FROM edges e WHERE e.src = n.id UNION ALL SELECT n.parent) s ON n.id < 6;
SELECT n.id, s.v, s.c FROM nodes n LEFT JOIN LATERAL (SELECT n.id AS v, count(*) AS c FROM edges e WHERE e.src = n.id GROUP BY n.id) s ON true;
SELECT n.id, s.v, u.w FROM nodes n LEFT JOIN LATERAL (SELECT n.id AS v FROM edges e WHERE e.src = n.id) s ON true LEFT JOIN LATERAL (SELECT s.v AS w) u ON u.w < 4;
SELECT n.id, t.kind, t.amount FROM nodes n CROSS JOIN LATERAL (SELECT kind, amount FROM events e WHERE e.node = n.id ORDER BY e.id DESC LIMIT 2) t;
SELECT n.id, t.total FROM nodes n, LATERAL (SELECT sum(cost) AS total FROM edges WHERE src = n.id) t;
SELECT n.id, t.rest FROM nodes n, LATERAL (SELECT n.id % 3 AS rest) t WHERE t.rest > 0;
SELECT n.id, a.x, b.y FROM nodes n, LATERAL (SELECT n.id + 1 AS x) a, LATERAL (SELECT a.x * 2 AS y) b;
SELECT n.id, s.c FROM nodes n JOIN LATERAL (SELECT count(*) AS c FROM events e WHERE e.node = n.id AND e.amount > n.id) s ON s.c > 0;

-- correlated subqueries
SELECT id, (SELECT count(*) FROM edges WHERE src = nodes.id) FROM nodes;
SELECT id, (SELECT max(cost) FROM edges WHERE src = nodes.id) AS most FROM nodes;
SELECT id FROM nodes n WHERE weight > (SELECT avg(weight) FROM nodes m WHERE m.parent = n.parent);
SELECT id, (SELECT label FROM nodes p WHERE p.id = n.parent) FROM nodes n;
SELECT id FROM nodes n WHERE (SELECT count(*) FROM edges e WHERE e.src = n.id) = (SELECT count(*) FROM edges e WHERE e.dst = n.id);
SELECT n.id FROM nodes n WHERE EXISTS (SELECT 1 FROM edges e WHERE e.src = n.id AND EXISTS (SELECT 1 FROM edges f WHERE f.src = e.dst AND f.cost > e.cost));
SELECT n.id, (SELECT sum((SELECT count(*) FROM edges f WHERE f.src = e.dst)) FROM edges e WHERE e.src = n.id) FROM nodes n;
SELECT n.id FROM nodes n WHERE EXISTS (SELECT 1 FROM edges e WHERE e.src = n.id AND EXISTS (SELECT 1 FROM events v WHERE v.node = e.dst AND EXISTS (SELECT 1 FROM nodes m WHERE m.id = v.node AND m.parent = n.id)));
SELECT id, (SELECT (SELECT (SELECT n.label))) FROM nodes n;
SELECT n.id, (SELECT string_agg(e.kind, ',' ORDER BY e.id) FROM events e WHERE e.node = n.id) FROM nodes n;
SELECT id FROM nodes n WHERE id = (SELECT min(m.id) FROM nodes m WHERE m.label = n.label);
SELECT label, (SELECT count(*) FROM nodes m WHERE m.label = n.label) FROM nodes n GROUP BY label;
SELECT n.id FROM nodes n ORDER BY (SELECT count(*) FROM edges WHERE src = n.id), n.id LIMIT 3;
SELECT id, CASE WHEN EXISTS (SELECT 1 FROM edges WHERE src = nodes.id) THEN 'out' ELSE 'leaf' END AS role FROM nodes;
SELECT (SELECT max(id) FROM nodes) - (SELECT min(id) FROM nodes);
SELECT count(*) FROM nodes HAVING count(*) > (SELECT count(*) FROM edges) - 1000;

-- set operations and VALUES
SELECT src FROM edges UNION SELECT dst FROM edges;
SELECT src FROM edges UNION ALL SELECT dst FROM edges;
SELECT src FROM edges INTERSECT SELECT dst FROM edges;
SELECT src FROM edges INTERSECT ALL SELECT dst FROM edges;
SELECT src FROM edges EXCEPT SELECT dst FROM edges;
SELECT src FROM edges EXCEPT ALL SELECT dst FROM edges;
SELECT id FROM nodes EXCEPT SELECT src FROM edges UNION SELECT 1000;
SELECT id FROM nodes UNION (SELECT src FROM edges INTERSECT SELECT dst FROM edges);
(SELECT id FROM nodes ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM nodes ORDER BY id DESC LIMIT 2);
SELECT id, weight FROM nodes UNION SELECT cost, 1 FROM edges;
VALUES (1, 'a'), (2, 'b'), (NULL, NULL);
SELECT * FROM (VALUES (1, 2.5), (2, 3)) AS v (a, b);
SELECT * FROM (VALUES (1, 2), (3, 4)) AS v;
SELECT column1 + column2 AS total FROM (VALUES (1, 2), (3, 4)) v;
SELECT 1 AS a UNION VALUES (2), (3);
SELECT v.a, count(n.id) FROM (VALUES (1), (2), (50)) v (a) LEFT JOIN nodes n ON n.parent = v.a GROUP BY v.a;
SELECT n.id, k.v FROM nodes n, LATERAL (VALUES (n.id), (n.parent), (0)) k (v);
SELECT n.id, k.v, k.w FROM nodes n LEFT JOIN LATERAL (VALUES (n.id, 'id'), (n.parent, 'parent')) k (v, w) ON k.v > 3;
VALUES ((SELECT max(id) FROM nodes), 1), (2, (SELECT count(*) FROM edges));
TABLE edges;
SELECT x FROM (TABLE edges) AS t (x, y, z);
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a) SELECT * FROM a UNION ALL SELECT * FROM b;
WITH t (p, q) AS (SELECT id, label FROM nodes) SELECT q, max(p) FROM t GROUP BY q;
SELECT DISTINCT label, parent FROM nodes;
SELECT DISTINCT ON (label) label, id FROM nodes ORDER BY label, id;
SELECT DISTINCT ON (label) id FROM nodes ORDER BY label, weight DESC NULLS LAST, id;
SELECT DISTINCT ON (n.parent, e.kind) n.parent, e.kind, e.id FROM nodes n JOIN events e ON e.node = n.id ORDER BY n.parent, e.kind, e.id DESC;

-- row comparisons
SELECT id FROM nodes WHERE (id, parent) < (4, 1);
SELECT id FROM nodes WHERE (parent, id) >= (1, 5);
SELECT id FROM nodes WHERE (label, id) > ('b', 2);
SELECT id, (id, parent) = (2, 1), (id, parent) <> (2, 1), ROW(id, label) = ROW(1, NULL) FROM nodes;
SELECT id, (id, parent) IS DISTINCT FROM (1, NULL), (id, parent) IS NOT DISTINCT FROM (1, NULL) FROM nodes;
SELECT ROW(1, NULL) IS NULL, ROW(NULL, NULL) IS NULL, ROW(1, NULL) IS NOT NULL, ROW(1, 2) IS NOT NULL, NOT ROW(1, NULL) IS NULL;
SELECT id FROM nodes WHERE ROW(parent, label) IS NOT NULL;

-- grouping
SELECT label, parent, count(*) FROM nodes GROUP BY ROLLUP (label, parent);
SELECT label, parent, count(*), grouping(label, parent) FROM nodes GROUP BY CUBE (label, parent);
SELECT label, kind, count(*), sum(amount) FROM nodes n JOIN events e ON e.node = n.id GROUP BY GROUPING SETS ((label), (kind), ());
SELECT label, count(*) FROM nodes GROUP BY label HAVING count(*) > 1;
SELECT label, count(*) FROM nodes WHERE false GROUP BY ROLLUP (label);
SELECT e.kind, count(DISTINCT n.label), sum(e.amount) FILTER (WHERE n.id > 3) FROM nodes n JOIN events e ON e.node = n.id GROUP BY e.kind;
SELECT label, sum(c) FROM (SELECT n.label, e.kind, count(*) AS c FROM nodes n JOIN events e ON e.node = n.id GROUP BY n.label, e.kind) x GROUP BY label;
SELECT n.id % 3 AS r, max(e.amount) - min(e.amount) AS spread FROM nodes n LEFT JOIN events e ON e.node = n.id GROUP BY r;
SELECT count(*), count(parent), sum(id), min(label), max(at) FROM nodes;
SELECT bool_and(e.amount > 0), bool_or(n.parent IS NULL) FROM nodes n JOIN events e ON e.node = n.id GROUP BY n.label;

-- windows
SELECT id, row_number() OVER (ORDER BY id), rank() OVER (ORDER BY label), dense_rank() OVER (ORDER BY label) FROM nodes;
SELECT id, sum(weight) OVER (PARTITION BY label ORDER BY id) FROM nodes;
SELECT id, count(*) OVER (PARTITION BY parent), max(weight) OVER () FROM nodes;
SELECT id, lag(id) OVER (ORDER BY id), lead(label, 2) OVER (ORDER BY id) FROM nodes;
SELECT id, first_value(label) OVER w, last_value(label) OVER w FROM nodes WINDOW w AS (PARTITION BY parent ORDER BY id);
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM nodes;
SELECT n.id, e.id, row_number() OVER (PARTITION BY n.id ORDER BY e.amount DESC, e.id) FROM nodes n JOIN events e ON e.node = n.id;
SELECT * FROM (SELECT n.id, e.id AS event, row_number() OVER (PARTITION BY n.id ORDER BY e.id) AS r FROM nodes n JOIN events e ON e.node = n.id) x WHERE r = 1;
SELECT label, count(*), rank() OVER (ORDER BY count(*) DESC) FROM nodes GROUP BY label;
SELECT id, ntile(3) OVER (ORDER BY id), percent_rank() OVER (ORDER BY parent) FROM nodes;

-- table functions in FROM
SELECT * FROM generate_series(1, 5);
SELECT * FROM generate_series(1, 10, 3) AS n;
SELECT * FROM generate_series(5, 1, -2) AS s (v);
SELECT * FROM generate_series(1::int8, 3) WITH ORDINALITY;
SELECT * FROM generate_series(3, 1, -1) WITH ORDINALITY AS t (v, i);
SELECT * FROM generate_series(1, 3, 0.5) x;
SELECT * FROM generate_series(-0.5, 1.25, 0.25) x;
SELECT * FROM generate_series(timestamp '2024-01-31', '2024-07-01', '1 month') d;
SELECT * FROM generate_series(timestamp '2024-03-31', '2023-10-01', '-1 month') d;
SELECT * FROM generate_series(date '2024-02-27', date '2024-03-02', '1 day') d;
SELECT * FROM generate_series(timestamptz '2024-01-01', '2024-01-02', '6 hours 30 minutes') d;
SELECT * FROM generate_series(timestamp '2024-01-01', '2025-01-01', '1 mon 15 days') d;
SELECT * FROM generate_series(1, NULL);
SELECT * FROM generate_series(5, 1);
SELECT sum(n), count(*), min(n), max(n) FROM generate_series(1, 100000) n;
SELECT a, b FROM generate_series(1, 4) a, generate_series(a, 4) b;
SELECT n.id, g FROM nodes n, generate_series(1, n.id % 3) g;
SELECT n.id, g FROM nodes n LEFT JOIN generate_series(1, n.id % 3) g ON true;
SELECT n.id, g FROM nodes n LEFT JOIN LATERAL generate_series(1, n.id % 3) g ON g > 1;
SELECT d::date AS day, count(e.id) FROM generate_series(timestamptz '2024-01-01', '2024-01-10', '1 day') d LEFT JOIN events e ON date_trunc('day', e.at) = d GROUP BY 1;
SELECT * FROM unnest(ARRAY[1, 2, NULL]);
SELECT * FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS u (x, n);
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b', 'c']);
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b', 'c']) WITH ORDINALITY AS u (x, y, n);
SELECT * FROM unnest(ARRAY[[1, 2], [3, 4]]);
SELECT * FROM unnest('{}'::int4[]);
SELECT * FROM unnest(NULL::int4[]);
SELECT n.id, t FROM nodes n, unnest(n.tags) t;
SELECT n.id, t.tag, t.i FROM nodes n CROSS JOIN unnest(n.tags) WITH ORDINALITY AS t (tag, i);
SELECT n.id, t FROM nodes n LEFT JOIN unnest(n.tags) t ON true;
SELECT n.id, t, i FROM nodes n LEFT JOIN LATERAL unnest(n.tags) WITH ORDINALITY AS u (t, i) ON true WHERE i IS NULL OR i > 1;
SELECT t, count(*) FROM nodes, unnest(tags) t GROUP BY t;
SELECT n.id, (SELECT count(*) FROM unnest(n.tags)) FROM nodes n;
SELECT n.id, (SELECT string_agg(t, '-' ORDER BY t) FROM unnest(n.tags) t) FROM nodes n;
SELECT n.id FROM nodes n WHERE EXISTS (SELECT 1 FROM unnest(n.tags) t WHERE t LIKE 'x%');
SELECT n.id FROM nodes n WHERE 'red' IN (SELECT unnest(n.tags));
SELECT n.id, t FROM nodes n JOIN unnest(n.tags) t ON t > 'm';
SELECT * FROM jsonb_array_elements('[1, "a", null, {"b": [2]}]');
SELECT * FROM jsonb_array_elements('[1, "a"]') AS e;
SELECT * FROM jsonb_array_elements_text('[1, "a", null, "é", 2.5]') AS e (v);
SELECT * FROM jsonb_each('{"b": 1, "a": "x", "cc": null}');
SELECT * FROM jsonb_each_text('{"b": 1, "a": "x", "cc": null}') AS t (k, v);
SELECT * FROM jsonb_object_keys('{"b": 1, "a": "x"}');
SELECT n.id, q FROM nodes n, jsonb_path_query(n.doc, '$.list[*] ? (@ != $x)', vars => '{"x": 1}') AS q;
SELECT id, jsonb_path_query(doc, 'strict $.list', '{}', true) FROM nodes;
SELECT * FROM json_array_elements('[1, 2]') WITH ORDINALITY;
SELECT n.id, k.key, k.value FROM nodes n, jsonb_each(n.doc) k WHERE jsonb_typeof(n.doc) = 'object';
SELECT n.id, e FROM nodes n, jsonb_array_elements(n.doc -> 'list') e;
SELECT n.id, e.value FROM nodes n LEFT JOIN LATERAL jsonb_array_elements(n.doc -> 'list') AS e ON true;
SELECT * FROM jsonb_to_recordset('[{"a": 1, "b": "x"}, {"a": null, "c": {"d": 1}}, {}]') AS t (a int4, b text, c jsonb);
SELECT * FROM jsonb_to_record('{"a": 1.5, "b": true, "c": null}') AS t (a numeric, b bool, c jsonb, d text);
SELECT * FROM string_to_table('a,b,,c', ',') AS s;
SELECT * FROM string_to_table('a,b,,c', ',', '') AS s;
SELECT * FROM regexp_split_to_table('a1b22c', '[0-9]+') AS s;
SELECT n.id, w FROM nodes n, regexp_split_to_table(n.doc::text, 's') w WHERE n.id < 6 AND jsonb_typeof(n.doc) <> 'object';
SELECT * FROM regexp_matches('a1b22c', '([a-z])([0-9]+)', 'g') m;
SELECT * FROM regexp_matches('a1b22c', '[0-9]+') m;
SELECT * FROM regexp_matches('abc', '[0-9]+') m;
SELECT * FROM regexp_matches('a1b22c', '[0-9]+', 'g') WITH ORDINALITY m;
SELECT id, regexp_matches('x=1;y=2;' || label, '([a-z])=([0-9])?', 'g') FROM nodes;
SELECT (regexp_matches('k=v, k2=w', '(\w+)=(\w+)', 'g'))[1];
SELECT * FROM ROWS FROM (generate_series(1, 3), unnest(ARRAY['x', 'y'])) AS t (a, b);
SELECT * FROM ROWS FROM (jsonb_each('{"k": 1}'), generate_series(1, 2)) WITH ORDINALITY;
SELECT * FROM lower('ABC');
SELECT * FROM upper('abc') AS u;
SELECT g FROM generate_series(1, 2) g (n);
SELECT * FROM unnest(ARRAY(SELECT id FROM nodes WHERE id < 4)) AS z;

-- table functions in the select list
SELECT generate_series(1, 3);
SELECT id, unnest(tags) FROM nodes;
SELECT id, unnest(tags), generate_series(1, 2) FROM nodes;
SELECT unnest(ARRAY[1, 2, 3]), unnest(ARRAY['a']);
SELECT upper(unnest(tags)) AS tag FROM nodes;
SELECT unnest(tags) AS tag, count(*) FROM nodes GROUP BY tag;
SELECT unnest(tags), count(*) FROM nodes GROUP BY 1 HAVING count(*) > 1;
SELECT unnest(tags), min(id) FROM nodes GROUP BY unnest(tags);
SELECT count(*), generate_series(1, 2) FROM nodes;
SELECT label, generate_series(1, count(*)) FROM nodes GROUP BY label;
SELECT generate_series(1, generate_series(1, 3));
SELECT DISTINCT unnest(ARRAY[1, 1, 2, NULL, NULL]);
SELECT jsonb_array_elements(doc -> 'list') FROM nodes;
SELECT (jsonb_each('{"a": 1, "b": 2}')).*;
SELECT (jsonb_each_text(doc)).key FROM nodes WHERE jsonb_typeof(doc) = 'object';
SELECT id, jsonb_object_keys(doc) FROM nodes WHERE jsonb_typeof(doc) = 'object';
SELECT string_to_table('a b c', ' ');
SELECT x.tag FROM (SELECT unnest(tags) AS tag FROM nodes) x WHERE x.tag <> 'red';
SELECT id, row_number() OVER (ORDER BY id), unnest(tags) FROM nodes;

-- ARRAY(query)
SELECT ARRAY(SELECT id FROM nodes ORDER BY id);
SELECT ARRAY(SELECT id FROM nodes WHERE false);
SELECT ARRAY(SELECT label FROM nodes ORDER BY id DESC) AS labels;
SELECT id, ARRAY(SELECT dst FROM edges WHERE src = nodes.id ORDER BY cost, dst) FROM nodes;
SELECT id, ARRAY(SELECT dst FROM edges WHERE src = nodes.id ORDER BY dst DESC LIMIT 2) FROM nodes;
SELECT id FROM nodes WHERE 3 = ANY (ARRAY(SELECT dst FROM edges WHERE src = nodes.id));
SELECT ARRAY(SELECT generate_series(1, 4));
SELECT ARRAY(SELECT ARRAY[id, parent] FROM nodes ORDER BY id), ARRAY(SELECT ARRAY[id] FROM nodes WHERE false);
SELECT id, ARRAY(SELECT ARRAY[src, dst] FROM edges WHERE src = nodes.id ORDER BY cost, dst) FROM nodes;
SELECT id, array_length(ARRAY(SELECT 1 FROM edges WHERE src = nodes.id), 1) FROM nodes;

-- whole rows
SELECT to_jsonb(n) FROM (SELECT id, parent, label, tags, doc, at FROM nodes) n;
SELECT row_to_json(e) FROM edges e;
SELECT to_jsonb(e.*) FROM edges e;
SELECT n.id, to_jsonb(e) FROM nodes n LEFT JOIN edges e ON e.src = n.id;
SELECT count(e), count(e.*), count(*) FROM nodes n LEFT JOIN edges e ON e.src = n.id;
SELECT n.id, e IS NULL, e IS NOT NULL FROM nodes n LEFT JOIN edges e ON e.src = n.id;
SELECT (n).id, (n).label FROM nodes n;
SELECT (s).* FROM (SELECT id, label AS name FROM nodes) s;
SELECT to_jsonb(s) FROM (SELECT label, count(*) AS n FROM nodes GROUP BY label) s;
SELECT id, (SELECT to_jsonb(e) FROM edges e WHERE e.src = nodes.id ORDER BY dst LIMIT 1) FROM nodes;
SELECT n.id FROM nodes n LEFT JOIN edges e ON e.src = n.id WHERE e IS NULL;
SELECT to_jsonb(k) FROM jsonb_each('{"a": 1}') k;
SELECT to_jsonb(w) FROM (WITH w AS (SELECT 1 AS one) SELECT * FROM w) w;

-- recursion
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT * FROM r;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 50) SELECT sum(n), count(*) FROM r;
WITH RECURSIVE r (x) AS (SELECT 1 UNION SELECT (x * 3) % 11 FROM r) SELECT x FROM r;
WITH RECURSIVE r (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r) SELECT n FROM r LIMIT 4;
WITH RECURSIVE t (id, depth) AS (SELECT id, 0 FROM nodes WHERE parent IS NULL UNION ALL SELECT n.id, depth + 1 FROM t JOIN nodes n ON n.parent = t.id) SELECT * FROM t;
WITH RECURSIVE t (id, path) AS (SELECT id, ARRAY[id] FROM nodes WHERE parent IS NULL UNION ALL SELECT n.id, t.path || n.id FROM t JOIN nodes n ON n.parent = t.id) SELECT id, path, array_length(path, 1) FROM t;
WITH RECURSIVE reach (id) AS (SELECT 1 UNION SELECT e.dst FROM reach r JOIN edges e ON e.src = r.id) SELECT * FROM reach;
WITH RECURSIVE reach (id, cost) AS (SELECT 1, 0::int8 UNION ALL SELECT e.dst, r.cost + e.cost FROM reach r JOIN edges e ON e.src = r.id WHERE r.cost < 12) SELECT id, min(cost), count(*) FROM reach GROUP BY id;
WITH RECURSIVE fib (a, b) AS (SELECT 0::numeric, 1::numeric UNION ALL SELECT b, a + b FROM fib WHERE b < 1000) SELECT a FROM fib;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT max(id) FROM nodes)) SELECT count(*) FROM r;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5), s AS (SELECT n * 10 AS m FROM r) SELECT r.n, s.m FROM r JOIN s ON s.m > r.n * 10;
WITH RECURSIVE r (n, s) AS (SELECT 1, 'a' UNION ALL SELECT n + 1, s || 'b' FROM r WHERE n < 4) SELECT * FROM r;
WITH RECURSIVE r (n) AS (SELECT 1.0 UNION ALL SELECT n * 1.5 FROM r WHERE n < 10) SELECT * FROM r;
WITH RECURSIVE up (id, parent) AS (SELECT id, parent FROM nodes WHERE id = 9 UNION SELECT n.id, n.parent FROM up JOIN nodes n ON n.id = up.parent) SELECT id FROM up;
SELECT id FROM nodes WHERE id IN (WITH RECURSIVE r (n) AS (SELECT 2 UNION ALL SELECT n * 2 FROM r WHERE n < 8) SELECT n FROM r);
WITH RECURSIVE g (n, e) AS (SELECT 1, 1 UNION ALL SELECT n + 1, x FROM g, unnest(ARRAY[n, n * 10]) x WHERE n < 3) SELECT * FROM g;
WITH RECURSIVE plain AS (SELECT 1 AS one) SELECT * FROM plain;

-- outputs that DISTINCT ON and GROUP BY name or number
SELECT DISTINCT ON (1) label, id FROM nodes ORDER BY 1, 2;
SELECT DISTINCT ON (2, 1) id % 3 AS rest, label, id FROM nodes ORDER BY label, rest, id DESC;
SELECT DISTINCT ON (half) id / 2 AS half, weight, id FROM nodes ORDER BY half, id DESC;
SELECT DISTINCT ON (id % 4) id % 4 AS rest, id FROM nodes ORDER BY id % 4, id;
SELECT DISTINCT ON (n) label, count(*) AS n FROM nodes GROUP BY label ORDER BY n, label;
SELECT DISTINCT ON (id % 2, id % 2) id FROM nodes ORDER BY id % 2, id;
SELECT id IN (SELECT dst FROM edges) AS reached, count(*) FROM nodes GROUP BY reached;
SELECT id > ALL (SELECT src FROM edges WHERE cost > 6), sum(id) FROM nodes GROUP BY 1;
SELECT parent + 1 AS k, (parent + 1) IN (SELECT src FROM edges) AS leads, count(*) FROM nodes GROUP BY parent + 1;
SELECT label, sum(id) IN (SELECT cost * 10 FROM edges) FROM nodes GROUP BY label;

-- subqueries that are compared with subqueries, and rows with them
SELECT (SELECT 1) IN (SELECT 1), (SELECT max(id) FROM nodes) = ANY (SELECT dst FROM edges);
SELECT id FROM nodes WHERE (id IN (SELECT src FROM edges)) IN (SELECT cost > 4 FROM edges WHERE cost > 4);
SELECT id FROM nodes WHERE (CASE WHEN id IN (SELECT src FROM edges) THEN id END) IN (SELECT dst FROM edges);
SELECT id, (id, parent) < ANY (SELECT src, dst FROM edges WHERE cost > 5) FROM nodes;
SELECT id FROM nodes WHERE (id, parent) >= ALL (SELECT src, 2 FROM edges WHERE src < 4);
SELECT id, (id, 2) <= ALL (SELECT dst, src FROM edges WHERE dst > 9) FROM nodes;
SELECT id FROM nodes WHERE (id, parent) > ANY (SELECT src, dst FROM edges WHERE src = nodes.parent);

-- parentheses around queries and joins
SELECT ((SELECT 2) UNION SELECT 2) AS two, (((SELECT 3) LIMIT 1)), ((SELECT 1) + 2) * 3 AS nine;
SELECT id FROM nodes WHERE id IN ((SELECT src FROM edges)) AND id = ANY ((VALUES (1), (3), (5)));
SELECT id FROM nodes WHERE EXISTS ((SELECT 1 FROM edges WHERE src = nodes.id));
SELECT * FROM ((SELECT id AS a FROM nodes WHERE id < 3) UNION ALL (SELECT 9)) u;
SELECT * FROM ((SELECT id AS a FROM nodes WHERE id < 4) x JOIN (SELECT src FROM edges) y ON a = src);
SELECT * FROM ((SELECT id AS a FROM nodes WHERE id < 4) x JOIN (SELECT src, cost FROM edges) y ON a = src) z (p, q, r) WHERE r IS NULL OR p > 1;
SELECT j.* FROM (nodes n JOIN edges e ON e.src = n.id) AS j (number) WHERE number > 3;
SELECT k FROM ((SELECT id AS k FROM nodes) a CROSS JOIN (SELECT 7 AS seven) b) AS j WHERE j.seven = 7;
SELECT n.id, e.dst, m.label FROM nodes n LEFT JOIN edges e JOIN nodes m ON m.id = e.dst ON e.src = n.id;
SELECT n.id, e.dst, v.kind FROM nodes n LEFT JOIN edges e LEFT JOIN events v ON v.node = e.dst AND v.amount > 9 ON e.src = n.id AND e.cost > 2;
SELECT x.id, a.label FROM nodes a JOIN (SELECT id, kind FROM events) b USING (id) AS x WHERE x.id < 9;
SELECT x.*, b.kind FROM (SELECT id FROM nodes WHERE id > 9) a FULL JOIN (SELECT id, kind FROM events WHERE id < 12) b USING (id) AS x;

-- names of columns
SELECT '{1}'::int4[], ARRAY[1]::text, ARRAY(SELECT 1)::text;
SELECT EXISTS (SELECT 1 FROM nodes)::text, (SELECT 1 AS inner_name)::text;
SELECT (VALUES (1)), (SELECT 1 AS first UNION SELECT 1), substring('abc', 2), (1 IN (SELECT 1))::text;

-- ordered
SELECT x FROM generate_series(1, 20) x ORDER BY x DESC LIMIT 3;
SELECT id FROM nodes ORDER BY label NULLS FIRST, id OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY;
SELECT id, unnest(tags) AS t FROM nodes ORDER BY t, id;
SELECT n, r.m FROM generate_series(1, 3) n CROSS JOIN LATERAL (SELECT n * 10 + i AS m FROM generate_series(1, n) i) r ORDER BY n, m DESC;
SELECT label, count(*) AS c FROM nodes GROUP BY label ORDER BY c DESC, label NULLS FIRST;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 6) SELECT n, n * n AS square FROM r ORDER BY n DESC;
SELECT id FROM nodes UNION SELECT dst FROM edges ORDER BY id DESC NULLS LAST;
SELECT DISTINCT ON (label) label, id FROM nodes ORDER BY label DESC, id DESC;
SELECT * FROM generate_series(1, 4);
SELECT * FROM unnest(ARRAY['c', 'a', 'b']) WITH ORDINALITY;

-- ties
SELECT label FROM nodes ORDER BY label FETCH FIRST 2 ROWS WITH TIES;
SELECT label FROM nodes ORDER BY label NULLS FIRST OFFSET 1 FETCH NEXT 2 ROWS WITH TIES;
SELECT label, count(*) AS n FROM nodes GROUP BY label ORDER BY n DESC FETCH FIRST ROW WITH TIES;
SELECT id FROM nodes ORDER BY id FETCH FIRST 0 ROWS WITH TIES;
SELECT parent FROM nodes ORDER BY parent FETCH FIRST 1000 ROWS WITH TIES;

-- refused
SELECT id FROM nodes WHERE generate_series(1, 2) = 1;
SELECT CASE WHEN true THEN unnest(ARRAY[1]) END;
SELECT coalesce(generate_series(1, 2), 3);
SELECT sum(generate_series(1, 3));
SELECT * FROM generate_series(1, 5, 0);
SELECT * FROM generate_series(1, 'a');
SELECT * FROM jsonb_array_elements('{"a": 1}');
SELECT * FROM jsonb_array_elements('1');
SELECT * FROM jsonb_each('[1]');
SELECT * FROM jsonb_object_keys('[1]');
SELECT * FROM jsonb_to_recordset('[1]') AS t (a int4);
SELECT * FROM jsonb_to_recordset('[{"a": "x"}]') AS t (a int4);
SELECT * FROM unnest(ARRAY[1]) AS u (a, b);
SELECT * FROM nodes n JOIN unnest(m.tags) t ON true;
SELECT id FROM nodes FETCH FIRST 2 ROWS WITH TIES;
SELECT n FROM nodes n GROUP BY n.id;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT count(*) FROM r) SELECT * FROM r;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT a.n FROM r a, r b) SELECT * FROM r;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1.5 FROM r WHERE n < 4) SELECT * FROM r;
WITH RECURSIVE r (n) AS (SELECT n FROM r) SELECT * FROM r;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT id FROM nodes LEFT JOIN r ON r.n = id) SELECT * FROM r;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n IN (SELECT n FROM r)) SELECT * FROM r;
SELECT (SELECT id FROM nodes);
SELECT ARRAY(SELECT id, label FROM nodes);
SELECT (id, parent) = (1, 2, 3) FROM nodes;
SELECT id FROM nodes UNION SELECT id, label FROM nodes;
SELECT * FROM nodes a JOIN nodes b USING (nothing);
SELECT DISTINCT ON (3) label, id FROM nodes;
SELECT DISTINCT ON (label) label, id FROM nodes ORDER BY id;
SELECT id, parent IN (SELECT dst FROM edges) FROM nodes GROUP BY id % 2;
SELECT * FROM (nodes n JOIN edges e ON e.src = n.id) j WHERE n.id = 1;
SELECT to_date('2024-XX-05', 'YYYY-MM-DD');
SELECT to_date('202405XX', 'YYYYMMDD');
SELECT to_date('20240517', 'YYYY-MM-DD');
SELECT make_timestamptz(2024, 1, 2, 3, 4, 5, '2');
