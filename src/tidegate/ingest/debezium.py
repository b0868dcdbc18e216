"""ENVELOPE DEBEZIUM: a record holds the row as it was and as it is now, so nothing needs to be looked up.

    {"before": {"id": 7, "n": 1}, "after": {"id": 7, "n": 2}, "op": "u", "source": …}

    SELECT (data->>'id')::int8, (data->>'n')::int8 FROM s         `data` is the row, not the record
    -(7, 1)  +(7, 2)

| op | means | rows |
|---|---|---|
| c, r | created; read by a snapshot | + after |
| u | updated | - before, + after; nothing where the transform sees no difference |
| d | deleted | - before |
| m | a message for others | none |
| t | the table was emptied | cannot be followed, as it does not say which rows: a bad record |

Tombstones, which Debezium sends behind a deletion, say nothing new. JSON may stand under "payload", as Connect's converter puts it
where it sends the schema along; each record says for itself. Of Avro, `before` and `after` are records, and their fields columns.

A change without its `before` (REPLICA IDENTITY is not FULL) cannot be retracted: a bad record. TRANSFORM BEFORE ENVELOPE is given
the whole record and gives one again: `SELECT data->'change' FROM s`, or of Avro `SELECT "before", "after", op, … FROM s`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import BindError
from tidegate.expr.json_path import Key, Wanted
from tidegate.expr.types import JSONB, TEXT, Kind
from tidegate.ingest.decode.demand import Staged
from tidegate.ingest.decode.json import Json, JsonDecode, paths_of
from tidegate.ingest.decode.json_text import read
from tidegate.ingest.definition import Output, Source
from tidegate.ingest.envelope import Inputs, bad_records, current, picked, without
from tidegate.ingest.made import Counts, Given, Made, failed, nothing
from tidegate.ingest.source import Bad, Chunk, Columns, Decode, Format
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.safe import SafePlan
from tidegate.shard.merge import Block, concat, summed

FIELDS = ("before", "after", "op")
_ADDS, _RETRACTS = ("c", "r", "u"), ("u", "d")
_KNOWN = pa.array([*dict.fromkeys(_ADDS + _RETRACTS), "m"])
_NO_CHANGE = "the record is no change of Debezium's: it has no op"
_TRUNCATED = "the table was emptied (op t), and the record does not say which rows it had"
_NO_BEFORE = "the change does not say what the row was before: set REPLICA IDENTITY FULL upstream"
_NO_AFTER = "the change does not say what the row is now"


def payload(format_: Format) -> Columns:
    """The columns of a row inside of a change; a BindError if records of this format are no changes."""
    return format_.columns if isinstance(format_, Json) else fields_of_row(format_.columns)


def fields_of_row(columns: Columns) -> Columns:
    """What a row has, by the columns before, after and op of its changes; a BindError if these are not among them."""
    found = dict(columns)
    types = [found.get(name) for name in FIELDS]
    if types[2] != TEXT or types[0] is None or types[0] != types[1] or types[0].kind is not Kind.RECORD:
        raise BindError(
            "the records have no fields before, after and op, as ENVELOPE DEBEZIUM needs them",
            hint="it is for FORMAT JSON, or FORMAT AVRO with a schema of Debezium's",
        )
    return types[0].fields


class Debezium:
    """The changes of one split."""

    def __init__(self, source: Source, output: Output, now: int) -> None:
        self._output, self._now = output, now
        self._inputs = Inputs(source, now)
        format_, before = output.format, output.before
        types = [type_ for _, type_ in format_.columns] if before is None else before.types
        self._shape: _Documents | _Records = (
            _Documents(output.plan) if types[0] == JSONB else _Records(output.plan)
        )
        self._left: SafePlan | None = None
        if before is None and isinstance(self._shape, _Documents):
            self.decode: Decode = self._shape.decode
        else:
            self.decode, left = format_.take(before or _change(format_, output.plan))
            self._left = SafePlan(left)
        self._side = SafePlan(self._shape.plan)

    def chunk(self, chunk: Chunk) -> Made:
        """The rows of the changes."""
        gone = chunk.gone if chunk.gone is not None else np.zeros(chunk.decoded.count, bool)
        given = without(self._inputs.of(chunk), gone)
        bad = list(given.bad)
        if self._left is not None:
            made = self._left.evaluate(given.columns, len(given))
            bad += bad_records(made, given.records)
            given = Given(made.columns, given.records[made.selection])
        changes = self._opened(given, chunk)
        wrong = changes.wrong()
        bad += [(int(given.records[row]), message) for row, message in wrong.items()]
        sides = []
        for name, ops, diff in (("before", _RETRACTS, -1), ("after", _ADDS, 1)):
            rows = np.setdiff1d(changes.among(ops), list(wrong))
            made = self._side.evaluate(picked(changes.side(name), rows), len(rows))
            records = given.records[rows]
            bad += bad_records(made, records) if diff > 0 else []
            found = records[made.selection]
            sides.append(
                (Block(made.columns, np.zeros(len(found), np.int64), np.full(len(found), diff)), found)
            )
        return self._made(chunk, sides, bad)

    def _opened(self, given: Given, chunk: Chunk) -> _Changes:
        match self._shape:
            case _Records() as shape:
                return shape.opened(given)
            case _Documents() as shape:
                return shape.opened(given, chunk if self._output.before is None else None)

    def _made(self, chunk: Chunk, sides: list[tuple[Block, np.ndarray]], bad: list[Bad]) -> Made:
        """The rows of both sides, those of them that have not ended."""
        block, records = concat([one for one, _ in sides]), np.concatenate([found for _, found in sides])
        good = np.ones(chunk.decoded.count, bool)
        good[[number for number, _ in bad]] = False
        alive = current(self._output, block.columns, self._now)
        gave, left = np.unique(records), np.unique(records)
        if alive is not None:
            block, left = block.take(alive), np.unique(records[alive])
        if len(sides[0][1]):
            block = summed(block, by_time=False)
        kept, count = int(good[left].sum()), chunk.decoded.count
        expired = int(good[gave].sum()) - kept
        counts = Counts(count, chunk.decoded.size, kept, count - kept - expired - len(bad), expired, len(bad))
        diffs = None if (block.diffs == 1).all() else block.diffs
        return Made(block.columns, diffs, failed(chunk, bad), counts)

    def finish(self) -> Made:
        """Nothing was held back."""
        return nothing(type_.arrow for type_ in self._output.plan.types)


@dataclass(frozen=True)
class _Changes:
    """Some changes: for each the op, and what the plan of a row reads of both sides."""

    op: pa.Array
    before: list[pa.Array]
    after: list[pa.Array]
    behind: list[pa.Array]
    absent: Callable[[str, np.ndarray], np.ndarray]
    """Those of some changes that have no `before` or `after`."""

    def side(self, name: str) -> list[pa.Array]:
        """The inputs of the plan."""
        return [*(self.before if name == "before" else self.after), *self.behind]

    def among(self, ops: Sequence[str]) -> np.ndarray:
        """The changes that are one of these."""
        return _true(pc.is_in(self.op, pa.array(ops)))

    def wrong(self) -> dict[int, str]:
        """The changes that cannot be followed, and why."""
        found: dict[int, str] = {}
        for row in _true(pc.invert(pc.is_in(self.op, _KNOWN))).tolist():
            op = self.op[row].as_py()
            found[row] = _NO_CHANGE if op is None else _TRUNCATED if op == "t" else f'op "{op}" is not known'
        for name, ops, message in (("after", _ADDS, _NO_AFTER), ("before", _RETRACTS, _NO_BEFORE)):
            found |= dict.fromkeys(self.absent(name, self.among(ops)).tolist(), message)
        return found


class _Documents:
    """Changes that are JSON. Each path is wanted at both places where it may be; it is at one of them."""

    def __init__(self, plan: MapFilterProject) -> None:
        paths, self.plan = paths_of(plan)
        self._width = len(paths)
        sides = [Wanted((Key(side), *w.path), w.as_text) for side in ("before", "after") for w in paths]
        plain = [Wanted((Key("op"),), as_text=True), *sides]
        both = (*plain, *(Wanted((Key("payload"), *w.path), w.as_text) for w in plain))
        columns = tuple((f"c{i}", TEXT if w.as_text else JSONB) for i, w in enumerate(both))
        nothing_first = SafePlan(MapFilterProject.identity(()).project(()))
        self.decode = JsonDecode(both, Staged((), nothing_first, tuple(range(len(both))), columns))

    def opened(self, given: Given, chunk: Chunk | None) -> _Changes:
        """The changes, whose paths were decoded for `chunk`; without one, column 0 is the document."""
        if chunk is None:
            document, *behind = given.columns
            found = self.decode.records(document.cast(pa.binary())).columns
        else:
            width = len(self.decode.wanted)
            found, behind = given.columns[:width], given.columns[width:]
        half = len(found) // 2
        op, *rest = (pc.coalesce(a, b) for a, b in zip(found[:half], found[half:], strict=True))
        sides = {"before": rest[: self._width], "after": rest[self._width :]}

        def absent(side: str, rows: np.ndarray) -> np.ndarray:
            # Where anything was found, it is there. Documents are only read again where nothing was.
            for column in sides[side]:
                some = column.take(pa.array(rows))
                rows = rows[_null(some)]
            texts = _raw(chunk, given.records[rows]) if chunk else document.take(pa.array(rows))
            again = [Wanted((*at, Key(side)), as_text=False) for at in ((), (Key("payload"),))]
            value = pc.coalesce(*read(texts, again).values) if len(rows) else texts
            empty: np.ndarray = rows[_null(value)]
            return empty

        return _Changes(op, sides["before"], sides["after"], behind, absent)


class _Records:
    """Changes that are records of before, after and op, with what is included behind them."""

    def __init__(self, plan: MapFilterProject) -> None:
        self.plan = plan  # `_change` has put the fields of one side in their places

    def opened(self, given: Given) -> _Changes:
        """The changes."""
        before, after, op, *behind = given.columns
        sides = {"before": before, "after": after}

        def absent(side: str, rows: np.ndarray) -> np.ndarray:
            return np.intersect1d(rows, _true(sides[side].is_null()))

        return _Changes(op, before.flatten(), after.flatten(), behind, absent)


def _change(format_: Format, plan: MapFilterProject) -> MapFilterProject:
    """From the columns of a format and the included ones to before, after, op and these."""
    names = [name for name, _ in format_.columns]
    included = plan.inputs[len(payload(format_)) :]
    every = MapFilterProject.identity([*(type_ for _, type_ in format_.columns), *included])
    return every.project([*map(names.index, FIELDS), *range(len(names), len(every.inputs))])


def _raw(chunk: Chunk, records: np.ndarray) -> pa.Array:
    return pa.array([chunk.decoded.raw(number) for number in records.tolist()], pa.binary()).cast(pa.string())


def _null(values: pa.Array) -> np.ndarray:
    """Where there is nothing, or JSON's null."""
    return _mask(pc.or_kleene(values.is_null(), pc.equal(values, "null")))


def _mask(values: pa.Array) -> np.ndarray:
    found: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return found


def _true(values: pa.Array) -> np.ndarray:
    return np.flatnonzero(_mask(values))
