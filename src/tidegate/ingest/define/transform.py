"""TRANSFORM USING: from a query over a source to a plan for ingestion and the columns of a shard.

    CREATE SOURCE orders_30d … FORMAT AVRO … TRANSFORM USING
    (SELECT id, item FROM orders_30d WHERE mz_now() <= created_at + '30 days')

    bound        Map #2 + '30 days'  Filter mz_now() <= #3  Project (#0, #1)         over the format's columns
    safe         … Project (#0, #1, NULL, upper)                                      runs at ingestion: `SourceOutput.plan`
    columns      id, item, and hidden: _valid_from, _valid_until                      of the shard
    options      validity [2, 3], hidden [2, 3]

A query that processes the rows of the source one by one reduces to such a plan. Anything else is refused, with an error that names
the construct and its position. Functions whose results may change between versions are refused too, and, for sources that retract
(`retracts`), floating point: a row and its retraction, years later, must have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tidegate.errors import BindError, PlanError, Position, TidegateError
from tidegate.expr.model import Type, types
from tidegate.ingest.definition import UPSERT_KEY
from tidegate.ingest.protocol import Columns
from tidegate.plan import MapFilterProject, check_stable, decompose
from tidegate.sql.bind import CatalogEntry, Relation, bind_transform
from tidegate.sql.parse import syntax, tokenize
from tidegate.storage.part import Schema
from tidegate.storage.shard import shard_options

BOUND_COLUMNS = ("_valid_from", "_valid_until")
KEY_COLUMN = "_key"
VOLATILE = (
    "random", "random_normal", "setseed", "gen_random_uuid", "uuid_generate_v4", "uuidv4", "uuidv7", "clock_timestamp",
    "statement_timestamp", "timeofday", "nextval", "currval", "lastval", "txid_current", "pg_sleep",
)  # fmt: skip
"""Functions of PostgreSQL and similar systems that a transform may not call, whether or not Tidegate has them."""


@dataclass(frozen=True)
class TransformInput:
    """The input of a transform: the columns of its source, and the names that refer to it."""

    names: tuple[str, ...]
    columns: Columns

    def relation(self, name: str) -> CatalogEntry | None:
        """Returns the source; raises for any other name."""
        if name in self.names:
            return Relation(self.names[0], self.columns)
        raise PlanError(
            f'a transform reads its source, "{self.names[0]}", and cannot read "{name}"',
            construct=name,
            hint="store both, and join them in a view",
        )

    def relation_names(self) -> tuple[str, ...]:
        """Returns the names of the source."""
        return self.names


@dataclass(frozen=True)
class TransformPlan:
    """A bound transform: its column names and its plan."""

    names: tuple[str, ...]
    plan: MapFilterProject
    """The plan; if it is temporal, the two bounds follow the selected columns."""

    @property
    def temporal(self) -> bool:
        """Whether its rows expire."""
        return len(self.plan.types) > len(self.names)

    @property
    def columns(self) -> Columns:
        """The selected columns."""
        return tuple(zip(self.names, self.plan.types, strict=False))


def plan_transform(query: syntax.Query | None, reading: TransformInput, *, exact: bool) -> TransformPlan:
    """Plans a transform; without a query, all columns unchanged."""
    types = [type_ for _, type_ in reading.columns]
    if query is None:
        return TransformPlan(tuple(name for name, _ in reading.columns), MapFilterProject.identity(types))
    try:
        _check_volatile(query)
        bound = bind_transform(query, reading)
        if bound.source is None:
            raise PlanError("a transform reads its source", hint=f"SELECT … FROM {reading.names[0]}")
        plan = bound.mfp.optimise()
        check_stable(plan, exact=exact)
        return TransformPlan(bound.names, decompose(plan).safe)
    except TidegateError as error:
        error.position = error.position or error_position(query, error)
        raise


def _check_volatile(query: syntax.Query) -> None:
    """Refuses functions that return another value at each call."""
    for token, after in pairwise(tokenize(query.text)):
        if token.kind == "word" and token.text in VOLATILE and after.text == "(":
            first = query.at.start
            raise PlanError(
                f"{token.text}() gives another value each time, so it cannot stand in a transform",
                construct=token.text,
                hint="a transform gives the same rows whenever it is run; INCLUDE INGESTION TIMESTAMP says when a row came",
                position=Position(query.sql, first + token.start, first + token.end),
            )


def error_position(query: syntax.Query, error: TidegateError) -> Position:
    """The position in a query of the word that an error is about, or the whole query."""
    word = (error.subject or "").partition("(")[0].strip()
    first = query.at.start
    for token in tokenize(query.text):
        if word and token.text == word:
            return Position(query.sql, first + token.start, first + token.end)
    return query.position(query.at)


# ---------------------------------------------------------------- the shard of an output


@dataclass(frozen=True)
class ShardShape:
    """The shard of an output: its columns, its options, and the number of hidden columns."""

    schema: Schema
    options: dict[str, Any]
    hidden: int


def shard_shape(transform: TransformPlan, *, keyed: bool) -> ShardShape:
    """The shard for a transform, with hidden columns last; with `keyed` also the raw key of UPSERT."""
    columns: list[tuple[str, Type]] = list(transform.columns)
    behind: list[tuple[str, Type]] = []
    options: dict[str, Any] = {}
    if transform.temporal:
        behind += [(name, types.MZ_TIMESTAMP) for name in BOUND_COLUMNS]
        options[shard_options.VALIDITY] = [len(columns), len(columns) + 1]
    if keyed:
        options[UPSERT_KEY] = len(columns) + len(behind)
        behind.append((KEY_COLUMN, types.BYTEA))
    taken = [name for name, _ in columns]
    named = zip(
        _unused_names(taken, [name for name, _ in behind]), (type_ for _, type_ in behind), strict=True
    )
    if behind:
        options[shard_options.HIDDEN] = list(range(len(columns), len(columns) + len(behind)))
    try:
        schema = Schema.of([(name, type_, True) for name, type_ in (*columns, *named)])
    except BindError as error:
        error.hint = error.hint or "give the columns of the transform different names with AS"
        raise
    return ShardShape(schema, options, len(behind))


def _unused_names(taken: Sequence[str], preferred: Sequence[str]) -> Iterator[str]:
    """Yields the preferred names, each with underscores appended until no column has it."""
    for name in preferred:
        unused = name
        while unused in taken:
            unused += "_"
        yield unused


def has_shape(new: ShardShape, schema: Schema, options: Mapping[str, Any]) -> bool:
    """Whether an existing shard can hold the rows of another plan."""
    stored = [(column.name, column.type) for column in schema.columns]
    return stored == [(column.name, column.type) for column in new.schema.columns] and all(
        options.get(key) == new.options.get(key)
        for key in (shard_options.VALIDITY, UPSERT_KEY, shard_options.HIDDEN)
    )
