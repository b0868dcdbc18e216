"""Aggregates and window functions of queries of any shape, for us and for a PostgreSQL to answer alike.

`general_aggregates.sql` has the rows and the statements. Each statement sorts its rows, or has one. Where a sum of floats
depends on the order of rows, the last digits may differ (`postgres.same`).
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import tidegate
from tests.differential.postgres import SEND, Postgres, ours, read_sent, same
from tidegate.expr.model.types import Type


def _sections() -> dict[str, str]:
    text = (Path(__file__).parent / "general_aggregates.sql").read_text("utf-8")
    parts = re.split(r"(?m)^-- (\w+)(?::.*)?\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


_SECTIONS = _sections()
SETUP = [one.strip() for one in _SECTIONS["setup"].split(";\n") if one.strip()]
AGGREGATES, WINDOWS, QUERIES, ERRORS = (
    _SECTIONS[name].strip().splitlines() for name in ("aggregates", "windows", "queries", "errors")
)


def theirs(postgres: Postgres, sql: str, types: tuple[Type, ...]) -> list[tuple[Any, ...]]:
    """PostgreSQL's rows, as values of our types."""
    names = [f"c{i}" for i in range(len(types))]
    sent = [f"({SEND.get(t.kind, '{}').format(name)})::text" for name, t in zip(names, types, strict=True)]
    rows = postgres.connection.execute(
        f"SELECT {', '.join(sent)} FROM ({sql}) AS found({', '.join(names)})"
    ).fetchall()
    return [
        tuple(None if v is None else read_sent(t, v) for t, v in zip(types, row, strict=True)) for row in rows
    ]


def alike(type_: Type, a: Any, b: Any) -> bool:
    """Whether our value is PostgreSQL's; floats to 13 digits, in arrays too."""
    if a is None or b is None or type_.element is None or not type_.element.is_float:
        return same(type_, a, b, exact=False)
    numbers = [None if v is None else float(v) for v in b]
    return len(a) == len(b) and all(map(partial(same, type_.element, exact=False), a, numbers))


def check(db: tidegate.Database, postgres: Postgres, sql: str) -> None:
    """Both give the same rows."""
    result = db.sql(sql)
    columns = [
        ours(t, column.combine_chunks()) for t, column in zip(result.types, result.columns, strict=True)
    ]
    mine = list(zip(*columns, strict=True))
    other = theirs(postgres, sql, result.types)
    assert len(mine) == len(other), (mine, other)
    for row, expected in zip(mine, other, strict=True):
        for type_, a, b in zip(result.types, row, expected, strict=True):
            assert alike(type_, a, b), f"{a!r}, PostgreSQL {b!r}; {row}, PostgreSQL {expected}"


def over_groups(items: str) -> list[str]:
    """Queries that ask for aggregates of several kinds of groups."""
    joined = "FROM k LEFT JOIN s ON s.g = k.g AND s.x > 0 WHERE name <> 'four' GROUP BY k.g ORDER BY 1"
    return [
        f"SELECT g, {items} FROM s GROUP BY g ORDER BY g",
        f"SELECT {items} FROM s",
        f"SELECT {items} FROM s WHERE id < 0",
        f"SELECT k.g, {items} {joined}",
    ]


def over_rows(items: str) -> str:
    """A query that asks for window functions."""
    return f"SELECT id, {items} FROM s{' GROUP BY id' if items.startswith('sum(sum') else ''} ORDER BY id"
