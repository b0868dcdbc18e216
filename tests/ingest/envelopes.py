"""Envelopes in tests: sources over a transform, records as chunks, and a shard in memory that what was made is appended to."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tests.unit.storage.shards import World
from tidegate.expr.model.types import BYTEA, INT8, JSONB, TIMESTAMPTZ, Type
from tidegate.ingest.batch.upsert_lookup import SnapshotRowLookup
from tidegate.ingest.define.transform import ShardShape, TransformPlan, shard_shape
from tidegate.ingest.definition import Envelope, SourceDefinition, SourceOutput
from tidegate.ingest.envelopes import step as envelope
from tidegate.ingest.envelopes.inputs import key_type
from tidegate.ingest.envelopes.output import (
    INGESTION_TIMESTAMP,
    EnvelopeOutput,
    EnvelopeStep,
    FailedRecord,
    RecordCounts,
    upstream_columns,
)
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.protocol import IncludedColumn, RecordChunk, RecordFormat
from tidegate.plan.temporal import decompose
from tidegate.sql.bind import query as bind
from tidegate.sql.bind.catalog import DictCatalog, Relation
from tidegate.storage.location import parse_location
from tidegate.storage.part.deletions import Deletions
from tidegate.storage.part.merge import Block
from tidegate.storage.part.page_reader import RowRange
from tidegate.storage.shard.retractions.at_append import BatchUpdates
from tidegate.storage.shard.retractions.located import LocatedDeletions
from tidegate.storage.shard.snapshot import open_snapshot

NOW = 1_700_000_000_000
Record = tuple[bytes | None, bytes | None]
"""A key and a value; no value: a tombstone."""
_TYPES = {"offset": INT8, "key": BYTEA, INGESTION_TIMESTAMP: TIMESTAMPTZ}


def bound(sql: str, columns: Sequence[tuple[str, Type]]) -> TransformPlan:
    """A transform of `s`."""
    found = bind.bind_transform(sql, DictCatalog({"s": Relation("s", tuple(columns))}))
    return TransformPlan(found.names, decompose(found.mfp.optimise()).safe)


@dataclass
class Case:
    """A source of one output."""

    source: SourceDefinition
    shape: ShardShape

    @property
    def output(self) -> SourceOutput:
        return self.source.outputs[0]


def made(
    kind: Envelope,
    sql: str,
    format_: RecordFormat | None = None,
    included: tuple[str, ...] = (),
    before: str | None = None,
    key_format: RecordFormat | None = None,
) -> Case:
    """A source with this envelope and transform."""
    format_ = format_ or JsonFormat()
    extra = [(what.replace(" ", "_"), _TYPES[what]) for what in included]
    if key_format is not None:
        extra = [(name, key_type(key_format) if name == "key" else type_) for name, type_ in extra]
    columns, first = [*envelope.envelope_columns(kind, format_), *extra], None
    if before is not None:
        prior = bound(before, [*format_.columns, *extra])
        first, columns = prior.plan, list(prior.columns)
        if kind == "debezium":
            taken = 1 if columns[0][1] == JSONB else 3
            columns = [*envelope.envelope_columns(kind, format_), *columns[taken:]]
    done = bound(sql, columns)
    layout = shard_shape(done, keyed=kind == "upsert")
    output = SourceOutput("s", "s1", format_, done.plan, before=first, hidden=layout.hidden)
    listed = tuple(IncludedColumn(what, what.replace(" ", "_")) for what in included)
    source = SourceDefinition(
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


def chunk(
    step: EnvelopeStep, source: SourceDefinition, records: Sequence[Record], first: int = 0, diffs: Any = None
) -> RecordChunk:
    """Records as an upstream with keys and offsets gives them."""
    values = pa.array([value for _, value in records], pa.binary())
    keys = pa.array([key for key, _ in records], pa.binary())
    offsets = pa.array(range(first, first + len(records)), pa.int64())
    asked = [keys if one.what == "key" else offsets for one in upstream_columns(source)]
    gone = values.is_null().to_numpy(zero_copy_only=False)
    return RecordChunk(
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
    failures: list[FailedRecord] = field(default_factory=list)
    counts: RecordCounts = field(default_factory=RecordCounts)
    read: int = 0
    by_position: bool = True
    """Whether old rows are deleted at their positions."""

    def __post_init__(self) -> None:
        self.world.clock.set(NOW)
        self.shard = self.world.create(self.of.shape.schema, self.of.shape.options)

    def split(self, chunks: Iterable[Sequence[Record]], now: int = NOW) -> list[EnvelopeOutput]:
        """One batch of one split."""
        with open_snapshot(self.shard) as found:
            stored = SnapshotRowLookup(found, parse_location("memory://"), now, by_position=self.by_position)
            step = envelope.envelope_step(self.of.source, self.of.output, now, stored)
            gave = []
            for records in chunks:
                gave.append(step.chunk(chunk(step, self.of.source, records, self.read)))
                self.read += len(records)
            gave.append(step.finish())
        self.append(gave)
        return gave

    def append(self, gave: Sequence[EnvelopeOutput]) -> None:
        """What was made, as one batch."""
        state = self.shard.machine.fetch()
        schema = state.schema
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
        located = LocatedDeletions.join(one.deletions for one in gave if one.deletions is not None)
        updates = BatchUpdates(Block([], np.zeros(0), np.zeros(0)), located)
        self.shard.commit_batch(parts, updates, at=None, token=secrets.token_hex(8))

    def changes(self, gave: EnvelopeOutput, column: int) -> list[tuple[int, Any]]:
        """The diffs of what was made, with the values of one column; of deleted rows as they are stored."""
        diffs = [1] * len(gave) if gave.diffs is None else gave.diffs.tolist()
        made = list(zip(diffs, gave.columns[column].to_pylist(), strict=True))
        if gave.deletions is not None:
            machine = self.shard.machine
            state = machine.fetch()
            schema = state.schema.columns[column]
            records = Deletions((gave.deletions.records,))
            for part, _, positions in records.located(machine.objects.get, state.parts.get):
                file = machine.files.open(part, machine.fetch().schema)
                (values,) = file.read([schema.id], [schema.type], RowRange(0, 0, file.groups[0]))
                made += [(-1, value) for value in values.take(pa.array(positions)).to_pylist()]
        return sorted(made)

    def rows(self, hidden: int = 0) -> list[tuple[Any, ...]]:
        """What the shard holds, without its last `hidden` columns."""
        with open_snapshot(self.shard) as found:
            names = [column.name for column in found.schema.columns]
            names = names[: len(names) - hidden]
            return sorted(
                (tuple(row.values()) for batch in found.batches(names) for row in batch.to_pylist()), key=repr
            )
