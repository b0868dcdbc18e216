"""Aggregates as states that can be put together: of rows, of batches, of parts.

    reducer = reducer_of(Aggregate("sum", INT8, 0), INT4)
    state = reducer.lift(values)              a state for each row: some columns
    state = reducer.combine(state, groups)    one for each group; states of different batches are combined just so
    reducer.finish(state)                     the values, and errors where a sum does not fit

So rows are aggregated batch by batch, and what is in memory is a row for each group. A sum is exact until it is finished: it is
kept in limbs of 32 bits, each with room for two billion more before it carries. Take int8 values -1 and 2**62:

| | limb 0 | limb 1 | limb 2 |
|---|---|---|---|
| -1 | 4294967295 | -1 | 0 |
| 2**62 | 0 | 1073741824 | 0 |
| added up, and carried | 4294967295 | 1073741823 | 0 |

Least and greatest are found among integers that rise with the values, where there are such (`_codes`), else by Arrow, or by sorting
the keys of `storage/part/row_keys.py`. Which of several values that are equal, but not identical, is given does not depend on
the order of
rows: -0 is less than 0 there, and 30 days less than 1 month.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Kind, Outcome, Type, order, outcome, to_bools, to_numpy
from tidegate.expr.primitives import NUMERIC_OVERFLOW, checked_intervals, int64_words
from tidegate.expr.primitives import bigint as limbs
from tidegate.plan import Aggregate
from tidegate.query.aggregate.groups import Groups
from tidegate.storage.part import exact_keys

State: TypeAlias = list["np.ndarray | pa.Array"]
"""Columns with a row for each group (or row)."""

_BITS, _LOW = 32, np.int64(0xFFFF_FFFF)
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_FLIP = np.int64(_GREATEST)


class Reducer(Protocol):
    """How one aggregate is computed."""

    def lift(self, values: pa.Array) -> State:
        """The state of each row."""

    def combine(self, state: State, groups: Groups) -> State:
        """The state of each group."""

    def finish(self, state: State) -> Outcome:
        """The value of each group."""


def reducer_of(aggregate: Aggregate, given: Type | None) -> Reducer:
    """The reducer of an aggregate over values of type `given`."""
    if aggregate.kind == "count":
        return Count(every=given is None)
    assert given is not None
    if aggregate.kind != "sum":
        return Extreme(given.arrow, greatest=aggregate.kind == "max")
    if given.is_float:
        return FloatSum(aggregate.type.arrow)
    return IntervalSum() if given.kind is Kind.INTERVAL else ExactSum(aggregate.type)


def nothing(reducer: Reducer, given: Type | None) -> State:
    """The state of a group without rows."""
    return [np.zeros(1, np.int64)] if given is None else reducer.lift(pa.nulls(1, given.arrow))


def joined(states: Sequence[State]) -> State:
    """The groups of all of them, one after the other."""
    return [
        np.concatenate(pieces) if isinstance(pieces[0], np.ndarray) else pa.concat_arrays(pieces)
        for pieces in zip(*states, strict=True)
    ]


def add_rows(reducer: Reducer, state: State, values: pa.Array) -> State:
    """The state of one group with some more rows."""
    lifted = joined([state, reducer.lift(values)])
    return reducer.combine(lifted, Groups.of([], len(values) + 1))


def bytes_of(columns: Sequence[np.ndarray | pa.Array]) -> int:
    """What they take in memory."""
    return sum(int(column.nbytes) for column in columns)


@dataclass(frozen=True)
class Count:
    """How many rows, or how many values that are not NULL: an integer."""

    every: bool

    def lift(self, values: pa.Array) -> State:
        """1, or 0 for NULL."""
        if self.every or not values.null_count:
            return [np.ones(len(values), np.int64)]
        return [to_bools(values.is_valid()).astype(np.int64)]

    def combine(self, state: State, groups: Groups) -> State:
        """The sum."""
        return [groups.reduce(np.add, state[0])]

    def finish(self, state: State) -> Outcome:
        """As it is."""
        return Outcome(pa.array(state[0], pa.int64()))


@dataclass(frozen=True)
class ExactSum:
    """A sum of integers or decimals: how many values, and limbs, of which the uppermost has the sign."""

    type: Type

    def lift(self, values: pa.Array) -> State:
        """Nothing where NULL."""
        valid = to_bools(values.is_valid())
        if pa.types.is_decimal(values.type):
            low, high = (np.where(valid, word, 0) for word in int64_words(values))
            parts = [low & _LOW, (low >> _BITS) & _LOW, high & _LOW, high >> _BITS]
        else:
            parts = split(to_numpy(values).astype(np.int64))
        return [valid.astype(np.int64), *parts]

    def combine(self, state: State, groups: Groups) -> State:
        """Limb by limb, then carried."""
        return [
            groups.reduce(np.add, state[0]),
            *carried([groups.reduce(np.add, limb) for limb in state[1:]]),
        ]

    def finish(self, state: State) -> Outcome:
        """As int8 or numeric, if it fits."""
        low, high, over = _words(carried([np.asarray(limb) for limb in state[1:]]))
        some = pa.array(np.asarray(state[0]) > 0)
        if self.type.is_integer:
            errors = outcome.failing(over | (high != low >> 63), "bigint out of range")
            values = pa.array(low, pa.int64())
        else:
            raw = pa.py_buffer(np.ascontiguousarray(np.stack([low, high], axis=1)))
            wide = pa.Array.from_buffers(self.type.arrow, len(low), [None, raw])
            values, large = limbs.to_decimal(*limbs.from_decimal(wide), self.type.arrow)
            errors = outcome.failing(over | large, NUMERIC_OVERFLOW)
        return outcome.with_errors(pc.if_else(some, values, pa.scalar(None, values.type)), errors)


def split(values: np.ndarray) -> list[np.ndarray]:
    """Integers of 64 bits as three limbs."""
    return [values & _LOW, values >> _BITS, np.zeros_like(values)]


def carried(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Limbs of which all but the uppermost are within 32 bits again."""
    result: list[np.ndarray] = []
    carry: np.ndarray = np.zeros(1, np.int64)
    for part in parts[:-1]:
        total = part + carry
        result.append(total & _LOW)
        carry = total >> _BITS
    return [*result, parts[-1] + carry]


def _words(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Carried limbs as the two words of 128 bits, and where these do not hold them."""
    if len(parts) == 3:
        parts = [*parts[:2], parts[2] & _LOW, parts[2] >> _BITS]
    over = parts[3] != parts[3].astype(np.int32)
    return parts[0] | parts[1] << _BITS, parts[2] | parts[3] << _BITS, over


@dataclass(frozen=True)
class FloatSum:
    """A sum of floats: how many values, how many that are not finite, and the sum as float8."""

    type: pa.DataType

    def lift(self, values: pa.Array) -> State:
        """0 where NULL."""
        plain = to_numpy(values, 0.0).astype(np.float64)
        return [to_bools(values.is_valid()).astype(np.int64), (~np.isfinite(plain)).astype(np.int64), plain]

    def combine(self, state: State, groups: Groups) -> State:
        """One after the other."""
        with np.errstate(over="ignore", invalid="ignore"):
            return [groups.reduce(np.add, column) for column in state]

    def finish(self, state: State) -> Outcome:
        """An infinite sum of finite values is an error."""
        count, odd, total = (np.asarray(column) for column in state)
        with np.errstate(over="ignore"):
            narrow = total.astype(self.type.to_pandas_dtype())
        from tidegate.expr.functions import FLOAT_OVERFLOW  # on use: it declares all functions

        errors = outcome.failing((odd == 0) & ~np.isfinite(narrow), FLOAT_OVERFLOW)
        return outcome.with_errors(pa.array(narrow, self.type, mask=count == 0), errors)


@dataclass(frozen=True)
class IntervalSum:
    """A sum of intervals: how many, months, days, and microseconds as limbs."""

    def lift(self, values: pa.Array) -> State:
        """Nothing where NULL."""
        months, days, micros = order.interval_parts(values)
        return [to_bools(values.is_valid()).astype(np.int64), months, days, *split(micros)]

    def combine(self, state: State, groups: Groups) -> State:
        """Each by itself: months are never made days."""
        added = [groups.reduce(np.add, column) for column in state]
        return [*added[:3], *carried(added[3:])]

    def finish(self, state: State) -> Outcome:
        """Carries overflow of an interval part into the next, as `+` does; overflow of all is an error."""
        count, months, days, *parts = (np.asarray(column) for column in state)
        low, high, over = _words(carried(parts))
        over = over | (high != low >> 63)
        values, errors = checked_intervals(months, days, np.where(over, 0, low), bad=over)
        return outcome.with_errors(
            pc.if_else(pa.array(count > 0), values, pa.scalar(None, values.type)), errors
        )


@dataclass(frozen=True)
class Extreme:
    """The least or the greatest value: the value itself."""

    type: pa.DataType
    greatest: bool

    def lift(self, values: pa.Array) -> State:
        """The values."""
        return [values]

    def combine(self, state: State, groups: Groups) -> State:
        """By integers that rise with the values, else by keys that do."""
        values: pa.Array = state[0]
        codes = _codes(values)
        if codes is not None:
            return [self._coded(values, codes, groups)]
        odd = pa.types.is_interval(values.type) or pa.types.is_nested(values.type)
        return [self._sorted(values, groups) if odd else self._compared(values, groups)]

    def finish(self, state: State) -> Outcome:
        """As it is."""
        return Outcome(state[0])

    def _coded(self, values: pa.Array, codes: np.ndarray, groups: Groups) -> pa.Array:
        valid = to_bools(values.is_valid())
        worst = _LEAST if self.greatest else _GREATEST
        given = np.where(valid, codes, worst) if values.null_count else codes
        best = groups.reduce(np.maximum if self.greatest else np.minimum, given)
        some = groups.reduce(np.maximum, valid.view(np.int8)) > 0
        return pc.if_else(pa.array(some), _decoded(best, values.type), pa.scalar(None, values.type))

    def _compared(self, values: pa.Array, groups: Groups) -> pa.Array:
        """By Arrow, which compares bytes, and so text by code point."""
        fixed = pa.types.is_fixed_size_binary(values.type)
        given = pa.table({"group": groups.number, "x": values.cast(pa.binary()) if fixed else values})
        name = "max" if self.greatest else "min"
        found = given.group_by("group", use_threads=False).aggregate([("x", name)])
        place = np.empty(groups.count, np.int64)
        place[found.column("group").to_numpy()] = np.arange(groups.count)
        best = found.column(f"x_{name}").combine_chunks().take(pa.array(place))
        return best.cast(values.type) if fixed else best

    def _sorted(self, values: pa.Array, groups: Groups) -> pa.Array:
        rows = np.flatnonzero(to_bools(values.is_valid()))
        keys = exact_keys([values.take(pa.array(rows))], len(rows))
        rising = rows[pc.sort_indices(keys).to_numpy()]
        picked = np.full(groups.count, -1, np.int64)
        rising = rising if self.greatest else rising[::-1]
        picked[groups.number[rising]] = rising  # of several rows of a group the last one stays
        return values.take(pa.array(picked, mask=picked < 0))


def _codes(values: pa.Array) -> np.ndarray | None:
    """Integers that rise with the values, anything where NULL; None where there are none of 64 bits."""
    type_ = values.type
    if pa.types.is_boolean(type_):
        return to_bools(values).astype(np.int64)
    if pa.types.is_floating(type_):
        plain = to_numpy(values, 0.0).astype(np.float64)
        bits = plain.view(np.int64)
        return np.where(np.isnan(plain), _GREATEST, np.where(bits < 0, bits ^ _FLIP, bits))
    if pa.types.is_decimal(type_):
        low, high = int64_words(values)
        if values.null_count:
            valid = to_bools(values.is_valid())
            low, high = np.where(valid, low, 0), np.where(valid, high, 0)
        return low if (high == low >> 63).all() else None
    plain = outcome.integers(values.slice(0, 0)).type
    return to_numpy(values).astype(np.int64) if pa.types.is_integer(plain) else None


def _decoded(codes: np.ndarray, type_: pa.DataType) -> pa.Array:
    """The values of codes."""
    if pa.types.is_boolean(type_):
        return pa.array(codes == 1)
    if pa.types.is_floating(type_):
        plain = np.where(codes < 0, codes ^ _FLIP, codes).view(np.float64)
        return pa.array(np.where(codes == _GREATEST, np.nan, plain).astype(type_.to_pandas_dtype()), type_)
    if pa.types.is_decimal(type_):
        pairs = np.ascontiguousarray(np.stack([codes, codes >> 63], axis=1))
        return pa.Array.from_buffers(type_, len(codes), [None, pa.py_buffer(pairs)])
    narrow = outcome.integers(pa.array([], type_)).type.to_pandas_dtype()
    return outcome.from_numpy(codes.astype(narrow), type_)
