// What a program on node-postgres asks: node node.js HOST PORT. Prints a line for each answer.

const { Client, Pool, types } = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");
const { from: copyFrom, to: copyTo } = require("pg-copy-streams");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");

const print = (what, value) => console.log(`${what}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
const where = { host: process.argv[2], port: Number(process.argv[3]), user: "ann", database: "lake" };

async function main() {
  types.setTypeParser(20, Number);
  const client = new Client(where);
  await client.connect();
  const text = "SELECT id, name, price, at, tags, doc, u, b FROM orders WHERE id = $1";
  const row = (await client.query(text, [1])).rows[0];
  print("row", { ...row, at: row.at.toISOString() });
  for (let i = 0; i < 2; i++) {
    print("prepared", (await client.query({ name: "by-id", text: "SELECT name FROM orders WHERE id = $1", values: [2] })).rows);
  }
  print("any", (await client.query("SELECT id FROM orders WHERE id = ANY($1) ORDER BY id", [[1, 2, 9]])).rows.map((r) => r.id));
  print("array mode", (await client.query({ text: "SELECT 1 AS a, 2 AS a", rowMode: "array" })).rows);
  print("fields", (await client.query("SELECT id, price FROM orders")).fields.map((f) => [f.name, f.dataTypeID]));
  print("several", (await client.query("SELECT 1 AS a; SELECT 2 AS b")).map((r) => r.rows[0]));

  const cursor = client.query(new Cursor("SELECT n FROM big ORDER BY n"));
  print("cursor", [(await cursor.read(3)).map((r) => r.n), (await cursor.read(2)).map((r) => r.n)]);
  await cursor.close();
  let count = 0;
  for await (const _ of client.query(new QueryStream("SELECT n FROM big", [], { batchSize: 1000 }))) count++;
  print("streamed", count);

  await client.query("CREATE TABLE from_node (id int8, name text)");
  print("inserted", (await client.query("INSERT INTO from_node VALUES ($1, $2), ($3, $4)", [1, "a", 2, null])).rowCount);
  await pipeline(Readable.from(["3\tc\n", "4\t\\N\n"]), client.query(copyFrom("COPY from_node FROM STDIN")));
  const chunks = [];
  for await (const chunk of client.query(copyTo("COPY (SELECT * FROM from_node ORDER BY id) TO STDOUT (FORMAT csv)"))) chunks.push(chunk);
  print("copied", Buffer.concat(chunks).toString().trim().split("\n"));
  await client.query("DROP TABLE from_node");

  for (const wrong of ["SELECT nope FROM orders", "SELECT 'x'::int8"]) {
    await client.query(wrong).catch((error) => print("error", [error.code, error.position ?? null]));
  }
  print("notices", (await client.query("SELECT 'still here' AS x")).rows[0].x);
  await client.end();

  const pool = new Pool({ ...where, max: 4 });
  const sums = await Promise.all([...Array(20).keys()].map((i) => pool.query("SELECT $1::int8 + count(*) AS n FROM orders", [i])));
  print("pool", sums.map((r) => r.rows[0].n).join(" "));
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
