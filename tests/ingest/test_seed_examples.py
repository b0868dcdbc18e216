"""Seed 003's statements, as they stand there with `...` filled in, run against a real Kafka and a real PostgreSQL."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

import tidegate
from tests.ingest.broker import Broker
from tests.ingest.postgres_lab import database
from tidegate.database import Database

DAY = 86_400_000
SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}

SALES_STAFF = """
CREATE SOURCE sales_staff
FROM KAFKA CONNECTION {connection}
FORMAT BYTES
TRANSFORM USING (
    SELECT
        (data->>'id')::int AS id,
        (data->>'name')::text AS name,
    FROM
        (SELECT CONVERT_FROM(data, 'utf8')::jsonb as data FROM sales_staff)
    WHERE
        (data->>'department')::text == 'sales'
);
"""
ORDERS_30D = """
CREATE SOURCE orders_30d
FROM KAFKA {connection}
FORMAT AVRO USING {schema}
TRANSFORM USING (
    SELECT * FROM orders_30d
    WHERE mz_now() <= created_at + '30 days'
);
"""
ORDERS_30D_INGESTED = """
CREATE SOURCE orders_30d
FROM KAFKA {connection}
FORMAT AVRO USING {schema}
INCLUDE INGESTION TIMESTAMP as ingest_ts
TRANSFORM USING (
    SELECT * FROM orders_30d
    WHERE mz_now() <= ingest_ts + '30 days'
);
"""
PG_SOURCE = """
CREATE SOURCE pg_source
FROM POSTGRES {connection}
FOR TABLES (
   orders TRANSFORM USING (SELECT id, item FROM orders),
   customers TRANSFORM USING (SELECT id, name FROM customers) AS customer_data,
);
"""


@pytest.fixture
def db() -> Iterator[Database]:
    with tidegate.open("memory://") as made:
        yield made


def ingest(db: Database, name: str) -> None:
    running = db.ingest(name, once=True, spark=False)
    assert running.wait(60)
    assert running.error is None


def rows(db: Database, sql: str, as_of: int | None = None) -> list[tuple[Any, ...]]:
    return sorted(db.sql(sql, as_of=as_of).rows())


def packed(id_: int, created: int) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, SCHEMA, {"id": id_, "created_at": created})
    return buffer.getvalue()


def test_decode_json_and_keep_only_certain_rows(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    staff = [(1, "Ann", "sales"), (2, "Bob", "it"), (3, "Eve", "sales")]
    documents = [json.dumps({"id": i, "name": n, "department": d}).encode() for i, n, d in staff]
    kafka.produce(topic, [{"value": one} for one in (*documents, b"\xff", b"{}")])
    db.sql(f"CREATE CONNECTION k TO KAFKA (BROKER '{kafka.address}')")
    db.sql(SALES_STAFF.format(connection=f"k (TOPIC '{topic}')"))
    ingest(db, "sales_staff")
    assert rows(db, "SELECT * FROM sales_staff") == [(1, "Ann"), (3, "Eve")]
    assert rows(db, "SELECT raw FROM sales_staff_errors") == [(b"\xff",)]


def test_the_orders_of_the_last_30_days(db: Database, kafka: Broker) -> None:
    topic, now = kafka.topic(), int(time.time() * 1000)
    ages = {1: 40, 2: 20, 3: 10}
    kafka.produce(topic, [{"value": packed(id_, now - age * DAY)} for id_, age in ages.items()])
    db.sql(f"CREATE CONNECTION k TO KAFKA (BROKER '{kafka.address}')")
    db.sql(
        ORDERS_30D.format(
            connection=f"CONNECTION k (TOPIC '{topic}')", schema=f"SCHEMA '{json.dumps(SCHEMA)}'"
        )
    )
    ingest(db, "orders_30d")
    assert rows(db, "SELECT id FROM orders_30d") == [(2,), (3,)]
    assert db.status().sources["orders_30d"].collections["orders_30d"].expired == 1
    assert rows(db, "SHOW COLUMNS FROM orders_30d") == [
        ("created_at", True, "timestamptz"),
        ("id", True, "int8"),
    ]


def test_expiration_by_ingestion_time(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [{"value": packed(1, 0)}])
    db.sql(f"CREATE CONNECTION k TO KAFKA (BROKER '{kafka.address}')")
    sql = ORDERS_30D_INGESTED.format(
        connection=f"CONNECTION k (TOPIC '{topic}')", schema=f"SCHEMA '{json.dumps(SCHEMA)}'"
    )
    db.sql(sql)
    ingest(db, "orders_30d")
    ((id_, at),) = rows(db, "SELECT id, ingest_ts FROM orders_30d")
    assert id_ == 1
    assert abs(at.timestamp() - time.time()) < 600
    assert rows(db, "SHOW CREATE SOURCE orders_30d") == [("orders_30d", sql.strip().removesuffix(";"))]


def test_specific_columns_of_a_multi_output_source(db: Database) -> None:
    with database() as postgres:
        postgres.run(
            "CREATE TABLE orders (id int8 PRIMARY KEY, item text, price numeric)",
            "CREATE TABLE customers (id int8 PRIMARY KEY, name text, address text)",
            "ALTER TABLE orders REPLICA IDENTITY FULL",
            "ALTER TABLE customers REPLICA IDENTITY FULL",
            "CREATE PUBLICATION p FOR ALL TABLES",
            "INSERT INTO orders VALUES (1, 'pen', 2), (2, 'ink', 3)",
            "INSERT INTO customers VALUES (7, 'Ann', 'Ulm')",
        )
        given = {key.upper(): value for key, value in postgres.connection.options.items()}
        db.sql(
            f"CREATE CONNECTION pg TO POSTGRES ({', '.join(f'''{key} '{value}' ''' for key, value in given.items())})"
        )
        db.sql(PG_SOURCE.format(connection="CONNECTION pg (PUBLICATION 'p')"))
        names = [name for name, *_ in rows(db, "SHOW SOURCES")]
        assert names == ["customer_data", "orders", "pg_source", "pg_source_errors"]
        ingest(db, "pg_source")
        assert rows(db, "SELECT * FROM orders") == [(1, "pen"), (2, "ink")]
        postgres.run("UPDATE orders SET item = 'nib' WHERE id = 1", "DELETE FROM orders WHERE id = 2")
        postgres.run(
            "UPDATE customers SET address = 'Bonn'", "INSERT INTO customers VALUES (8, 'Bob', 'Rom')"
        )
        ingest(db, "pg_source")
        assert rows(db, "SELECT * FROM orders") == [(1, "nib")]
        assert rows(db, "SELECT * FROM customer_data") == [(7, "Ann"), (8, "Bob")]
        db.sql("DROP SOURCE pg_source")
        assert postgres.rows(
            "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
        ) == [(0,)]
        with pytest.raises(tidegate.PlanError, match="not exact"):
            db.sql(
                "CREATE SOURCE f FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES "
                "(orders TRANSFORM USING (SELECT id, price::float8 * 2 AS p FROM orders))"
            )
