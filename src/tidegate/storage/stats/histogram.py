"""Equi-depth histograms and distinct counts of columns: for estimates, never for pruning.

A histogram has 16 buckets with as many rows each. What is kept are the 15 values between them, each as its
place between the bounds (0 is the low one, 1 the high one) in two bytes, the upper half of a float32: an
outlier that stretches the range does not blur what is near the low end.

    1, 2, 3, …, 99 and 1,000,000    →   places 0.0000061, 0.000012, …    `fraction_below(50)` is about 0.5

Both come from a sample of rows taken at even distances. Places are computed with `keys`: numbers that rise
with the values; for text and bytes the eight bytes that follow what both bounds begin with.

>>> import numpy as np
>>> made = pa.array([histogram(np.arange(1001.0), 0.0, 1000.0)], HISTOGRAM)
>>> fraction_below(np.array([250.0]), made, np.array([0.0]), np.array([1000.0])).round(2).tolist()
[0.25]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import common_prefix
from tidegate.expr.model import order, outcome, to_bools
from tidegate.expr.primitives import slice_bytes
from tidegate.storage.stats.shorten import shared_bytes

BUCKETS = 16
INNER = BUCKETS - 1
HISTOGRAM = pa.binary(2 * INNER)
SAMPLE = 1024
_WORD = 8


def sample(values: pa.Array) -> pa.Array:
    """Up to 1,024 values at even distances, NULL left out."""
    if len(values) > SAMPLE:
        values = values.take(pa.array(np.linspace(0, len(values) - 1, SAMPLE).astype(np.int64)))
    return values.drop_null()


def keys(values: pa.Array, skip: np.ndarray | int = 0) -> np.ndarray:
    """Numbers that never fall as values rise, NaN where null; the first `skip` bytes of text are ignored."""
    kind = values.type
    if pa.types.is_interval(kind):
        values = order.interval_key(values)
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _text_keys(values.cast(pa.binary()), skip)
    elif pa.types.is_temporal(kind):
        values = outcome.integers(values)
    elif pa.types.is_nested(kind):  # no number stands for an array or a record: all lie at the same place
        return np.where(to_bools(values.is_valid()), 0.0, np.nan)
    result: np.ndarray = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return result


def _text_keys(values: pa.Array, skip: np.ndarray | int) -> np.ndarray:
    start = np.broadcast_to(np.asarray(skip, np.int64), len(values))
    after = slice_bytes(values, start, start + _WORD)
    padded = np.array(after.to_pylist(), f"S{_WORD}") if len(values) else np.zeros(0, f"S{_WORD}")
    result = padded.view(">u8").astype(np.float64)
    return (
        np.where(values.is_null().to_numpy(zero_copy_only=False), np.nan, result)
        if values.null_count
        else result
    )


def shared(low: pa.Array, high: pa.Array) -> np.ndarray | int:
    """How many bytes the bounds of each container begin with in common; 0 for what is no text."""
    if not (pa.types.is_string(low.type) or pa.types.is_binary(low.type)):
        return 0
    if pa.types.is_binary(low.type):
        pairs = zip(low.to_pylist(), high.to_pylist(), strict=True)
        return np.array([shared_bytes(a, b) for a, b in pairs], np.int64)
    both = common_prefix(low, high)
    result: np.ndarray = pc.binary_length(both).to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def histogram(given: np.ndarray, low: float, high: float) -> bytes:
    """The histogram of a sample's keys between the keys of the bounds; empty if there are too few."""
    given = given[~np.isnan(given)]
    width = high - low
    if len(given) < BUCKETS or not np.isfinite(width) or width <= 0:
        return b""
    at = np.linspace(0, len(given) - 1, BUCKETS + 1)[1:-1]
    places = (np.sort(given)[at.round().astype(np.int64)] - low) / width
    short = np.clip(places, 0, 1).astype(np.float32).view(np.uint32) >> 16
    return short.astype("<u2").tobytes()


def distinct(given: pa.Array, numbers: np.ndarray, rows: int) -> int:
    """Estimates the distinct values among `rows` from a sample and its keys.

    What came once in the sample stands for many others, what came twice or more is taken to be all there is of its kind: the
    estimate of Charikar et al. (PODS 2000), off by at most the root of what one row of the sample stands for.
    """
    if pa.types.is_string(given.type) or pa.types.is_binary(given.type):
        times = pc.struct_field(pc.value_counts(given), "counts").to_numpy()
    else:
        times = np.unique(numbers, return_counts=True)[1]
    if not len(given):
        return 0
    once = int((times == 1).sum())
    guess = np.sqrt(max(1.0, rows / len(given))) * once + (len(times) - once)
    return int(min(max(round(float(guess)), len(times)), rows))


def max_distinct(rows: np.ndarray) -> np.ndarray:
    """What `distinct` says where all values of the sample differ; it cannot tell such columns apart."""
    rows = np.maximum(rows, 1).astype(np.float64)
    most: np.ndarray = np.sqrt(rows * np.minimum(rows, SAMPLE))
    return most


def fraction_below(value: np.ndarray, histograms: pa.Array, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The estimated share of each container's values below `value`; arguments are keys.

    Where a bound is not known (NaN) the guess is a half; where a histogram is null the rows are taken to lie evenly.
    """
    place = _placed(value, low, high)
    share = _interpolated(place, _edges(histograms))
    return np.where(np.isnan(place), 0.5, np.clip(share, 0, 1))


class Histograms:
    """The bounds and histograms of n containers, ready to be asked about one value after the other.

    >>> low, high = pa.array([1, 5]), pa.array([3, 9])
    >>> Histograms(low, high, pa.nulls(2, HISTOGRAM)).below(pa.scalar(7)).tolist()
    [1.0, 0.5]
    """

    def __init__(self, low: pa.Array, high: pa.Array, histograms: pa.Array) -> None:
        """All of length n; null where nothing is known."""
        self._low, self._high = low, high
        self._skip = shared(low, high)
        self._ends = keys(low, self._skip), keys(high, self._skip)
        self._made = to_bools(histograms.is_valid())
        self._edges = _edges(histograms)

    def below(self, value: pa.Scalar) -> np.ndarray:
        """About which share of the values is less than `value`, a half where nothing is known."""
        place = _placed(self._key(value), *self._ends)
        share = np.clip(_interpolated(place, self._edges), 0, 1)
        share = np.where(np.isnan(place), 0.5, share)
        # Of text that does not begin as both bounds do, the key means nothing.
        share = np.where(to_bools(order.less(self._high, value)), 1.0, share)
        return np.where(to_bools(order.less(value, self._low)), 0.0, share)

    def within(self, value: pa.Scalar) -> np.ndarray:
        """Where `value` is not outside of the bounds."""
        outside: np.ndarray = to_bools(order.less(value, self._low)) | to_bools(order.less(self._high, value))
        return ~outside

    def edges_at(self, value: pa.Scalar) -> np.ndarray:
        """How many of the 15 values between the buckets are `value`: k of them are about k/16 of all rows."""
        place = np.clip(_placed(self._key(value), *self._ends), 0, 1)
        cut = (place.astype(np.float32).view(np.uint32) >> 16 << 16).view(np.float32)
        equal = self._edges[:, 1:-1] == cut[:, None].astype(np.float64)
        return np.where(self._made & self.within(value), equal.sum(axis=1), 0)

    def _key(self, value: pa.Scalar) -> np.ndarray:
        n = len(self._low)
        if isinstance(self._skip, int):
            return np.broadcast_to(keys(outcome.spread(value, 1)), n)
        raw = value.as_py().encode() if pa.types.is_string(value.type) else value.as_py()
        skips, at = np.unique(self._skip, return_inverse=True)
        found = [float(int.from_bytes(raw[i : i + _WORD].ljust(_WORD, b"\0"), "big")) for i in skips.tolist()]
        return np.array(found, np.float64)[at]


def _placed(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where a value lies between the bounds, which are at 0 and 1; NaN where one is not known."""
    with np.errstate(invalid="ignore", divide="ignore"):  # bounds may be infinite
        width = high - low
        place = np.where(width > 0, (value - low) / width, np.where(value > low, 1.0, 0.0))
    return np.where(np.isnan(width), np.nan, place)


def _edges(histograms: pa.Array) -> np.ndarray:
    """Where each bucket begins and the last one ends; even ones where a histogram is null."""
    edges = np.tile(np.linspace(0, 1, BUCKETS + 1), (len(histograms), 1))
    made = histograms.drop_null()
    if len(made):
        raw = np.frombuffer(made.buffers()[1], "<u2", len(made) * INNER, made.offset * 2 * INNER)
        inner = (raw.reshape(-1, INNER).astype(np.uint32) << 16).view(np.float32)
        edges[to_bools(histograms.is_valid()), 1:-1] = inner
    return edges


def _interpolated(place: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Full buckets below, and of the bucket that holds the place what lies below it."""
    full = (edges[:, 1:] <= place[:, None]).sum(axis=1)
    at = np.minimum(full, BUCKETS - 1)
    rows = np.arange(len(edges))
    begin, end = edges[rows, at], edges[rows, at + 1]
    inside = np.where(end > begin, (place - begin) / np.where(end > begin, end - begin, 1), 0)
    share: np.ndarray = (full + np.where(full < BUCKETS, np.clip(inside, 0, 1), 0)) / BUCKETS
    return share
