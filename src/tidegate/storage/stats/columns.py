"""Statistics as columns of facts: an Arrow array for each fact, with an entry for each container.

A fact is named by what it says and of what, as JSON: `["low",3]` is the lower bound of the column with id
3, and further steps lead into it: a number to a field of a record, null to the elements of an array, a text
to a key of JSON maps.

    ["nulls",1]            how many rows are NULL
    ["low",1]              the lower bound, in the stored form
    ["nulls",4]            of a JSON column
    ["lanes",4]            which JSON types occur, a bit for each lane; are numbers whole; are maps closed
    ["nulls",4,"ts"]       how many maps lack the key
    ["number_low",4,"ts"]  …

So a shard of a million parts keeps 8 bytes a part for a null count, and none at all for what no part has.
Facts of many containers are made from `ColumnStats` of parts, one after the other (`facts_of_parts`), or of
the pages of a part at once (`facts_of`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.expr.model import order
from tidegate.storage.stats.accumulate import JsonTally, Tally, cut_bounds
from tidegate.storage.stats.extremes import STORED_DECIMAL, decimals
from tidegate.storage.stats.histogram import HISTOGRAM
from tidegate.storage.stats.json import model as lane
from tidegate.storage.stats.json.model import JsonStats
from tidegate.storage.stats.model import ColumnStats, Form

Facts: TypeAlias = dict[str, pa.Array]
Step: TypeAlias = int | str | None
FactPath: TypeAlias = tuple[Step, ...]
"""A column's id, and the steps into it."""

WHOLE_BIT, CLOSED_BIT = len(lane.LANES), len(lane.LANES) + 1
"""Bits of `lanes` beyond those of the lanes themselves."""
ANY_LANE = 2 ** len(lane.LANES) - 1

STORED: dict[Form, pa.DataType] = {
    Form.BOOL: pa.bool_(), Form.INTEGER: pa.int64(), Form.DECIMAL: STORED_DECIMAL, Form.FLOAT: pa.float64(), Form.TEXT: pa.string(),
    Form.BYTES: pa.binary(), Form.INTERVAL: pa.month_day_nano_interval(),
}  # fmt: skip
_TYPES: dict[str, pa.DataType] = {
    "nulls": pa.int64(), "rows": pa.int64(), "distinct": pa.int64(), "nan": pa.bool_(), "months": pa.bool_(), "lanes": pa.uint16(),
    "number_low": STORED_DECIMAL, "number_high": STORED_DECIMAL, "text_low": pa.string(), "text_high": pa.string(),
    "histogram": HISTOGRAM,
}  # fmt: skip


@lru_cache(65_536)
def fact_name(fact: str, node: FactPath) -> str:
    """The name of a fact about a node."""
    return json.dumps([fact, *node], separators=(",", ":"), ensure_ascii=False)


def parse_fact_name(name: str) -> tuple[str, FactPath]:
    """The fact and the node that a name says."""
    fact, *node = json.loads(name)
    return fact, tuple(node)


# ---------------------------------------------------------------- from pages


def facts_of(tallies: Mapping[int, Tally]) -> Facts:
    """The facts of many stretches, from the tallies of columns."""
    facts: Facts = {}
    for id_, tally in tallies.items():
        _add_tally(facts, (id_,), tally)
    return facts


def _add_tally(facts: Facts, node: FactPath, tally: Tally) -> None:
    facts[fact_name("nulls", node)] = pa.array(tally.nulls, pa.int64())
    if len(node) > 1:
        facts[fact_name("rows", node)] = pa.array(tally.rows, pa.int64())
    if tally.bounds is not None:
        for fact, bound in zip(("low", "high"), cut_bounds(tally.bounds), strict=True):
            facts[fact_name(fact, node)] = bound
    for fact, flags in (("nan", tally.nan), ("months", tally.months)):
        if flags is not None:
            facts[fact_name(fact, node)] = pa.array(flags)
    if tally.json is not None:
        _add_json(facts, node, tally.json)
    for i, inner in enumerate(tally.fields):
        _add_tally(facts, (*node, i), inner)
    if tally.element is not None:
        _add_tally(facts, (*node, None), tally.element)


def _add_json(facts: Facts, node: FactPath, tally: JsonTally) -> None:
    bits = sum((count > 0).astype(np.uint16) << kind for kind, count in enumerate(tally.counts))
    for flag, bit in ((tally.whole, WHOLE_BIT), (tally.closed, CLOSED_BIT)):
        if flag is not None:
            bits = bits | (flag.astype(np.uint16) << bit)
    facts[fact_name("lanes", node)] = pa.array(np.asarray(bits, np.uint16), mask=~tally.known)
    if tally.number is not None:
        for fact, bound in zip(("number_low", "number_high"), tally.number, strict=True):
            facts[fact_name(fact, node)] = bound
    if tally.text is not None:
        for fact, bound in zip(("text_low", "text_high"), cut_bounds(tally.text), strict=True):
            facts[fact_name(fact, node)] = bound
    for name, inner in tally.keys.items():
        lacking = tally.counts[lane.MAP] - inner.counts.sum(axis=0)
        facts[fact_name("nulls", (*node, name))] = pa.array(
            lacking, pa.int64(), mask=~(tally.known & inner.known)
        )
        _add_json(facts, (*node, name), inner)


# ---------------------------------------------------------------- from parts


@dataclass
class _FactValues:
    """A fact as it is gathered: its type, and the rows and values known so far."""

    type: pa.DataType
    rows: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class _Gathered:
    """Facts of n parts on their way to be arrays."""

    def __init__(self) -> None:
        self.facts: dict[tuple[str, FactPath], _FactValues] = {}

    def say(self, row: int, node: FactPath, fact: str, value: Any, type_: pa.DataType | None = None) -> None:
        if value is None:
            return
        given = self.facts.get((fact, node))
        if given is None:
            given = self.facts[fact, node] = _FactValues(type_ or _TYPES[fact])
        if (
            type_ is None or given.type == type_
        ):  # a column never changes its type; if it seems to, it is unknown
            given.rows.append(row)
            given.values.append(value)

    def column(self, row: int, node: FactPath, stats: ColumnStats) -> None:
        self.say(row, node, "nulls", stats.nulls)
        if len(node) > 1:
            self.say(row, node, "rows", stats.rows)
        if stats.form in STORED:
            self.say(row, node, "low", stats.low, STORED[stats.form])
            self.say(row, node, "high", stats.high, STORED[stats.form])
        if stats.form is Form.FLOAT:
            self.say(row, node, "nan", stats.nan)
        if stats.form is Form.INTERVAL:
            self.say(row, node, "months", stats.months)
        self.say(row, node, "distinct", stats.distinct)
        self.say(row, node, "histogram", stats.histogram or None)
        if stats.json is not None:
            self.json(row, node, stats.json)
        for i, inner in enumerate(stats.fields):
            if inner is not None:
                self.column(row, (*node, i), inner)
        if stats.element is not None:
            self.column(row, (*node, None), stats.element)

    def json(self, row: int, node: FactPath, stats: JsonStats) -> None:
        if stats.counts is not None:
            bits = sum(1 << kind for kind, many in enumerate(stats.counts) if many)
            # Of a key without counts nothing may be concluded, not even from closed maps.
            closed = stats.closed and all(inner.counts is not None for inner in stats.keys.values())
            self.say(row, node, "lanes", bits | stats.whole << WHOLE_BIT | closed << CLOSED_BIT)
        for fact in ("number_low", "number_high", "text_low", "text_high"):
            self.say(row, node, fact, getattr(stats, fact))
        for name, inner in stats.keys.items():
            if stats.counts is not None and inner.present is not None:
                self.say(row, (*node, name), "nulls", stats.counts[lane.MAP] - inner.present)
            self.json(row, (*node, name), inner)


def facts_of_parts(parts: Sequence[Mapping[int, ColumnStats] | None]) -> Facts:
    """The facts of parts, from their statistics; None: nothing is known of a part."""
    gathered = _Gathered()
    for row, columns in enumerate(parts):
        for id_, stats in (columns or {}).items():
            gathered.column(row, (id_,), stats)
    return {fact_name(*key): _array(given, len(parts)) for key, given in gathered.facts.items()}


def _array(given: _FactValues, n: int) -> pa.Array:
    """The values at their rows, null elsewhere."""
    if pa.types.is_interval(given.type):
        months, days, micros = np.array(given.values, np.int64).T
        made = order.make_intervals(months, days, micros)
    elif pa.types.is_decimal(given.type):
        made = decimals(given.values)
    else:
        made = pa.array(given.values, given.type)
    if len(given.rows) == n:
        return made
    place = np.full(n, -1)
    place[given.rows] = np.arange(len(given.rows))
    return made.take(pa.array(place, mask=place < 0))
