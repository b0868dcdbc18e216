"""The options `--log-format` and `--log-level` of commands that run for long."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from cyclopts import Parameter

from tidegate.logs import LOG, lines_to_stderr, to_stderr

LogFormat = Annotated[
    Literal["text", "json", "lines"],
    Parameter("--log-format", help="Print log records on stderr: `json`, one on a line, or `text` for people (also `lines`)."),
]  # fmt: skip
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    Parameter(
        "--log-level",
        help="The least important records that are printed; debug adds leases, sweeps and polling.",
    ),
]


@contextmanager
def logs_on_stderr(log_format: str | None, level: str) -> Iterator[None]:
    """Prints the logs meanwhile; without a format nothing is printed."""
    if log_format is None:
        yield
        return
    before = LOG.level
    handler = (to_stderr if log_format == "json" else lines_to_stderr)(getattr(logging, level.upper()))
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)
