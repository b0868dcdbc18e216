"""Finds the stored rows that retractions retract: their parts and positions.

    found = locate(machine, state, rows)         rows: retractions with all columns, their times and negative diffs
    found.deletions                              records of the positions that hold them (`storage/part/deletions.py`)
    found.left                                   of each retraction, the diff that has found nothing

Parts and pages whose statistics exclude all of the rows are not read (`candidates.py`). In the others one column after the other is
read, each only for rows whose earlier columns have a value that is wanted; what is left is compared by all columns:

    8,192 rows of a page     id in (5, 9): 2 rows     day in (Mon, Tue): 2 rows     all columns equal: 1 row

If no identical row is there, one that is equal is taken: -0.0 finds 0.0, and 30 days a month (`equal.py`). Rows that are deleted
already are not found, nor rows of a later time than their retraction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.part.bitmaps import unpack_positions
from tidegate.storage.part.deletion_records import deletions_by_part
from tidegate.storage.part.deletions import NEVER, PartRows
from tidegate.storage.part.merge import Block, concat
from tidegate.storage.part.page_reader import RowRange
from tidegate.storage.part.part import Part
from tidegate.storage.part.part_file import PartFile
from tidegate.storage.part.row_keys import exact_keys, has_ambiguous_equality, row_keys
from tidegate.storage.part.schema import is_narrow
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.retractions.candidates import PAGE_COLUMNS, WantedRows
from tidegate.storage.shard.retractions.equal import retraction_pieces
from tidegate.storage.shard.retractions.match import MAX_COUNT, CountedRows, match_retractions
from tidegate.storage.shard.state import State
from tidegate.storage.stats.collect import PAGE_ROWS

FEW_LEFT = 20
"""Of so many rows one is left: reading it costs about as much in several columns as in one."""


@dataclass(frozen=True, eq=False)
class LocatedRows:
    """Where the rows of retractions are stored."""

    deletions: pa.Table
    """Records of the stored rows, deleted at the times of their retractions."""
    left: np.ndarray
    """Of each retraction, the diff that has found nothing: 0, or negative."""
    rest: Block
    """Rows to store anew: of a row that was stored several times, what its retractions leave."""
    rest_ends: np.ndarray
    """When each of them is deleted again; `NEVER` if it is not."""


@dataclass(frozen=True)
class LookupLimit:
    """How much a look-up may read; with more it is not made."""

    parts: int
    size: int
    """Bytes."""


def locate(
    machine: Machine,
    state: State,
    rows: Block,
    *,
    use_statistics: bool = True,
    limit: LookupLimit | None = None,
    newest: bool = False,
) -> LocatedRows | None:
    """Finds the rows that retractions retract; None: that would read more than `limit`.

    With `newest`, of identical rows the newest are taken: right if the retractions are later than all that is stored. Earlier
    retractions may still be waiting for the others, and for rows that are equal but not identical: if there are any such
    retractions, the latter are not taken.
    """
    wanted = WantedRows(state.schema, rows)
    ids = wanted.candidate_parts(state, use=use_statistics)
    if limit is not None and len(ids) > limit.parts:
        return None
    scans = []
    size = 0.0
    for part in sorted(state.parts.find(ids), key=lambda part: part.id):
        scan = _PartScan.of(machine, state, part, wanted if use_statistics else None)
        scans.append(scan)
        size += scan.share * part.size
        if limit is not None and size > limit.size:
            return None
    return _Lookup(state, rows, newest=newest).run(scans)


@dataclass(frozen=True, eq=False)
class _PartScan:
    """A part that may hold some of the rows, and which of its pages may."""

    file: PartFile
    deleted: np.ndarray
    """The positions of the rows that are deleted, at whatever time."""
    pages: np.ndarray | None
    """A flag for each page; None: all may."""

    @staticmethod
    def of(machine: Machine, state: State, part: Part, wanted: WantedRows | None) -> _PartScan:
        file = machine.files.open(part, state.schema)
        pages = (
            None
            if wanted is None or file.frame is None
            else wanted.may_be_in(file.frame, columns=PAGE_COLUMNS)
        )
        (packed,) = state.parts.deletions.bitmaps(PartRows.of([part]), NEVER, machine.objects.get)
        return _PartScan(file, unpack_positions(packed), pages)

    @property
    def share(self) -> float:
        """The share of the part that is read."""
        return 1.0 if self.pages is None else float(self.pages.mean())

    def ranges(self) -> Iterator[tuple[int, RowRange]]:
        """The rows to read of each row group, with the position of its first row."""
        start = 0
        for group, count in enumerate(self.file.groups):
            rows = RowRange(group, 0, count)
            if self.pages is not None:
                flags = np.repeat(self.pages[start // PAGE_ROWS :], PAGE_ROWS)[:count]
                rows = rows.narrow(np.flatnonzero(flags))
            rows = rows.without(self.deleted - start)
            if len(rows):
                yield start, rows
            start += count


class _Lookup:
    """Looks for the rows of one set of retractions."""

    def __init__(self, state: State, rows: Block, *, newest: bool) -> None:
        self.schema, self.rows, self.newest = state.schema, rows, newest
        self.none_wait = state.monotonic or not newest
        """Whether no earlier retraction waits for rows that these could take."""
        self.exact = exact_keys(rows.columns, len(rows))
        self.keys = self.exact.unique()
        self.equal: pa.Array | None = None
        """The keys of rows that are equal to a retraction; None if all of these are identical to it."""
        if self.none_wait and has_ambiguous_equality(rows.columns):
            self.equal = row_keys(rows.columns, len(rows)).unique()
        self.variants = [rows.slice(0, 0)]
        """Stored rows that are equal to a retraction, and identical to none."""
        self.wanted = [_distinct(column) for column in rows.columns]
        # The columns that decide most are read first, and those of fixed width before texts.
        self.order = sorted(
            range(len(rows.columns)),
            key=lambda i: (not is_narrow(state.schema.columns[i].type), -len(self.wanted[i])),
        )

    def run(self, scans: Sequence[_PartScan]) -> LocatedRows:
        """The rows that are stored in these parts."""
        none = np.zeros(0, np.int64)
        found: list[tuple[np.ndarray, ...]] = [(none, none, none, none, none)]
        for scan in scans:
            found += [self._search(scan, start, rows) for start, rows in scan.ranges()]
        parts, positions, times, diffs, values = (
            np.concatenate(arrays) for arrays in zip(*found, strict=True)
        )
        forms = self._forms()
        values[values < 0] = forms.values[~values[values < 0]]
        stored = CountedRows(values, times, diffs)
        counts = np.where(-self.rows.diffs < MAX_COUNT, -self.rows.diffs, 0)
        retractions = CountedRows(forms.values[: len(self.rows)], self.rows.times, counts)
        pieces = retraction_pieces(stored, retractions, forms.kinds)
        matched = match_retractions(stored, pieces.rows, newest=self.newest, split=self.none_wait)
        at = matched.deleted
        left = self.rows.diffs.copy()
        np.add.at(left, pieces.places, matched.counts)
        rest = forms.examples.take(forms.first[pieces.rows.values[matched.rest]])
        return LocatedRows(
            deletions_by_part(parts[at], matched.times, positions[at], diffs[at]),
            left,
            Block(rest.columns, matched.rest_times, matched.rest_counts),
            matched.rest_ends,
        )

    def _forms(self) -> _Forms:
        """The values of the retractions and of the stored variants, which follow them."""
        variants = concat(self.variants)
        keys = pa.concat_arrays([self.exact, exact_keys(variants.columns, len(variants))])
        values = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
        _, first = np.unique(values, return_index=True)
        examples, kinds = concat([self.rows, variants]), np.arange(len(first))
        if self.equal is not None:
            distinct = examples.take(first)
            equal = row_keys(distinct.columns, len(distinct)).dictionary_encode()
            kinds = equal.indices.to_numpy().astype(np.int64)
        return _Forms(examples, values, first, kinds)

    def _search(self, scan: _PartScan, start: int, rows: RowRange) -> tuple[np.ndarray, ...]:
        """The rows of a row group that are equal to a retraction: part, position, time, diff and value.

        The value of a variant is `~i`, where `i` is its place after all retractions and earlier variants.
        """
        file, first = scan.file, len(rows)
        columns: dict[int, pa.Array] = {}
        left = list(self.order)
        while left and len(rows):
            # Once few rows are left, the other columns are read for all of these together.
            places = left if FEW_LEFT * len(rows) <= first else left[:1]
            chosen = [self.schema.columns[place] for place in places]
            read = file.read([c.id for c in chosen], [c.type for c in chosen], rows)
            hits = np.flatnonzero(_contains(self.wanted[places[0]], read[0]))
            columns |= zip(places, read, strict=True)
            if len(hits) < len(rows):
                columns = {place: values.take(pa.array(hits)) for place, values in columns.items()}
                rows = rows.narrow(hits)
            left = left[len(places) :]
        count = len(rows)
        if not count:
            return (np.zeros(0, np.int64),) * 5
        times, diffs = file.times(rows), file.diffs(rows)
        block = Block([columns[place] for place in sorted(columns)], times, diffs)
        keep, values = self._identify(block)
        keep &= (diffs > 0) & (diffs < MAX_COUNT)
        positions = start + rows.places()
        part = np.full(count, file.part.id)
        return part[keep], positions[keep], times[keep], diffs[keep], values[keep]

    def _identify(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """Which rows are equal to a retraction, and the value of each; see `_search`."""
        keys = exact_keys(block.columns, len(block))
        values = pc.fill_null(pc.index_in(keys, value_set=self.keys), -1).to_numpy().astype(np.int64)
        identical = values >= 0
        if self.equal is None or identical.all():
            return identical, values
        equal = pc.is_in(row_keys(block.columns, len(block)), value_set=self.equal)
        keep: np.ndarray = equal.to_numpy(zero_copy_only=False)
        others = np.flatnonzero(keep & ~identical)
        before = len(self.rows) + sum(map(len, self.variants))
        values[others] = ~(before + np.arange(len(others)))
        self.variants.append(block.take(others))
        return keep, values


@dataclass(frozen=True, eq=False)
class _Forms:
    """The distinct values of rows, and which of these are equal."""

    examples: Block
    values: np.ndarray
    """The number of each example's value; identical rows share it."""
    first: np.ndarray
    """For each value, its first example."""
    kinds: np.ndarray
    """For each value a number that equal values share."""


def _distinct(column: pa.Array) -> pa.Array:
    return (column if _is_plain(column.type) else row_keys([column], len(column))).unique()


def _contains(wanted: pa.Array, column: pa.Array) -> np.ndarray:
    """The rows whose value is among the wanted ones; NULL is a value."""
    values = column if _is_plain(column.type) else row_keys([column], len(column))
    found: np.ndarray = pc.is_in(values, value_set=wanted).to_numpy(zero_copy_only=False)
    return found


def _is_plain(type_: pa.DataType) -> bool:
    """Whether equal values of the type are identical in Arrow."""
    return bool(
        pa.types.is_integer(type_)
        or (pa.types.is_temporal(type_) and not pa.types.is_interval(type_))
        or pa.types.is_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def deletions_unchanged(read: State, newest: State, ids: np.ndarray) -> bool:
    """Whether these parts are still there, and no further row of them is deleted; their ids must rise."""
    if not newest.parts.holds(ids):
        return False
    # Rows are never undeleted: as many as before are the same as before.
    before, after = (state.parts.deletions.totals(ids, NEVER)[0] for state in (read, newest))
    return bool((before == after).all())
