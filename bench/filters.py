"""Twenty-nine filters as people write them, in the words of each engine, and the parts they are asked of.

Twenty parts of 2,000 rows each: `id` counts from 0 to 39,999 and everything else follows it, so that every filter below is true in
one part alone (two for IN), and whoever can reason from the least and greatest value of a part need not read the others.

    FILTERS[9]    mz_now() <= ts + '30 days'
                  DuckDB, DataFusion, deltalake   TIMESTAMPTZ '2024-02-26 17:40:00+00' <= ts + INTERVAL '30 days'
                  Polars                          pl.lit(NOW) <= pl.col("ts") + pl.duration(days=30)

`mz_now()` is the time of the query; the others are told it as a constant. Where an engine needs other words, they stand in a
column of their own; None means that it cannot say it at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

PARTS, ROWS = 20, 2_000
LEAST = 38_500
"""The least id that most filters let pass; it lies in the last part, 38,000 to 39,999."""
START = datetime(2024, 1, 1, tzinfo=UTC)
FROM = START + timedelta(minutes=LEAST)
NOW = FROM + timedelta(days=30)
"""The time of the queries."""
NOW_SQL = f"TIMESTAMPTZ '{NOW:%Y-%m-%d %H:%M:%S}+00'"
FROM_SQL = f"TIMESTAMPTZ '{FROM:%Y-%m-%d %H:%M:%S}+00'"
LAST_DAY = date(2024, 1, 28)
DAY = datetime(2024, 1, 28, tzinfo=UTC)
DAY_SQL = "TIMESTAMPTZ '2024-01-28 00:00:00+00'"

TABLE = """CREATE TABLE t (
    id int8, ts timestamptz, nid int8, a int8, b int8, c int8, unit text, s text, sid text, st row(x int8, y text),
    payload jsonb)"""


def rows(part: int) -> pa.Table:
    """The rows of one part."""
    id_ = np.arange(part * ROWS, (part + 1) * ROWS)
    stamps = np.datetime64(START.replace(tzinfo=None), "us") + id_ * np.timedelta64(60_000_000, "us")
    return pa.table(
        {
            "id": pa.array(id_),
            "ts": pa.array(stamps).cast(pa.timestamp("us", "UTC")),
            "nid": pa.array(id_, mask=id_ % 7 == 3),
            "a": pa.array(id_ // 3),
            "b": pa.array(id_ - id_ // 3),
            "c": pa.array(LEAST + id_ % 5),
            "unit": pa.array(np.where(id_ % 2 == 0, "feet", "metre")),
            "s": pa.array([f"f{part:02d}-{i % ROWS:04d}" for i in id_]),
            "sid": pa.array([str(i) for i in id_]),
            "st": pa.array([{"x": int(i), "y": "y"} for i in id_]),
            "payload": pa.array([f'{{"kind":"order","ts":{i},"user":{{"name":"u{i % 50}"}}}}' for i in id_]),
        }
    )


SAME = "the same"
PolarsFilter = Callable[[], pl.Expr] | None
ArrowFilter = Callable[[], pc.Expression] | None


@dataclass(frozen=True)
class Filter:
    """One filter, in SQL of ours and in the words of others."""

    kind: str
    sql: str
    polars: PolarsFilter
    arrow: ArrowFilter
    duckdb: str | None = SAME
    datafusion: str | None = SAME
    """deltalake runs DataFusion, so that its words are these too."""

    def words(self, engine: str) -> Any:
        """The filter as an engine is told it; None: it cannot be."""
        match engine:
            case "tidegate":
                return self.sql
            case "Polars":
                return self.polars and self.polars()
            case "pyarrow":
                return self.arrow and self.arrow()
            case "DuckDB":
                return self.sql if self.duckdb is SAME else self.duckdb
            case _:
                return self.sql if self.datafusion is SAME else self.datafusion


col, field = pl.col, pc.field
X = LEAST


def _like(pattern: str) -> Callable[[], pc.Expression]:
    return lambda: pc.match_like(field("s"), pattern)


COMPARISONS = [
    Filter("comparison", f"id >= {X}", lambda: col("id") >= X, lambda: field("id") >= X),
    Filter("negation", f"NOT (id < {X})", lambda: ~(col("id") < X), lambda: ~(field("id") < X)),
    Filter("list", "id IN (17, 39990)", lambda: col("id").is_in([17, 39990]), lambda: field("id").isin([17, 39990])),
    Filter("column to column", "id > c", lambda: col("id") > col("c"), lambda: field("id") > field("c")),
    Filter("OR", f"id >= {X} OR id * 2 >= {2 * X}", lambda: (col("id") >= X) | (col("id") * 2 >= 2 * X),
           lambda: (field("id") >= X) | (field("id") * 2 >= 2 * X)),
    Filter("nested", f"(st).x >= {X}", lambda: col("st").struct.field("x") >= X, lambda: field("st", "x") >= X,
           f"st.x >= {X}", f"st['x'] >= {X}"),
]  # fmt: skip

ARITHMETIC = [
    Filter("sum", f"id + 5 >= {X + 5}", lambda: col("id") + 5 >= X + 5, lambda: field("id") + 5 >= X + 5),
    Filter("product", f"id * 2 >= {2 * X}", lambda: col("id") * 2 >= 2 * X, lambda: field("id") * 2 >= 2 * X),
    Filter("minus", f"-id <= -{X}", lambda: -col("id") <= -X, lambda: pc.negate(field("id")) <= -X),
    Filter("distance", f"abs(id - {X}) <= 10", lambda: (col("id") - X).abs() <= 10,
           lambda: pc.abs(field("id") - X) <= 10),
    Filter("two columns", f"a + b >= {X}", lambda: col("a") + col("b") >= X, lambda: field("a") + field("b") >= X),
    Filter("greatest", f"greatest(id, 0) >= {X}", lambda: pl.max_horizontal("id", pl.lit(0)) >= X,
           lambda: pc.max_element_wise(field("id"), 0) >= X),
]  # fmt: skip

TIMES = [
    Filter("time", f"ts >= {FROM_SQL}", lambda: col("ts") >= FROM, lambda: field("ts") >= FROM),
    Filter("temporal filter", "mz_now() <= ts + '30 days'", lambda: pl.lit(NOW) <= col("ts") + pl.duration(days=30),
           lambda: pc.add(field("ts"), pa.scalar(timedelta(days=30))) >= NOW,
           f"{NOW_SQL} <= ts + INTERVAL '30 days'", f"{NOW_SQL} <= ts + INTERVAL '30 days'"),
    Filter("age", f"{NOW_SQL} - ts <= INTERVAL '30 days'",
           lambda: pl.lit(NOW) - col("ts") <= pl.duration(days=30),
           lambda: pc.subtract(pc.scalar(pa.scalar(NOW, pa.timestamp("us", "UTC"))), field("ts"))
           <= pa.scalar(timedelta(days=30), pa.duration("us"))),
    Filter("cast to date", "ts::date = DATE '2024-01-28'", lambda: col("ts").dt.date() == LAST_DAY,
           lambda: field("ts").cast(pa.date32()) == LAST_DAY),
    Filter("date_trunc", f"date_trunc('day', ts) >= {DAY_SQL}", lambda: col("ts").dt.truncate("1d") >= DAY,
           lambda: pc.floor_temporal(field("ts"), unit="day") >= DAY),
    Filter("seconds", f"extract(epoch FROM ts) >= {int(FROM.timestamp())}",
           lambda: col("ts").dt.epoch("s") >= int(FROM.timestamp()),
           lambda: field("ts").cast(pa.timestamp("s", "UTC"), safe=False).cast(pa.int64()) >= int(FROM.timestamp()),
           f"epoch_ms(ts) >= {int(FROM.timestamp()) * 1000}"),
]  # fmt: skip

CONDITIONALS = [
    Filter("COALESCE", f"coalesce(nid, 0) >= {X}", lambda: pl.coalesce("nid", pl.lit(0)) >= X,
           lambda: pc.coalesce(field("nid"), pc.scalar(0)) >= X),
    Filter("CASE of names", f"CASE WHEN id >= {X} THEN 'hot' ELSE 'cold' END = 'hot'",
           lambda: pl.when(col("id") >= X).then(pl.lit("hot")).otherwise(pl.lit("cold")) == "hot",
           lambda: pc.if_else(field("id") >= X, "hot", "cold") == "hot"),
    Filter("CASE of numbers", f"CASE WHEN unit = 'feet' THEN id * 2 ELSE id END >= {2 * X}",
           lambda: pl.when(col("unit") == "feet").then(col("id") * 2).otherwise(col("id")) >= 2 * X,
           lambda: pc.if_else(field("unit") == "feet", field("id") * 2, field("id")) >= 2 * X),
]  # fmt: skip

CASTS = [
    Filter("to float", f"id::float8 >= {X}", lambda: col("id").cast(pl.Float64) >= X,
           lambda: field("id").cast(pa.float64()) >= X, datafusion=f"id::double >= {X}"),
    Filter("text to number", f"sid::int8 >= {X}", lambda: col("sid").cast(pl.Int64) >= X,
           lambda: field("sid").cast(pa.int64()) >= X, datafusion=f"sid::bigint >= {X}"),
    Filter("number to text", f"id::text = '{X}'", lambda: col("id").cast(pl.String) == str(X),
           lambda: field("id").cast(pa.string()) == str(X)),
]  # fmt: skip

TEXTS = [
    Filter("prefix", "s LIKE 'f19%'", lambda: col("s").str.starts_with("f19"), _like("f19%")),
    Filter("infix", "s LIKE '%19-%'", lambda: col("s").str.contains("19-", literal=True), _like("%19-%")),
    Filter("substring", "substring(s, 1, 3) = 'f19'", lambda: col("s").str.slice(0, 3) == "f19",
           lambda: pc.utf8_slice_codeunits(field("s"), 0, 3) == "f19"),
    Filter("upper", "upper(s) >= 'F19-0500'", lambda: col("s").str.to_uppercase() >= "F19-0500",
           lambda: pc.utf8_upper(field("s")) >= "F19-0500"),
    Filter("JSON path", f"(payload->>'ts')::int8 >= {X}",
           lambda: col("payload").str.json_path_match("$.ts").cast(pl.Int64) >= X, None, datafusion=None),
]  # fmt: skip

FILTERS: Sequence[Filter] = (*COMPARISONS, *ARITHMETIC, *TIMES, *CONDITIONALS, *CASTS, *TEXTS)
ENGINES = ("tidegate", "DuckDB", "Polars", "DataFusion", "deltalake", "pyarrow")
