"""A table of filters, and how many of twelve parts each leaves: that pruning happens, and that Spark's counts stay the same.

The parts are the months of 2024. `tests/spark/filters.txt` has a filter a line with the parts that are read, in UTC
and in New York where that differs; UPDATE_GOLDEN=1 rewrites it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import tidegate
from tests.spark.reading import parts_read
from tidegate.config import Config

TABLE = Path(__file__).with_name("filters.txt")
PARTS = 12
COLUMNS = (
    "id int8, i int4, millis int8, d float8, dec numeric(10,2), s text, b bool, dt date, ts timestamptz, tn timestamp,"
    " payload jsonb, r row(x int8, y text)"
)


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Database]:
    config = Config(audit=1.0, inline_bytes=0)
    with tidegate.open(tmp_path_factory.mktemp("filters") / "lake", config=config) as db:
        db.sql(f"CREATE TABLE months ({COLUMNS})")
        schema = db.sql("SELECT * FROM months").schema
        for part in range(PARTS):
            made = [_row(part, row) for row in range(40)]
            db.append("months", pa.Table.from_pylist(made, schema=schema))
        yield db


def _row(part: int, row: int) -> dict[str, object]:
    at = dt.datetime(2024, part + 1, 1 + row * 27 // 40, row % 24, 30, tzinfo=dt.UTC)
    millis = int(at.timestamp() * 1000)
    payload = {
        "ts": millis, "name": f"n{part:02}", "day": at.date().isoformat(), "price": part + row / 100, "deep": {"x": part},
        **({"late": True} if part == 9 else {}),
    }  # fmt: skip
    return {
        "id": part * 1000 + row, "i": part, "millis": millis, "d": float("nan") if part == 11 and row == 0 else part + row / 100,
        "dec": part * 100 + row, "s": None if part == 8 and row == 1 else f"k{part:02}", "b": part < 6, "dt": at.date(), "ts": at,
        "tn": at.replace(tzinfo=None), "payload": json.dumps(payload), "r": {"x": part, "y": f"y{part}"},
    }  # fmt: skip


def _read(df: DataFrame) -> int:
    """How many parts a query reads; none where Spark itself sees that nothing can pass."""
    (found,) = parts_read(df) or [0]
    return found


@pytest.mark.long
def test_table(months: tidegate.Database, spark: SparkSession) -> None:
    filters = [line.partition("  →  ")[0] for line in TABLE.read_text("utf-8").splitlines() if line]
    assert len(filters) >= 60
    names = ("spark.sql.session.timeZone", "spark.sql.adaptive.enabled")
    before = {name: spark.conf.get(name) for name in names}
    spark.conf.set(names[1], "false")  # plans a query once instead of twice
    lines = {text: [""] * 2 for text in filters}
    try:
        for place, zone in enumerate(("UTC", "America/New_York")):
            spark.conf.set("spark.sql.session.timeZone", zone)
            df = months.table("months", spark)
            plain = [text for text in filters if "window" not in text]
            whole = df.selectExpr(*(f"count_if({text})" for text in plain))
            assert _read(whole) == PARTS
            expected = dict(zip(plain, whole.first() or (), strict=True))
            for text in filters:
                if place and "ts" not in text:
                    lines[text][place] = lines[text][0]
                    continue
                asked = df.where(text).selectExpr("count(*)")
                lines[text][place] = str(_read(asked))
                counted = asked.first()
                assert counted is not None
                assert counted[0] == expected.get(text, counted[0]), (zone, text)
    finally:
        for name, value in before.items():
            assert value is not None
            spark.conf.set(name, value)
    shown = [
        f"{text}  →  {utc}" + ("" if utc == york else f", New York {york}")
        for text, (utc, york) in lines.items()
    ]
    if os.environ.get("UPDATE_GOLDEN"):
        TABLE.write_text("\n".join(shown) + "\n", "utf-8")
    assert TABLE.read_text("utf-8").splitlines() == shown
    assert sum(int(utc) <= PARTS // 2 for utc, _ in lines.values()) >= 60


FORMS: dict[str, tuple[Callable[[], Column], str]] = {
    "plain": (lambda: f.col("id") >= 11000, "id >= 11000"),
    "between": (lambda: f.col("dt").between(dt.date(2024, 3, 1), dt.date(2024, 3, 31)), "dt BETWEEN '2024-03-01' AND '2024-03-31'"),
    "isin": (lambda: f.col("s").isin(*(f"k{i:02}" for i in (3, 4))), "s IN ('k03', 'k04')"),
    "many": (lambda: f.col("i").isin(*range(3, 4), *range(100, 120)), f"i IN (3, {', '.join(map(str, range(100, 120)))})"),
    "expr": (lambda: f.expr("id div 1000 = 7"), "id div 1000 = 7"),
    "when": (lambda: f.when(f.col("b"), f.col("id")).otherwise(0) > 5000, "CASE WHEN b THEN id ELSE 0 END > 5000"),
    "json": (lambda: f.get_json_object("payload", "$.ts").cast("long") > 1733011200000,
             "CAST(get_json_object(payload, '$.ts') AS bigint) > 1733011200000"),
    "schema": (lambda: f.from_json("payload", "ts long")["ts"] > 1733011200000, "from_json(payload, 'ts long').ts > 1733011200000"),
    "variant": (lambda: f.try_variant_get(f.parse_json("payload"), "$.ts", "long") > 1733011200000,
                "try_variant_get(parse_json(payload), '$.ts', 'long') > 1733011200000"),
    "field": (lambda: f.col("r.x") == 7, "r.x = 7"),
    "dates": (lambda: f.date_add("dt", 30) < dt.date(2024, 3, 1), "date_add(dt, 30) < DATE'2024-03-01'"),
    "trunc": (lambda: f.date_trunc("month", "ts") == f.lit("2024-05-01").cast("timestamp"),
              "date_trunc('month', ts) = TIMESTAMP'2024-05-01 00:00:00'"),
    "interval": (lambda: f.col("ts") + f.expr("interval 30 days") > f.lit("2025-01-15").cast("timestamp"),
                 "ts + INTERVAL 30 days > TIMESTAMP'2025-01-15 00:00:00'"),
    "prefix": (lambda: f.col("s").startswith("k1") & ~f.col("b"), "startswith(s, 'k1') AND NOT b"),
    "null": (lambda: f.col("s").isNull(), "s IS NULL"),
    "safe": (lambda: f.col("i").eqNullSafe(4), "i <=> 4"),
}  # fmt: skip


def test_api_and_sql_prune_alike(months: tidegate.Database, spark: SparkSession) -> None:
    df = months.table("months", spark)
    df.createOrReplaceTempView("months_seen")
    try:
        for name, (column, text) in FORMS.items():
            by_api = df.where(column()).selectExpr("count(*)")
            by_sql = spark.sql(f"SELECT count(*) FROM months_seen WHERE {text}")
            assert _read(by_api) == _read(by_sql) <= 6, name
            assert by_api.first() == by_sql.first() != (0,), name
    finally:
        spark.catalog.dropTempView("months_seen")
