"""Late materialisation of a part: filter columns first, others only where rows are left (seed 004).

    scan = StagedScan(request, metrics, plan, groups)     groups: which columns are read first, second, …; the rest comes last
    for taken in scan.read(part, proven=False): …         taken.columns: the output of the plan, taken.diffs: copies of each row

| stage | for each run of rows |
|---|---|
| pages | skips pages in which no row can pass, by statistics or an index (`row_index.py`); pages that pass whole are not filtered |
| visible | selects rows whose time has come and that are not deleted; validity is part of the plan (`storage/shard/validity.py`) |
| filter | reads the columns of the first group and evaluates its conditions, then the next group for the remaining rows |
| read | reads all other columns for the remaining rows: only their pages, and within these only their rows |

Each stage runs its own plan (`steps.py`), so that nothing is read twice and no error is lost (`plan/divide.py`). The last stage
collects rows until they are worth a fetch. With late materialisation off, or little left of a part, this is a plain read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.errors import EvaluationError, MissingObject, StoreError
from tidegate.plan import MapFilterProject
from tidegate.plan.run import Failures, evaluate_dictionary, evaluate_string_view
from tidegate.query.late import batching, steps
from tidegate.query.late.pages import kept_pages, wrong_page_statistics
from tidegate.query.late.steps import ScanStep, scan_steps
from tidegate.query.request import ScanRequest
from tidegate.query.row_failures import Failing, row_error
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.storage.part import Part, PartFile, RowRange
from tidegate.storage.stats import PAGE_ROWS

STRETCH = 128 * PAGE_ROWS
"""Rows whose filter columns are in memory at once, if they are narrow."""
DECODED = 32 << 20
"""Bytes of the first step's columns, decoded, that are in memory at once."""
TOGETHER = 24 << 20
"""Bytes, as they are stored, that the last step fetches at once."""
MAX_PLAIN_BYTES = 1 << 20
"""Bytes, as they are stored, that are read in one go and then filtered: of a small part, or one page in `MIN_SKIPPED_RATIO`."""
MIN_SKIPPED_RATIO = 16

ColumnGroups: TypeAlias = Sequence[Sequence[int]]
"""Columns that are read first, then, and so on."""


class Taken(NamedTuple):
    """Rows that leave the plan."""

    columns: list[pa.Array]
    rows: int
    diffs: np.ndarray | None
    """How often each is there; None: once."""
    part: Part
    positions: np.ndarray | None = None
    """Where in the part they are, if that is asked for."""


def weight(taken: Taken) -> int:
    """Its bytes."""
    return sum(column.nbytes for column in taken.columns)


class _Open(NamedTuple):
    """Rows that are still open, and what the steps so far have made of them."""

    rows: RowRange
    columns: list[pa.Array]
    diffs: np.ndarray | None

    def narrow(self, keep: np.ndarray, columns: list[pa.Array]) -> _Open:
        return _Open(self.rows.narrow(keep), columns, None if self.diffs is None else self.diffs[keep])


class StagedScan:
    """Runs a plan over parts, one after the other. Threads may share it."""

    def __init__(
        self,
        request: ScanRequest,
        scan: ScanMetrics,
        plan: MapFilterProject,
        groups: Callable[[], ColumnGroups] | ColumnGroups,
        wanted: int | None = None,
        failing: Failing | None = None,
        *,
        locate: bool = False,
    ) -> None:
        """`groups` may be computed lazily. As soon as `wanted` rows remain they are read and returned.

        With `locate`, rows come with their positions.
        """
        self.locate = locate
        self.request, self.scan, self.plan, self._groups = request, scan, plan, groups
        self.snapshot = request.snapshot
        columns = self.snapshot.schema.columns
        self.ids = [column.id for column in columns]
        self.types = [column.type for column in columns]
        self.names = tuple(column.name for column in columns)
        self.wanted, self.failing = wanted, failing or Failing()
        self._widths = batching.Widths()

    def with_plan(self, plan: MapFilterProject) -> StagedScan:
        """The same scan with another plan over the same columns, in the same stages."""
        other = StagedScan(
            self.request, self.scan, plan, self._groups, self.wanted, self.failing, locate=self.locate
        )
        other._widths = self._widths  # how wide rows are does not depend on the plan
        return other

    @cached_property
    def steps(self) -> Sequence[ScanStep]:
        """The plan in stages."""
        groups = self._groups() if callable(self._groups) else self._groups
        return scan_steps(self.plan, tuple(map(tuple, groups)), self.names)

    @cached_property
    def demanded(self) -> list[int]:
        """All columns that the plan reads."""
        return sorted(self.plan.demand())

    @cached_property
    def plain(self) -> Sequence[ScanStep]:
        """The plan in one go."""
        return scan_steps(self.plan, (), self.names)

    @cached_property
    def bare(self) -> Sequence[ScanStep]:
        """The plan where every row is known to pass."""
        return scan_steps(self.plan.rebuild([], self.plan.outputs), (), self.names)

    def read(self, part: Part, *, proven: bool) -> Iterator[Taken]:
        """What leaves the plan of a part's rows; `proven`: its statistics say that all pass the filter."""
        if self.snapshot.lease.closed:
            raise StoreError("what is read was closed", hint="read inside of the `with`, or before `close()`")
        try:
            yield from self._read(part, proven=proven)
        except MissingObject as error:
            raise self.snapshot.lease.vanished(error) from None

    def _read(self, part: Part, *, proven: bool) -> Iterator[Taken]:
        file = self.snapshot.open_file(part)
        self.scan.open(part.size)
        try:
            keep, whole = self._pages(file, part, proven=proven)
            if not keep.any():
                return
            chosen = self._chosen(file, keep & ~whole)
            waiting: list[_Open] = []
            for rows, passing in self._stretches(file, keep, whole, chosen):
                self.request.cancel.check()
                if passing:
                    yield from self._finish(file, self.bare, self._visible(file, rows))
                    continue
                if waiting and waiting[0].rows.group != rows.group:
                    yield from self._finish(file, chosen, _joined(waiting))
                    waiting = []
                open_ = self._filtered(file, chosen, self._visible(file, rows))
                if len(open_.rows):
                    waiting.append(open_)
                if waiting and self._enough(file, chosen, waiting):
                    yield from self._finish(file, chosen, _joined(waiting))
                    waiting = []
            if waiting:
                yield from self._finish(file, chosen, _joined(waiting))
        finally:
            self.scan.close(file.fetched)

    def _chosen(self, file: PartFile, open_: np.ndarray) -> Sequence[ScanStep]:
        """The steps for the pages that must be filtered."""
        pages = int(np.count_nonzero(open_))
        if not pages:
            return self.bare
        small = file.part.rows < steps.MIN_STAGED_ROWS
        if not small and (file.table is None or pages * MIN_SKIPPED_RATIO > len(open_)):
            return self.steps
        if file.table is None:
            return self.plain
        widest = max(self._row_bytes(file, self.demanded, group) for group in range(len(file.groups)))
        rows = min(pages * PAGE_ROWS, file.part.rows)
        return self.plain if rows * widest <= MAX_PLAIN_BYTES else self.steps

    def _enough(self, file: PartFile, chosen: Sequence[ScanStep], waiting: Sequence[_Open]) -> bool:
        if self.wanted is not None and sum(len(one.rows) for one in waiting) >= self.wanted:
            return True
        if file.table is None:
            return False
        sizes = [self._row_bytes(file, chosen[-1].columns, one.rows.group) for one in waiting]
        return (
            sum(size * batching.touched(one.rows) for size, one in zip(sizes, waiting, strict=True))
            >= TOGETHER
        )

    def _row_bytes(
        self, file: PartFile, columns: Sequence[int], group: int, *, decoded: bool = False
    ) -> float:
        """Bytes that a row of the columns takes in the file, or when it is decoded."""
        return file.row_bytes([self.ids[at] for at in columns], group, decoded=decoded)

    def _stretches(
        self, file: PartFile, keep: np.ndarray, whole: np.ndarray, chosen: Sequence[ScanStep]
    ) -> Iterator[tuple[RowRange, bool]]:
        """The rows to be looked at, and whether all of them pass."""
        all_pass = bool(whole.all() and keep.all())
        first = 0
        for group, rows in enumerate(file.groups):
            most = self._stretch(file, group, chosen)
            size, stop = self._first(file, most, all_pass=all_pass), 0
            while stop < rows:
                start, stop = stop, min(stop + size, rows)
                size = min(size * batching.GROWTH, most)
                pages = slice((first + start) // PAGE_ROWS, -(-(first + stop) // PAGE_ROWS))
                for kept, passing in batching.apart(keep[pages], whole[pages]):
                    yield batching.page_rows(group, start, stop, kept), passing
            first += rows

    def _first(self, file: PartFile, most: int, *, all_pass: bool) -> int:
        """Rows of the first stretch: with a limit no more than that, or a page if it must be filtered."""
        if self.wanted is None:
            return most
        if not all_pass:
            return min(most, PAGE_ROWS)
        if file.deleted is None:
            return min(most, max(1, self.wanted))
        # So many that those which are not deleted probably suffice: a second stretch costs another read.
        left = 1 - len(file.deleted) / file.part.rows
        return min(most, PAGE_ROWS, int(2 * self.wanted / max(left, 0.01)) + 8)

    def _stretch(self, file: PartFile, group: int, chosen: Sequence[ScanStep]) -> int:
        """Rows that are looked at together: whole pages, and no more than fit."""
        if file.table is None:
            return STRETCH
        columns = chosen[0].columns
        fitting = DECODED / max(1.0, self._row_bytes(file, columns, group, decoded=True))
        if len(chosen) == 1:
            fitting = min(fitting, TOGETHER / max(1.0, self._row_bytes(file, columns, group)))
        return min(STRETCH, max(1, int(fitting) // PAGE_ROWS) * PAGE_ROWS)

    def _pages(self, file: PartFile, part: Part, *, proven: bool) -> tuple[np.ndarray, np.ndarray]:
        """Of the pages of 8,192 rows: which may hold rows that pass, and in which all do."""
        if proven or not self.plan.predicates or not self.request.config.stats_filter:
            count = -(-part.rows // PAGE_ROWS)
            return np.ones(count, bool), np.full(count, proven or not self.plan.predicates)
        keep, whole = kept_pages(self.request, self.plan, file)
        if not keep.all():
            self.scan.skip(int(np.count_nonzero(~keep)))
            self._audit(file, ~keep)
        return keep, whole

    def _audit(self, file: PartFile, dropped: np.ndarray) -> None:
        """Sometimes reads the skipped pages, and raises if one holds a matching or failing row."""
        if not dropped.any() or self.request.audit_random.random() >= self.request.config.audit:
            return
        unseen, file, first = copy(self), self.snapshot.open_file(file.part), 0
        unseen.scan, unseen.failing = ScanMetrics(), Failing()  # what is audited does not count as read
        for group, rows in enumerate(file.groups):
            mask = np.repeat(dropped, PAGE_ROWS)[first : first + rows]
            open_ = unseen._visible(file, RowRange(group, 0, rows, mask))
            try:
                for step in self.steps:
                    open_ = unseen._run(file, step, open_) if len(open_.rows) else open_
            except EvaluationError:
                raise wrong_page_statistics(file.part) from None
            if len(open_.rows):
                raise wrong_page_statistics(file.part)
            first += rows

    def _visible(self, file: PartFile, rows: RowRange) -> _Open:
        """Those of the rows that have happened and are not deleted."""
        as_of = self.snapshot.as_of
        if file.deleted is not None:
            rows = rows.without(file.deleted - file.group_start(rows.group))
        if file.part.last > as_of:
            rows = rows.narrow(np.flatnonzero(file.times(rows) <= as_of))
        self.scan.see(len(rows))
        return _Open(rows, [], None if file.all_once else file.diffs(rows))

    def _filtered(self, file: PartFile, chosen: Sequence[ScanStep], open_: _Open) -> _Open:
        """All steps but the last."""
        for step in chosen[:-1]:
            if not len(open_.rows):
                break
            open_ = self._run(file, step, open_)
        return open_

    def _finish(self, file: PartFile, steps_: Sequence[ScanStep], open_: _Open) -> Iterator[Taken]:
        """The last step, of no more at once than fits."""
        for piece in self._pieces(file, steps_[-1], open_):
            self.request.cancel.check()
            for done in self._runs(file, steps_[-1], piece):
                if len(done.rows):
                    at = file.group_start(done.rows.group) + done.rows.places() if self.locate else None
                    yield Taken(done.columns, len(done.rows), done.diffs, file.part, at)

    def _pieces(self, file: PartFile, step: ScanStep, open_: _Open) -> Iterator[_Open]:
        """Open rows in stretches of whole pages, those without any left out; as wide as rows were so far."""
        group = open_.rows.group
        stored = 0.0 if file.table is None else self._row_bytes(file, step.columns, group, decoded=True)
        whole = not file.by_pages([self.ids[at] for at in step.columns])
        at = 0
        for rows in batching.cut(
            open_.rows, lambda: None if whole else self._widths.fitting(step.name, stored)
        ):
            inside = slice(at, at + len(rows))
            if len(rows):
                columns = [column.slice(at, len(rows)) for column in open_.columns]
                yield _Open(rows, columns, None if open_.diffs is None else open_.diffs[inside])
            at += len(rows)

    def _run(self, file: PartFile, step: ScanStep, open_: _Open) -> _Open:
        """A step, of all rows at once."""
        before = file.fetched
        given = self._read_columns(file, step, open_)
        return self._evaluate(file, step, open_, given, file.fetched - before)

    def _runs(self, file: PartFile, step: ScanStep, open_: _Open) -> Iterator[_Open]:
        """A step: its columns are read, and of the rows no more is made at once than fits."""
        before = file.fetched
        given = self._read_columns(file, step, open_)
        fetched = file.fetched - before
        self._widths.see(step.name, open_.rows, given)
        for some in self._widths.slices(step.name, step.plan, len(open_.rows)):
            part, columns = open_, given
            if some.stop - some.start < len(open_.rows):
                part = open_.narrow(np.arange(some.start, some.stop), [])
                columns = [column.slice(some.start, some.stop - some.start) for column in given]
            done = self._evaluate(file, step, part, columns, fetched)
            self._widths.see_made(step.name, done.columns, some.stop - some.start)
            yield done
            fetched = 0

    def _read_columns(self, file: PartFile, step: ScanStep, open_: _Open) -> list[pa.Array]:
        """What a step works on: columns that it reads, and what the steps before have made."""
        began = time.perf_counter()
        columns = step.columns
        ids, types = [self.ids[at] for at in columns], [self.types[at] for at in columns]
        alone = len(step.inputs) == len(columns) == 1
        fresh = iter(file.read(ids, types, open_.rows, coded=alone) if columns else [])
        given = [next(fresh) if read else open_.columns[at] for read, at in step.inputs]
        self.scan.add(step.name, seconds=time.perf_counter() - began)
        return given

    def _evaluate(
        self, file: PartFile, step: ScanStep, open_: _Open, given: list[pa.Array], fetched: int
    ) -> _Open:
        """What a step makes of rows; `fetched`: the bytes that were read for them."""
        began = time.perf_counter()
        now, check = self.request.now, self.request.cancel.check
        alone = len(step.inputs) == len(step.columns) == 1
        coded = alone and pa.types.is_dictionary(given[0].type)
        if coded and step.plan.is_volatile:
            column = given[0].cast(self.types[step.columns[0]].arrow)
            got = step.plan.evaluate([column], len(open_.rows), now, check)
        elif coded:
            got = evaluate_dictionary(step.plan, given[0], self.types[step.columns[0]], now)
        elif alone and pa.types.is_string_view(given[0].type):
            got = evaluate_string_view(step.plan, given[0], self.types[step.columns[0]], now, check)
        else:
            got = step.plan.evaluate(given, len(open_.rows), now, check)
        if len(got.failures):
            self.failing.meet(partial(self._failed, file, open_, got.failures))
        done = open_.narrow(got.selection, got.columns)
        self.scan.add(
            step.name,
            rows_in=len(open_.rows),
            rows_out=len(done.rows),
            bytes=fetched,
            seconds=time.perf_counter() - began,
        )
        return done

    def _failed(self, file: PartFile, open_: _Open, failures: Failures) -> EvaluationError:
        """The error of the first row that failed, with the values of all columns that the query reads."""
        row = open_.rows.narrow(failures.rows[:1])
        demanded = sorted(self.request.plan.demand())
        values = file.read([self.ids[i] for i in demanded], [self.types[i] for i in demanded], row)
        first = Failures(np.zeros(1, np.int64), failures.messages.slice(0, 1))
        return row_error(first, [self.snapshot.labels[i] for i in demanded], values)


def _joined(waiting: Sequence[_Open]) -> _Open:
    """Stretches of one row group as one."""
    if len(waiting) == 1:
        return waiting[0]
    start, stop = waiting[0].rows.start, waiting[-1].rows.stop
    mask = np.zeros(stop - start, bool)
    for one in waiting:
        inside = slice(one.rows.start - start, one.rows.stop - start)
        mask[inside] = True if one.rows.mask is None else one.rows.mask
    columns = [pa.concat_arrays(pieces) for pieces in zip(*(one.columns for one in waiting), strict=True)]
    diffs = [one.diffs for one in waiting if one.diffs is not None]
    rows = RowRange(waiting[0].rows.group, start, stop, mask)
    return _Open(rows, columns, np.concatenate(diffs) if diffs else None)
