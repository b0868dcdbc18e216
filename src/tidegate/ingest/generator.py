"""GENERATOR: records that nobody has to send, the same for everybody. For demos, tests and benchmarks.

    CREATE SOURCE o FROM GENERATOR orders (ROWS 1000000)
    CREATE SOURCE e FROM GENERATOR events (RATE 5000, SEED 7)
    CREATE SOURCE a FROM GENERATOR auction (ROWS 12000, START AT '2026-01-01') FOR ALL TABLES

| generator | tables |
|---|---|
| `counter` | `counter`: 1, 2, 3, … |
| `events` | `events`: who looked at, clicked, paid for what, with a JSON payload |
| `orders` | `orders`: prices, quantities, totals, with a JSON payload |
| `auction` | `users`, `auctions`, `bids`: a user, an auction and ten bids in turn; whom a record names is there before it |

| option | |
|---|---|
| `ROWS n` | how many records there are, of all tables together; else there is no end |
| `RATE n` | so many a second: record i is there from START AT + i/n seconds on, by the clock |
| `SEED n` | other data; 0 if it is not given |
| `START AT t` | when record 0 happened. With RATE the time of CREATE SOURCE, else 2024-01-01 |

With ROWS and no RATE all records are there at once, and happened a second apart. With neither, RATE is 1.

A position is `{"row": n}`: records below n were read. `generator_tables.py` makes the values. A format of a table makes, of the
columns that a plan demands, those of its conditions first, and of what passes the others. The raw bytes of a record are its
number: when the plan fails on it, it can be made again.
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
from tidegate.expr.types import INT8, Type
from tidegate.ingest.connect import Connection, Given
from tidegate.ingest.decode.demand import Staged, stages
from tidegate.ingest.decode.rows import bad_rows, picked
from tidegate.ingest.generator_tables import TABLES, Recipe, Table
from tidegate.ingest.source import (
    Bad,
    Chunk,
    Columns,
    Decoded,
    Format,
    Included,
    Lag,
    Limit,
    Position,
    Split,
    Wanted,
)
from tidegate.plan.mfp import MapFilterProject

STRETCH = 1_000_000
"""Records that one task makes."""
_BATCH = 65_536
"""Records that are made together."""
_BYTES = 100
"""What a record counts as, where a batch is limited by bytes."""
_DEFAULT_START = datetime(2024, 1, 1, tzinfo=UTC)
_OPTIONS = ("rows", "rate", "seed", "start at")
_MOST = 1 << 40
"""Records that a generator may have: their times must not leave 64 bits."""


@dataclass(frozen=True)
class Made:
    """The format of a table that is made."""

    generator: str
    table: str
    recipe: Recipe

    @property
    def made(self) -> Table:
        """How it is made."""
        return TABLES[self.generator][self.table]

    @property
    def columns(self) -> Columns:
        """The table's."""
        return self.made.columns

    @property
    def splittable(self) -> bool:
        """It is in no file."""
        return False

    def take(self, plan: MapFilterProject) -> tuple[MadeDecode, MapFilterProject]:
        """Takes the columns that are demanded, and the conditions over them."""
        staged, left = stages(plan, len(self.columns))
        return MadeDecode(self, staged), left

    def to_json(self) -> dict[str, Any]:
        """What the catalog keeps."""
        recipe = self.recipe
        return {
            "generator": self.generator,
            "table": self.table,
            "recipe": [recipe.seed, recipe.start, recipe.every, recipe.per],
        }


def format_from_json(kept: Mapping[str, Any]) -> Made:
    """What `Made.to_json` gave."""
    return Made(kept["generator"], kept["table"], Recipe(*kept["recipe"]))


@dataclass(frozen=True)
class MadeDecode:
    """A table of which some columns are wanted."""

    format: Made
    staged: Staged

    @property
    def columns(self) -> Columns:
        """What the plan makes of the columns of its conditions, and others that it demands."""
        return self.staged.columns

    def made(self, numbers: np.ndarray) -> Decoded:
        """The records of these numbers."""
        rows = self.staged.before.evaluate(self._columns(self.staged.first, numbers), len(numbers))
        later = self._columns(self.staged.later, numbers[rows.selection])
        return Decoded(
            [*rows.columns, *later],
            rows.selection,
            list(bad_rows(rows, np.arange(len(numbers)))),
            len(numbers),
            lambda record: str(numbers[record]).encode(),
            size=len(numbers) * _BYTES,
        )

    def _columns(self, wanted: Sequence[int], numbers: np.ndarray) -> list[pa.Array]:
        fields = self.format.made.fields
        return [fields[i][2](self.format.recipe, numbers) for i in wanted]

    def records(self, values: pa.Array) -> Decoded:
        """Each value the number of a record, in digits."""
        numbers = np.zeros(len(values), np.int64)
        wrong: list[Bad] = []
        for i, value in enumerate(values.to_pylist()):
            if value is not None and value.isdigit() and int(value) < _MOST:
                numbers[i] = int(value)
            else:
                wrong.append((i, "the value is not the number of a record"))
        if not wrong:
            return self.made(numbers)
        good = np.setdiff1d(np.arange(len(values)), [i for i, _ in wrong])
        found = self.made(picked(pa.array(numbers), good).to_numpy())
        failures = [(int(good[i]), message) for i, message in found.failures]
        return Decoded(
            found.columns,
            good[found.selection],
            sorted([*failures, *wrong]),
            len(values),
            lambda record: values[record].as_py() or b"",
            size=values.nbytes,
        )

    def file(self, opened: BinaryIO, name: str) -> Iterator[Decoded]:
        """It is in no file."""
        del opened
        raise UnsupportedError(f"a generator's records are in no file such as {name}")


@dataclass(frozen=True)
class Generator:
    """One of `TABLES`, with its options."""

    name: str
    recipe: Recipe
    rows: int | None = None
    live: bool = False
    """Whether records come by the clock."""
    clock: Clock = field(default_factory=SystemClock, compare=False, repr=False)

    # ------------------------------------------------------------ created and kept

    @staticmethod
    def create(given: Given, clock: Clock | None = None) -> Generator:
        """The generator that a statement asks for."""
        clock = clock or SystemClock()
        name, options = given.of or "", {**given.options, **given.more}
        if name not in TABLES:
            raise BindError(f"there is no generator {name}", hint=f"one of {', '.join(TABLES)}")
        for option in options:
            if option not in _OPTIONS:
                raise BindError(
                    f"GENERATOR has no option {option.upper()}", hint=f"it has {', '.join(_OPTIONS).upper()}"
                )
        rows = _count(options, "rows")
        rate = _rate(options.get("rate", 1 if rows is None else None))
        default = clock.now() * 1000 if rate else _micros(_DEFAULT_START)
        recipe = Recipe(
            _count(options, "seed") or 0, _start(options.get("start at"), default), *(rate or (1_000_000, 1))
        )
        if (rows or 0) * recipe.every // recipe.per > _micros(
            datetime.max.replace(tzinfo=UTC)
        ) - recipe.start:
            raise BindError(
                "the last of these ROWS would happen after the year 9999", hint="fewer, or a RATE"
            )
        return Generator(name, recipe, rows, rate is not None, clock)

    def to_json(self) -> dict[str, Any]:
        """What the catalog keeps."""
        recipe = self.recipe
        return {
            "name": self.name,
            "recipe": [recipe.seed, recipe.start, recipe.every, recipe.per],
            "rows": self.rows,
            "live": self.live,
        }

    @staticmethod
    def from_json(kept: Mapping[str, Any], connection: Connection | None = None) -> Generator:
        """What `to_json` gave."""
        del connection  # it has none
        return Generator(kept["name"], Recipe(*kept["recipe"]), kept["rows"], kept["live"])

    # ------------------------------------------------------------ Upstream

    def tables(self) -> dict[str, Format]:
        """Those of the generator."""
        return {table: Made(self.name, table, self.recipe) for table in TABLES[self.name]}

    def includes(self, included: Included) -> Type:
        """OFFSET: the record's number."""
        if included.what != "offset":
            raise BindError(f"generators have no {included.what.upper()}", hint="INCLUDE OFFSET")
        return INT8

    def start(self) -> Position:
        """The first record."""
        return {"row": 0}

    def latest(self, after: Position, limit: Limit) -> Position:
        """All that is there, or what the limit allows."""
        done = after["row"]
        most = [self._there() - done]
        if limit.rows is not None:
            most.append(limit.rows)
        if limit.bytes is not None:
            most.append(limit.bytes // _BYTES)
        return {"row": done + (max(1, min(most)) if most[0] > 0 else 0)}

    def splits(self, after: Position, upto: Position) -> list[Split]:
        """Stretches of about equal size."""
        start, end = after["row"], upto["row"]
        count = -(-(end - start) // STRETCH)
        cuts = [start + (end - start) * i // count for i in range(count + 1)] if count else []
        return [Split("row", *pair) for pair in pairwise(cuts)]

    def read(
        self, split: Split, wanted: Sequence[Wanted], included: Sequence[Included]
    ) -> Iterator[tuple[int, Chunk]]:
        """The records of a split."""
        for start in range(split.start, split.end, _BATCH):
            for number, one in enumerate(wanted):
                if not isinstance(one.decode, MadeDecode):
                    raise SourceError("a generator's tables have a format of their own", again=False)
                numbers = one.decode.format.made.numbers(start, min(start + _BATCH, split.end))
                if len(numbers):
                    columns = [pa.array(numbers) for _ in included]
                    yield number, Chunk(one.decode.made(numbers), columns, _position(numbers))

    def acknowledge(self, upto: Position) -> None:
        """They can always be made again."""

    def lag(self, at: Position) -> Lag:
        """Records that are there and were not read; since when the first of them is. Before the first batch it is nowhere."""
        done = at.get("row", 0)
        left = max(0, self._there() - done)
        if not self.live or not left:
            return Lag(records=left, milliseconds=None if left else 0)
        since = int(self.recipe.times(np.array([done]))[0]) // 1000
        return Lag(records=left, milliseconds=max(0, self.clock.now() - since))

    def drop(self) -> None:
        """Nothing is held."""

    def _there(self) -> int:
        """How many records there are by now."""
        most = _MOST if self.rows is None else self.rows
        if not self.live:
            return most
        passed = self.clock.now() * 1000 - self.recipe.start
        return min(most, passed * self.recipe.per // self.recipe.every + 1) if passed >= 0 else 0


def _position(numbers: np.ndarray) -> Any:
    return lambda record: {"row": int(numbers[record])}


# ---------------------------------------------------------------- options


def _micros(at: datetime) -> int:
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def _count(options: Mapping[str, Any], name: str) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise BindError(f"{name.upper()} is a whole number from 0 to {_MOST}")
    return value


def _rate(value: Any) -> tuple[int, int] | None:
    """RATE as µs, and how many records within these."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= 1_000_000_000:
        raise BindError("RATE is a number of records a second, from 0.001 to 1000000000")
    return (1_000_000, value) if isinstance(value, int) else (round(1_000_000_000 / value), 1000)


def _start(value: Any, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value.strip())
        except ValueError:
            at = None
        if at is not None:
            return _micros(at if at.tzinfo else at.replace(tzinfo=UTC))
    raise BindError("START AT is a time", hint="START AT '2026-01-01 00:00:00+00'")
