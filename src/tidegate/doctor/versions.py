"""Checks of versions: Python, libraries, the format of the lake, Java for Spark."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from importlib import metadata

from tidegate.doctor.examination import Examination
from tidegate.doctor.finding import Finding, Severity
from tidegate.errors import UnsupportedError

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 14)
"""The newest version that is tested."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)(?:;\s*(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
USER_EXTRAS = ("cli", "server", "spark", "ingest", "postgres")
"""The extras of users; the others are for developers."""


def check_python() -> list[Finding]:
    """Compares the version of Python with the tested ones."""
    return [python_finding(sys.version_info[:2])]


def python_finding(version: tuple[int, int]) -> Finding:
    """The finding for a version of Python."""
    text, newest = ".".join(map(str, version)), ".".join(map(str, NEWEST_PYTHON))
    if version < OLDEST_PYTHON:
        return Finding(
            Severity.PROBLEM, "versions", "Python", f"{text} is too old", "install Python 3.11 or newer"
        )
    if version > NEWEST_PYTHON:
        message = f"{text} is newer than {newest}, the newest version that is tested"
        return Finding(Severity.NOTE, "versions", "Python", message)
    return Finding(Severity.OK, "versions", "Python", text)


def check_libraries() -> list[Finding]:
    """Compares the installed libraries with the ranges of the package."""
    try:
        requirements = metadata.requires("tidegate") or []
    except metadata.PackageNotFoundError:
        message = "tidegate is not installed as a package: its requirements are not known"
        return [Finding(Severity.NOTE, "versions", "libraries", message)]
    return library_findings(requirements, _installed)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def library_findings(requirements: Iterable[str], installed: Callable[[str], str | None]) -> list[Finding]:
    """The findings for requirements such as `duckdb<3,>=2.0` and `rich>=14; extra == "cli"`."""
    findings, fine, absent = [], 0, set()
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        assert match is not None
        name, ranges, marker = match.group(1), match.group(2).strip(" ()"), match.group(3) or ""
        extra = _EXTRA.search(marker)
        if name == "tidegate" or (extra is not None and extra.group(1) not in USER_EXTRAS):
            continue
        version = installed(name)
        if version is None and extra is not None:
            absent.add(extra.group(1))
        elif version is None:
            findings.append(
                Finding(
                    Severity.PROBLEM,
                    "versions",
                    name,
                    "it is not installed, and Tidegate needs it",
                    f"pip install '{name}{ranges}'",
                )
            )
        elif not in_range(version, ranges):
            message = f"{version} is outside of the tested range {ranges}: results may differ"
            findings.append(
                Finding(Severity.WARNING, "versions", name, message, f"pip install '{name}{ranges}'")
            )
        else:
            fine += 1
    if absent:
        message = f"not installed: {', '.join(sorted(absent))}"
        findings.append(
            Finding(
                Severity.NOTE, "versions", "extras", message, f"pip install 'tidegate[{','.join(sorted(absent))}]'"
            )
        )  # fmt: skip
    return [*findings, Finding(Severity.OK, "versions", "libraries", f"{fine} are in their tested ranges")]


def in_range(version: str, ranges: str) -> bool:
    """Whether a version is in ranges such as `<3,>=2.0`; what has no numbers is taken to be."""
    for limit in filter(None, (part.strip() for part in ranges.split(","))):
        match = re.match(r"(>=|<=|==|<|>|~=|!=)\s*([0-9.]+)", limit)
        if match is None:
            continue
        relation, left, right = match.group(1), _numbers(version), _numbers(match.group(2))
        width = max(len(left), len(right))
        left, right = left + (0,) * (width - len(left)), right + (0,) * (width - len(right))
        order = (left > right) - (left < right)
        allowed = {
            ">=": (0, 1),
            "~=": (0, 1),
            "<=": (-1, 0),
            "==": (0,),
            "<": (-1,),
            ">": (1,),
            "!=": (-1, 1),
        }
        if order not in allowed[relation]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in found.group().split(".")) if found else ()


def check_format(examination: Examination) -> list[Finding]:
    """Names the format of the lake; one that is too new cannot be opened at all."""
    marker = examination.root.marker
    return [
        Finding(Severity.OK, "versions", "the lake", f"format {marker.format}, metadata in {marker.metadata}")
    ]


def check_spark() -> list[Finding]:
    """Looks for Java, if pyspark is installed."""
    if importlib.util.find_spec("pyspark") is None:
        return []  # the check of libraries names the missing extra
    from tidegate.spark.session import java_home

    try:
        home = java_home()
    except UnsupportedError as error:
        return [Finding(Severity.WARNING, "versions", "Java", error.message, error.hint or "")]
    message = f"found for Spark: {'java on the PATH' if home is None else home}"
    return [Finding(Severity.OK, "versions", "Java", message)]
