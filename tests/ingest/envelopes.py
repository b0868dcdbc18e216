"""Envelopes in tests: sources over a transform, records as chunks, and a shard in memory that what was made is appended to."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate.expr.functions  # noqa: F401  # fills the registry
from tests.unit.shards import World
from tidegate.expr.types import BYTEA, INT8, JSONB, TIMESTAMPTZ, Type
from tidegate.ingest import envelope
from tidegate.ingest.decode.json import Json
from tidegate.ingest.definition import Envelope, Output, Source
from tidegate.ingest.made import INGESTED, Counts, Failed, Made, Step
from tidegate.ingest.source import Chunk, Format, Included
from tidegate.plan.temporal import decompose
from tidegate.session.source_plan import Planned, Shape, shape
from tidegate.session.stored import StoredRows
from tidegate.shard.merge import Block
from tidegate.shard.reader import snapshot
from tidegate.shard.writer import schema_of
from tidegate.sql import bind
from tidegate.sql.catalog import Names, Relation
from tidegate.store.place import parse

NOW = 1_700_000_000_000
Record = tuple[bytes | None, bytes | None]
"""A key and a value; no value: a tombstone."""
_TYPES = {"offset": INT8, "key": BYTEA, INGESTED: TIMESTAMPTZ}


def bound(sql: str, columns: Sequence[tuple[str, Type]]) -> Planned:
    """A transform of `s`."""
    found = bind.transform(sql, Names({"s": Relation("s", tuple(columns))}))
    return Planned(found.names, decompose(found.mfp.optimise()).safe)


@dataclass
class Case:
    """A source of one output."""

    source: Source
    shape: Shape

    @property
    def output(self) -> Output:
        return self.source.outputs[0]


def made(
    kind: Envelope,
    sql: str,
    format_: Format | None = None,
    included: tuple[str, ...] = (),
    before: str | None = None,
    key_format: Format | None = None,
) -> Case:
    """A source with this envelope and transform."""
    format_ = format_ or Json()
    extra = [(what.replace(" ", "_"), _TYPES[what]) for what in included]
    if key_format is not None:
        extra = [(name, envelope.key_type(key_format) if name == "key" else type_) for name, type_ in extra]
    columns, first = [*envelope.given(kind, format_), *extra], None
    if before is not None:
        prior = bound(before, [*format_.columns, *extra])
        first, columns = prior.plan, list(prior.columns)
        if kind == "debezium":
            taken = 1 if columns[0][1] == JSONB else 3
            columns = [*envelope.given(kind, format_), *columns[taken:]]
    done = bound(sql, columns)
    layout = shape(done, keyed=kind == "upsert")
    output = Output("s", "s1", format_, done.plan, before=first, hidden=layout.hidden)
    listed = tuple(Included(what, what.replace(" ", "_")) for what in included)
    source = Source(
        "s",
        "kafka",
        None,
        (output,),
        "e",
        listed,
        kind,
        key_format,  # type: ignore[arg-type]  # nothing is read
    )
    return Case(source, layout)


def chunk(step: Step, source: Source, records: Sequence[Record], first: int = 0, diffs: Any = None) -> Chunk:
    """Records as an upstream with keys and offsets gives them."""
    values = pa.array([value for _, value in records], pa.binary())
    keys = pa.array([key for key, _ in records], pa.binary())
    offsets = pa.array(range(first, first + len(records)), pa.int64())
    asked = [keys if one.what == "key" else offsets for one in envelope.asked(source)]
    gone = values.is_null().to_numpy(zero_copy_only=False)
    return Chunk(
        step.decode.records(values),
        asked,
        lambda i: {"offset": first + i},
        diffs,
        keys,
        gone if gone.any() else None,
    )


@dataclass
class Filled:
    """A shard that a source fills, split by split."""

    of: Case
    world: World = field(default_factory=World)
    failures: list[Failed] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    read: int = 0

    def __post_init__(self) -> None:
        self.world.clock.set(NOW)
        self.shard = self.world.create(self.of.shape.schema, self.of.shape.options)

    def split(self, chunks: Iterable[Sequence[Record]], now: int = NOW) -> list[Made]:
        """One batch of one split."""
        with snapshot(self.shard) as found:
            stored = StoredRows(found, parse("memory://"), now)
            step = envelope.step(self.of.source, self.of.output, now, stored)
            gave = []
            for records in chunks:
                gave.append(step.chunk(chunk(step, self.of.source, records, self.read)))
                self.read += len(records)
            gave.append(step.finish())
        self.append(gave)
        return gave

    def append(self, gave: Sequence[Made]) -> None:
        """What was made, as one batch."""
        state = self.shard.machine.fetch()
        schema = schema_of(state)
        parts = []
        for one in gave:
            self.failures += one.failures
            self.counts = self.counts.plus(one.counts)
            assert [column.type for column in one.columns] == [column.type.arrow for column in schema.columns]
            if len(one):
                diffs = np.ones(len(one), np.int64) if one.diffs is None else one.diffs
                parts += self.shard.write(
                    state, schema, Block(one.columns, np.full(len(one), state.upper), diffs)
                )
        self.shard.commit(parts, at=None, token=secrets.token_hex(8))

    def rows(self, hidden: int = 0) -> list[tuple[Any, ...]]:
        """What the shard holds, without its last `hidden` columns."""
        with snapshot(self.shard) as found:
            names = [column.name for column in found.schema.columns]
            names = names[: len(names) - hidden]
            return sorted(
                (tuple(row.values()) for batch in found.batches(names) for row in batch.to_pylist()), key=repr
            )
