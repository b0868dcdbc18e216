"""Nothing but a TidegateError leaves the API, and none of them is an InternalError: over random statements and arguments."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.laws.statements import Statements, table


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as found:
        found._context = replace(
            found.context, engine=None
        )  # whatever is more than one collection is refused, and no JVM started
        found.set("as_of_timeout_ms", 1)
        table(found, 7)
        yield found


def read(result: tidegate.Result) -> None:
    """All that a result can be asked for."""
    result.arrow()
    result.rows()
    assert repr(result)
    assert result.schema.names == list(result.names)
    assert result.text() is not None


def tried(work: Callable[[], Any]) -> str:
    """How it ends; anything but a result or an error of ours is raised."""
    try:
        found = work()
        if isinstance(found, tidegate.Result):
            read(found)
    except tidegate.InternalError as error:
        raise AssertionError("an internal error") from error
    except tidegate.TidegateError as error:
        return type(error).__name__ if str(error) else "without words"
    return "ok"


# Few, as the suite must end: 2,700 other statements (18 seeds) met no internal error either.
@pytest.mark.parametrize("seed", range(4))
def test_random_statements(db: tidegate.Database, seed: int) -> None:
    made = Statements(seed)
    ends: dict[str, int] = {}
    for i in range(150):
        text = made.statement() if i % 3 else made.spoilt(made.statement())
        end = tried(lambda text=text: db.sql(text))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        ends[end] = ends.get(end, 0) + 1
    assert ends["ok"] > 15, ends
    assert ends["EvaluationError"] > 5, ends


# ---------------------------------------------------------------- arguments of any kind

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, -(2**63), 10**400, 1.5, math.nan, math.inf, "", "x", "t", "\0", "\ud800", b"x", [], ["t"], {},
    {"a": [1]}, {1: 2}, (1,), object(), int, len, Decimal("NaN"), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), np.int64(5),
    np.float64("nan"), np.array([1]), pa.array([1]), pa.scalar(1), pa.table({"a": [1]}), range(3), iter([1]),
)  # fmt: skip
CALLS: dict[str, Callable[[tidegate.Database, Any], Any]] = {
    "sql": lambda db, value: db.sql(value),
    "as_of": lambda db, value: db.sql("SELECT a FROM u", as_of=value),
    "watch": lambda db, value: db.sql("SELECT a FROM u", watch=value),
    "append to": lambda db, value: db.append(value, {"a": [1]}),
    "append": lambda db, value: db.append("u", value),
    "append a number": lambda db, value: db.append("u", {"a": [value]}),
    "append a text": lambda db, value: db.append("u", {"b": [value]}),
    "append a column": lambda db, value: db.append("u", {"a": value, "b": value}),
    "append at": lambda db, value: db.append("w", {"a": [1]}, at=value),
    "append diff": lambda db, value: db.append("w", {"a": [1]}, diff=value),
    "append token": lambda db, value: db.append("w", {"a": [1]}, token=value),
    "compact": lambda db, value: db.compact(value),
    "recluster": lambda db, value: db.recluster(value),
    "recluster by": lambda db, value: db.recluster("u", by=value),
    "backfill": lambda db, value: db.backfill_statistics(value),
    "ingest": lambda db, value: db.ingest(value, once=True, spark=False),
    "set": lambda db, value: db.set(value, 1),
    "set a number": lambda db, value: db.session().set("statement_timeout_ms", value),
    "set a share": lambda db, value: db.session().set("audit", value),
    "set a switch": lambda db, value: db.session().set("fast_path", value),
    "map": lambda db, value: db.maps.collection(value),
    "map of a query": lambda db, value: db.maps.query(value),
    "part": lambda db, value: db.maps.part("u", value),
    "open": lambda _, value: tidegate.open(value) if value not in ("x", "t") else None,
}


@pytest.mark.parametrize("call", CALLS)
def test_arguments_of_any_kind(db: tidegate.Database, call: str) -> None:
    db.sql("CREATE TABLE IF NOT EXISTS w (a int8)")
    ends = [tried(lambda value=value: CALLS[call](db, value)) for value in VALUES]  # type: ignore[misc]  # as above
    assert len(set(ends) - {"ok"}) >= 1, ends


def test_settings_that_are_no_numbers(db: tidegate.Database) -> None:
    for value in ("'NaN'", "'inf'", "1e400", "'x'", "'1e400'"):
        for name in ("statement_timeout_ms", "audit"):
            with pytest.raises(tidegate.SqlError):
                db.sql(f"SET {name} = {value}")


def test_the_least_integer_has_no_opposite(db: tidegate.Database) -> None:
    for type_, bits in (("int2", 15), ("int4", 31), ("int8", 63)):
        least = f"'{-(2**bits)}'::{type_}"
        for expression in (f"- {least}", f"- ({least})", f"-(-(- {least}))", f"abs({least})"):
            with pytest.raises(tidegate.EvaluationError, match="out of range"):
                db.sql(f"SELECT {expression}")
        assert db.sql(f"SELECT - ({least} + 1::{type_})").rows() == [(2**bits - 1,)]
