"""What a query must give: its plan over every row of the model in one batch, without parts, statistics or stages.

    expected = evaluate(made, question)        the rows, or that some row fails
    expected.check(result)                     raises AssertionError with the first difference

| query | what is asked of the result |
|---|---|
| without LIMIT | the same rows, as often; with ORDER BY, rows of equal keys in any order |
| ORDER BY and LIMIT | the same rows at the same places, but for which of the rows of equal keys are cut off |
| LIMIT alone | any rows of the whole result, as many as there must be |
| some row fails | an error of such a row, whose values are in the error; LIMIT alone may be full before it meets one |

Rows are compared by codes: equal values of a column, over both sides, are the same integer. Floats are compared by their bits, so
that 0 is not -0, all NaN being one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.reads.layout import Made
from tests.reads.questions import Question
from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import EvaluationError
from tidegate.expr.model import order
from tidegate.expr.model.types import Kind, Type
from tidegate.expr.primitives.json.sort_key import sort_key as json_order
from tidegate.plan import BoundQuery, OrderKey
from tidegate.plan.run.safe_plan import SafePlan
from tidegate.query.result import Result
from tidegate.sql import prepare
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.statement import SelectStatement

SHOWN = 300
"""Failing rows whose values are compared with those of the error."""


@dataclass
class Expected:
    """What a query must give."""

    types: tuple[Type, ...]
    """Of the result."""
    columns: list[pa.Array]
    """All rows, sorted if they must be; behind the result's columns may stand others."""
    rows: int
    ties: np.ndarray | None = None
    """For each row a number, rising where the sort keys do; None: any order."""
    limit: int | None = None
    offset: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)
    """The values of rows that fail, each as `repr` shows it."""
    fails: int = 0

    def refused(self, error: EvaluationError) -> None:
        """Whether the query may fail with this."""
        assert self.fails, f"no row fails, and yet: {error}"
        assert self.limit != 0, f"LIMIT 0 reads nothing, and yet: {error}"
        if error.row and self.fails <= SHOWN:
            shown = {name: repr(value) for name, value in error.row.items() if value != "?"}
            assert any(shown.items() <= row.items() for row in self.failed), f"no such row fails: {error}"

    def check(self, result: Result) -> None:
        """Whether the query may give this."""
        assert result.types == self.types, f"types {result.types}, not {self.types}"
        got = [pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type) for c in result.columns]
        assert [a.type for a in got] == [t.arrow for t in self.types]
        start = min(self.offset, self.rows)
        stop = self.rows if self.limit is None else min(self.rows, start + self.limit)
        if self.fails:
            full = self.limit == 0 or (self.ties is None and len(result) == self.limit)
            assert full, f"{self.fails} rows fail, and yet there are {len(result)} rows and no error"
            stop = start + len(result)
        assert len(result) == stop - start, f"{len(result)} rows, not {stop - start}"
        some = [column.slice(start, stop - start) for column in self.columns]
        if not self.fails and all(a.equals(b) for a, b in zip(some, got, strict=False)) and not _zeros(got):
            return  # the same rows in the same order, as is mostly so
        every, found = codes(self.columns[: len(self.types)], got, self.rows, len(result))
        if self.ties is not None and len(found):
            # At each place stands a row that has the place's sort keys; which one, of those with equal keys, is free.
            wide = max(every.max(), found.max()) + 1
            found = self.ties[start:stop] * wide + found
            every = self.ties * wide + every
        both, numbers = np.unique(np.concatenate([every, found]), return_inverse=True)
        count = [np.bincount(n, minlength=len(both)) for n in (numbers[: self.rows], numbers[self.rows :])]
        over = np.flatnonzero(count[1] > count[0])
        if len(over):  # as many rows as there must be, none of them too often: so these are all of them
            row = int(np.flatnonzero(numbers[self.rows :] == over[0])[0])
            raise AssertionError(f"row {row} is not there, or too often: {[str(a[row]) for a in got]}")


def _zeros(columns: Sequence[pa.Array]) -> bool:
    """Whether there may be a -0 in them, which Arrow says is equal to 0."""
    return any("float" in str(column.type) or "double" in str(column.type) for column in columns)


def evaluate(made: Made, asked: Question) -> Expected:
    """Plain evaluation of everything."""
    lake = made.db.context
    bound = bound_query(lake, asked.sql)
    if asked.grouping is not None or asked.distinct:
        bound = bound_query(lake, asked.plain)
    upper = made.db.status().collections["t"].upper
    now = max(lake.clock.now(), upper - 1) if asked.as_of is None else asked.as_of
    columns, rows = made.model.snapshot(asked.as_of)
    got = SafePlan(bound.mfp).evaluate(columns, rows, now)
    expected = Expected(bound.types, got.columns, len(got.selection), limit=bound.limit, offset=bound.offset)
    expected.fails = len(got.failures)
    if 0 < expected.fails <= SHOWN:
        at = pa.array(got.failures.rows)
        names = [column.name for column in made.model.columns]
        taken = [column.take(at) for column in columns]
        expected.failed = [
            {name: repr(_python(column, i)) for name, column in zip(names, taken, strict=True)}
            for i in range(expected.fails)
        ]
    if bound.order_by:
        _sort(expected, bound.order_by, bound.mfp.types)
    if asked.grouping is not None or asked.distinct:
        from tests.reads.grouping import grouped

        return grouped(expected, asked)
    return expected


def bound_query(lake: Context, sql: str) -> BoundQuery:
    """What a SELECT means."""
    parsed = grammar.parse_statements(sql)[0]
    assert isinstance(parsed, SelectStatement)
    bound = prepare(parsed.query, CatalogSnapshot(lake), lake.clock.now()).single
    assert bound is not None
    return bound


def _python(column: pa.Array, row: int) -> object:
    try:
        return column[row].as_py()
    except (ValueError, OverflowError):
        return "?"


def _sort(expected: Expected, keys: Sequence[OrderKey], types: Sequence[Type]) -> None:
    """Sorts by plain Python keys, and numbers the rows by them."""
    ranks = [ranked(expected.columns[k.column], types[k.column], k) for k in keys]
    by = np.lexsort(ranks[::-1])
    expected.columns = [column.take(pa.array(by)) for column in expected.columns]
    changed = np.zeros(max(0, expected.rows - 1), bool)
    for rank in ranks:
        changed |= np.diff(rank[by]) != 0
    expected.ties = np.concatenate([[0], np.cumsum(changed)])[: expected.rows]


def ranked(column: pa.Array, type_: Type, key: OrderKey) -> np.ndarray:
    """Each row's place among the values."""
    if type_.is_integer and not column.null_count:
        return np.unique(column.to_numpy(), return_inverse=True)[1] * (-1 if key.descending else 1)
    simple = not type_.is_nested and type_.kind is not Kind.INTERVAL
    encoded = column.dictionary_encode() if simple else None
    distinct = column if encoded is None else encoded.dictionary
    values = [None if not v.is_valid else sort_key(v, type_) for v in distinct]
    ranks = {value: i for i, value in enumerate(sorted({v for v in values if v is not None}))}
    end = -len(ranks) - 1 if key.nulls_first else len(ranks) + 1
    sign = -1 if key.descending else 1
    places = np.array([*(end if v is None else sign * ranks[v] for v in values), end], np.int64)
    if encoded is None:
        return places[:-1]
    return places[encoded.indices.fill_null(len(values)).to_numpy()]


def sort_key(value: pa.Scalar, type_: Type) -> Any:
    """Something that Python compares as we do: NaN is greatest, text goes by code point, NULL inside is greatest."""
    if not value.is_valid:
        return (1,)
    match type_.kind:
        case Kind.FLOAT4 | Kind.FLOAT8:
            number = value.as_py()
            return (0, 1, 0.0) if number != number else (0, 0, number)
        case Kind.DATE | Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return (0, value.value)
        case Kind.INTERVAL:
            months, days, nanos = value.as_py()
            return (0, (months * 30 + days) * 86_400_000_000 + nanos // 1000)
        case Kind.ARRAY:
            assert type_.element is not None
            return (0, tuple(sort_key(v, type_.element) for v in value.values))
        case Kind.RECORD:
            return (0, tuple(sort_key(value[name], t) for name, t in type_.fields))
        case Kind.JSONB:
            return (
                0,
                json_order(value.as_py()),
            )  # which tests/laws/test_json_order.py compares with the rules
        case Kind.TEXT:
            return (0, value.as_py().encode())
        case _:
            return (0, value.as_py())


def codes(
    a: Sequence[pa.Array], b: Sequence[pa.Array], rows_a: int, rows_b: int
) -> tuple[np.ndarray, np.ndarray]:
    """A number for each row of both sides: the same for identical rows alone."""
    rows = np.zeros(rows_a + rows_b, np.int64)
    for left, right in zip(a, b, strict=True):
        column = _codes(pa.concat_arrays([left, right]))
        rows = np.unique(rows * (column.max(initial=0) + 1) + column, return_inverse=True)[1]
    return rows[:rows_a], rows[rows_a:]


def _codes(column: pa.Array) -> np.ndarray:
    """A number for each value; NULL has one too."""
    type_ = column.type
    if pa.types.is_floating(type_):
        with np.errstate(invalid="ignore"):
            values = column.cast(pa.float64()).fill_null(0).to_numpy()
        bits = np.where(np.isnan(values), np.int64(-1), values.view(np.int64))
        return _joined(column, [pa.array(bits)])
    if pa.types.is_interval(type_):
        return _joined(column, [pa.array(part) for part in order.interval_parts(column)])
    if pa.types.is_struct(type_):
        return _joined(column, [pc.struct_field(column, [i]) for i in range(type_.num_fields)])
    if pa.types.is_list(type_):
        inside = _codes(column.flatten())
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        ends = np.cumsum(sizes)
        lists = [inside[e - s : e].tobytes() for s, e in zip(sizes.tolist(), ends.tolist(), strict=True)]
        return _joined(column, [pa.array(lists, pa.binary())])
    encoded = column.dictionary_encode().indices
    numbers: np.ndarray = pc.fill_null(pc.add(encoded, 1), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _joined(column: pa.Array, pieces: Sequence[pa.Array]) -> np.ndarray:
    """A number for each row of the pieces; 0 where the column is NULL."""
    rows = np.zeros(len(column), np.int64)
    for piece in pieces:
        part = _codes(piece)
        rows = np.unique(rows * (part.max(initial=0) + 1) + part, return_inverse=True)[1]
    return np.where(column.is_null().to_numpy(zero_copy_only=False), 0, rows + 1)
