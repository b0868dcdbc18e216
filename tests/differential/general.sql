-- Queries that PostgreSQL and Tidegate answer with the same rows: in any order, and those of the last section in the same order.
-- Read by general.py: a query ends with a semicolon at the end of its line.


-- joins
SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de';
SELECT o.id, c.name, o.price FROM orders o LEFT JOIN customers c ON o.customer = c.id WHERE o.at >= '2024-11-01';
SELECT c.id, o.id FROM orders o RIGHT JOIN customers c ON o.customer = c.id AND o.price > 800;
SELECT c.id, o.id, c.score FROM customers c FULL JOIN orders o ON o.customer = c.id AND o.quantity = c.score;
SELECT id, c.name, o.status FROM customers c FULL JOIN (SELECT customer AS id, status FROM orders WHERE id < 60) o USING
(id);
SELECT count(*) FROM customers, products WHERE customers.id < products.id;
SELECT a.id, b.id FROM customers a JOIN customers b ON a.country = b.country AND a.id < b.id AND b.born > a.born;
SELECT * FROM products NATURAL JOIN (SELECT id::int4 AS id, country FROM customers) x;
SELECT o.id, i.line, p.kind FROM orders o JOIN items i ON i.order_id = o.id JOIN products p ON p.id = i.product WHERE
p.kind = 'toy' AND o.at < '2024-03-01';
SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id WHERE c.id IS NULL;
SELECT c.id FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.status = 'paid' WHERE coalesce(o.quantity, 0)
= 0;
SELECT o.id, o.note ->> 'a', c.score FROM orders o JOIN customers c ON (o.note ->> 'a')::int8 = c.id;
SELECT o.id, c.id FROM orders o LEFT JOIN customers c ON o.customer = c.id AND length(o.note ->> 'a') = 1 WHERE o.id <
40;
SELECT c.id, o.id FROM customers c LEFT JOIN orders o ON o.customer = c.id WHERE 100 / (45 - c.id) > 2;
SELECT c.id, o.id FROM customers c JOIN orders o ON o.customer = c.id WHERE 100 / (45 - c.id) > 2;

-- TPC-H-like
SELECT status, count(*), sum(quantity), sum(o.price), min(at), max(i.price), avg(quantity)::numeric(20,6) FROM orders o JOIN
items i ON i.order_id = o.id GROUP BY status;
SELECT o.id, sum(i.price * (1 - 0.1)) AS revenue, o.at FROM customers c, orders o, items i WHERE c.country = 'fr' AND
c.id = o.customer AND i.order_id = o.id AND o.at < '2024-09-01' GROUP BY o.id, o.at HAVING sum(i.amount) > 4;
SELECT o.status, count(*) FROM orders o WHERE o.at >= '2024-04-01' AND EXISTS (SELECT * FROM items i WHERE i.order_id =
o.id AND i.amount < 5) GROUP BY o.status;
SELECT p.kind, c.country, sum(i.amount * i.price), count(DISTINCT o.id) FROM items i JOIN orders o ON o.id = i.order_id
JOIN products p ON p.id = i.product JOIN customers c ON c.id = o.customer GROUP BY p.kind, c.country;
SELECT sum(i.price) FROM items i, products p WHERE (p.id = i.product AND p.kind = 'toy' AND i.amount BETWEEN 1 AND 3) OR
(p.id = i.product AND p.kind = 'tool' AND i.amount BETWEEN 4 AND 8);
SELECT c.id, count(o.id) FROM customers c LEFT OUTER JOIN orders o ON c.id = o.customer AND o.status <> 'open' GROUP BY
c.id;
SELECT n, count(*) FROM (SELECT c.id, count(o.id) FROM customers c LEFT JOIN orders o ON c.id = o.customer GROUP BY
c.id) AS x (id, n) GROUP BY n;
SELECT sum(price) FILTER (WHERE status = 'paid'), bool_and(price > 1), bool_or(quantity = 3), every(o.id > 0) FROM orders
o JOIN customers c ON c.id = o.customer;
WITH revenue AS (SELECT i.product, sum(i.price) AS total FROM items i GROUP BY i.product) SELECT p.id, r.total FROM
products p, revenue r WHERE p.id = r.product AND r.total = (SELECT max(total) FROM revenue);

-- subqueries
SELECT id FROM orders WHERE price > (SELECT avg(price) FROM orders WHERE status = 'paid');
SELECT id FROM orders o WHERE price = (SELECT max(price) FROM orders x WHERE x.customer = o.customer);
SELECT c.id, (SELECT count(*) FROM orders o WHERE o.customer = c.id), (SELECT max(at) FROM orders) FROM customers c;
SELECT id FROM customers WHERE id IN (SELECT customer FROM orders WHERE price > 700);
SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE status = 'open');
SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE status = 'open' AND customer IS NOT NULL);
SELECT id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.price > 300);
SELECT id, EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.price > 500) AND c.score > 3 FROM customers c;
SELECT id FROM orders WHERE (customer, status) IN (SELECT id, 'paid' FROM customers WHERE country = 'us');
SELECT id FROM customers WHERE score > ALL (SELECT quantity FROM orders WHERE quantity IS NOT NULL);
SELECT id, score >= ANY (SELECT quantity FROM orders WHERE at > '2024-10-01') FROM customers;
SELECT id FROM customers WHERE score = ANY (SELECT quantity FROM orders) OR id = 1;
SELECT id, CASE WHEN id IN (SELECT customer FROM orders WHERE quantity = 4) THEN 'four' ELSE 'no' END FROM customers;
SELECT id, id IN (SELECT customer FROM orders WHERE status = 'open'), score NOT IN (SELECT quantity FROM orders) FROM customers;
SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders) OR score NOT IN (SELECT amount FROM items) OR id < 3;
SELECT id, (id, score) IN (SELECT customer, quantity FROM orders) FROM customers;
SELECT id FROM customers c WHERE score = ALL (SELECT quantity FROM orders o WHERE o.customer = c.id);
SELECT id, q FROM (SELECT id, id IN (SELECT customer FROM orders WHERE quantity = 4) AS q FROM customers) x WHERE NOT q;
SELECT id, q FROM (SELECT id, EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id) AS q FROM customers c) x WHERE q;
SELECT p.id FROM products p WHERE (SELECT sum(amount) FROM items i WHERE i.product = p.id) > 100;
SELECT status, (SELECT count(*) FROM customers WHERE country = 'de') FROM orders GROUP BY status;
SELECT c.country, (SELECT count(*) FROM customers x WHERE x.country = c.country) FROM customers c GROUP BY c.country;
SELECT status, (SELECT max(c.name) FROM customers c WHERE c.id = max(o.id)) FROM orders o GROUP BY status;
SELECT customer FROM orders o GROUP BY customer HAVING EXISTS (SELECT 1 FROM items i WHERE i.order_id = min(o.id) AND
i.amount > 5);
SELECT customer, (SELECT sum(o.quantity) + count(*) FROM products) FROM orders o GROUP BY customer;
SELECT customer, sum(quantity) FROM orders o GROUP BY customer HAVING (SELECT count(*) FROM items i WHERE i.order_id =
max(o.id)) > 1;
SELECT count(*), (SELECT string_agg(o.status, ',' ORDER BY o.id) FROM products p WHERE p.id = 1) FROM orders o WHERE id < 30;
SELECT count(*) FROM (SELECT DISTINCT customer FROM orders) x;
SELECT x.id FROM (SELECT id, price FROM orders ORDER BY price DESC NULLS LAST, id LIMIT 7 OFFSET 2) x;
SELECT c.id, l.m FROM customers c, LATERAL (SELECT max(price) AS m FROM orders o WHERE o.customer = c.id) l;
SELECT c.id, l.n FROM customers c LEFT JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer = c.id) l ON
l.n > 4;

-- what leaves the side of an outer join that is filled with NULLs, and is not made of its columns
SELECT c.id, l.x FROM customers c LEFT JOIN LATERAL (SELECT c.score AS x FROM orders o WHERE o.customer = c.id AND
o.quantity = 4) l ON true;
SELECT c.id FROM customers c LEFT JOIN LATERAL (SELECT c.id AS x FROM orders o WHERE o.customer = c.id) l ON true WHERE
l.x IS NULL;
SELECT c.id, l.x FROM customers c LEFT JOIN LATERAL (SELECT c.score AS x) l ON c.id > 20;
SELECT c.id, l.x, l.y FROM customers c LEFT JOIN LATERAL (SELECT c.score AS x, c.id + 1 AS y WHERE c.country = 'de') l ON
true WHERE coalesce(l.y, 0) < 30;
SELECT c.id, l.one, l.z, coalesce(l.x, -1) FROM customers c LEFT JOIN LATERAL (SELECT 1 AS one, c.id * 2 AS x,
coalesce(c.score, 0) AS z FROM orders o WHERE o.customer = c.id AND o.status = 'paid' LIMIT 1) l ON true;
SELECT c.id, l.x, l.n FROM customers c LEFT JOIN LATERAL (SELECT c.country AS x, count(*) AS n FROM orders o WHERE
o.customer = c.id GROUP BY c.country) l ON l.n > 5;
SELECT c.id, l.x FROM customers c LEFT JOIN LATERAL (SELECT DISTINCT c.country AS x FROM orders o WHERE o.customer = c.id
AND o.quantity > 6) l ON true WHERE l.x IS NULL OR l.x = 'de';
SELECT c.id, m.z FROM customers c LEFT JOIN LATERAL (SELECT c.id AS x FROM orders o WHERE o.customer = c.id AND o.id < 60) l
ON true LEFT JOIN LATERAL (SELECT l.x AS z) m ON true;
SELECT c.id, l.x, l.y FROM customers c LEFT JOIN LATERAL (SELECT c.id AS x, m.y FROM orders o LEFT JOIN LATERAL (SELECT
o.quantity AS y WHERE o.quantity > 3) m ON true WHERE o.customer = c.id AND o.id < 80) l ON true;
SELECT c.id, x.one, x.status FROM customers c LEFT JOIN (SELECT customer, 1 AS one, status FROM orders WHERE quantity = 4) x
ON x.customer = c.id WHERE x.one IS NULL OR x.status = 'paid';
SELECT x.one, x.id, o.id FROM (SELECT 1 AS one, id FROM customers WHERE country = 'de') x RIGHT JOIN orders o ON o.customer =
x.id WHERE x.one IS NULL AND o.id < 40;
SELECT x.one, y.two FROM (SELECT 1 AS one, id FROM customers WHERE id < 9) x FULL JOIN (SELECT 2 AS two, id FROM customers
WHERE id > 5) y ON x.id = y.id WHERE x.one IS NULL OR y.two IS NULL;
SELECT c.id, (SELECT c.score FROM orders o WHERE o.customer = c.id AND o.quantity = 4 ORDER BY o.id LIMIT 1), (SELECT 1 FROM
products p WHERE p.id = c.id) FROM customers c;
SELECT c.id, (SELECT c.score), c.id IN (SELECT c.score FROM products p WHERE p.id < 3) FROM customers c;
SELECT c.id, l.x FROM customers c, LATERAL (SELECT c.score AS x UNION ALL SELECT c.id AS x) l;

-- windows
SELECT id, row_number() OVER (PARTITION BY customer ORDER BY at, id), rank() OVER (ORDER BY quantity) FROM orders;
SELECT id, sum(price) OVER (PARTITION BY status ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM orders;
SELECT id, lag(price) OVER w, lead(id, 2, -1) OVER w, first_value(id) OVER w, last_value(id) OVER w FROM orders WINDOW w
AS (PARTITION BY customer ORDER BY id);
SELECT id, dense_rank() OVER (ORDER BY score DESC), ntile(4) OVER (ORDER BY id), percent_rank() OVER (ORDER BY score),
cume_dist() OVER (ORDER BY score) FROM customers;
SELECT customer, sum(price), rank() OVER (ORDER BY sum(price) DESC NULLS LAST), sum(sum(price)) OVER () FROM orders
GROUP BY customer;
SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY customer ORDER BY price DESC, id) AS n FROM orders) x WHERE n
= 1;
SELECT id, nth_value(id, 2) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), count(*) OVER
() FROM products;
SELECT id, max(quantity) OVER (PARTITION BY status), avg(quantity) OVER (PARTITION BY customer)::numeric(12,4) FROM
orders;

-- set operations, DISTINCT, grouping sets
SELECT customer FROM orders UNION SELECT id FROM customers;
SELECT customer FROM orders WHERE id < 50 UNION ALL SELECT id FROM customers WHERE country = 'de';
SELECT customer FROM orders INTERSECT SELECT id FROM customers WHERE score > 5;
SELECT customer FROM orders INTERSECT ALL SELECT id FROM customers;
SELECT id FROM customers EXCEPT SELECT customer FROM orders WHERE at > '2024-06-01';
SELECT status FROM orders EXCEPT ALL SELECT status FROM orders WHERE id > 30;
SELECT id, 1.5 AS x FROM customers WHERE id < 5 UNION SELECT quantity, 2 FROM orders;
(SELECT id FROM orders ORDER BY price LIMIT 3) UNION ALL (SELECT id FROM customers ORDER BY id DESC LIMIT 2);
SELECT DISTINCT ON (customer) customer, id, price FROM orders ORDER BY customer, price DESC NULLS LAST, id;
SELECT DISTINCT c.country, o.status FROM orders o JOIN customers c ON c.id = o.customer;
SELECT status, quantity, count(*), grouping(quantity) FROM orders GROUP BY ROLLUP (status, quantity);
SELECT status, quantity, sum(price), grouping(status, quantity) FROM orders GROUP BY GROUPING SETS ((status),
(quantity), ());
SELECT status, sum(quantity), count(*), grouping(status) FROM orders WHERE id < 0 GROUP BY GROUPING SETS ((status), (), ());
SELECT country, score > 5, count(*) FROM customers GROUP BY CUBE (country, score > 5);
SELECT weight, count(*) FROM (SELECT weight FROM orders UNION ALL SELECT -0.0::float8) x GROUP BY weight;
SELECT note, count(*) FROM orders o JOIN customers c ON c.id = o.customer GROUP BY note;

-- others
SELECT string_agg(name, ', ' ORDER BY name DESC) FROM (SELECT DISTINCT name FROM customers) x;
SELECT x, y FROM (VALUES (1, 'a'), (2, NULL), (3, 'c')) v (x, y) JOIN products p ON p.id = v.x;
SELECT p.id, p.span + i.order_id * INTERVAL '1 hour', p.span < '30 days' FROM products p JOIN items i ON i.product =
p.id WHERE i.order_id < 20;
SELECT c.id, date_trunc('month', o.at), extract(year FROM c.born) FROM customers c JOIN orders o ON o.customer = c.id
WHERE o.id < 50;
SELECT c.id / 7, c.id % 7, -c.score / 2, round(o.price / 3, 9) FROM customers c JOIN orders o ON o.customer = c.id WHERE
o.quantity > 6;
SELECT c.name || '-' || p.name, upper(p.name), c.name LIKE 'B%' FROM customers c, products p WHERE c.id = p.id;

-- jsonb by its order
SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer WHERE o.note -> 'a' > '1';
SELECT o.id, c.id FROM orders o JOIN customers c ON to_jsonb(o.quantity) < to_jsonb(c.score) WHERE o.id < 30;
SELECT c.country, count(*) FROM orders o JOIN customers c ON c.id = o.customer WHERE o.note >= '[1]' GROUP BY c.country;
SELECT o.id FROM orders o WHERE to_jsonb(o.quantity) > ALL (SELECT to_jsonb(c.score) FROM customers c WHERE c.id =
o.customer);
SELECT id, rank() OVER (ORDER BY note DESC), dense_rank() OVER (ORDER BY to_jsonb(customer)) FROM orders;
SELECT greatest(o.note, to_jsonb(c.score)), least(o.note, to_jsonb(c.score)) FROM orders o JOIN customers c ON c.id =
o.customer;
SELECT count(*), x FROM (SELECT to_jsonb(quantity) AS x FROM orders UNION ALL SELECT to_jsonb(price) FROM items) v WHERE x
BETWEEN '2' AND '10.50' GROUP BY x;
SELECT string_agg(id::text, ',' ORDER BY to_jsonb(quantity) DESC, id) FROM orders WHERE id < 60;

-- ordered
SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id ORDER BY c.name COLLATE "C" DESC, o.id
LIMIT 40;
SELECT id, quantity FROM orders UNION ALL SELECT id, score FROM customers ORDER BY 2 NULLS FIRST, 1 DESC OFFSET 5;
SELECT c.country, sum(o.price) FROM orders o JOIN customers c ON c.id = o.customer GROUP BY 1 ORDER BY 2 DESC, 1;
SELECT a.id, b.span FROM products a JOIN products b ON a.id = b.id ORDER BY b.span, a.id;
SELECT o.weight, o.id FROM orders o JOIN customers c ON c.id = o.customer ORDER BY 1 DESC, 2;
SELECT o.note, o.id FROM orders o JOIN customers c ON c.id = o.customer ORDER BY 1, 2;
SELECT to_jsonb(quantity), id FROM orders UNION ALL SELECT to_jsonb(score > 5), id FROM customers ORDER BY 1 DESC NULLS LAST, 2;
SELECT DISTINCT ON (o.note) o.note, o.id FROM orders o ORDER BY o.note DESC, o.id;
SELECT o.note, count(*) FROM orders o JOIN customers c ON c.id = o.customer GROUP BY o.note ORDER BY o.note;
SELECT DISTINCT to_jsonb(o.quantity * 3) AS q FROM orders o JOIN customers c ON c.id = o.customer ORDER BY q DESC;
