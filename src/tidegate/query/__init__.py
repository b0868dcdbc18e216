"""Answers a query over one collection: request → prune → choose a path → run → result.

    request = ScanRequest(snapshot, plan.at(now).optimise(), names, ResultShape(limit=10), now, config)
    result = answer(request)              prunes parts, chooses a path, starts to read
    result.path, result.scan.parts_read   'peek', 1

The room rests on `tidegate.plan` (what to do with rows) and `tidegate.storage` (parts and their statistics). It knows no SQL and no
catalog: `tidegate.statements` builds the request.

| module | |
|---|---|
| `request` | ScanRequest: a snapshot, a plan, the shape of the result and its limits |
| `choose` | chooses the cheapest path that gives exactly the rows: metadata, peek or local |
| `prune/` | which parts and pages the statistics rule out, and why |
| `estimate/` | row counts and selectivities from histograms |
| `paths/` | the ways to answer: metadata, peek, top-k, local |
| `admission` | PeekSlots: bounds the number of concurrent fast-path reads |
| `late/` | reads a part in stages: filter columns first, other columns for the remaining rows |
| `aggregate/` | GROUP BY and aggregates over streams of rows |
| `relational/`, `embedded/` | queries of several scans, and the engine that runs them in this process |
| `audit` | reads a share of pruned parts anyway and checks that the statistics were right |
| `row_stream`, `result` | rows as they are read, and the result that users hold |
| `sort` | ORDER BY, LIMIT and OFFSET |
| `row_failures` | when a failing row makes a query fail |
| `cancellation` | CancelToken: cancels a query, or ends it at its time-out |
| `python_values`, `value_text` | values for Python, for screens and for JSON |
"""

from tidegate.query.admission import PeekSlots
from tidegate.query.audit import audit_parts
from tidegate.query.cancellation import CancelToken, interruptible
from tidegate.query.choose import answer, choose_path
from tidegate.query.python_values import Interval, python_rows
from tidegate.query.request import ScanRequest
from tidegate.query.result import Path, Result
from tidegate.query.row_failures import row_error
from tidegate.query.row_stream import Batch, RowStream
from tidegate.query.scan_metrics import ScanMetrics, Stage
from tidegate.query.sort import OrderBy, ResultShape
from tidegate.query.value_text import format_value, json_value

__all__ = [
    "Batch",
    "CancelToken",
    "Interval",
    "OrderBy",
    "Path",
    "PeekSlots",
    "Result",
    "ResultShape",
    "RowStream",
    "ScanMetrics",
    "ScanRequest",
    "Stage",
    "answer",
    "audit_parts",
    "choose_path",
    "format_value",
    "interruptible",
    "json_value",
    "python_rows",
    "row_error",
]
