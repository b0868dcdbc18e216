"""ENVELOPE DEBEZIUM: a record holds the row before and after a change, so no lookup is needed.

    {"before": {"id": 7, "n": 1}, "after": {"id": 7, "n": 2}, "op": "u", "source": …}

    SELECT (data->>'id')::int8, (data->>'n')::int8 FROM s         `data` is the row, not the record
    -(7, 1)  +(7, 2)

| op | meaning | rows |
|---|---|---|
| c, r | created; read by a snapshot | + after |
| u | updated | - before, + after; nothing if the transform gives the same row |
| d | deleted | - before |
| m | a message for other consumers | none |
| t | the table was truncated | a bad record, since it does not contain the rows of the table |

Tombstones, which Debezium sends after a deletion, have no effect. JSON may be nested under "payload", where Connect's converter
puts it when it also sends the schema; this may differ from record to record. In Avro `before` and `after` are records, and their
fields are the columns.

A change without its `before` (REPLICA IDENTITY is not FULL) cannot be retracted: it is a bad record. TRANSFORM BEFORE ENVELOPE
reads the whole record and returns a record of the same form:
`SELECT data->'change' FROM s`, or for Avro `SELECT "before", "after", op, … FROM s`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import BindError
from tidegate.expr.model import Kind, types
from tidegate.expr.primitives import KeyStep, PathRequest
from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.envelopes.inputs import ChunkInputs, bad_records, take_rows, unexpired, without_records
from tidegate.ingest.envelopes.output import (
    EnvelopeOutput,
    PlanInput,
    RecordCounts,
    empty_output,
    failed_records,
)
from tidegate.ingest.formats.demand import StagedPlan
from tidegate.ingest.formats.json.format import JsonDecoder, paths_of
from tidegate.ingest.formats.json.text import read_paths
from tidegate.ingest.protocol import Columns, Decoder, RecordChunk, RecordError, RecordFormat
from tidegate.plan import MapFilterProject
from tidegate.plan.run import SafePlan
from tidegate.storage.part import Block, concat, consolidate

CHANGE_FIELDS = ("before", "after", "op")
_ADDS, _RETRACTS = ("c", "r", "u"), ("u", "d")
_KNOWN_OPS = pa.array([*dict.fromkeys(_ADDS + _RETRACTS), "m"])
_NO_CHANGE = "the record is not a change of Debezium: it has no op"
_TRUNCATED = "the table was truncated (op t), and the record does not say which rows it had"
_NO_BEFORE = "the change does not say what the row was before: set REPLICA IDENTITY FULL upstream"
_NO_AFTER = "the change does not say what the row is now"


def row_columns(columns: Columns) -> Columns:
    """The columns of a row inside a change; raises a BindError if the records are not changes."""
    return columns if columns[0][1] == types.JSONB else fields_of_row(columns)


def fields_of_row(columns: Columns) -> Columns:
    """The columns of a row, from those of its changes; raises a BindError if a change field is missing."""
    by_name = dict(columns)
    before, after, op = (by_name.get(name) for name in CHANGE_FIELDS)
    if op != types.TEXT or before is None or before != after or before.kind is not Kind.RECORD:
        raise BindError(
            "the records have no fields before, after and op, as ENVELOPE DEBEZIUM needs them",
            hint="it is for FORMAT JSON, or FORMAT AVRO with a schema of Debezium",
        )
    return before.fields


class DebeziumStep:
    """ENVELOPE DEBEZIUM for one split."""

    def __init__(self, source: SourceDefinition, output: SourceOutput, now: int) -> None:
        self._output, self._now = output, now
        self._inputs = ChunkInputs(source, now)
        format_, before = output.format, output.before
        first = format_.columns[0][1] if before is None else before.types[0]
        self._shape: _Documents | _Records = (
            _Documents(output.plan) if first == types.JSONB else _Records(output.plan)
        )
        self._left: SafePlan | None = None
        if before is None and isinstance(self._shape, _Documents):
            self.decode: Decoder = self._shape.decode
        else:
            self.decode, left = format_.take(before or _change(format_, output.plan))
            self._left = SafePlan(left)
        self._side = SafePlan(self._shape.plan)

    def chunk(self, chunk: RecordChunk) -> EnvelopeOutput:
        """Returns the rows of the changes in a chunk."""
        gone = chunk.gone if chunk.gone is not None else np.zeros(chunk.decoded.count, bool)
        inputs = without_records(self._inputs.of(chunk), gone)
        bad = list(inputs.bad)
        if self._left is not None:
            rows = self._left.evaluate(inputs.columns, len(inputs))
            bad += bad_records(rows, inputs.records)
            inputs = PlanInput(rows.columns, inputs.records[rows.selection])
        changes = self._changes(inputs, chunk)
        errors = changes.errors()
        bad += [(int(inputs.records[row]), message) for row, message in errors.items()]
        sides = []
        for name, ops, diff in (("before", _RETRACTS, -1), ("after", _ADDS, 1)):
            numbers = np.setdiff1d(changes.with_op(ops), list(errors))
            side = self._side.evaluate(take_rows(changes.side(name), numbers), len(numbers))
            bad += bad_records(side, inputs.records[numbers]) if diff > 0 else []
            records = inputs.records[numbers][side.selection]
            block = Block(side.columns, np.zeros(len(records), np.int64), np.full(len(records), diff))
            sides.append((block, records))
        return self._output_of(chunk, sides, bad)

    def _changes(self, inputs: PlanInput, chunk: RecordChunk) -> _Changes:
        match self._shape:
            case _Records() as shape:
                return shape.changes(inputs)
            case _Documents() as shape:
                return shape.changes(inputs, chunk if self._output.before is None else None)

    def _output_of(
        self, chunk: RecordChunk, sides: list[tuple[Block, np.ndarray]], bad: list[RecordError]
    ) -> EnvelopeOutput:
        """Combines the rows of both sides that are not expired."""
        block, records = concat([b for b, _ in sides]), np.concatenate([records for _, records in sides])
        good = np.ones(chunk.decoded.count, bool)
        good[[number for number, _ in bad]] = False
        alive = unexpired(self._output, block.columns, self._now)
        with_rows = remaining = np.unique(records)
        if alive is not None:
            block, remaining = block.take(alive), np.unique(records[alive])
        if len(sides[0][1]):
            block = consolidate(block, by_time=False)
        kept, count = int(good[remaining].sum()), chunk.decoded.count
        expired = int(good[with_rows].sum()) - kept
        counts = RecordCounts(
            count, chunk.decoded.size, kept, count - kept - expired - len(bad), expired, len(bad)
        )
        diffs = None if (block.diffs == 1).all() else block.diffs
        return EnvelopeOutput(block.columns, diffs, failed_records(chunk, bad), counts)

    def finish(self) -> EnvelopeOutput:
        """Returns no rows: `chunk` returns all of them."""
        return empty_output(type_.arrow for type_ in self._output.plan.types)


@dataclass(frozen=True)
class _Changes:
    """The ops of changes, and for both sides the inputs of the plan over a row."""

    op: pa.Array
    before: list[pa.Array]
    after: list[pa.Array]
    behind: list[pa.Array]
    absent: Callable[[str, np.ndarray], np.ndarray]
    """Selects the changes that have no `before` or `after`."""

    def side(self, name: str) -> list[pa.Array]:
        """The inputs of the plan for one side."""
        return [*(self.before if name == "before" else self.after), *self.behind]

    def with_op(self, ops: Sequence[str]) -> np.ndarray:
        """The row numbers of changes with one of these ops."""
        return _true(pc.is_in(self.op, pa.array(ops)))

    def errors(self) -> dict[int, str]:
        """The row numbers of changes that cannot be applied, with the reasons."""
        errors: dict[int, str] = {}
        for row in _true(pc.invert(pc.is_in(self.op, _KNOWN_OPS))).tolist():
            op = self.op[row].as_py()
            errors[row] = _NO_CHANGE if op is None else _TRUNCATED if op == "t" else f'op "{op}" is not known'
        for name, ops, message in (("after", _ADDS, _NO_AFTER), ("before", _RETRACTS, _NO_BEFORE)):
            errors |= dict.fromkeys(self.absent(name, self.with_op(ops)).tolist(), message)
        return errors


class _Documents:
    """Changes in JSON. Each path is read both at the top level and under "payload"."""

    def __init__(self, plan: MapFilterProject) -> None:
        paths, self.plan = paths_of(plan)
        self._width = len(paths)
        sides = [
            PathRequest((KeyStep(side), *w.path), w.as_text) for side in ("before", "after") for w in paths
        ]
        plain = [PathRequest((KeyStep("op"),), as_text=True), *sides]
        both = (*plain, *(PathRequest((KeyStep("payload"), *w.path), w.as_text) for w in plain))
        columns = tuple((f"c{i}", types.TEXT if w.as_text else types.JSONB) for i, w in enumerate(both))
        nothing_first = SafePlan(MapFilterProject.identity(()).project(()))
        self.decode = JsonDecoder(both, StagedPlan((), nothing_first, tuple(range(len(both))), columns))

    def changes(self, inputs: PlanInput, chunk: RecordChunk | None) -> _Changes:
        """Returns the changes of a chunk whose paths are decoded; without a chunk, column 0 is the document."""
        if chunk is None:
            document, *behind = inputs.columns
            values = self.decode.records(document.cast(pa.binary())).columns
        else:
            width = len(self.decode.paths)
            values, behind = inputs.columns[:width], inputs.columns[width:]
        half = len(values) // 2
        op, *rest = (pc.coalesce(a, b) for a, b in zip(values[:half], values[half:], strict=True))
        sides = {"before": rest[: self._width], "after": rest[self._width :]}

        def absent(side: str, rows: np.ndarray) -> np.ndarray:
            # A side with any value exists. Documents are read again only if no path has a value.
            for column in sides[side]:
                rows = rows[_null(column.take(pa.array(rows)))]
            texts = _raw(chunk, inputs.records[rows]) if chunk else document.take(pa.array(rows))
            side_paths = [
                PathRequest((*at, KeyStep(side)), as_text=False) for at in ((), (KeyStep("payload"),))
            ]
            value = pc.coalesce(*read_paths(texts, side_paths).values) if len(rows) else texts
            absent_rows: np.ndarray = rows[_null(value)]
            return absent_rows

        return _Changes(op, sides["before"], sides["after"], behind, absent)


class _Records:
    """Changes as records of before, after and op, followed by the included columns."""

    def __init__(self, plan: MapFilterProject) -> None:
        self.plan = plan  # `_change` has moved before, after and op to the front

    def changes(self, inputs: PlanInput) -> _Changes:
        """Returns the changes of a chunk."""
        before, after, op, *behind = inputs.columns
        sides = {"before": before, "after": after}

        def absent(side: str, rows: np.ndarray) -> np.ndarray:
            return np.intersect1d(rows, _true(sides[side].is_null()))

        return _Changes(op, before.flatten(), after.flatten(), behind, absent)


def _change(format_: RecordFormat, plan: MapFilterProject) -> MapFilterProject:
    """The plan from a format's columns and the included ones to before, after, op and the included ones."""
    names = [name for name, _ in format_.columns]
    included = plan.inputs[len(row_columns(format_.columns)) :]
    every = MapFilterProject.identity([*(type_ for _, type_ in format_.columns), *included])
    return every.project([*map(names.index, CHANGE_FIELDS), *range(len(names), len(every.inputs))])


def _raw(chunk: RecordChunk, records: np.ndarray) -> pa.Array:
    return pa.array([chunk.decoded.raw(number) for number in records.tolist()], pa.binary()).cast(pa.string())


def _null(values: pa.Array) -> np.ndarray:
    """Whether each value is missing or the JSON null."""
    return _mask(pc.or_kleene(values.is_null(), pc.equal(values, "null")))


def _mask(values: pa.Array) -> np.ndarray:
    mask: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask


def _true(values: pa.Array) -> np.ndarray:
    return np.flatnonzero(_mask(values))
