"""What is counted and logged of every statement, once it is over: see `metrics.py` and `logs.py`.

A result whose rows are still to be read is over when its last row is, when it fails on the way, or when it is closed.

    observed(context, sql, "select", lambda: …)       runs it; whatever comes of it is noted, and goes on its way

Each has an id, which everything that is logged inside has too, and which an error carries to the client (`error.statement_id`).

| outcome | when |
|---|---|
| `ok` | there is a result |
| `cancelled` | it was stopped, or took too long |
| `EvaluationError`, `BindError`, … | it failed: the class of the error |
| `internal` | it failed in a way that is our fault; `error` is the id of the trace in the log (`boundary.py`) |

Neither the text of a statement nor that of an error is logged: both may hold values of rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from tidegate import logs
from tidegate.boundary import outward
from tidegate.context import Context
from tidegate.errors import AuditError, CancelledError, InternalError, TidegateError
from tidegate.metrics import Metrics
from tidegate.query import Result, ScanMetrics
from tidegate.sql.parse import tokenize

T = TypeVar("T")
_LOG = logging.getLogger("tidegate.statement")


def observed(context: Context, sql: str, kind: str, run: Callable[[], T]) -> T:
    """Runs a statement of a text, or reads the text (`parse`, of which only failures are noted)."""
    began, own = time.perf_counter(), _Ids(context.session_id, logs.new_id(), logs.current_ids())
    note = partial(_over, context.metrics, own, sql, kind, began)
    try:
        with logs.ids(session=own.session, statement_id=own.statement):
            result = run()
    except Exception as error:  # noqa: BLE001  # it is raised below, as it is or as ours
        found = outward(error)
        if isinstance(found, TidegateError) and found.statement_id is None:
            found.statement_id = own.statement
        try:
            note(None, found)
            if found is error:
                raise
            raise found from error
        finally:
            del found  # else the error's own trace would refer to it
    except BaseException as error:  # Ctrl-C
        note(None, error)
        raise
    if not isinstance(result, Result):
        return result
    if result.live:  # the result itself is not referred to: who forgets it ends it
        result.when_over(partial(note, _Answer(result.path, result.scan, None)))
    else:
        note(_Answer(result.path, result.scan, result.ready), None)
    return result


class _Ids(NamedTuple):
    """The ids of one statement, and those that held where it began."""

    session: str
    statement: str
    outer: Mapping[str, str]


class _Answer(NamedTuple):
    """What there is to say of a result."""

    path: str
    scan: ScanMetrics
    ready: int | None
    """How many rows; None: as many as its scan counts."""

    @property
    def rows(self) -> int:
        return self.scan.rows_returned if self.ready is None else self.ready


def _over(
    metrics: Metrics,
    own: _Ids,
    sql: str,
    kind: str,
    began: float,
    answer: _Answer | None,
    error: BaseException | None,
) -> None:
    """Notes what came of a statement."""
    if isinstance(error, AuditError):
        metrics.add("audit_failures")
    outcome = "ok" if error is None else _outcome(error)
    _note(metrics, own, sql, kind, outcome, time.perf_counter() - began, answer, error)


def _outcome(error: BaseException) -> str:
    if isinstance(error, CancelledError | KeyboardInterrupt):
        return "cancelled"
    ours = isinstance(error, TidegateError) and not isinstance(error, InternalError)
    return type(error).__name__ if ours else "internal"


def _note(
    metrics: Metrics,
    own: _Ids,
    sql: str,
    kind: str,
    outcome: str,
    seconds: float,
    result: _Answer | None,
    error: BaseException | None = None,
) -> None:
    counts = [("statements", 1, {"kind": kind, "outcome": outcome})]
    if kind == "select":
        path = "none" if result is None else result.path
        counts.append(("queries", 1, {"path": path, "outcome": outcome}))
        metrics.took(path, seconds)
    if result is not None and (kind == "select" or result.scan.parts_total):
        counts += _scan_counts(result)
    metrics.add_all(counts)
    level = logging.ERROR if outcome == "internal" else logging.INFO
    if _LOG.isEnabledFor(level):
        said: dict[str, object] = {
            **own.outer,
            "session": own.session,
            "statement_id": own.statement,
            "kind": kind,
            "outcome": outcome,
            "statement": _fingerprint(sql),
            "ms": round(1000 * seconds, 3),
        }
        said |= {"error": error.id} if isinstance(error, InternalError) else {}
        said |= _costs(result) if kind == "select" and result is not None else {}
        _LOG.log(level, "%s %s", kind, outcome, extra={"tidegate": said})


def _scan_counts(result: _Answer) -> Iterator[tuple[str, int, dict[str, str]]]:
    scan = result.scan
    for what, parts, size in (
        ("considered", scan.parts_total, scan.bytes_total),
        ("pruned", scan.parts_pruned, scan.bytes_pruned),
        ("proven", scan.parts_proven, scan.bytes_proven),
        ("read", scan.parts_read, scan.bytes_read),
        ("audited", scan.parts_audited, scan.bytes_audited),
    ):
        yield "parts", parts, {"what": what}
        yield "bytes", size, {"what": what}
    yield "pages_skipped", scan.pages_skipped, {}
    yield "bytes_skipped", scan.bytes_skipped, {}
    yield "rows", scan.rows_read, {"what": "read"}
    yield "rows", result.rows, {"what": "returned"}


def _costs(result: _Answer) -> dict[str, object]:
    scan = result.scan
    return {
        "path": result.path,
        "parts": scan.parts_total,
        "parts_pruned": scan.parts_pruned,
        "parts_read": scan.parts_read,
        "parts_audited": scan.parts_audited,
        "bytes": scan.bytes_total,
        "bytes_read": scan.bytes_read,
        "rows_read": scan.rows_read,
        "rows": result.rows,
    }


def _fingerprint(sql: str) -> str:
    """The shape of a text: constants are `?`; a text that has no shape has its length."""
    try:
        found = tokenize(sql)
    except TidegateError:
        return f"{len(sql)} characters"
    return logs.fingerprint("?" if token.kind in ("string", "number") else token.text for token in found)
