"""What the tests of reading share: rows of every type, DataFrames as our own Arrow, and what a query would read."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import tidegate
from tidegate.spark.arrow import from_spark

EVERY = (
    "b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, d numeric(9,2), big numeric(38,0), t text, v varchar(3),"
    " y bytea, da date, ti time, ts timestamp, tz timestamptz, iv interval, u uuid, j jsonb,"
    " a int8[], aa text[], ai interval[], r row(x int8, y text), rr row(f float8, i interval)"
)
"""A table with a column of every type."""
_NAN, _INF = float("nan"), float("inf")
_VALUES: dict[str, list[Any]] = {
    "b": [True, False],
    "i2": [-(2**15), 2**15 - 1, 0],
    "i4": [-(2**31), 2**31 - 1, 0],
    "i8": [-(2**63), 2**63 - 1, 0],
    "f4": [_NAN, -0.0, 0.0, _INF, -_INF, 1.5, 3.4e38, 1e-45],
    "f8": [_NAN, -0.0, 0.0, _INF, -_INF, 1.5, 1.7e308, 5e-324],
    "n": [Decimal("-99999999999999999999.999999999999999999"), Decimal(0), Decimal("0.000000000000000001")],
    "d": [Decimal("-9999999.99"), Decimal("9999999.99"), Decimal("0.10")],
    "big": [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0)],
    "t": ["", "a", "ä\U0001f600\uffff", "A" * 200, "\x01 'q' \"d\" \\", "NaN"],
    "v": ["", "abc", "äöü"],
    "y": [b"", b"\x00\xff", b"\xff" * 150],
    "da": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10), dt.date(1970, 1, 1)],
    "ti": [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12, 0, 0, 1)],
    "ts": [-62135596800000000, 253402300799999999, -1],
    "tz": [
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC),
        dt.datetime(1582, 10, 20, 0, 0, 0, 1, dt.UTC),
    ],
    "iv": [(1, 0, 0), (0, 30, 0), (-7, 3, -1000), (0, 0, 86_400_000_000_000)],
    "u": [bytes(16), bytes(range(16)), b"\xff" * 16],
    "j": ["null", "1", '{"a":[1,2.50,"x"]}', '"\\u0001"', "[]"],
    "a": [[], [1, None, -(2**63)], [2]],
    "aa": [[], ["", None, "ä"], ["x"]],
    "ai": [[], [(1, 0, 0), None], [(0, 30, 0)]],
    "r": [{"x": 1, "y": None}, {"x": None, "y": None}, {"x": -1, "y": "ä"}],
    "rr": [{"f": -0.0, "i": (1, 0, 0)}, {"f": _NAN, "i": None}, {"f": 0.0, "i": (0, 30, 0)}],
}


def every_type(db: tidegate.Database, rows: int = 24) -> pa.Table:
    """Rows of poison values and NULLs for the table `EVERY`, named "every", which is made."""
    db.sql(f"CREATE TABLE every ({EVERY})")
    schema = db.sql("SELECT * FROM every").schema
    columns = []
    for i, field in enumerate(schema):
        values = [*_VALUES[field.name], None]
        columns.append(pa.array([values[(row + i) % len(values)] for row in range(rows)], field.type))
    return pa.table(columns, schema=schema)


def ours(df: DataFrame, db: tidegate.Database, name: str) -> pa.Table:
    """A DataFrame of the columns of a collection, as the Arrow that `db.sql` would give."""
    schema = db.context.table(name).machine.fetch().schema
    types = {column.name: column.type for column in schema.columns}
    found = df.toArrow()
    return pa.table(
        {n: from_spark(found.column(n).combine_chunks(), types[n]) for n in found.column_names}
        if found.num_rows
        else {n: pa.array([], types[n].arrow) for n in found.column_names}
    )


def bag(table: pa.Table) -> list[str]:
    """Rows in no order, as texts that tell apart all that differs: -0.0 and 0.0, 1 month and 30 days."""
    columns = [[repr(value) for value in column.to_pylist()] for column in table.columns]
    return sorted(map(" | ".join, zip(*columns, strict=True)))


def plan_text(df: DataFrame) -> str:
    """The physical plan, as Spark's EXPLAIN shows it."""
    jvm: Any = df._sc._jvm
    text: str = jvm.PythonSQLUtils.explainString(df._jdf.queryExecution(), "formatted")
    return text


def parts_read(df: DataFrame) -> list[int]:
    """How many parts each scan of a query would read, as Spark's EXPLAIN shows it."""
    return [int(found) for found in re.findall(r"Location: .*?(\d+) of \d+ parts", plan_text(df))]
