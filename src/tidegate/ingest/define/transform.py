"""TRANSFORM USING: from a query over a source to the plan that runs as records arrive, and the shard that keeps what it gives.

    CREATE SOURCE orders_30d … FORMAT AVRO … TRANSFORM USING
    (SELECT id, item FROM orders_30d WHERE mz_now() <= created_at + '30 days')

    bound        Map #2 + '30 days'  Filter mz_now() <= #3  Project (#0, #1)         over the format's columns
    safe         … Project (#0, #1, NULL, upper)                                      what runs at ingestion: `Output.plan`
    columns      id, item, and hidden: _valid_from, _valid_until                      of the shard
    options      validity [2, 3], hidden [2, 3]

A query that reads the source and gives its rows one by one reduces to such a plan. Whatever else it does is in the way, and the
error says what and where. So does one about a function whose results are not promised for ever, and, of sources that retract
(`retracts`), about floating point: the row and its retraction, years later, must be the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tidegate.errors import BindError, PlanError, Position, TidegateError
from tidegate.expr.types import BYTEA, MZ_TIMESTAMP, Type
from tidegate.ingest.definition import UPSERT_KEY
from tidegate.ingest.source import Columns
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.temporal import decompose, only_stable
from tidegate.shard.schema import Schema
from tidegate.shard.validity import HIDDEN, OPTION
from tidegate.sql import bind, syntax
from tidegate.sql.catalog import Entry, Relation
from tidegate.sql.lex import tokens

BOUNDS = ("_valid_from", "_valid_until")
KEY = "_key"
VOLATILE = (
    "random", "random_normal", "setseed", "gen_random_uuid", "uuid_generate_v4", "uuidv4", "uuidv7", "clock_timestamp",
    "statement_timestamp", "timeofday", "nextval", "currval", "lastval", "txid_current", "pg_sleep",
)  # fmt: skip
"""Functions, of PostgreSQL and its like, that cannot be in a transform, be they known here or not."""


@dataclass(frozen=True)
class Reading:
    """What a transform reads: the columns of its source, under the names by which it may be called."""

    names: tuple[str, ...]
    columns: Columns

    def relation(self, name: str) -> Entry | None:
        """The source; an error for any other name."""
        if name in self.names:
            return Relation(self.names[0], self.columns)
        raise PlanError(
            f'a transform reads its source, "{self.names[0]}", and cannot read "{name}"',
            construct=name,
            hint="store both, and join them in a view",
        )


@dataclass(frozen=True)
class Planned:
    """A transform that can be maintained."""

    names: tuple[str, ...]
    plan: MapFilterProject
    """With the two bounds behind what it selects, if it is temporal."""

    @property
    def temporal(self) -> bool:
        """Whether its rows end by themselves."""
        return len(self.plan.types) > len(self.names)

    @property
    def columns(self) -> Columns:
        """What it selects."""
        return tuple(zip(self.names, self.plan.types, strict=False))


def planned(query: syntax.Query | None, reading: Reading, *, exact: bool) -> Planned:
    """The plan of a transform; without one, all columns as they are."""
    types = [type_ for _, type_ in reading.columns]
    if query is None:
        return Planned(tuple(name for name, _ in reading.columns), MapFilterProject.identity(types))
    try:
        _check_volatile(query)
        bound = bind.transform(query, reading)
        if bound.source is None:
            raise PlanError("a transform reads its source", hint=f"SELECT … FROM {reading.names[0]}")
        plan = bound.mfp.optimise()
        only_stable(plan, exact=exact)
        return Planned(bound.names, decompose(plan).safe)
    except TidegateError as error:
        error.position = error.position or blamed(query, error)
        raise


def _check_volatile(query: syntax.Query) -> None:
    """Refuses functions of other databases that give another value each time."""
    found = tokens(query.text)
    for token, after in pairwise(found):
        if token.kind == "word" and token.text in VOLATILE and after.text == "(":
            first = query.at.start
            raise PlanError(
                f"{token.text}() gives another value each time, so it cannot stand in a transform",
                construct=token.text,
                hint="a transform gives the same rows whenever it is run; INCLUDE INGESTION TIMESTAMP says when a row came",
                position=Position(query.sql, first + token.start, first + token.end),
            )


def blamed(query: syntax.Query, error: TidegateError) -> Position:
    """Where in a query the words stand that an error is about; all of it, if they cannot be found."""
    said = error.construct if isinstance(error, PlanError) else None
    word = "mz_now" if "mz_now()" in error.message else (said or "").partition("(")[0].strip()
    first = query.at.start
    for token in tokens(query.text):
        if word and token.text == word:
            return Position(query.sql, first + token.start, first + token.end)
    return query.position(query.at)


# ---------------------------------------------------------------- the shard of an output


@dataclass(frozen=True)
class Shape:
    """The shard of an output: its columns, what its options say of them, and how many of them are hidden."""

    schema: Schema
    options: dict[str, Any]
    hidden: int


def shape(done: Planned, *, keyed: bool) -> Shape:
    """The columns that a plan fills, those that nobody sees behind the others; with a raw key, if it is UPSERT's."""
    columns: list[tuple[str, Type]] = list(done.columns)
    behind: list[tuple[str, Type]] = []
    options: dict[str, Any] = {}
    if done.temporal:
        behind += [(name, MZ_TIMESTAMP) for name in BOUNDS]
        options[OPTION] = [len(columns), len(columns) + 1]
    if keyed:
        options[UPSERT_KEY] = len(columns) + len(behind)
        behind.append((KEY, BYTEA))
    taken = [name for name, _ in columns]
    named = zip(_free(taken, [name for name, _ in behind]), (type_ for _, type_ in behind), strict=True)
    if behind:
        options[HIDDEN] = list(range(len(columns), len(columns) + len(behind)))
    try:
        schema = Schema.of([(name, type_, True) for name, type_ in (*columns, *named)])
    except BindError as error:
        error.hint = error.hint or "give the columns of the transform different names with AS"
        raise
    return Shape(schema, options, len(behind))


def _free(taken: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    """Names that no column has."""
    for name in wanted:
        found = name
        while found in taken:
            found += "_"
        yield found


def same_shape(new: Shape, schema: Schema, options: Mapping[str, Any]) -> bool:
    """Whether a shard that is there can take the rows of another plan."""
    kept = [(column.name, column.type) for column in schema.columns]
    return kept == [(column.name, column.type) for column in new.schema.columns] and all(
        options.get(key) == new.options.get(key) for key in (OPTION, UPSERT_KEY, HIDDEN)
    )
