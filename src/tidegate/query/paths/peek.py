"""Peek: `SELECT … LIMIT n` at a cost proportional to n, however many parts there are (seed 002).

    SELECT * FROM orders LIMIT 10                      one page of each column of one part
    SELECT * FROM orders WHERE at > '2024' LIMIT 10    the same, of a part whose statistics prove that all its rows pass

Which parts are read, and in which order:

1. Statistics are asked of the newest thousand parts, then of the oldest, then of all, until parts that are *proven* hold as many
   rows as are wanted. These are read first: no filter is evaluated, and the first rows are the answer. A part that has enough rows
   by itself comes before smaller ones, such as the few rows of an UPDATE: one part is opened instead of several. Where there are
   many thousands of parts, and none of the newest is proven, a few of these are read before statistics are asked of all. If all
   that is proven is less than half of what is wanted, it is read last: others must be opened anyway, and may be enough.
2. Only if they do not suffice, parts that *may* hold matches follow, the smallest first, in stretches that grow: a page of rows,
   then four, and so on; when many parts have given nothing, several at the same time.

A row that fails is passed over; only if all others together are not enough does the query fail, as a full read does
(`row_failures.py`).
Rows that are there several times count as often.

Deleted rows are skipped by their positions. Collections with retractions that are rows go the way of `local.py`: a row must first
meet what retracts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow.compute as pc

from tidegate.expr.domain import Verdict
from tidegate.plan import Verdicts
from tidegate.query.audit import audit_parts
from tidegate.query.late.staged_scan import StagedScan, Taken, weight
from tidegate.query.paths import local
from tidegate.query.paths.prefetch import ahead
from tidegate.query.prune.parts import PruneResult, PruningPredicate, count_pruned
from tidegate.query.request import ScanRequest
from tidegate.query.row_failures import Failing
from tidegate.query.row_stream import Batch, shaped
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.storage.part import Part

FIRST = 1024
"""Parts whose statistics are asked first, from either end."""
MIN_TRIED_PARTS = 16 * FIRST
"""Parts from which on a few that may hold matches are read before the statistics of all are asked: that takes longer."""
LOOKED_AT = 64
"""Parts among which the smallest are read first; beyond them, in the order of the state."""
AT_ONCE = 4
"""Of these, parts that are made values of at once."""
PATIENCE = 4
"""Parts that are read one after the other before several are read at the same time."""


def suits(request: ScanRequest) -> bool:
    """Whether a question can be answered so."""
    shape = request.shape
    asked = request.config.fast_path and request.aggregation is None
    return (
        asked
        and shape.max_rows is not None
        and shape.limit != 0
        and not shape.order
        and not _retracts(request)
    )


def _retracts(request: ScanRequest) -> bool:
    if request.snapshot.state.monotonic:
        return False
    return bool(pc.any(request.snapshot.table(["retracts"]).column("retracts"), min_count=0).as_py())


def stream(request: ScanRequest, found: PruneResult, scan: ScanMetrics) -> Iterator[Batch]:
    """The rows, as they are read."""
    return shaped(_rows(request, found, scan), request.plan.types, request.shape, 0)


def _rows(request: ScanRequest, found: PruneResult, scan: ScanMetrics) -> Iterator[Batch]:
    """All passing rows; the consumer stops when it has enough.

    Statistics were perhaps asked of some parts only, in which enough rows pass or may pass. If more are wanted than these give, the
    other parts are read as well. If what is selected fails for some rows, and others do not make up for it, the query fails.
    """
    failing = Failing(patient=True)
    yield from _read(request, found, scan, failing)
    if found.kept is not None and (found.partial or failing.error is not None):
        every = prune(request, everywhere=True)
        assert every.kept is not None
        if found.partial:
            count_pruned(request.snapshot, every, scan)
            audit_parts(request, every, scan, peek=True)
        rest = replace(every, kept=np.setdiff1d(every.kept, found.kept), whole=False)
        yield from _read(request, rest, scan, failing)
    failing.check()


def _read(request: ScanRequest, found: PruneResult, scan: ScanMetrics, failing: Failing) -> Iterator[Batch]:
    for taken in _taken(request, found, scan, failing):
        request.snapshot.lease.keep()
        yield local.counted(taken)


def prune(request: ScanRequest, *, everywhere: bool = False) -> PruneResult:
    """The parts to read. Asks statistics of as many parts as it takes to prove enough rows."""
    snapshot, plan = request.snapshot, request.plan
    whole = PruneResult(snapshot.state.parts.count, snapshot.state.parts.size, snapshot, retracts=False)
    if not plan.predicates or not request.config.stats_filter:
        return whole
    predicate = PruningPredicate.of(snapshot, plan, request.now)
    rows = _sure(request)
    count, limit = len(rows), request.shape.max_rows or 0
    first: PruneResult | None = None
    for begin, end in ((count - FIRST, count), (0, FIRST)) if count > FIRST and not everywhere else ():
        some = predicate.verdicts(begin, end)
        if rows[begin:end][some.verdict == Verdict.ALL].sum() >= limit:
            kept = begin + np.flatnonzero(some.keep)
            verdicts = _spread(some, begin, count)
            return replace(whole, whole=False, verdicts=verdicts, kept=kept, predicate=predicate)
        promising = some.keep & (rows[begin:end] >= limit)
        if first is None and count >= MIN_TRIED_PARTS and promising.any():
            few = begin + np.flatnonzero(promising)[-PATIENCE:]
            first = replace(whole, whole=False, verdicts=_spread(some, begin, count), kept=few, partial=True)
            first = replace(first, predicate=predicate)
    if first is not None:
        return first
    verdicts = predicate.verdicts()
    kept = np.flatnonzero(verdicts.keep)
    return replace(whole, whole=len(kept) == count, verdicts=verdicts, kept=kept, predicate=predicate)


def _sure(request: ScanRequest) -> np.ndarray:
    """How many rows each part surely has at this time: none, where some come later."""
    snapshot = request.snapshot

    def count() -> np.ndarray:
        table = snapshot.table(["diffs", "last"])
        diffs, last = (table.column(name).to_numpy() for name in ("diffs", "last"))
        deleted = snapshot.deleted()
        return np.where(last <= snapshot.as_of, diffs if deleted is None else diffs - deleted[1], 0)

    return snapshot.state.parts.arrays.get_or_compute(("sure", snapshot.as_of), count)


def _spread(found: Verdicts, begin: int, count: int) -> Verdicts:
    """The verdicts of some parts among those of all: of the others nothing is known."""

    def among(some: np.ndarray, unknown: int) -> np.ndarray:
        every = np.full(count, unknown, some.dtype)
        every[begin : begin + len(some)] = some
        return every

    each = tuple((condition, among(verdict, Verdict.SOME)) for condition, verdict in found.by_condition)
    fails = among(found.may_fail, True), among(found.filter_may_fail, True)
    return Verdicts(among(found.verdict, Verdict.SOME), fails[0], each, fails[1])


def _taken(request: ScanRequest, found: PruneResult, scan: ScanMetrics, failing: Failing) -> Iterator[Taken]:
    """Proven parts first, then others."""
    groups = partial(local.groups, request, found)
    staged = StagedScan(request, scan, request.plan, groups, request.shape.max_rows, failing)
    ordered = _ordered(request, found)
    jobs = (partial(staged.read, part, proven=whole) for part, whole in ordered)
    for _, job in zip(range(PATIENCE), jobs, strict=False):
        yield from job()
    yield from ahead(jobs, request.config.read_threads or local.CORES, weight)


def _ordered(request: ScanRequest, found: PruneResult) -> Iterator[tuple[Part, bool]]:
    """The parts, and whether they are proven; of each kind the smallest with enough rows first."""
    wanted = request.shape.max_rows or 1
    if found.kept is None:
        least = 1 if request.plan.predicates else wanted
        yield from ((part, False) for part in _smallest_parts(found, np.arange(found.left), least))
        return
    proven = found.passing()
    enough = 2 * _sure(request)[found.kept[proven]].sum() >= wanted
    for whole in (True, False) if enough else (False, True):
        places = found.kept[proven == whole]
        yield from ((part, whole) for part in _smallest_parts(found, places, wanted if whole else 1))


def _smallest_parts(found: PruneResult, places: np.ndarray, rows: int) -> Iterator[Part]:
    """The parts at these places, a few at a time: there may be a million, and the first be enough.

    Those with fewer rows than `rows` come last, and of these the largest first: each costs about the same to open.
    """
    for begin in range(0, len(places), LOOKED_AT):
        some = places[begin : begin + LOOKED_AT]
        order = some[_smallest_first(found, some, rows)] if len(some) > AT_ONCE else some
        for first in range(0, len(order), AT_ONCE):
            few = found.snapshot.pick(np.sort(order[first : first + AT_ONCE]))
            yield from sorted(
                few, key=lambda part: (part.rows < rows, -part.rows if part.rows < rows else part.size)
            )


def _smallest_first(found: PruneResult, places: np.ndarray, least: int) -> np.ndarray:
    """The order to read parts in, from columns of the state: building 64 Part values takes 1 ms."""
    table = found.snapshot.table(["rows", "size"])
    begin, end = int(places[0]), int(places[-1]) + 1
    rows, size = (table.column(name).slice(begin, end - begin).to_numpy() for name in ("rows", "size"))
    rows, size = rows[places - begin], size[places - begin]
    return np.lexsort((np.where(rows < least, -rows, size), rows < least))
