"""Collects the statistics of a part while it is written, with vectorised kernels.

    collected = collect([ColumnValues(0, "id", INT8, ids), ColumnValues(1, "payload", JSONB, documents)], rows)
    collected.part()      the statistics of the part, by column id
    collected.pages()     the facts of a frame with a container for each page of 8,192 rows

Every column is looked at once, in stretches of a page; the whole part is put together from its pages.
Histograms and estimates of distinct values are of the part alone, from a sample. Rows under a NULL record
do not count, whatever placeholder lies there, and neither do elements under a NULL array.

Text is dear: comparing every string costs more than all else together, and Parquet's writer does it anyway.
Its order of text is ours, and its footer holds the least and the greatest of each row group. So text whose
pages do not differ (as a sample tells: for random text the bounds of a page help nobody) is left out, and
the part's bounds are taken from the footer of the file when it is written (`footed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Type, order, to_bools
from tidegate.storage.stats import histogram
from tidegate.storage.stats import shorten as cut
from tidegate.storage.stats.accumulate import Tally, cut_pair
from tidegate.storage.stats.columns import Facts, facts_of
from tidegate.storage.stats.extremes import count, extremes, float_extremes, valid_counts
from tidegate.storage.stats.json.collect import tally_documents
from tidegate.storage.stats.model import ColumnStats, Form, form_of
from tidegate.storage.stats.time_like import Place

PAGE_ROWS = 8192
NESTED = (Form.JSON, Form.RECORD, Form.ARRAY)
SAMPLE_PAGES, ROWS_A_PAGE = 32, 16
FEW_ROWS = 64
"""Rows up to which a part has no histograms."""
CLOSE = 0.6
"""Pages differ if the rows of one spread over less than this share of all values."""

Footer: TypeAlias = Mapping[int, tuple[str | bytes | None, str | bytes | None]]
"""The bounds of columns, by id, as the footer of the written file tells them."""


class ColumnValues(NamedTuple):
    """A column of the rows that are written."""

    id: int
    name: str
    type: Type
    values: pa.Array


@dataclass(frozen=True)
class Collected:
    """What was counted in a part, page by page."""

    columns: tuple[ColumnValues, ...]
    tallies: dict[int, Tally]
    starts: np.ndarray
    """Where each page starts, and where the last one ends."""

    def part(self, footer: Footer | None = None) -> dict[int, ColumnStats]:
        """The statistics of the whole part, by column id; `footer` has the bounds of text columns."""
        return {c.id: _with_guesses(c, self._whole(c, footer or {})) for c in self.columns}

    def _whole(self, column: ColumnValues, footer: Footer) -> ColumnStats:
        pages = self.tallies[column.id]
        whole = np.array([0, len(self.starts) - 1])
        stats = _merged(pages, whole).row(0)
        if pages.bounds is not None or stats.form in NESTED:
            return stats
        if column.id in footer:
            low, high = cut_pair(stats.form, *footer[column.id])
            return replace(stats, low=low, high=high)
        return _merged(replace(pages, bounds=extremes(column.values, self.starts)), whole).row(0)

    def pages(self) -> Facts:
        """The statistics of each page, as facts of a frame."""
        return facts_of(self.tallies)

    def page_rows(self) -> np.ndarray:
        """How many rows each page has."""
        return np.diff(self.starts)


def _merged(pages: Tally, whole: np.ndarray) -> Tally:
    """One stretch of all pages."""
    return pages if whole[1] == 1 else pages.merged(whole)


def collect(
    columns: Sequence[ColumnValues],
    rows: int,
    keep: frozenset[Place] = frozenset(),
    page_rows: int = PAGE_ROWS,
    *,
    footed: bool = False,
) -> Collected:
    """Looks at all columns of a part; `keep` names what the user marked KEEP STATISTICS.

    With `footed`, `part` will be given the bounds of text from the file's footer.
    """
    starts = np.minimum(np.arange(0, rows + page_rows, page_rows), rows) if rows else np.zeros(2, np.int64)
    tallies = {}
    for c in columns:
        if (
            footed
            and _is_text(c.values)
            and form_of(c.type) is not Form.JSON
            and not _clustered(c.values, starts)
        ):
            nulls = np.diff(starts) - valid_counts(c.values, starts)
            tallies[c.id] = Tally(form_of(c.type), np.diff(starts), nulls)
        else:
            tallies[c.id] = tally(c.values, c.type, starts, (c.name,), keep)
    return Collected(tuple(columns), tallies, starts)


def _is_text(values: pa.Array) -> bool:
    return bool(pa.types.is_string(values.type) or pa.types.is_binary(values.type))


def _clustered(values: pa.Array, starts: np.ndarray) -> bool:
    """Whether text differs between pages: a few rows of some pages rank close to each other."""
    pages = np.linspace(0, len(starts) - 2, min(len(starts) - 1, SAMPLE_PAGES)).astype(np.int64)
    if len(pages) < 2:
        return False
    within = np.linspace(0, 1, ROWS_A_PAGE, endpoint=False)
    rows = starts[pages][:, None] + (np.diff(starts)[pages][:, None] * within).astype(np.int64)
    some = values.take(pa.array(rows.ravel())).to_pylist()
    place = {value: i for i, value in enumerate(sorted({value for value in some if value is not None}))}
    ranks = np.array([place.get(value, 0) for value in some]).reshape(rows.shape)
    spread = np.ptp(ranks, axis=1).mean()
    return bool(spread < CLOSE * len(place))


def tally(
    values: pa.Array,
    type_: Type,
    starts: np.ndarray,
    place: Place = ("",),
    keep: frozenset[Place] = frozenset(),
) -> Tally:
    """What the stretches of a column hold."""
    form = form_of(type_)
    rows = np.diff(starts)
    found = Tally(form, rows, rows - valid_counts(values, starts))
    match form:
        case Form.JSON:
            return replace(found, json=tally_documents(values, starts, place, keep))
        case Form.RECORD:
            return replace(found, fields=_fields(values, type_, starts, place, keep))
        case Form.ARRAY:
            return replace(found, element=_elements(values, type_, starts, place, keep))
        case Form.FLOAT:
            bounds, nan = float_extremes(values, starts)
            return replace(found, bounds=bounds, nan=nan)
        case Form.INTERVAL:
            months = count(order.interval_parts(values)[0] != 0, starts) > 0
            return replace(found, bounds=extremes(values, starts), months=months)
        case _:
            return replace(found, bounds=extremes(values, starts))


def _fields(
    values: pa.Array, type_: Type, starts: np.ndarray, place: Place, keep: frozenset[Place]
) -> tuple[Tally, ...]:
    """The fields of the records that are not NULL."""
    if values.null_count:
        valid = to_bools(values.is_valid())
        values, starts = values.filter(pa.array(valid)), np.concatenate([[0], np.cumsum(valid)])[starts]
    inside = [pc.struct_field(values, [i]) for i in range(len(type_.fields))]
    return tuple(
        tally(field, inner, starts, (*place, name), keep)
        for field, (name, inner) in zip(inside, type_.fields, strict=True)
    )


def _elements(
    values: pa.Array, type_: Type, starts: np.ndarray, place: Place, keep: frozenset[Place]
) -> Tally:
    """The elements of the arrays that are not NULL."""
    assert type_.element is not None
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return tally(values.flatten(), type_.element, ends[starts], place, keep)


def _with_guesses(column: ColumnValues, stats: ColumnStats) -> ColumnStats:
    """With a histogram and an estimate of the distinct values, from a sample; not if rows are few."""
    if stats.form in NESTED or stats.nulls == stats.rows or stats.rows <= FEW_ROWS:
        return stats
    values = column.values
    if stats.form is Form.BOOL:
        return replace(stats, distinct=1 + (stats.low != stats.high))
    some = histogram.sample(values)
    skip = cut.shared_bytes(stats.low, stats.high)
    numbers = histogram.keys(some, skip)
    guess = histogram.distinct(some, numbers, stats.rows - stats.nulls)
    if stats.low is None or stats.high is None:
        return replace(stats, distinct=guess)
    ends = [_key(end, stats, skip, column.type) for end in (stats.low, stats.high)]
    return replace(stats, distinct=guess, histogram=histogram.histogram(numbers, ends[0], ends[1]))


def _key(value: object, stats: ColumnStats, skip: int, type_: Type) -> float:
    """The key of a stored bound."""
    if stats.form in (Form.TEXT, Form.BYTES):
        raw = value.encode() if isinstance(value, str) else value
        assert isinstance(raw, bytes)
        return float(int.from_bytes(raw[skip : skip + 8].ljust(8, b"\0"), "big"))
    if isinstance(value, tuple):
        months, days, micros = value
        return float((months * 30 + days) * order.MICROS_A_DAY + micros)
    assert isinstance(value, int | float)
    return value / 10**type_.scale if stats.form is Form.DECIMAL and type_.scale else float(value)
