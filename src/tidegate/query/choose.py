"""Chooses how a request is answered: the cheapest path that gives exactly its rows.

    answer(request)                  prunes parts, chooses a path, starts to read; after the last row it audits pruned parts
    choose_path(request, pruned)     the path that `answer` would take, for EXPLAIN

| path | when |
|---|---|
| metadata | LIMIT 0; nothing is left after pruning; aggregates that statistics answer (`paths/metadata.py`) |
| peek | LIMIT, without ORDER BY (`paths/peek.py`) or with it (`paths/top_k.py`): few parts, and little of them |
| local | everything else, in this process: rows (`paths/local.py`), or groups of them (`aggregate/streaming.py`) |

The result is a stream (`row_stream.py`). Results up to `READ_AHEAD` bytes are complete when `answer` returns, and nothing runs
any more. A larger peek gives back its slot and goes on without one, so that a slow consumer blocks nobody.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from tidegate.query.aggregate import streaming
from tidegate.query.audit import audit_metadata, audit_parts
from tidegate.query.paths import local, metadata, peek, top_k
from tidegate.query.paths.metadata import MetadataAnswer
from tidegate.query.prune.parts import PruneResult, count_pruned, prune
from tidegate.query.request import ScanRequest
from tidegate.query.result import Path, Result
from tidegate.query.row_stream import Batch, RowStream
from tidegate.query.scan_metrics import ScanMetrics, Stage

READ_AHEAD = 16 << 20
"""Bytes of rows that are read before a result is returned: smaller results are complete by then."""


def answer(request: ScanRequest) -> Result:
    """The rows of the query, and what they cost."""
    if peek.suits(request):
        with request.peek_slots.acquire(request.config.peeks_at_once, request.cancel):
            pruned = peek.prune(request)
            scan = _count_total(pruned)
            return _start(request, pruned, scan, "peek", peek.stream(request, pruned, scan))
    began = time.perf_counter()
    pruned = prune(request.snapshot, request.plan, request.now, use=request.config.stats_filter)
    scan = _count_total(pruned)
    scan.stages.append(Stage("prune", seconds=time.perf_counter() - began))
    if request.aggregation is not None:
        return _aggregate(request, pruned, scan)
    if top_k.suits(request, pruned):
        with request.peek_slots.acquire(request.config.peeks_at_once, request.cancel):
            return _start(request, pruned, scan, "peek", top_k.stream(request, pruned, scan))
    return _start(request, pruned, scan, "local", local.answer(request, pruned, scan))


def _count_total(pruned: PruneResult) -> ScanMetrics:
    return ScanMetrics(parts_total=pruned.total, bytes_total=pruned.size)


def _aggregate(request: ScanRequest, pruned: PruneResult, scan: ScanMetrics) -> Result:
    """Groups of rows; aggregates of parts whose statistics suffice come from metadata."""
    known: MetadataAnswer | None = None
    if request.shape.limit != 0:
        with scan.stage("metadata"):
            known = metadata.answer_from_metadata(request, pruned)
    rows = streaming.stream(request, pruned, scan, known)
    return _start(request, pruned, scan, "local", rows, known)


def _start(
    request: ScanRequest,
    pruned: PruneResult,
    scan: ScanMetrics,
    path: Path,
    rows: Iterator[Batch],
    known: MetadataAnswer | None = None,
) -> Result:
    """The result of a stream, read ahead; if no part had to be read, the path is metadata."""
    count_pruned(request.snapshot, pruned, scan)
    types, most = request.result_types, request.config.max_result_bytes

    def audited() -> Iterator[Batch]:
        """The columns of the result; after its last row, some of the parts that were not read are audited."""
        width = len(request.names)
        for columns, count in rows:
            scan.rows_returned += count
            yield columns[:width], count
        if known is not None:
            audit_metadata(request, known, scan)
        audit_parts(request, pruned, scan, peek=path == "peek")

    stream = RowStream(audited(), request.cancel)
    stream.fill(min(READ_AHEAD, most) if most else READ_AHEAD)
    return Result(request.names, types, stream, path if scan.parts_read else "metadata", scan, max_bytes=most)


def choose_path(request: ScanRequest, pruned: PruneResult) -> Path:
    """The path that `answer` would take."""
    if request.shape.limit == 0:
        return "metadata"
    known = metadata.answer_from_metadata(request, pruned)
    if not pruned.left if known is None else known.is_complete:
        return "metadata"
    return "peek" if peek.suits(request) or top_k.suits(request, pruned) else "local"
