"""Tables with all kinds of values, and aggregates that must be the same by metadata and by reading."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.query import Result

OFF = ("fast_path", "stats_filter")


LONG = "x" * 150


POOLS: dict[str, list[Any]] = {
    "i int4": [None, -3, 0, 5, 9],
    "b bool": [None, True, False],
    "n numeric(8,2)": [None, Decimal("-1.50"), Decimal(0), Decimal("99.99")],
    "f float8": [None, 0.0, -0.0, 1.5, -2.0, math.nan, math.inf],
    "r float4": [None, 1.5, -2.0],
    "s text": [None, "", "a", "ab", LONG + "a", LONG + "b", "é"],
    "y bytea": [None, b"", b"\xff", b"a" * 150],
    "u uuid": [None, "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "v interval": [None, (0, 30, 0), (1, 0, 0), (0, 1, 0)],
    "t timestamptz": [None, 0, 10**15],
    "j jsonb": [None, "1", '{"a":1}', "[]"],
    "a int4[]": [None, [1, 2], [], [1]],
}


NAMES = [one.split()[0] for one in POOLS]


ITEMS = ["count(*)", *(f"{name}({column})" for column in NAMES for name in ("count", "min", "max"))]


WHERES = (
    "",
    "k < 4",
    "k = 2",
    "i > 0",
    "i >= -3",
    "f > 1",
    "s = 'a'",
    "k > 100",
    "b",
    "i IS NOT NULL",
    "k < 4 AND i < 100",
)


def both(db: tidegate.Database, sql: str, as_of: int | None = None) -> Result:
    """The result, which must be the same with each flag off."""
    result = db.sql(sql, as_of=as_of)
    for flag in OFF:
        db.set(flag, False)
        other = db.sql(sql, as_of=as_of)
        db.set(flag, None)
        assert repr(other.rows()) == repr(result.rows()), (sql, flag)
        assert other.types == result.types
    return result


def told(db: tidegate.Database, sql: str, *rows: tuple[Any, ...], as_of: int | None = None) -> None:
    """The query must be answered without reading, with these rows."""
    result = both(db, sql, as_of)
    assert repr(result.rows()) == repr(list(rows)), sql
    assert (result.path, result.scan.parts_read) == ("metadata", 0), sql


def read(
    db: tidegate.Database, sql: str, parts: int, *rows: tuple[Any, ...], as_of: int | None = None
) -> None:
    """The query must be answered by reading so many parts."""
    result = both(db, sql, as_of)
    assert repr(result.rows()) == repr(list(rows)), sql
    assert (result.path, result.scan.parts_read) == ("local", parts), sql


def fill(db: tidegate.Database, rng: np.random.Generator, parts: int) -> list[dict[str, pa.Array]]:
    """A table of random parts; in some of them a column has one value only, or none."""
    db.sql(f"CREATE TABLE t (k int8, {', '.join(POOLS)})")
    written = []
    for part in range(parts):
        rows = int(rng.integers(1, 6))
        columns: dict[str, pa.Array] = {"k": pa.array([part] * rows)}
        for declared, pool in POOLS.items():
            name = declared.split()[0]
            some = rng.choice(len(pool), 1 if rng.random() < 0.4 else rows)
            arrow = {
                "v": pa.month_day_nano_interval(),
                "t": pa.timestamp("us", "UTC"),
                "r": pa.float32(),
            }.get(name)
            columns[name] = pa.array([pool[int(i)] for i in np.resize(some, rows)], arrow)
        db.append("t", columns, diff=pa.array(rng.integers(1, 3, rows)) if rng.random() < 0.3 else 1)
        written.append(columns)
    return written
