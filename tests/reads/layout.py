"""Random collections: a schema over all types, poison values, and a history of appends, retractions, ALTERs and compactions.

    made = make(seed)           the same each time for a seed
    made.db, made.model         a database in memory, and what table `t` must hold at any time
    made.story                  what was done to it, a line each: printed when a query over it goes wrong

The model does not compare rows: every appended row has a number, and a retraction says which number it takes away. So what is there
at a time is a sum of diffs by number, whatever the values are.

| size | rows | what it is for |
|---|---|---|
| small | up to some hundred, in up to 12 parts | values, schemas, times, retractions: pruning of parts |
| pages | 20,000 to 60,000 | several pages of 8,192 rows in a part: pruning of pages, reading in stages |
| groups | 1,060,000, few columns | two row groups in a part |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

import tidegate
from tests.laws.boxes import VARIANTS, Pool, pool
from tests.laws.poison import DAY, with_nulls
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.expr.model import order
from tidegate.expr.model.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    MZ_TIMESTAMP,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Kind,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip

TYPES = (
    BOOL, INT2, INT4, INT4, INT8, FLOAT4, FLOAT8, FLOAT8, NUMERIC, numeric(10, 2), TEXT, TEXT, BYTEA, DATE, TIME, TIMESTAMP,
    TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL, UUID, JSONB, JSONB, MZ_TIMESTAMP, array(INT4), array(TEXT), array(FLOAT8),
    record(("x", INT4), ("y", TEXT)), record(("f", FLOAT8), ("d", INTERVAL)),
)  # fmt: skip
"""Every type that a column can have; those that filters use most stand twice."""
NARROW = (INT4, FLOAT8, TEXT, TIMESTAMPTZ)
NOW = 1_700_000_000_000
Size = Literal["small", "pages", "groups"]


@dataclass(frozen=True)
class Column:
    """A column; `number` tells it from one of the same name that was dropped."""

    number: int
    name: str
    type: Type


@dataclass
class Model:
    """What was appended and retracted, by the numbers of rows."""

    columns: list[Column]
    pieces: list[dict[int, pa.Array]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    events: list[tuple[int, np.ndarray, np.ndarray]] = field(default_factory=list)
    """Time, numbers of rows, diffs."""

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    def times_there(self, as_of: int | None = None) -> np.ndarray:
        """How often each row is there."""
        count = np.zeros(self.rows, np.int64)
        for at, rows, diffs in self.events:
            if as_of is None or at <= as_of:
                np.add.at(count, rows, diffs)
        return count

    def values(self, column: Column) -> pa.Array:
        """The column of every row that was ever appended; NULL for those from before it was added."""
        arrow = column.type.arrow
        found = [
            piece[column.number] if column.number in piece else pa.nulls(size, arrow)
            for piece, size in zip(self.pieces, self.sizes, strict=True)
        ]
        return pa.concat_arrays(found) if found else pa.array([], arrow)

    def snapshot(self, as_of: int | None = None) -> tuple[list[pa.Array], int]:
        """The rows at a time, each as often as it is there."""
        there = self.times_there(as_of)
        at = pa.array(np.repeat(np.arange(self.rows), there))
        return [self.values(column).take(at) for column in self.columns], len(at)


@dataclass
class Made:
    """A database and its model."""

    seed: int
    size: Size
    db: tidegate.Database
    clock: ManualClock
    model: Model
    story: list[str] = field(default_factory=list)

    @property
    def times(self) -> list[int]:
        """Times that can be read at, at or beside which something happened."""
        state = self.db.status().collections["t"]
        seen = {at + d for at, _, _ in self.model.events for d in (-1, 0, 1)} | {state.since, state.upper - 1}
        return sorted(at for at in seen if state.since <= at < state.upper)


def make(seed: int, size: Size) -> Made:
    """The collection of a seed."""
    return _Maker(seed, size).make()


class _Maker:
    def __init__(self, seed: int, size: Size) -> None:
        self.rng = np.random.default_rng([seed, len(size)])
        self.size = size
        self.clock = ManualClock(NOW - 1_000_000)
        self.named = 0
        knobs = self._knobs()
        db = tidegate.open("memory://", clock=self.clock, config=Config(**knobs))
        self.made = Made(seed, size, db, self.clock, Model([]), [f"config {knobs}"])

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _knobs(self) -> dict[str, int]:
        if self.size == "groups":
            return {}
        return {
            "batch_rows": self.pick(1_000, 5_000, 65_536)
            if self.size == "pages"
            else self.pick(3, 50, 65_536),
            "part_bytes": self.pick(200_000, 1 << 27)
            if self.size == "pages"
            else self.pick(2_000, 10_000, 1 << 27),
            "read_threads": self.pick(1, 2, 4),
            "retractions_in_memory": self.pick(0, 1_000_000),
            "stats_budget": self.pick(64, 1024, 1024),
            "compact_fanout": self.pick(2, 3, 8),
        }

    def make(self) -> Made:
        rng, model = self.rng, self.made.model
        if self.size == "groups":
            types: list[Type] = list(NARROW)
        else:
            types = [TYPES[i] for i in rng.integers(0, len(TYPES), self.pick(2, 5, 8, 12))]
        model.columns = [self._column(type_, i) for i, type_ in enumerate((INT8, TIMESTAMPTZ, *types))]
        self._create()
        for _ in range({"small": self.pick(1, 4, 8, 12), "pages": self.pick(1, 2), "groups": 1}[self.size]):
            self._append()
            if self.size == "small" and self.chance(0.35):
                self._alter()
            if self.size != "groups" and self.chance(0.4):
                self._retract()
            if self.size != "groups" and self.chance(0.2):
                full = self.chance(0.3)
                self.made.story.append(f"compact full={full}")
                self.made.db.compact("t", full=full)
        self.clock.set(NOW)
        return self.made

    def _column(self, type_: Type, number: int, name: str | None = None) -> Column:
        return Column(number, name or ("id", "at")[number] if number < 2 else name or f"c{number}", type_)

    def _sql(self, sql: str) -> None:
        self.made.story.append(sql)
        self.made.db.sql(sql)

    def _create(self) -> None:
        columns = self.made.model.columns
        self.named = len(columns)
        cluster, options = "", ""
        if self.chance(0.5):
            keys = self.rng.permutation(len(columns))[: self.pick(1, 1, 2)]
            keys = np.zeros(1, int) if self.chance(0.4) else keys
            cluster = f" CLUSTER BY ({', '.join(columns[i].name for i in keys)})"
        if self.chance(0.3):
            options = f" WITH (RETENTION = {self.pick(0, 200_000)})"
        declared = ", ".join(f"{column.name} {column.type}" for column in columns)
        self._sql(f"CREATE TABLE t ({declared}){cluster}{options}")

    def _alter(self) -> None:
        model = self.made.model
        spare = list(model.columns[2:])
        if spare and self.chance(0.4):
            gone = spare[int(self.rng.integers(len(spare)))]
            try:
                self._sql(f"ALTER TABLE t DROP COLUMN {gone.name}")
            except tidegate.TidegateError as refused:
                self.made.story[-1] += f"  -- refused: {refused.message}"
                return
            model.columns.remove(gone)
            # Another one of the same name, perhaps of another type, must not show what the first one held.
            name = gone.name if self.chance(0.5) else None
        else:
            name = None
        if self.chance(0.8):
            added = self._column(TYPES[int(self.rng.integers(len(TYPES)))], self.named, name)
            self.named += 1
            self._sql(f"ALTER TABLE t ADD COLUMN {added.name} {added.type}")
            model.columns.append(added)

    def _append(self) -> None:
        rows = {
            "small": self.pick(1, 5, 20, 100, 200),
            "pages": self.pick(20_000, 33_000, 60_000),
            "groups": 1_060_000,
        }[self.size]
        columns = {c.number: self._values(c, rows) for c in self.made.model.columns}
        diffs = np.where(self.rng.random(rows) < 0.05, self.rng.integers(1, 4, rows), 1)
        numbers = self.made.model.rows + np.arange(rows)
        self.made.model.pieces.append(columns)
        self.made.model.sizes.append(rows)
        self._commit(numbers, diffs if self.chance(0.4) else np.ones(rows, np.int64))

    def _retract(self) -> None:
        there = self.made.model.times_there()
        alive = np.flatnonzero(there)
        if not len(alive):
            return
        share = self.rng.choice([0.01, 0.2, 0.9])
        gone = alive[self.rng.random(len(alive)) < share]
        if len(gone):
            self._commit(gone, -np.where(self.chance(0.5), 1, there[gone]).astype(np.int64))

    def _commit(self, numbers: np.ndarray, diffs: np.ndarray) -> None:
        model = self.made.model
        at = pa.array(numbers)
        rows = {column.name: model.values(column).take(at) for column in model.columns}
        if (diffs < 0).any() and self.chance(0.5):
            rows = {name: otherwise(values) for name, values in rows.items()}
        self.clock.advance(self.pick(1, 1_000, 100_000))
        given = None
        if self.chance(0.3):
            given = max(self.clock.now(), self.made.db.status().collections["t"].upper) + self.pick(0, 5)
        time = self.made.db.append("t", rows, at=given, diff=diffs)
        self.made.story.append(f"append {len(numbers)} rows, diffs {set(diffs.tolist())}, at {time}")
        model.events.append((time, numbers, diffs))

    def _values(self, column: Column, rows: int) -> pa.Array:
        if column.name == "id":
            start = self.pick(0, self.made.model.rows, 1_000_000)
            return pa.array(start + np.arange(rows))
        if column.name == "at":
            now = self.clock.now() * 1000
            return pa.array(now + np.arange(rows) * self.pick(0, 1, 60_000_000), pa.int64()).view(
                column.type.arrow
            )
        if self.size == "groups" and column.type == TEXT:
            return pa.array(np.arange(rows) % 100_003).cast(pa.string())
        values = pool(column.type, int(self.rng.integers(VARIANTS)))
        found = straight(values.take(self._places(values, rows)))
        if len(values.nans) and self.chance(0.5):
            at = np.where(self.rng.random(rows) < 0.1, len(found), np.arange(rows))
            found = pa.concat_arrays([found, values.nans.slice(0, 1)]).take(pa.array(at))
        return with_nulls(self.rng, found, float(self.rng.choice([0, 0, 0.05, 0.5])))

    def _places(self, values: Pool, rows: int) -> np.ndarray:
        """Where in the pool each row's value stands: rising, in runs, from a narrow stretch, rare, or anywhere."""
        rng, many = self.rng, len(values)
        first = int(rng.integers(many))
        match self.pick(0, 1, 2, 3, 4):
            case 0:
                return np.sort(rng.integers(0, many, rows))
            case 1:
                runs = -(-rows // (3_000 if rows > 1_000 else 10))
                return np.repeat(rng.integers(0, many, runs), -(-rows // runs))[:rows]
            case 2:
                return np.minimum(first + rng.integers(0, 4, rows), many - 1)
            case 3:
                return np.where(rng.random(rows) < 0.002, rng.integers(0, many, rows), first)
            case _:
                return rng.integers(0, many, rows)


def straight(values: pa.Array) -> pa.Array:
    """Values of which no two are equal and yet different: 0 for -0, and months and days' worth of hours as days."""
    return _zeros(values, negative=False)


def otherwise(values: pa.Array) -> pa.Array:
    """Values that are equal to straight ones and yet different: a row of 0 is retracted by one of -0."""
    return _zeros(values, negative=True)


def _zeros(values: pa.Array, *, negative: bool) -> pa.Array:
    if pa.types.is_floating(values.type):
        plain = values.fill_null(1).to_numpy()
        turned = np.where(plain == 0, plain.dtype.type(-0.0 if negative else 0.0), plain)
        return pa.array(turned, values.type, mask=values.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_interval(values.type):
        months, days, micros = order.interval_parts(values)
        days = months * 30 + days + micros // DAY
        months = days // 30 if negative else np.zeros_like(days)
        return order.make_intervals(months, days - 30 * months, micros % DAY, values.is_valid())
    return values


assert {column.kind for column in TYPES} == set(Kind) - {Kind.UNKNOWN}, "every type that a column can have"
