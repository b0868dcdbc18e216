-- What `write.py` asks of a lake, and `tests/test_old_lakes.py` asks again: one statement a line.
-- Where the order of rows is not given, an answer may come in any order; a LIMIT without ORDER BY must leave no choice.

-- every type, as it is read and as a filter sees it
SELECT * FROM types ORDER BY id
SELECT id, exact + 1, price * 2, approx4 * 2, approx8 IS NULL FROM types WHERE id < 9 ORDER BY id
SELECT id FROM types WHERE approx8 = 'NaN'::float8
SELECT id, length(words), words < 'b' FROM types WHERE words IS NOT NULL ORDER BY words, id
SELECT id FROM types WHERE words > 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' AND words < 'b' LIMIT 5
SELECT id, encode(raw, 'hex') FROM types WHERE raw >= '\xff'::bytea LIMIT 10
SELECT id, moment + lasted, noted - interval '1 month', born + 1, alarm FROM types WHERE id IN (1, 2) ORDER BY id
SELECT id, uid FROM types WHERE uid > '00000000-0000-0000-0000-000000000001' ORDER BY uid DESC
SELECT id, doc->>'kind', doc->'tags'->1, doc->2->'nested'->>'ts' FROM types WHERE doc IS NOT NULL ORDER BY id
SELECT id, doc FROM types WHERE (doc->>'ts')::numeric > 50 LIMIT 3
SELECT id, (place).y, numbers[1], matrix[1][2], (stops[1]).city, ((deep).nested).q, (deep).items[1] FROM types ORDER BY id
SELECT id FROM types WHERE (place).x > 0 AND tags[1] = 'x' LIMIT 3
SELECT count(*), count(flag), min(moment), max(moment), min(large), max(price), min(words), min(born) FROM types
SELECT short, count(*) FROM types GROUP BY short ORDER BY short

-- retractions, at several times
SELECT count(*) FROM events
SELECT count(*), sum(total), min(at), max(id), avg(total) FROM events
SELECT kind, count(*), sum(total), min(payload->>'ts') FROM events GROUP BY kind ORDER BY kind
SELECT count(*), sum(total) FROM events AS OF 1704175200000
SELECT count(*), sum(total) FROM events AS OF 1704175199999
SELECT count(*), sum(total) FROM events AS OF 1704178800000
SELECT id, kind, total, payload FROM events WHERE id BETWEEN 95 AND 115 ORDER BY id AS OF 1704182400000
SELECT id, kind, total, payload FROM events WHERE id BETWEEN 95 AND 115 ORDER BY id
SELECT count(*) FROM events AS OF 1000
SELECT id, payload->>'ts' FROM events WHERE (payload->>'ts')::numeric BETWEEN 150 AND 400 AND id < 50 ORDER BY id
SELECT id FROM events WHERE payload->>'ip' = '10.0.0.44' OR payload->'deep'->'n'->>0 = '45' ORDER BY id
SELECT id, total FROM events WHERE at + '30 days' > '2024-03-10'::timestamptz AND kind = 'pay' LIMIT 50
SELECT id, payload FROM events WHERE at + '1 day' > mz_now() LIMIT 60
SELECT id FROM events WHERE total > 1020 LIMIT 10
SELECT id FROM events WHERE at > '2030-01-01'::timestamptz LIMIT 10
SELECT id, total FROM events ORDER BY total DESC, id LIMIT 7
SELECT DISTINCT kind FROM events WHERE total IS NULL
SELECT 10 / (id - 120) FROM events WHERE id > 90
SELECT id FROM events LIMIT 0

-- compacted, a rollup, columns that came and went, pages, parts without statistics
SELECT account, amount, note FROM ledger ORDER BY account, note, amount
SELECT count(*) FROM ledger AS OF 1704243600000
SELECT account, sum(amount), count(*) FROM ledger GROUP BY account ORDER BY account AS OF 1705795200000
SELECT count(*), min(n), max(n), max(at) FROM ticks
SELECT n FROM ticks WHERE at > '2024-01-06'::timestamptz AND n < 140 ORDER BY n DESC LIMIT 4
SELECT count(*), max(n) FROM ticks AS OF 1704332500000
SELECT * FROM altered ORDER BY id
SELECT * FROM altered WHERE b = 'set' OR b IS NULL ORDER BY id
SELECT count(*), min(b), max(id) FROM altered
SELECT count(*), min(name), max(bucket) FROM pages WHERE id >= 12345
SELECT id, bucket, name FROM pages WHERE id IN (0, 8191, 8192, 16999) ORDER BY id
SELECT bucket, count(*) FROM pages WHERE name = 'name 17' GROUP BY bucket
SELECT bucket, name FROM pages WHERE name = 'name 7' LIMIT 3
SELECT id FROM pages ORDER BY id DESC LIMIT 5
SELECT id, name FROM bare WHERE id > 1 AND name <> 'always' ORDER BY id
SELECT name, count(*) FROM bare GROUP BY name ORDER BY name
SELECT count(*), max("order") FROM empty
SELECT * FROM gone

-- views and sources: rows that end
SELECT count(*), min(id) FROM recent
SELECT count(*), min(id) FROM recent AS OF 1704182400000
SELECT * FROM recent_pay ORDER BY id
SELECT id, at, page, more, line FROM clicks ORDER BY id
SELECT count(*), min(id), max(id) FROM clicks AS OF 1704763000000
SELECT id FROM clicks ORDER BY id AS OF 1706486400000
SELECT page, count(*) FROM clicks WHERE at > '2024-01-15'::timestamptz GROUP BY page ORDER BY page
SELECT id, more->'list'->>1 FROM clicks WHERE (more->>'n')::int8 > 60 LIMIT 20
SELECT count(*) FROM clicks_errors
SELECT count(*), sum(total), min(created_at) FROM orders
SELECT status, channel, count(*) FROM orders WHERE total > 100 GROUP BY status, channel ORDER BY status, channel

-- definitions
SHOW TABLES
SHOW VIEWS
SHOW SOURCES
SHOW CONNECTIONS
SHOW COLUMNS FROM types
SHOW COLUMNS FROM clicks
SHOW CREATE TABLE types
SHOW CREATE TABLE events
SHOW CREATE TABLE ledger
SHOW CREATE TABLE pages
SHOW CREATE VIEW recent_pay
SHOW CREATE SOURCE clicks
SHOW CREATE SOURCE orders
SHOW CREATE CONNECTION broker
