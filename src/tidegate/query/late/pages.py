"""What the statistics of a part's pages say of a plan: pages without matching rows are not read."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from tidegate.errors import AuditError
from tidegate.expr.domain import Specs, Verdict
from tidegate.plan import MapFilterProject, Verdicts, compute_verdicts, deciding_columns
from tidegate.query.late.row_index import pages_with_values
from tidegate.query.prune.pages_by_value import prune_by_values
from tidegate.query.request import ScanRequest
from tidegate.storage.part import Part, PartFile
from tidegate.storage.stats import PAGE_ROWS

_LOG = logging.getLogger(__name__)


MAX_SHARP_SHARE = 0.5
"""The share of pages left by statistics from which it is looked up at once in which of them the wanted values are."""


def kept_pages(request: ScanRequest, plan: MapFilterProject, file: PartFile) -> tuple[np.ndarray, np.ndarray]:
    """Of each page of a file: whether it may hold rows that pass, and whether all pass."""
    count = -(-file.part.rows // PAGE_ROWS)
    keep, whole = np.ones(count, bool), np.zeros(count, bool)
    if count > 1 and file.frame is not None:
        key = (request.snapshot.schema.id, plan, request.now if plan.is_temporal else None)
        found = file.plans.get_or_compute(key, lambda: page_verdicts(request, plan, file))
        keep, whole = found.keep, found.verdict == Verdict.ALL
    if open_ := int(np.count_nonzero(keep & ~whole)):
        holding = pages_with_values(request.snapshot, plan, file, sparse=open_ <= MAX_SHARP_SHARE * count)
        keep = keep if holding is None else keep & holding
    return keep, whole


def page_specs(request: ScanRequest, file: PartFile, wanted: frozenset[int]) -> list[Specs | None]:
    """What each column may be on the pages of a file with statistics; None if it is not wanted."""
    assert file.frame is not None
    columns, count = request.snapshot.schema.columns, len(file.frame)
    absent = (columns[i] for i in wanted if not file.has(columns[i].id) and columns[i].missing is None)
    lacking = {column.id: np.ones(count, bool) for column in absent}
    asked = sorted(wanted)
    described = file.frame.specs([(columns[i].id, columns[i].type) for i in asked], lacking)
    specs = dict(zip(asked, described, strict=True))
    return [specs.get(i) for i in range(len(columns))]


def page_verdicts(request: ScanRequest, plan: MapFilterProject, file: PartFile) -> Verdicts:
    """What the statistics of a file's pages, and the values on them, say of the plan."""
    assert file.frame is not None
    columns, count, now = request.snapshot.schema.columns, len(file.frame), request.now
    ids, types = [column.id for column in columns], [column.type for column in columns]
    specs = page_specs(request, file, deciding_columns(plan))[: plan.arity]
    verdicts = compute_verdicts(plan, specs, (now, now), count)
    keep = prune_by_values(plan, file.rosters, ids, types, now)
    if keep is None:
        return verdicts
    return replace(verdicts, verdict=np.where(keep, verdicts.verdict, np.int8(Verdict.NONE)))


def wrong_page_statistics(part: Part) -> AuditError:
    """The error for a part whose page statistics rule out a page that holds a passing or failing row."""
    _LOG.error("statistics are wrong", extra={"tidegate": {"event": "audit_failed", "part": part.name}})
    return AuditError(
        f"the statistics of pages of {part.name} are wrong: they rule out a page that contains a matching or failing row",
        part=part.name,
        hint="SET stats_filter = off reads every page; please report this with the part, other queries may lack rows too",
    )
