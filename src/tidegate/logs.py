"""Logs as data: one record per statement, with numbers and names, never rows or constants.

    import logging, tidegate.logs
    tidegate.logs.to_stderr(logging.INFO)          JSON, a line each; or attach any handler to the logger "tidegate"

    {"at": "2026-11-16T01:31:02.125Z", "level": "info", "logger": "tidegate.statement", "message": "select ok",
     "kind": "select", "outcome": "ok", "statement": "6f1c02a9d3e4b817", "ms": 4.2, "path": "local",
     "parts": 365, "parts_read": 30, "bytes": 41000000, "bytes_read": 1200000, "rows_read": 9000, "rows": 10, …}

Code that logs passes its data in one mapping, `extra={"tidegate": {…}}`; `Json` prints it beside the message. By default
nothing is printed: the logger `tidegate` has a handler that drops everything, as is the custom of libraries.

`statement` is a fingerprint of the statement's shape: its words and operators, with `?` for every constant. Statements that differ
in constants alone have the same, and no constant can be guessed from it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime

LOG = logging.getLogger("tidegate")
LOG.addHandler(logging.NullHandler())


class Lines(logging.Formatter):
    """Formats a record as one line for people: time, message, numbers; a trace has more lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        known = getattr(record, "tidegate", {})
        told = "  ".join(f"{key}={value}" for key, value in known.items() if not isinstance(value, dict))
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
        line |= getattr(record, "tidegate", {})
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
