"""Runs all checks over a lake: one that is open, or one that perhaps cannot be opened.

    diagnose(context)                                what `db.doctor()` does
    diagnose_location("s3://bucket/lake", clock)     what `tidegate doctor` does: a store that does not answer is a finding

A check is a function from an `Examination` to findings; checks of the machine need none. One that fails is a finding itself, and
the others run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tidegate.clock import Clock, SystemClock
from tidegate.config import Config
from tidegate.context import Context, open_context
from tidegate.doctor import clocks, collections, host, objects, sources, stores, versions
from tidegate.doctor.checksums import check_checksums
from tidegate.doctor.examination import Examination, ReportStep
from tidegate.doctor.finding import Diagnosis, Finding, Severity
from tidegate.errors import TidegateError
from tidegate.storage import Location, parse_location
from tidegate.storage.catalog import ROOT_OBJECT, open_root

Check = Callable[[Examination], list[Finding]]
LAKE_CHECKS: tuple[Check, ...] = (
    stores.check_blob,
    stores.check_consensus,
    clocks.check_store_clock,
    clocks.check_server_clock,
    collections.check_readable,
    clocks.check_uppers,
    collections.check_leases,
    collections.check_sizes,
    objects.check_objects,
    check_checksums,
    sources.check_sources,
    host.check_disk,
    host.check_permissions,
    versions.check_format,
)
MACHINE_CHECKS: tuple[Callable[[], list[Finding]], ...] = (
    versions.check_python,
    versions.check_libraries,
    versions.check_spark,
    host.check_open_files,
)
CONNECT_OPTIONS = (("connect_timeout", "5s"), ("timeout", "30s"))
"""Of object stores: a doctor must not wait as long as a query may."""


def diagnose(
    context: Context,
    *,
    deep: bool = False,
    read_only: bool = False,
    report: ReportStep | None = None,
) -> Diagnosis:
    """Examines an open lake. With `read_only` nothing is written, not even a probe."""
    began = time.monotonic()
    examination = Examination(context, write=not read_only, deep=deep, report=report or _silent)
    findings = [finding for check in LAKE_CHECKS for finding in _run(check, examination)]
    findings += [finding for check in MACHINE_CHECKS for finding in check()]
    examination.report("doctor", 1, 1)
    return Diagnosis(
        context.root.place.root or "memory",
        tuple(findings),
        tuple(examination.left_out),
        time.monotonic() - began,
    )


def diagnose_location(
    url: str,
    *,
    clock: Clock | None = None,
    config: Config | None = None,
    deep: bool = False,
    read_only: bool = False,
    report: ReportStep | None = None,
) -> Diagnosis:
    """Examines the lake at a location; it is not created if there is none."""
    began, clock = time.monotonic(), clock or SystemClock()
    place = _impatient(parse_location(url))
    try:
        missing = _absent(place)
        if missing is None:
            context = open_context(open_root(place, clock), clock, config or Config())
            try:
                return diagnose(context, deep=deep, read_only=read_only, report=report)
            finally:
                context.close()
                context.root.consensus.close()
    except TidegateError as error:
        missing = Finding(Severity.PROBLEM, "open", place.root, error.message, error.hint or _actions(place))
    rest = f"all checks of its collections: {place.root} cannot be opened"
    findings = [missing, *(finding for check in MACHINE_CHECKS for finding in check())]
    return Diagnosis(place.root, tuple(findings), (rest,), time.monotonic() - began)


def _silent(what: str, count: int, total: int) -> None:
    """Reports nothing."""


def _run(check: Check, examination: Examination) -> list[Finding]:
    """The findings of a check; an error of the lake is one."""
    try:
        return check(examination)
    except TidegateError as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return [
            Finding(
                Severity.PROBLEM,
                name,
                examination.root.place.root or "memory",
                f"this check failed: {error.message}",
                error.hint or _actions(examination.root.place),
            )
        ]


def _impatient(place: Location) -> Location:
    if place.kind != "objects":
        return place
    known = dict(place.options)
    return replace(place, options=(*place.options, *(one for one in CONNECT_OPTIONS if one[0] not in known)))


def _absent(place: Location) -> Finding | None:
    """The finding if there is no lake: opening it would create one."""
    if place.kind == "files" and not Path(place.root).is_dir():
        message = "there is no such folder"
    elif place.blob().get(ROOT_OBJECT) is None:
        message = "there is no lake here: it has no root object"
    else:
        return None
    action = '--lake names it; tidegate sql "CREATE TABLE …" creates one'
    return Finding(Severity.PROBLEM, "open", place.root, message, action)


def _actions(place: Location) -> str:
    if place.kind == "objects":
        return "check the address, region and keys of the store, and the network: curl -I the endpoint"
    if place.metadata == "postgres":
        return "check that PostgreSQL runs and accepts this user: psql with the same URL"
    return ""
