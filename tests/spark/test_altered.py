"""Parts of earlier versions of a table on Spark: added defaults are constants, and types are widened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from pyspark.sql import SparkSession

import tidegate
from tests.spark.reading import bag
from tidegate.spark.engine.scans import FORCED_READER, Reader

FILTERS = (
    "n = 7 AND label = 'new' AND price < 4",
    "wide >= 3000000000 OR exact = 2.5",
    "share > 0.2 OR (f = 'NaN' AND flag AND old IS NULL AND at < '2024-03-01')",
)


def prefixed(where: str) -> str:
    """A condition with the names of columns as those of x."""
    return re.sub(r"\b(n|id|label|price|at|wide|exact|share|old|flag|f)\b(?!')", r"x.\1", where)


def test_every_reader_reads_old_parts_as_the_table_is_now(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql(
            "CREATE TABLE t (id int2, price int4, wide int4, exact numeric(5, 1), share float4, name varchar(3))"
        )
        db.sql("INSERT INTO t SELECT g, g, -g, g / 2.0, 0.1, 'abc' FROM generate_series(1, 6) AS g")
        db.sql("ALTER TABLE t ADD COLUMN n int8 DEFAULT 7 NOT NULL, ADD COLUMN label text DEFAULT 'new', "
               "ADD COLUMN at date DEFAULT '2024-02-29', ADD COLUMN f float8 DEFAULT 'NaN', ADD COLUMN old text, "
               "ADD COLUMN flag bool DEFAULT true, ADD COLUMN tags text[] DEFAULT ARRAY['a', 'b''c'], "
               "ADD COLUMN doc jsonb DEFAULT '{\"k\": 1}', ADD COLUMN ts timestamptz DEFAULT '2024-01-02 03:04:05+01'")  # fmt: skip
        db.sql("ALTER TABLE t ALTER price TYPE numeric(12, 2), ALTER wide TYPE int8, ALTER id TYPE int4, "
               "ALTER exact TYPE numeric(20, 1), ALTER share TYPE float8, ALTER name TYPE text, RENAME name TO called")  # fmt: skip
        db.sql("INSERT INTO t (id, price, wide, exact, share, called, n, flag, f) "
               "VALUES (100000, 1.25, 3000000000, 123456789.5, 0.25, 'longer', 8, false, 1)")  # fmt: skip
        db.sql("DELETE FROM t WHERE id = 2")
        db.set("engine", "spark")
        for where in FILTERS:
            wanted = bag(db.sql(f"SELECT * FROM t WHERE {where}").arrow())
            for reader in get_args(Reader):
                token = FORCED_READER.set(reader)
                result = db.sql(
                    f"SELECT x.* FROM t AS x LEFT JOIN t AS y ON x.id = y.id WHERE {prefixed(where)}"
                )
                FORCED_READER.reset(token)
                assert bag(result.arrow()) == wanted, (reader, where)
                assert result.path == "spark"
        joined = "SELECT x.id, y.n FROM t AS x JOIN t AS y ON x.id = y.id"
        assert db.sql(f"CREATE TABLE copied AS {joined}").text() == "SELECT 6", (
            "rows of Spark are written too"
        )
        assert bag(db.sql("SELECT * FROM copied").arrow()) == bag(db.sql(joined).arrow())
        counted = {row["id"]: row["n"] for row in db.table("t", spark).where("n = 7").collect()}
        assert counted == dict.fromkeys((1, 3, 4, 5, 6), 7)
