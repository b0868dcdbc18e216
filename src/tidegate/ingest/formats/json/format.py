"""FORMAT JSON: one column, `data jsonb`; only the paths that a plan reads are decoded.

    SELECT data->>'id', data->'at' FROM s WHERE data->>'kind' = 'pay'

    take:  paths[0]  = text at (kind), paths[1] = text at (id), paths[2] = JSON at (at)
           first     = kind, for every record           before = Filter #0 = 'pay'
           later     = id and at, for records that pass
    left:  Project (#0, #1)

A plan that reads the document itself (`data`, `data ? 'x'`) reads the empty path: canonical JSON, by
`expr/primitives/json/canonical.py`. A record that is not valid JSON for jsonb always fails, with PostgreSQL's message, whether
the fault is before or after the paths that are read, and even if the filter would drop it. In a file, lines of white space are
not records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions import PATHS
from tidegate.expr.model import Outcome, outcome, types
from tidegate.expr.primitives import PathRequest, byte_encoding, json_path
from tidegate.ingest.formats.demand import Pace, StagedPlan, split_stages
from tidegate.ingest.formats.json.text import read_paths
from tidegate.ingest.formats.lines import blank, blocks
from tidegate.ingest.formats.rows import (
    error_free,
    error_records,
    line_of,
    plan_error_records,
    refused_record,
    take_rows,
)
from tidegate.ingest.protocol import Columns, DecodedBatch, RecordError, RecordFormat
from tidegate.plan import MapFilterProject

_ONE_STAGE_SHARE = 0.5
"""If a larger share of records passes the filter, all paths are decoded in one stage."""


@dataclass(frozen=True)
class JsonFormat(RecordFormat):
    """Records that are JSON documents."""

    @property
    def columns(self) -> Columns:
        """One column: the document."""
        return (("data", types.JSONB),)

    @property
    def splittable(self) -> bool:
        """True: lines are independent of each other."""
        return True

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the catalog."""
        return {"kind": "json"}

    def describe_reads(self, plan: MapFilterProject) -> list[str]:
        """The paths that the plan reads: `data -> 'a' ->> 'b'`."""
        return [_path_text(self.columns[0][0], request) for request in paths_of(plan)[0]]

    def take(self, plan: MapFilterProject) -> tuple[JsonDecoder, MapFilterProject]:
        """Takes over paths, and the conditions on them."""
        paths, path_plan = paths_of(plan)
        staged, left = split_stages(path_plan, len(paths))
        return JsonDecoder(paths, staged), left


def _path_text(column: str, request: PathRequest) -> str:
    steps = [
        str(step.at) if isinstance(step, json_path.IndexStep) else f"'{step.name}'" for step in request.path
    ]
    arrows = ["->"] * (len(steps) - 1) + (["->>" if request.as_text else "->"] if steps else [])
    return " ".join([column, *(f"{arrow} {step}" for arrow, step in zip(arrows, steps, strict=True))])


def paths_of(plan: MapFilterProject) -> tuple[tuple[PathRequest, ...], MapFilterProject]:
    """Returns the paths that a plan reads in column 0, and the plan over these and the other columns."""
    count = len(plan.conditions)
    requests, inputs, exprs = PATHS.divide((*plan.conditions, *plan.outputs), plan.inputs)
    return tuple(requests), MapFilterProject.identity(inputs).rebuild(exprs[:count], exprs[count:])


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes the values at some paths of JSON documents, in two stages."""

    paths: tuple[PathRequest, ...]
    staged: StagedPlan
    _pace: Pace = field(default_factory=Pace, compare=False, repr=False)

    @property
    def columns(self) -> Columns:
        """The outputs of the first stage, and the paths of the second."""
        return self.staged.columns

    def records(self, values: pa.Array) -> DecodedBatch:
        """Decodes values, one document each."""
        return self._decode(values, 0, np.zeros(len(values), bool))

    def file(self, opened: BinaryIO, name: str) -> Iterator[DecodedBatch]:
        """Decodes a file, one document per line."""
        for lines, start, refused in blocks(opened, name):
            if refused is not None:
                yield refused_record(self.columns, lines, start, refused)
            else:
                yield self._decode(lines, start, blank(lines))

    def _decode(self, values: pa.Array, start: int, skipped: np.ndarray) -> DecodedBatch:
        columns, numbers, failures = self._rows(values, skipped)
        return DecodedBatch(
            columns, numbers, failures, len(values), line_of(values), start, size=values.nbytes
        )

    def _rows(
        self, values: pa.Array, skipped: np.ndarray
    ) -> tuple[list[pa.Array], np.ndarray, list[RecordError]]:
        texts, wrong = _texts(values)
        failures = list(error_records(wrong, np.arange(len(values))))
        keep = np.flatnonzero(error_free(wrong, len(values)) & ~skipped)
        documents = _Documents(take_rows(texts, keep))
        together = self._pace.passed > _ONE_STAGE_SHARE
        first, later = self.staged.first, self.staged.later
        values_at = documents.read([self.paths[i] for i in ((*first, *later) if together else first)])
        failures += error_records(documents.errors, keep)
        good = np.flatnonzero(error_free(documents.errors, len(keep)))
        rows = self.staged.before.evaluate(
            [take_rows(column, good) for column in values_at[: len(first)]], len(good)
        )
        failures += plan_error_records(rows, keep[good])
        passed = good[rows.selection]
        self._pace.passed = len(passed) / max(len(keep), 1)
        if together:
            rest = [take_rows(column, passed) for column in values_at[len(first) :]]
        else:
            rest = documents.pick(passed).read([self.paths[i] for i in later])
        return [*rows.columns, *rest], keep[passed], sorted(failures)


def _texts(values: pa.Array) -> Outcome:
    """Decodes bytes as text. A zero byte is valid UTF-8; the JSON parser refuses it."""
    try:
        return Outcome(values.cast(pa.string()))
    except pa.ArrowInvalid:
        pass  # some record is not UTF-8: determine which
    errors = byte_encoding.utf8_errors(values)
    messages = [None] * len(values) if errors is None else errors.to_pylist()
    for i, message in enumerate(messages):
        if message is not None and message.endswith(" 0x00"):
            messages[i] = _message_ignoring_zeros(values[i].as_py())
    wrong = pa.array(messages, pa.string())
    clean = pc.if_else(wrong.is_null(), values, pa.scalar(b"", pa.binary())).cast(pa.string())
    return Outcome(clean, outcome.failing(wrong.is_valid(), wrong))


def _message_ignoring_zeros(raw: bytes) -> str | None:
    """The first UTF-8 error of bytes other than zero bytes."""
    errors = byte_encoding.utf8_errors(pa.array([raw.replace(b"\0", b" ")], pa.binary()))
    return None if errors is None else errors[0].as_py()


class _Documents:
    """Texts to be read as JSON; a null is a missing document."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts
        self.errors: outcome.Errors = None

    def read(self, paths: Sequence[PathRequest]) -> list[pa.Array]:
        """Reads the values at some paths, and sets `errors` for documents that are not JSON."""
        if not self.texts.null_count:
            values, self.errors = read_paths(self.texts, paths)
            return values
        # The JSON null gives NULL at every path but the empty one.
        values, self.errors = read_paths(pc.fill_null(self.texts, "null"), paths)
        present = self.texts.is_valid()
        return [pc.if_else(present, value, pa.scalar(None, pa.string())) for value in values]

    def pick(self, rows: np.ndarray) -> _Documents:
        """Selects documents by row number."""
        return _Documents(take_rows(self.texts, rows))
