"""FORMAT JSON: one column, `data jsonb`. Where a plan reads paths, these are decoded and nothing else.

    SELECT data->>'id', data->'at' FROM s WHERE data->>'kind' = 'pay'

    take:  wanted[0] = text at (kind), wanted[1] = text at (id), wanted[2] = JSON at (at)
           first     = kind, of every record            before = Filter #0 = 'pay'
           later     = id and at, where that holds
    left:  Project (#0, #1)

A plan that reads the document itself (`data`, `data ? 'x'`) wants the empty path: canonical JSON, by
`expr/canonical.py`. Whatever is wanted, a record that is not JSON as jsonb takes it fails (PostgreSQL's words),
be the fault before or behind what was wanted, even if the filter would drop it. In a file, lines of white
space are no records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.json import PATHS
from tidegate.expr.json_path import Wanted
from tidegate.expr.outcome import Errors, Outcome, failing
from tidegate.expr.spelling import utf8_errors
from tidegate.expr.tree import Call, Column, Expr
from tidegate.expr.types import JSONB, TEXT
from tidegate.ingest.decode.demand import Pace, Staged, stages
from tidegate.ingest.decode.json_text import read
from tidegate.ingest.decode.lines import blank, blocks
from tidegate.ingest.decode.rows import bad, bad_rows, fine, line_of, picked, refusal
from tidegate.ingest.source import Bad, Columns, Decoded
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.optimise import rebuild
from tidegate.plan.take import reading

_DOCUMENT = Wanted((), as_text=False)
_MOST = 0.5
"""The share of records from which on, if so many pass the filter, everything is decoded at once."""


@dataclass(frozen=True)
class Json:
    """Records that are JSON documents."""

    @property
    def columns(self) -> Columns:
        """The document."""
        return (("data", JSONB),)

    @property
    def splittable(self) -> bool:
        """Lines know nothing of each other."""
        return True

    def take(self, plan: MapFilterProject) -> tuple[JsonDecode, MapFilterProject]:
        """Takes paths, and the conditions over them."""
        wanted, over = paths_of(plan)
        staged, left = stages(over, len(wanted))
        return JsonDecode(wanted, staged), left


def paths_of(plan: MapFilterProject) -> tuple[tuple[Wanted, ...], MapFilterProject]:
    """What a plan reads of its column 0, and the plan over that, the other columns behind."""
    exprs = (*plan.conditions, *plan.outputs)
    calls = list(dict.fromkeys(_largest(exprs)))
    wanted = [_DOCUMENT if isinstance(call, Column) else PATHS.wanted(call) for call in calls]
    distinct = list(dict.fromkeys(wanted))
    inputs = [*(TEXT if w.as_text else JSONB for w in distinct), *plan.inputs[1:]]
    place: dict[Expr, Expr] = {
        Column(i, type_): Column(len(distinct) + i - 1, type_) for i, type_ in enumerate(plan.inputs) if i > 0
    }
    for call, w in zip(calls, wanted, strict=True):
        place[call] = Column(distinct.index(w), call.type)
    over = MapFilterProject.identity(inputs)
    return tuple(distinct), rebuild(over, reading(plan.conditions, place), reading(plan.outputs, place))


def _largest(exprs: Iterable[Expr]) -> Iterator[Call | Column]:
    """The whole paths into column 0, not their beginnings; or the column where it is read itself."""
    stack = list(reversed(list(exprs)))
    seen: set[Expr] = set()
    while stack:
        expr = stack.pop()
        if expr in seen:
            continue
        seen.add(expr)
        if isinstance(expr, Column) and expr.index == 0:
            yield expr
        elif isinstance(expr, Call):
            root = PATHS.root(expr) if expr.function.family is PATHS else None
            if isinstance(root, Column) and root.index == 0:
                yield expr
            else:
                stack.extend(reversed(expr.args))


@dataclass(frozen=True)
class JsonDecode:
    """JSON of which some paths are wanted, in two stages."""

    wanted: tuple[Wanted, ...]
    staged: Staged
    _pace: Pace = field(default_factory=Pace, compare=False, repr=False)

    @property
    def columns(self) -> Columns:
        """What leaves the first stage, and the paths of the second."""
        return self.staged.columns

    def records(self, values: pa.Array) -> Decoded:
        """Each value a document."""
        return self._decoded(values, 0, np.zeros(len(values), bool))

    def file(self, opened: BinaryIO, name: str) -> Iterator[Decoded]:
        """Each line a document."""
        for lines, start, refused in blocks(opened, name):
            if refused is not None:
                yield refusal(self.columns, lines, start, refused)
            else:
                yield self._decoded(lines, start, blank(lines))

    def _decoded(self, values: pa.Array, start: int, skipped: np.ndarray) -> Decoded:
        columns, numbers, failures = self._rows(values, skipped)
        return Decoded(columns, numbers, failures, len(values), line_of(values), start, size=values.nbytes)

    def _rows(self, values: pa.Array, skipped: np.ndarray) -> tuple[list[pa.Array], np.ndarray, list[Bad]]:
        texts, wrong = _texts(values)
        failures = list(bad(wrong, np.arange(len(values))))
        keep = np.flatnonzero(fine(wrong, len(values)) & ~skipped)
        documents = _Documents(picked(texts, keep))
        together = self._pace.passed > _MOST
        first, later = self.staged.first, self.staged.later
        found = documents.read([self.wanted[i] for i in ((*first, *later) if together else first)])
        failures += bad(documents.errors, keep)
        good = np.flatnonzero(fine(documents.errors, len(keep)))
        rows = self.staged.before.evaluate(
            [picked(column, good) for column in found[: len(first)]], len(good)
        )
        failures += bad_rows(rows, keep[good])
        passed = good[rows.selection]
        self._pace.passed = len(passed) / max(len(keep), 1)
        if together:
            rest = [picked(column, passed) for column in found[len(first) :]]
        else:
            rest = documents.pick(passed).read([self.wanted[i] for i in later])
        return [*rows.columns, *rest], keep[passed], sorted(failures)


def _texts(values: pa.Array) -> Outcome:
    """Bytes as text. A zero byte is UTF-8; that it is not JSON is found by whoever parses it."""
    try:
        return Outcome(values.cast(pa.string()))
    except pa.ArrowInvalid:
        pass  # some record is wrong: find out which
    errors = utf8_errors(values)
    messages = [None] * len(values) if errors is None else errors.to_pylist()
    for i, message in enumerate(messages):
        if message is not None and message.endswith(" 0x00"):
            messages[i] = _message(values[i].as_py())
    wrong = pa.array(messages, pa.string())
    clean = pc.if_else(wrong.is_null(), values, pa.scalar(b"", pa.binary())).cast(pa.string())
    return Outcome(clean, failing(wrong.is_valid(), wrong))


def _message(raw: bytes) -> str | None:
    """What else is wrong with bytes that hold a zero."""
    errors = utf8_errors(pa.array([raw.replace(b"\0", b" ")], pa.binary()))
    return None if errors is None else errors[0].as_py()


class _Documents:
    """Texts that should be JSON; a null is a document that is not there."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts
        self.errors: Errors = None

    def read(self, wanted: Sequence[Wanted]) -> list[pa.Array]:
        """The values at some paths; which documents are no JSON is then in `errors`."""
        if not self.texts.null_count:
            values, self.errors = read(self.texts, wanted)
            return values
        # JSON's null gives NULL at every path but the empty one.
        values, self.errors = read(pc.fill_null(self.texts, "null"), wanted)
        there = self.texts.is_valid()
        return [pc.if_else(there, value, pa.scalar(None, pa.string())) for value in values]

    def pick(self, rows: np.ndarray) -> _Documents:
        """Some of them."""
        return _Documents(picked(self.texts, rows))
