"""DISTINCT, GROUP BY and aggregates in plain Python, over rows that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tests.reads.oracle import Expected, codes, sort_key
from tests.reads.questions import Question
from tidegate.expr.model.types import INT8, Kind, Type, numeric


def grouped(rows: Expected, asked: Question) -> Expected:
    """The groups. Rows that fail make the query fail, as without groups."""
    keys = len(rows.types) if asked.grouping is None else asked.grouping.keys
    names = () if asked.grouping is None else asked.grouping.aggregates
    ids = equal(rows.columns[:keys], rows.types[:keys], rows.rows)
    by = np.argsort(ids, kind="stable")
    members = np.split(by, np.flatnonzero(np.diff(ids[by])) + 1) if len(by) else []
    if not keys and asked.grouping is not None and not members:
        members = [np.zeros(0, np.int64)]
    firsts = pa.array([int(m[0]) for m in members] if keys else [], pa.int64())
    columns = [column.take(firsts) for column in rows.columns[:keys]]
    types = list(rows.types[:keys])
    for name, arg, type_ in zip(names, rows.columns[keys:], rows.types[keys:], strict=True):
        out = result_type(name, type_)
        columns.append(pa.array([aggregate(name, arg.take(pa.array(m)), type_) for m in members], out.arrow))
        types.append(out)
    return Expected(tuple(types), columns, len(members), failed=rows.failed, fails=rows.fails)


def equal(columns: list[pa.Array], types: tuple[Type, ...], rows: int) -> np.ndarray:
    """A number for each row, the same for equal rows: 0 and -0 are equal, 1 month and 30 days, NULL and NULL."""
    ranked = []
    for column, type_ in zip(columns, types, strict=True):
        numbers: dict[Any, int] = {}
        ranked.append(pa.array([numbers.setdefault(sort_key(v, type_), len(numbers)) for v in column]))
    return codes(ranked, [a.slice(0, 0) for a in ranked], rows, 0)[0]


def result_type(name: str, type_: Type) -> Type:
    """As PostgreSQL has it."""
    if name == "count":
        return INT8
    if name == "sum":
        return numeric(38, 0) if type_.kind is Kind.INT8 else INT8
    return type_


def aggregate(name: str, values: pa.Array, type_: Type) -> Any:
    """One value for a group."""
    there = values.drop_null()
    if name == "count":
        return len(there)
    if not len(there):
        return None
    if name == "sum":
        return sum(there.to_pylist())
    pick = min if name == "min" else max
    return pick(list(there), key=lambda v: sort_key(v, type_))
