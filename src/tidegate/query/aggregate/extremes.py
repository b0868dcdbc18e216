"""min and max of parts whose bounds may not occur: parts are read in the order of their bounds.

    read_extremes(request, known, scan)      a state for each aggregate, from the contested parts of a metadata answer

Rows of these parts are deleted, or their bounds are shortened texts. Take min(v):

    part 1   0 .. 99    is read first; the 0 is deleted, its least value is 2
    part 2   1 .. 98    may hold less: only its pages that may hold a value of at most 2 are read; the least value is 1
    part 3   3 .. 97    is not read

If the extreme row is deleted in each of a thousand parts, all of them are read. What they hold does not change as long as no part
of the collection does, so the value of many parts is kept with them, as verdicts are: until the next change it is not read again.

That is `ORDER BY v LIMIT 1` of the contested parts (`paths/top_k.py`). Which of the zeros of a float column it finds first is not
determined, so if the answer is 0, the values are compared exactly, as for rows that are read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Type
from tidegate.plan import Aggregate
from tidegate.query.aggregate.reducers import State, add_rows, nothing, reducer_of
from tidegate.query.paths import local, top_k
from tidegate.query.paths.metadata import MetadataAnswer
from tidegate.query.prune.parts import MAX_CACHED_PARTS, PruneResult, cached_for_plan
from tidegate.query.request import ScanRequest
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.query.sort import OrderBy, ResultShape

MIN_CACHED_PARTS = 11
"""Contested parts from which on their value is kept."""


def read_extremes(request: ScanRequest, known: MetadataAnswer, scan: ScanMetrics) -> list[State]:
    """The least and greatest values of the contested parts; of counts a state that adds nothing."""
    assert request.aggregation is not None
    states = []
    for one, places in zip(request.aggregation.aggregates, known.contested, strict=True):
        type_ = None if one.column is None else request.plan.types[one.column]
        if not len(places):
            states.append(nothing(reducer_of(one, type_), type_))
            continue
        assert type_ is not None
        parts = replace(known.rest, kept=places, whole=False)
        read = partial(_read_extreme, request, one, type_, parts, scan)
        if not MIN_CACHED_PARTS <= len(places) <= MAX_CACHED_PARTS:
            states.append(read())
            continue
        what = "extreme", one.kind, one.column, places.tobytes()
        states.append(list(cached_for_plan(request.snapshot, request.plan, request.now, what, read)))
    return states


def _read_extreme(
    request: ScanRequest, one: Aggregate, type_: Type, parts: PruneResult, scan: ScanMetrics
) -> State:
    """The least or greatest value of these parts."""
    assert one.column is not None
    shape = ResultShape((OrderBy(0, descending=one.kind == "max", nulls_first=False),), 1)
    narrow = request.plan.project([one.column])
    config = replace(request.config, max_result_bytes=0)  # of what is read, one value is kept
    sorted_ = replace(
        request, plan=narrow, aggregation=None, shape=shape, names=(request.names[0],), config=config
    )
    found = [columns[0] for columns, rows in top_k.stream(sorted_, parts, scan) if rows]
    value = pa.concat_arrays(found) if found else pa.nulls(1, type_.arrow)
    if not type_.is_float or not _is_zero(value):
        return [value]
    reducer = reducer_of(one, type_)
    state = nothing(reducer, type_)
    for columns, _ in local.stream(replace(sorted_, shape=ResultShape()), parts, scan):
        state = add_rows(reducer, state, columns[0])
    return state


def _is_zero(value: pa.Array) -> bool:
    return bool(pc.fill_null(pc.equal(value, pa.scalar(0, value.type)), False)[0].as_py())
