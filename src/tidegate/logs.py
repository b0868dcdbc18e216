"""Logs as data: one record for each statement, commit, batch and request, connected by ids.

    import logging, tidegate.logs
    tidegate.logs.to_stderr(logging.INFO)          JSON, a line each; or attach any handler to the logger "tidegate"

    {"at": "2026-11-16T01:31:02.125Z", "level": "info", "logger": "tidegate.statement", "message": "select ok",
     "session": "9a41c2d07be3", "statement_id": "51d06c3fa2b8", "kind": "select", "outcome": "ok", "statement": "6f1c02a9d3e4b817",
     "ms": 4.2, "path": "local", "parts": 365, "parts_read": 30, "bytes": 41000000, "bytes_read": 1200000, "rows": 10, …}

| logger | a record for each | ids |
|---|---|---|
| `tidegate.statement` | statement | `session`, `statement_id`, `statement`; of the web pages `request` |
| `tidegate.commit` | entry of a log that changes rows; at DEBUG any entry | `shard`, `entry`, `token`, `parts`; of what made it |
| `tidegate.ingest` | batch of a source | `source`, `batch`, `batch_id` |
| `tidegate.maintenance` | compact, recluster, sweep, repair, back-fill | `session`, `operation_id`, `collection` |
| `tidegate.request` | request of the web pages; `/health`, `/metrics`, files at DEBUG | `request`: the header X-Request-Id |
| `tidegate.server.postgres` | connection | `session`, `pid` |
| `tidegate.progress`, `tidegate.internal` | step of long work; fault of Tidegate | `error` |

Ids that hold for everything inside are set by `ids`: a commit logged within has those of its statement.

    with logs.ids(source="orders", batch_id=logs.new_id()):
        commit()                                   its record has "source" and "batch_id" too

Code that logs passes its data in one mapping, `extra={"tidegate": {…}}`; `Json` prints it beside the message. By default
nothing is printed: the logger `tidegate` has a handler that drops everything, as is the custom of libraries.

`statement` is a fingerprint of the statement's shape: its words and operators, with `?` for every constant. Statements that differ
in constants alone have the same, and no constant can be guessed from it. No record holds a row, a constant, a parameter or a
secret.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

from tidegate.boundary import guarded

C = TypeVar("C", bound=type)

LOG = logging.getLogger("tidegate")
LOG.addHandler(logging.NullHandler())
_NO_IDS: Mapping[str, str] = MappingProxyType({})
_IDS: ContextVar[Mapping[str, str]] = ContextVar("tidegate_ids", default=_NO_IDS)


@contextmanager
def ids(**more: str) -> Iterator[None]:
    """Adds ids to all records that are logged inside, by this thread or task."""
    token = _IDS.set({**_IDS.get(), **more})
    try:
        yield
    finally:
        _IDS.reset(token)


def current_ids() -> Mapping[str, str]:
    """The ids that hold here."""
    return _IDS.get()


def new_id() -> str:
    """A new id: 12 hexadecimal digits."""
    return secrets.token_hex(6)


MAINTENANCE = ("compact", "recluster", "backfill_statistics", "sweep", "repair")
"""The methods of a session that are logged as maintenance."""


def log_maintenance(cls: C) -> C:
    """A class of sessions: each call of a maintenance method is a record, with what was done."""
    for name in MAINTENANCE:
        setattr(cls, name, _logged(name, getattr(cls, name)))
    return cls


def _logged(operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
    logger = logging.getLogger("tidegate.maintenance")

    @guarded
    @functools.wraps(method)
    def run(session: Any, *arguments: Any, **named: Any) -> Any:
        collection = next(iter(arguments), named.get("name", ""))
        name = collection if isinstance(collection, str) else ""
        fields: dict[str, object] = {"operation": operation, "collection": name}
        began, outcome = time.perf_counter(), "ok"
        with ids(session=session.context.session_id, operation_id=new_id()):
            try:
                result = method(session, *arguments, **named)
                fields |= {key: value for key, value in vars(result).items() if isinstance(value, int)}
                return result
            except BaseException as error:
                outcome = type(error).__name__
                raise
            finally:
                fields |= {"outcome": outcome, "ms": round(1000 * (time.perf_counter() - began), 3)}
                level = logging.INFO if outcome == "ok" else logging.WARNING
                logger.log(level, "%s %s", operation, outcome, extra={"tidegate": fields})

    return run


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The data of a record, with the ids that hold where it is logged."""
    return {**current_ids(), **getattr(record, "tidegate", {})}


class Lines(logging.Formatter):
    """Formats a record as one line for people: time, message, numbers; a trace has more lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        told = "  ".join(
            f"{key}={value}" for key, value in fields_of(record).items() if not isinstance(value, dict)
        )
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        message, newline, trace = record.getMessage().partition("\n")
        return f"{at}  {level}{message}  {told}".rstrip() + newline + trace


class Json(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= fields_of(record)
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__  # its text may hold values of rows
        return json.dumps(line, default=str, ensure_ascii=False)


def to_stderr(level: int = logging.INFO) -> logging.Handler:
    """Prints Tidegate's logs from this level on as JSON; returns the handler, to remove it again."""
    return _handled(Json(), level)


def lines_to_stderr(level: int = logging.INFO) -> logging.Handler:
    """The same, as lines for people."""
    return _handled(Lines(), level)


def _handled(formatter: logging.Formatter, level: int) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    LOG.addHandler(handler)
    LOG.setLevel(level)
    return handler


def fingerprint(shape: Iterable[str]) -> str:
    """16 hexadecimal digits that stand for the words of a statement."""
    return hashlib.blake2b("\x1f".join(shape).encode("utf-8", "replace"), digest_size=8).hexdigest()
