"""Aggregates, GROUP BY and DISTINCT over parts of random sizes, and in a real PostgreSQL: equal groups, values and types."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.differential.postgres import NotThere, Postgres, ours, same
from tidegate.expr.model.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Type,
    numeric,
)

pytestmark = pytest.mark.postgres

ROWS = 300
MOMENT = datetime(2024, 2, 29, 12, 30, 0, 1, UTC)
POOLS: dict[Type, list[Any]] = {
    BOOL: [True, False],
    INT2: [-32768, -1, 0, 7, 32767],
    INT4: [-(2**31), -1, 0, 7, 2**31 - 1],
    INT8: [-(2**63), -5, 0, 2**62, 2**63 - 1],
    numeric(10, 2): [Decimal("-99999999.99"), Decimal("0.00"), Decimal("0.01"), Decimal("12.50")],
    NUMERIC: [Decimal("-12345678901234567.123456789012345678"), Decimal(0), Decimal("1e-18"), Decimal(3)],
    FLOAT4: [-0.0, 0.0, 1.5, -2.25, math.nan, math.inf],
    FLOAT8: [-0.0, 0.0, 0.1, -7.25, 1e15, math.nan],
    TEXT: ["", "a", "A", "ab", "é", "\U0001f600", "￿"],
    BYTEA: [b"", b"\0", b"\xff", b"ab"],
    DATE: [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    TIME: [time(0), time(23, 59, 59, 999999), time(12)],
    TIMESTAMP: [MOMENT.replace(tzinfo=None), datetime(1, 1, 1, tzinfo=UTC).replace(tzinfo=None)],
    TIMESTAMPTZ: [MOMENT, MOMENT + timedelta(microseconds=1), datetime(1970, 1, 1, tzinfo=UTC)],
    INTERVAL: [(0, 30, 0), (1, 0, 0), (0, -1, 0), (0, 0, 86_400_000_000_000), (0, 1, 0)],
    UUID: [bytes(16), bytes(15) + b"\1", b"\xff" * 16],
    JSONB: ["1", '"a"', "[1, 2]", '{"a": null}', "null"],
}
THEIRS = {
    "smallint": "int2", "integer": "int4", "bigint": "int8", "real": "float4",
    "double precision": "float8", "boolean": "bool", "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz", "time without time zone": "time",
}  # fmt: skip
AGGREGATES = (
    "count(*)", "count(x)", "count(DISTINCT x)", "sum(x)", "avg(x)", "min(x)", "max(x)", "bool_and(x)", "every(x)",
    "bool_or(x)", "sum(DISTINCT x)", "avg(DISTINCT x)", "count(*) FILTER (WHERE id % 3 = 0)",
    "sum(x) FILTER (WHERE id % 3 = 0)", "min(x) FILTER (WHERE id < 0)", "count(x) + 1",
)  # fmt: skip
IDS = [str(type_) for type_ in POOLS]


def column(type_: Type, rng: np.random.Generator) -> pa.Array:
    """Random values of a pool, some NULL."""
    values = pa.array(POOLS[type_], type_.arrow)
    return values.take(pa.array(rng.integers(0, len(values), ROWS), mask=rng.random(ROWS) < 0.15))


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as opened:
        yield opened


def load(db: tidegate.Database, postgres: Postgres, type_: Type, seed: int) -> None:
    """The same rows on both sides; ours in parts of random sizes."""
    rng = np.random.default_rng(seed)
    groups = pa.array(rng.integers(0, 6, ROWS), pa.int32(), mask=rng.random(ROWS) < 0.1)
    values = column(type_, rng)
    postgres.load([("g", INT4), ("x", type_)], [groups, values])
    db.sql(f"CREATE TABLE given (id int4, g int4, x {type_})")
    cuts = [0, *sorted(rng.integers(0, ROWS, 5).tolist()), ROWS]
    table = pa.table({"id": pa.array(np.arange(ROWS), pa.int32()), "g": groups, "x": values})
    for start, stop in itertools.pairwise(cuts):
        if start < stop:
            db.append("given", table.slice(start, stop - start))


def mine(db: tidegate.Database, sql: str) -> tuple[list[tuple[Any, ...]], tuple[Type, ...]] | None:
    """Our rows in the form of `postgres.py`; None where there is no such function."""
    try:
        result = db.sql(sql)
    except tidegate.TypeMismatch:
        return None
    columns = [
        ours(type_, column.combine_chunks())
        for type_, column in zip(result.types, result.columns, strict=True)
    ]
    return list(zip(*columns, strict=True)), result.types


def check(db: tidegate.Database, postgres: Postgres, items: list[str], rest: str) -> None:
    """Both sides give the same."""
    got = mine(db, f"SELECT {', '.join(items)} {rest}")
    assert got is not None
    rows, types = got
    theirs = postgres.select(list(zip(items, types, strict=True)), rest)
    assert len(rows) == len(theirs), (items, rest)
    for row, other in zip(rows, theirs, strict=True):
        for type_, a, b, item in zip(types, row, other, items, strict=True):
            assert _alike(type_, a, b, item), f"{item} {rest}: {a!r}, PostgreSQL {b!r}"


def _alike(type_: Type, a: Any, b: Any, item: str) -> bool:
    if type_ == INTERVAL and a is not None and b is not None and item not in ("sum(x)", "avg(x)"):
        # Which of 1 month and 30 days is given, they being equal, is not PostgreSQL's to say.
        a, b = ((months * 30 + days) * 86_400_000_000 + micros for months, days, micros in (a, b))
        return abs(a - b) <= 1
    return same(type_, a, b, exact=not item.startswith(("sum", "avg")))


def both_have(db: tidegate.Database, postgres: Postgres, aggregate: str) -> bool:
    """Whether there is such a function on both sides."""
    try:
        postgres.select([(aggregate, TEXT)], "FROM given WHERE false")
    except NotThere:
        return False
    return mine(db, f"SELECT {aggregate} FROM given WHERE false") is not None


@pytest.mark.parametrize("type_", POOLS, ids=IDS)
def test_aggregates_of_every_type(db: tidegate.Database, postgres: Postgres, type_: Type) -> None:
    load(db, postgres, type_, 1)
    items = [one for one in AGGREGATES if both_have(db, postgres, one)]
    assert len(items) >= 5
    for where in ("", " WHERE id % 7 <> 0", " WHERE id < 0", " WHERE g = 3"):
        check(db, postgres, items, f"FROM given{where}")
    check(db, postgres, ["g", *items], "FROM given GROUP BY g ORDER BY g")
    check(db, postgres, ["g", *items], "FROM given WHERE id < 0 GROUP BY 1 ORDER BY g")


@pytest.mark.parametrize("type_", POOLS, ids=IDS)
def test_types_of_aggregates(db: tidegate.Database, postgres: Postgres, type_: Type) -> None:
    load(db, postgres, type_, 0)
    for name in ("count", "sum", "avg", "min", "max", "bool_and", "bool_or"):
        got = mine(db, f"SELECT {name}(x) FROM given")
        try:
            said = postgres.select([(f"pg_typeof({name}(x))", TEXT)], "FROM given")[0][0]
        except NotThere:  # min and max are of every type here
            assert got is None or name in ("min", "max"), f"{name}({type_})"
            continue
        if type_ == TIME and got is None:  # PostgreSQL takes a time for an interval there
            continue
        assert got is not None, f"{name}({type_})"
        assert got[1][0].kind.value == THEIRS.get(said, said), f"{name}({type_})"


@pytest.mark.parametrize("type_", POOLS, ids=IDS)
def test_groups_of_every_type(db: tidegate.Database, postgres: Postgres, type_: Type) -> None:
    load(db, postgres, type_, 2)
    if type_ == JSONB:  # it is ordered by its text here
        counts = [sorted(row[0] for row in rows) for rows in _counted(db, postgres)]
        assert counts[0] == counts[1]
        return
    check(db, postgres, ["x", "count(*)", "sum(g)"], "FROM given GROUP BY x ORDER BY x")
    check(db, postgres, ["count(*)", "x IS NULL"], "FROM given GROUP BY g, x ORDER BY g, x")
    check(
        db, postgres, ["g", "count(DISTINCT x)"], "FROM given GROUP BY g HAVING count(*) > 40 ORDER BY 2, 1"
    )


def _counted(db: tidegate.Database, postgres: Postgres) -> list[list[tuple[Any, ...]]]:
    got = mine(db, "SELECT count(*) FROM given GROUP BY x")
    assert got is not None
    return [got[0], postgres.select([("count(*)", INT8)], "FROM given GROUP BY x")]


def test_overflow_is_an_error_on_both_sides(db: tidegate.Database, postgres: Postgres) -> None:
    import psycopg

    big = pa.array([1e308] * 3)
    postgres.load([("f", FLOAT8), ("r", FLOAT4)], [big, pa.array([3e38] * 3, pa.float32())])
    db.sql("CREATE TABLE given (f float8, r float4)")
    db.append("given", {"f": big, "r": pa.array([3e38] * 3, pa.float32())})
    for sql in ("SELECT sum(f) FROM given", "SELECT avg(f) FROM given", "SELECT sum(r) FROM given"):
        with pytest.raises(tidegate.EvaluationError, match="value out of range: overflow"):
            db.sql(sql)
        with pytest.raises(psycopg.errors.NumericValueOutOfRange):
            postgres.connection.execute(sql)
    assert db.sql("SELECT avg(r) FROM given").rows()[0][0] == pytest.approx(3e38, rel=1e-6)


WRONG = (
    "SELECT g, x FROM given GROUP BY g",
    "SELECT g FROM given GROUP BY g ORDER BY x",
    "SELECT g FROM given GROUP BY g HAVING x > 1",
    "SELECT x, count(*) FROM given",
    "SELECT g FROM given WHERE count(*) > 1",
    "SELECT count(*) FROM given GROUP BY count(*)",
    "SELECT sum(count(*)) FROM given",
    "SELECT sum(x) FILTER (WHERE count(*) > 1) FROM given",
    "SELECT count() FROM given",
    "SELECT sum(*) FROM given",
    "SELECT sum(g, x) FROM given",
    "SELECT g FROM given GROUP BY 2",
    "SELECT g FROM given GROUP BY 'a'",
    "SELECT DISTINCT g FROM given ORDER BY x",
    "SELECT g + 1 AS a, x AS a FROM given GROUP BY a",
    "SELECT * FROM given GROUP BY g",
    "SELECT sum(g::text) FROM given",
    "SELECT bool_and(g) FROM given",
)


def test_what_is_wrong_is_wrong_on_both_sides(db: tidegate.Database, postgres: Postgres) -> None:
    import psycopg

    load(db, postgres, INT4, 0)
    for sql in WRONG:
        with pytest.raises(tidegate.SqlError) as caught:
            db.sql(sql)
        assert caught.value.position is not None, sql
        with pytest.raises(psycopg.ProgrammingError):
            postgres.connection.execute(sql)


RIGHT = (
    "SELECT g + 1 AS h, count(*) FROM given GROUP BY h ORDER BY 1",
    "SELECT (g + 1) * 2, sum(x) / count(*) FROM given GROUP BY g + 1 ORDER BY 1",
    "SELECT x AS g, count(*) FROM given GROUP BY g, x ORDER BY 1, 2",
    "SELECT count(*) FROM given HAVING count(*) > 1",
    "SELECT 1 FROM given HAVING count(*) < 1",
    "SELECT DISTINCT g FROM given ORDER BY g DESC LIMIT 3",
    "SELECT DISTINCT g, x > 0 FROM given ORDER BY 2, 1",
    "SELECT DISTINCT count(*) FROM given GROUP BY g, x ORDER BY 1",
    "SELECT g FROM given GROUP BY g ORDER BY max(x), g NULLS FIRST",
    "SELECT g FROM given GROUP BY g ORDER BY count(*) DESC, g LIMIT 2 OFFSET 1",
    "SELECT CASE WHEN g > 2 THEN 'big' ELSE 'small' END AS s, min(id), max(id) FROM given GROUP BY s ORDER BY s",
    "SELECT n, m FROM (SELECT g, count(*) AS n, max(x) AS m FROM given GROUP BY g) q WHERE n > 30 ORDER BY n, m",
    "SELECT max(x)::int4 - min(x) FROM given WHERE g IN (1, 2)",
    "SELECT g, x FROM given GROUP BY (g, x) ORDER BY 1, 2",
    "SELECT count(*) FROM given GROUP BY ()",
    "SELECT sum(x) FILTER (WHERE g = 0), sum(10 / g) FILTER (WHERE g > 0) FROM given",
)


def test_queries(db: tidegate.Database, postgres: Postgres) -> None:
    load(db, postgres, INT2, 3)
    for sql in RIGHT:
        theirs = postgres.connection.execute(sql).fetchall()
        got = db.sql(sql).rows()
        assert [tuple(map(_plain, row)) for row in got] == [tuple(map(_plain, row)) for row in theirs], sql


def _plain(value: Any) -> Any:
    return round(value, 15) if isinstance(value, Decimal) else value
