"""GENERATOR: generates reproducible records for demos, tests and benchmarks.

    CREATE SOURCE o FROM GENERATOR orders (ROWS 1000000)
    CREATE SOURCE e FROM GENERATOR events (RATE 5000, SEED 7)
    CREATE SOURCE a FROM GENERATOR auction (ROWS 12000, START AT '2026-01-01') FOR ALL TABLES

| generator | tables |
|---|---|
| `counter` | `counter`: 1, 2, 3, … |
| `events` | `events`: who looked at, clicked, paid for what, with a JSON payload |
| `orders` | `orders`: prices, quantities, totals, with a JSON payload |
| `auction` | `users`, `auctions`, `bids`: a user, an auction and ten bids in turn; a record refers only to earlier records |

| option | |
|---|---|
| `ROWS n` | the number of records of all tables together; without it there is no end |
| `RATE n` | records per second: record i exists from START AT + i/n seconds on, by the clock |
| `SEED n` | selects other data; 0 by default |
| `START AT t` | the time of record 0; by default the time of CREATE SOURCE with RATE, otherwise 2024-01-01 |

With ROWS and without RATE all records exist at once, with times one second apart. With neither, RATE is 1.

A position is `{"row": n}`: records below n were read. `tables.py` generates the values. The format of a table generates, of the
columns that a plan demands, those in its conditions first, and the others for the rows that pass. The raw bytes of a record are
its number: if the plan fails on a record, it can be generated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tidegate.clock import Clock, SystemClock
from tidegate.errors import BindError, SourceError, UnsupportedError
from tidegate.expr.model import Type, types
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.formats.demand import StagedPlan, split_stages
from tidegate.ingest.formats.rows import plan_error_records, take_rows
from tidegate.ingest.options import OptionSpec, OptionType, option_error, whole_number
from tidegate.ingest.protocol import (
    BatchLimit,
    Columns,
    DecodedBatch,
    IncludedColumn,
    InputSplit,
    Lag,
    ReadRequest,
    RecordChunk,
    RecordError,
    RecordFormat,
    Upstream,
    UpstreamPosition,
)
from tidegate.ingest.upstreams.generator.tables import TABLES, GeneratorTable, Recipe
from tidegate.ingest.upstreams.registry import UpstreamSpec, UpstreamType
from tidegate.plan import MapFilterProject

SPLIT_ROWS = 1_000_000
"""The approximate number of records that one task generates."""
_BATCH_ROWS = 65_536
"""Records that are generated together."""
_RECORD_BYTES = 100
"""The assumed size of a record, for batches that are limited by bytes."""
_DEFAULT_START = datetime(2024, 1, 1, tzinfo=UTC)
_MAX_ROWS = 1 << 40
"""The maximum number of records of a generator: their times must fit into 64 bits."""


@dataclass(frozen=True)
class GeneratorFormat(RecordFormat):
    """The format of a generated table."""

    generator: str
    table: str
    recipe: Recipe

    @property
    def definition(self) -> GeneratorTable:
        """The table that generates the values."""
        return TABLES[self.generator][self.table]

    @property
    def columns(self) -> Columns:
        """The columns of the table."""
        return self.definition.columns

    def take(self, plan: MapFilterProject) -> tuple[GeneratorDecoder, MapFilterProject]:
        """Takes the demanded columns and the conditions over them out of a plan."""
        staged, left = split_stages(plan, len(self.columns))
        return GeneratorDecoder(self, staged), left

    def to_json(self) -> dict[str, Any]:
        """Its form in the catalog."""
        recipe = self.recipe
        return {
            "kind": "generator",
            "generator": self.generator,
            "table": self.table,
            "recipe": [recipe.seed, recipe.start, recipe.every, recipe.per],
        }


def format_from_json(stored: Mapping[str, Any]) -> GeneratorFormat:
    """Loads the result of `GeneratorFormat.to_json`."""
    return GeneratorFormat(stored["generator"], stored["table"], Recipe(*stored["recipe"]))


@dataclass(frozen=True)
class GeneratorDecoder:
    """Generates the demanded columns of a table."""

    format: GeneratorFormat
    staged: StagedPlan

    @property
    def columns(self) -> Columns:
        """The outputs of the plan's first stage, and the other columns that it demands."""
        return self.staged.columns

    def generate(self, numbers: np.ndarray) -> DecodedBatch:
        """Generates the records with these numbers."""
        rows = self.staged.before.evaluate(self._columns(self.staged.first, numbers), len(numbers))
        later = self._columns(self.staged.later, numbers[rows.selection])
        return DecodedBatch(
            [*rows.columns, *later],
            rows.selection,
            list(plan_error_records(rows, np.arange(len(numbers)))),
            len(numbers),
            lambda record: str(numbers[record]).encode(),
            size=len(numbers) * _RECORD_BYTES,
        )

    def _columns(self, wanted: Sequence[int], numbers: np.ndarray) -> list[pa.Array]:
        fields = self.format.definition.fields
        return [fields[i][2](self.format.recipe, numbers) for i in wanted]

    def records(self, values: pa.Array) -> DecodedBatch:
        """Generates records again from their raw bytes: each value is a record number in digits."""
        numbers = np.zeros(len(values), np.int64)
        wrong: list[RecordError] = []
        for i, value in enumerate(values.to_pylist()):
            if value is not None and value.isdigit() and int(value) < _MAX_ROWS:
                numbers[i] = int(value)
            else:
                wrong.append((i, "the value is not the number of a record"))
        if not wrong:
            return self.generate(numbers)
        good = np.setdiff1d(np.arange(len(values)), [i for i, _ in wrong])
        decoded = self.generate(take_rows(pa.array(numbers), good).to_numpy())
        failures = [(int(good[i]), message) for i, message in decoded.failures]
        return DecodedBatch(
            decoded.columns,
            good[decoded.selection],
            sorted([*failures, *wrong]),
            len(values),
            lambda record: values[record].as_py() or b"",
            size=values.nbytes,
        )

    def file(self, opened: BinaryIO, name: str) -> Iterator[DecodedBatch]:
        """Raises an UnsupportedError: generated records are not in files."""
        del opened
        raise UnsupportedError(f"a generator's records are in no file such as {name}")


@dataclass(frozen=True)
class GeneratorUpstream(Upstream):
    """A generator of `TABLES`, with its options."""

    name: str
    recipe: Recipe
    rows: int | None = None
    live: bool = False
    """Whether records appear over time, by RATE."""
    clock: Clock = field(default_factory=SystemClock, compare=False, repr=False)

    # ------------------------------------------------------------ created and stored

    @staticmethod
    def create(spec: UpstreamSpec, clock: Clock | None = None) -> GeneratorUpstream:
        """The upstream of a CREATE SOURCE statement."""
        clock, name = clock or SystemClock(), spec.target or ""
        if name not in TABLES:
            raise BindError(f"there is no generator {name}", hint=f"one of {', '.join(TABLES)}")
        options = {
            option: spec.options[option] if value is None else value
            for option, value in spec.with_options.items()
        }
        rows = options["rows"]
        rate = _rate(1 if rows is None and options["rate"] is None else options["rate"])
        start = _start(options["start at"])
        if start is None:
            start = clock.now() * 1000 if rate else _micros(_DEFAULT_START)
        recipe = Recipe(options["seed"] or 0, start, *(rate or (1_000_000, 1)))
        last = _micros(datetime.max.replace(tzinfo=UTC))
        if (rows or 0) * recipe.every // recipe.per > last - recipe.start:
            raise option_error(
                "the last of these ROWS would be after the year 9999", "rows", "fewer, or a RATE"
            )
        return GeneratorUpstream(name, recipe, rows, rate is not None, clock)

    def to_json(self) -> dict[str, Any]:
        """Its form in the catalog."""
        recipe = self.recipe
        return {
            "name": self.name,
            "recipe": [recipe.seed, recipe.start, recipe.every, recipe.per],
            "rows": self.rows,
            "live": self.live,
        }

    @staticmethod
    def from_json(
        stored: Mapping[str, Any], connection: ExternalConnection | None = None
    ) -> GeneratorUpstream:
        """Loads the result of `to_json`."""
        del connection  # generators have none
        return GeneratorUpstream(stored["name"], Recipe(*stored["recipe"]), stored["rows"], stored["live"])

    # ------------------------------------------------------------ Upstream

    def tables(self) -> dict[str, RecordFormat]:
        """The formats of the generator's tables."""
        return {table: GeneratorFormat(self.name, table, self.recipe) for table in TABLES[self.name]}

    def includes(self, included: IncludedColumn) -> Type:
        """The type of OFFSET, the record's number."""
        if included.what != "offset":
            raise BindError(f"generators have no {included.what.upper()}", hint="INCLUDE OFFSET")
        return types.INT8

    def start(self) -> UpstreamPosition:
        """The position before the first record."""
        return {"row": 0}

    def latest(self, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:
        """The position after all existing records, or as many as the limit allows."""
        done = after["row"]
        most = [self._available() - done]
        if limit.rows is not None:
            most.append(limit.rows)
        if limit.bytes is not None:
            most.append(limit.bytes // _RECORD_BYTES)
        return {"row": done + (max(1, min(most)) if most[0] > 0 else 0)}

    def splits(self, after: UpstreamPosition, upto: UpstreamPosition) -> list[InputSplit]:
        """Divides a batch into ranges of about equal size."""
        start, end = after["row"], upto["row"]
        count = -(-(end - start) // SPLIT_ROWS)
        cuts = [start + (end - start) * i // count for i in range(count + 1)] if count else []
        return [InputSplit("row", *pair) for pair in pairwise(cuts)]

    def read(
        self, split: InputSplit, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        """Generates the records of a split."""
        for start in range(split.start, split.end, _BATCH_ROWS):
            for number, request in enumerate(wanted):
                if not isinstance(request.decode, GeneratorDecoder):
                    raise SourceError("a generator's tables have a format of their own", again=False)
                numbers = request.decode.format.definition.numbers(start, min(start + _BATCH_ROWS, split.end))
                if len(numbers):
                    columns = [pa.array(numbers) for _ in included]
                    yield number, RecordChunk(request.decode.generate(numbers), columns, _position(numbers))

    def lag(self, at: UpstreamPosition) -> Lag:
        """The number of unread records, and the age of the first of them."""
        done = at.get("row", 0)
        left = max(0, self._available() - done)
        if not self.live or not left:
            return Lag(records=left, milliseconds=None if left else 0)
        since = int(self.recipe.times(np.array([done]))[0]) // 1000
        return Lag(records=left, milliseconds=max(0, self.clock.now() - since))

    def _available(self) -> int:
        """The number of records that exist now."""
        most = _MAX_ROWS if self.rows is None else self.rows
        if not self.live:
            return most
        passed = self.clock.now() * 1000 - self.recipe.start
        return min(most, passed * self.recipe.per // self.recipe.every + 1) if passed >= 0 else 0


def _position(numbers: np.ndarray) -> Any:
    return lambda record: {"row": int(numbers[record])}


# ---------------------------------------------------------------- options


def _micros(at: datetime) -> int:
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def _rate(value: float | None) -> tuple[int, int] | None:
    """RATE as an interval in µs and the number of records in it."""
    if value is None:
        return None
    return (1_000_000, value) if isinstance(value, int) else (round(1_000_000_000 / value), 1000)


def _start(value: str | None) -> int | None:
    """START AT in µs since 1970; in UTC unless it names a zone."""
    at = None if value is None else datetime.fromisoformat(value.strip())
    return None if at is None else _micros(at if at.tzinfo else at.replace(tzinfo=UTC))


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value.strip()) is not None
    except ValueError:
        return False


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.001 <= value <= 1_000_000_000


_RATE = OptionType("a number of records a second, from 0.001 to 1000000000", _is_rate)
_TIME = OptionType("a time", _is_time)
_OPTIONS = (
    OptionSpec("rows", whole_number(0, _MAX_ROWS), "how many records there are; else there is no end"),
    OptionSpec("rate", _RATE, "records a second", example="RATE 5000"),
    OptionSpec("seed", whole_number(0, _MAX_ROWS), "other data; 0 if it is not given"),
    OptionSpec("start at", _TIME, "the time of record 0", example="START AT '2026-01-01 00:00:00+00'"),
)
GENERATOR = UpstreamType(
    "generator",
    GeneratorUpstream.create,
    GeneratorUpstream.from_json,
    options=_OPTIONS,
    with_options=_OPTIONS,
    table_format=format_from_json,
)
