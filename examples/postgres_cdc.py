"""A PostgreSQL table, followed change by change.

    pip install 'tidegate[ingest]'
    TIDEGATE_POSTGRES=postgresql://me@localhost/shop python examples/postgres_cdc.py

The server needs wal_level = logical, and the user REPLICATION. The example creates a table and a publication, and drops them at the
end, with the replication slot.
"""

import os
import secrets
import sys
import tempfile

import psycopg
from psycopg.conninfo import conninfo_to_dict

import tidegate

url = os.environ.get("TIDEGATE_POSTGRES")
if url is None:
    sys.exit("set TIDEGATE_POSTGRES to a database: TIDEGATE_POSTGRES=postgresql://me@localhost/shop")
parts = conninfo_to_dict(url)
options = [
    f"HOST '{parts.get('host', 'localhost')}'",
    f"DATABASE '{parts['dbname']}'",
    f"USER '{parts['user']}'",
]
if "port" in parts:
    options.append(f"PORT {parts['port']}")
if "password" in parts:
    os.environ["EXAMPLE_PASSWORD"] = str(parts["password"])
    options.append("PASSWORD 'env:EXAMPLE_PASSWORD'")  # the lake stores the reference, never the secret

table = f"orders_{secrets.token_hex(4)}"
with (
    tempfile.TemporaryDirectory(prefix="tidegate-") as folder,
    psycopg.connect(url, autocommit=True) as upstream,
):
    upstream.execute(f"CREATE TABLE {table} (id int8 PRIMARY KEY, item text, total numeric(10,2))")
    upstream.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")  # changes then carry the whole old row
    upstream.execute(f"CREATE PUBLICATION {table} FOR TABLE {table}")
    upstream.execute(
        f"INSERT INTO {table} SELECT i, 'item ' || i % 10, i / 4.0 FROM generate_series(1, 1000) i"
    )

    db = tidegate.open(folder)
    db.sql(f"CREATE CONNECTION pg TO POSTGRES ({', '.join(options)})")
    db.sql(f"""
        CREATE SOURCE shop FROM POSTGRES CONNECTION pg (PUBLICATION '{table}')
        FOR TABLES ({table} AS orders TRANSFORM USING (SELECT id, item, total FROM {table} WHERE total > 50))
    """)

    def compare() -> str:
        """Returns the orders of both sides, which must be equal."""
        ours = db.sql("SELECT count(*), sum(total) FROM orders").rows()[0]
        theirs = upstream.execute(f"SELECT count(*), sum(total) FROM {table} WHERE total > 50").fetchone()
        assert theirs is not None
        same = ours[0] == theirs[0] and float(ours[1]) == float(theirs[1])
        return f"{ours[0]} orders above 50, worth {float(ours[1]):.2f}; as PostgreSQL says: {same}"

    db.ingest("shop", once=True, spark=False)  # a snapshot: all rows at one moment
    print(f"snapshot: {compare()}")
    snapshot = db.status().collections["orders"].upper - 1

    # Transactions arrive whole and in order. An update retracts the old row and adds the new one.
    with upstream.transaction():
        upstream.execute(f"UPDATE {table} SET total = total + 1000 WHERE id <= 10")
        upstream.execute(f"DELETE FROM {table} WHERE id > 900")
    db.ingest("shop", once=True, spark=False)
    print(f"changes: {compare()}")

    # Earlier states of the table can still be read.
    print(f"as of the snapshot: {db.sql('SELECT count(*) FROM orders', as_of=snapshot).rows()[0][0]} orders")

    db.sql("DROP SOURCE shop")  # drops the slot too, so that PostgreSQL keeps no log for it
    slots = upstream.execute(
        "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    ).fetchone()
    print(f"slots left in PostgreSQL: {slots[0] if slots else None}")
    db.close()
    upstream.execute(f"DROP PUBLICATION {table}")
    upstream.execute(f"DROP TABLE {table}")
