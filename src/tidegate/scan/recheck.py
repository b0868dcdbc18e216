"""What statistics told of parts, put to the rows of some of them: audit, for answers from metadata.

    rechecked(question, told, scan)      raises if a part does not hold what was told of it

`audit.py` reads parts that were left out, which must yield nothing. A part that was *told* (`metadata.py`) must yield something
exact: so many rows, such a least value. A bound that is off by one is no less a lie than a part that is wrongly left out. Parts are
read with every condition evaluated; how many is decided as there, by the setting `audit`.

| told of the part | must be found in it |
|---|---|
| count | the same count |
| a bound that occurs | the same value |
| a bound that cannot win | nothing beyond it |

Where rows are retracted, a part by itself holds no rows but changes, and is not checked.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidegate.errors import EvaluationError, StoreError
from tidegate.expr import order
from tidegate.expr.specs import to_bools
from tidegate.plan.aggregate import Aggregate
from tidegate.scan import local
from tidegate.scan.audit import MOST_BYTES, sample
from tidegate.scan.groups import Groups
from tidegate.scan.lie import CHANCE, AuditError
from tidegate.scan.metadata import Told
from tidegate.scan.question import Question
from tidegate.scan.reduce import Reducer, State, joined, nothing, reducer_of
from tidegate.scan.result import Scan
from tidegate.shard.rowkey import exact_keys

_LOG = logging.getLogger(__name__)


def rechecked(question: Question, told: Told, scan: Scan) -> None:
    """Reads some of the parts that were told."""
    share = question.config.audit
    if not share or told.rest.retracts:
        return
    places = told.places[sample(len(told.places), scan.parts_read, share, CHANCE)]
    if not len(places):
        return
    with scan.stage("audit") as stage:
        for place in places.tolist():
            if share < 1 and scan.bytes_audited >= MOST_BYTES:
                break
            reading = Scan()
            wrong = _wrong(question, told, place, reading)
            stage.rows_in += reading.rows_read
            stage.bytes += reading.bytes_read
            if wrong is None:
                continue
            if wrong:
                raise _lie(question, place, wrong)
            scan.parts_audited += 1
            scan.bytes_audited += reading.bytes_read


def _wrong(question: Question, told: Told, place: int, scan: Scan) -> str | None:
    """What was told wrongly of a part, or nothing; None if it cannot be read."""
    assert question.aggregation is not None
    # No verdicts: all conditions are evaluated. No statistics: pages are not passed over by them.
    one = replace(told.rest, kept=np.array([place]), verdicts=None, asked=None, whole=False)
    asked = replace(question, config=replace(question.config, stats_filter=False))
    made = question.aggregation.aggregates
    types = [None if a.column is None else question.plan.types[a.column] for a in made]
    reducers = [reducer_of(a, t) for a, t in zip(made, types, strict=True)]
    states = [nothing(r, t) for r, t in zip(reducers, types, strict=True)]
    try:
        for columns, rows in local.stream(asked, one, scan):
            given = [pa.nulls(rows) if a.column is None else columns[a.column] for a in made]
            states = [_more(r, s, v) for r, s, v in zip(reducers, states, given, strict=True)]
    except EvaluationError as error:
        return error.message
    except StoreError as error:
        said = {"event": "audit_unreadable", "place": place, "error": type(error).__name__}
        _LOG.warning("an audited part cannot be read", extra={"tidegate": said})
        return None
    for i, a in enumerate(made):
        found = reducers[i].finish(states[i]).values
        if not _agree(a, found, *told.of(i, place)):
            return a.show()
    return ""


def _more(reducer: Reducer, state: State, values: pa.Array) -> State:
    """The state with some more rows."""
    rows = len(values)
    lifted = joined([state, reducer.lift(values)])
    return reducer.combine(lifted, Groups.of([], rows + 1))


def _agree(one: Aggregate, found: pa.Array, said: pa.Array, bound: pa.Array) -> bool:
    """Whether what was found in a part is what was said of it; if nothing was said, whether it is within the bound."""
    if said[0].is_valid:
        return bool(exact_keys([found], 1)[0].equals(exact_keys([said], 1)[0]))
    if not found[0].is_valid:
        return True
    within = order.less_equal(bound, found) if one.kind == "min" else order.less_equal(found, bound)
    return bool(to_bools(within)[0])  # without a bound only NULLs were said to be there


def _lie(question: Question, place: int, wrong: str) -> AuditError:
    part = question.snapshot.pick(np.array([place]))[0]
    _LOG.error("statistics are wrong", extra={"tidegate": {"event": "audit_failed", "part": part.name}})
    return AuditError(
        f"the statistics of {part.name} are wrong: {wrong} is not what they say",
        part=part.name,
        hint="SET fast_path = off reads every part; please report this with the part",
    )
