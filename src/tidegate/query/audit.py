"""Audit: reads a share of the pruned parts anyway, and checks that their statistics were right.

    audit_parts(request, pruned, scan)                    parts that were pruned must yield no row and no failure
    audit_metadata(request, metadata_answer, scan)        aggregates taken from statistics must agree with the rows

Statistics rest on what some version of Tidegate collected and on what each function declares about itself. A mistake in either
means rows silently missing. So now and then the rows themselves are read, by the evaluation that would have read them, and a
mistake makes the query fail with the part's name: no answer is better than a wrong one.

| setting `audit` | parts that are read again |
|---|---|
| 0 | none |
| 0.01, the default | one in a hundred of the pruned parts, but on average at most a tenth of the parts that were read |
| 1 | every pruned part, whatever it costs: for tests |

With 365 parts of which 30 are read and 335 pruned, 1 % of 1 + 10 · 30 is 3.01: 3 are audited, and once in a hundred times 4. A
point look-up that reads one part audits one part in one query of nine (0.11). A query that reads nothing audits one part in one
query of a hundred. One query audits at most `MAX_AUDITED_PARTS` parts (a peek one part) and about `MAX_AUDITED_BYTES`. Only the
columns of the conditions are read.

Pruned parts are checked row by row, each update by itself. That is right for parts with retractions too: the verdict concerns
every row of the part, whether or not its diffs cancel out later. An unreadable part does not contradict its statistics and was not
needed for the answer: it is logged, and the query succeeds.

An aggregate from metadata (`paths/metadata.py`) is checked exactly, since a bound that is off by one is as wrong as a part that is
pruned by mistake:

| taken from statistics | must hold in the part |
|---|---|
| count | the same count |
| a bound that occurs | the same value |
| a bound that cannot win | no value beyond it |

A part with retractions holds changes, not rows, and is not checked there. Counts rest on how many rows are deleted by the records
of the state: a bitmap that cannot be what its record says is an error that names it (`storage/part/bitmaps.py`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidegate.errors import AuditError, CorruptError, EvaluationError, StoreError
from tidegate.expr.domain import Verdict
from tidegate.expr.model import order, show, to_bools
from tidegate.plan import Aggregate, Verdicts
from tidegate.query.aggregate.reducers import add_rows, nothing, reducer_of
from tidegate.query.late.staged_scan import StagedScan
from tidegate.query.paths import local
from tidegate.query.paths.metadata import MetadataAnswer
from tidegate.query.prune.parts import PruneResult
from tidegate.query.request import ScanRequest
from tidegate.query.scan_metrics import ScanMetrics, Stage
from tidegate.storage.part import Part, exact_keys

MAX_AUDITED_PARTS = 8
MAX_AUDITED_BYTES = 16 << 20
"""What one query audits at most with a share below 1: no further part is started beyond these bytes."""
AUDITED_PER_READ = 10
"""Pruned parts that may be audited, at a share of 1, for each part that was read."""
_PICKED_AT_ONCE = 1024
_LOG = logging.getLogger(__name__)


def audit_parts(request: ScanRequest, pruned: PruneResult, scan: ScanMetrics, *, peek: bool = False) -> None:
    """Reads some of the pruned parts, and raises if one holds a row that the query asks for."""
    if pruned.verdicts is None or not request.config.audit:
        return
    dropped = np.flatnonzero(pruned.verdicts.verdict == Verdict.NONE)
    share, most = request.config.audit, 1 if peek else MAX_AUDITED_PARTS
    chosen = sample(len(dropped), scan.parts_read, share, request.audit_random, most)
    if not len(chosen):
        return
    # The conditions alone, of every row: pages are not skipped, as their statistics may be wrong too.
    config = replace(request.config, stats_filter=False)
    conditions = replace(request, plan=request.plan.project(()), config=config)
    with scan.stage("audit") as stage:
        for place, part in _pick(request, dropped[chosen]):
            if share < 1 and scan.bytes_audited >= MAX_AUDITED_BYTES:
                break
            matches = _has_match(conditions, part, stage)
            if matches is None:
                continue
            if matches:
                raise _wrong_verdict(part, pruned.verdicts, place)
            scan.parts_audited += 1
            scan.bytes_audited = stage.bytes


def sample(
    dropped: int, read: int, share: float, chance: random.Random, most: int = MAX_AUDITED_PARTS
) -> np.ndarray:
    """Which of the pruned parts are audited, ascending; see the table in the module's docstring."""
    if share >= 1:
        return np.arange(dropped)
    whole, rest = divmod(share * min(dropped, 1 + AUDITED_PER_READ * read), 1)
    count = int(whole) + (chance.random() < rest)
    return np.array(sorted(chance.sample(range(dropped), min(count, most, dropped))), np.int64)


def _pick(request: ScanRequest, places: np.ndarray) -> Iterator[tuple[int, Part]]:
    """The parts at these places, some at a time: there may be a million."""
    for batch in np.split(places, range(_PICKED_AT_ONCE, len(places), _PICKED_AT_ONCE)):
        yield from zip(batch.tolist(), request.snapshot.pick(batch), strict=True)


def _has_match(request: ScanRequest, part: Part, stage: Stage) -> bool | None:
    """Whether a row of a part passes the conditions or fails in them; None if the part cannot be read."""
    scan = ScanMetrics()
    try:
        batches = StagedScan(request, scan, request.plan, []).read(part, proven=False)
        return any(batch.rows for batch in batches)
    except EvaluationError:
        return True
    except StoreError as error:
        _log_unreadable(error, part=part.name)
        return None
    finally:
        stage.rows_in += scan.rows_read
        stage.bytes += scan.bytes_read


def _log_unreadable(error: StoreError, **which: object) -> None:
    event = {"event": "audit_unreadable", **which, "error": type(error).__name__}
    _LOG.warning("an audited part cannot be read", extra={"tidegate": event})


def _wrong_verdict(part: Part, verdicts: Verdicts, place: int) -> AuditError:
    """Logs the part without the query's constants, and returns the error with them."""
    blamed = [condition for condition, each in verdicts.by_condition if each[place] == Verdict.NONE]
    conditions = [show(condition) for condition in blamed or [c for c, _ in verdicts.by_condition]]
    return _audit_error(
        part,
        f"by them no row passes {' AND '.join(conditions)} or fails in it, and one does",
        "SET stats_filter = off reads every part; please report this with the part, other queries may lack rows too",
    )


def _audit_error(part: Part, mistake: str, hint: str) -> AuditError:
    _LOG.error("statistics are wrong", extra={"tidegate": {"event": "audit_failed", "part": part.name}})
    return AuditError(f"the statistics of {part.name} are wrong: {mistake}", part=part.name, hint=hint)


# ---------------------------------------------------------------- aggregates from metadata


def audit_metadata(request: ScanRequest, answer: MetadataAnswer, scan: ScanMetrics) -> None:
    """Reads some of the parts answered from metadata, and raises if one disagrees with its answer."""
    share = request.config.audit
    if not share or answer.rest.retracts:
        return
    places = answer.places[sample(len(answer.places), scan.parts_read, share, request.audit_random)]
    if not len(places):
        return
    with scan.stage("audit") as stage:
        for place in places.tolist():
            if share < 1 and scan.bytes_audited >= MAX_AUDITED_BYTES:
                break
            reading = ScanMetrics()
            mistake = _find_mistake(request, answer, place, reading)
            stage.rows_in += reading.rows_read
            stage.bytes += reading.bytes_read
            if mistake is None:
                continue
            if mistake:
                part = request.snapshot.pick(np.array([place]))[0]
                hint = "SET fast_path = off reads every part; please report this with the part"
                raise _audit_error(part, f"{mistake} is not what they say", hint)
            scan.parts_audited += 1
            scan.bytes_audited += reading.bytes_read


def _find_mistake(request: ScanRequest, answer: MetadataAnswer, place: int, scan: ScanMetrics) -> str | None:
    """The aggregate or error that contradicts a part's statistics, or ''; None: it cannot be read."""
    assert request.aggregation is not None
    if not _deletions_are_readable(request, place):
        return None
    # No verdicts: all conditions are evaluated. No statistics: no pages are skipped.
    part = replace(answer.rest, kept=np.array([place]), verdicts=None, predicate=None, whole=False)
    request = replace(request, config=replace(request.config, stats_filter=False))
    assert request.aggregation is not None
    aggregates = request.aggregation.aggregates
    types = [None if a.column is None else request.plan.types[a.column] for a in aggregates]
    reducers = [reducer_of(a, t) for a, t in zip(aggregates, types, strict=True)]
    states = [nothing(r, t) for r, t in zip(reducers, types, strict=True)]
    try:
        for columns, rows in local.stream(request, part, scan):
            values = [pa.nulls(rows) if a.column is None else columns[a.column] for a in aggregates]
            states = [add_rows(r, s, v) for r, s, v in zip(reducers, states, values, strict=True)]
    except EvaluationError as error:
        return error.message
    except StoreError as error:
        _log_unreadable(error, place=place)
        return None
    for i, aggregate in enumerate(aggregates):
        if place in answer.contested[i]:
            continue  # statistics do not tell its value
        value = reducers[i].finish(states[i]).values
        if not _agrees(aggregate, value, *answer.of_part(i, place)):
            return aggregate.show()
    return ""


def _deletions_are_readable(request: ScanRequest, place: int) -> bool:
    """Reads the bitmap of a part's deleted rows, and raises if it cannot be what was counted."""
    try:
        request.snapshot.pick(np.array([place]))
    except CorruptError:
        raise
    except StoreError as error:
        _log_unreadable(error, place=place)
        return False
    return True


def _agrees(aggregate: Aggregate, value: pa.Array, expected: pa.Array, bound: pa.Array) -> bool:
    """Whether a part's value equals that of its statistics, or without one is within the bound."""
    if expected[0].is_valid:
        return bool(exact_keys([value], 1)[0].equals(exact_keys([expected], 1)[0]))
    if not value[0].is_valid:
        return True
    within = order.less_equal(bound, value) if aggregate.kind == "min" else order.less_equal(value, bound)
    return bool(to_bools(within)[0])  # without a bound, the statistics promise that there are only NULLs
