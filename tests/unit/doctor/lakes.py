"""Lakes for the tests of the doctor, and how its findings are looked up."""

from __future__ import annotations

from pathlib import Path

import tidegate
from tidegate.doctor import Diagnosis, Finding, Severity


def lake(folder: Path, name: str = "orders", batches: int = 3) -> Path:
    """A lake with one table of as many parts."""
    with tidegate.open(folder) as db:
        db.sql(f"CREATE TABLE {name} (id int8)")
        for i in range(batches):
            db.append(name, {"id": [2 * i, 2 * i + 1]})
    return folder


def bad(diagnosis: Diagnosis) -> list[Finding]:
    """Warnings and problems, but of this machine's room and libraries."""
    return [
        finding
        for finding in diagnosis.findings
        if finding.severity in (Severity.WARNING, Severity.PROBLEM)
        and finding.check not in ("machine", "versions")
    ]


def only(diagnosis: Diagnosis) -> Finding:
    """The only warning or problem."""
    (finding,) = bad(diagnosis)
    return finding


def files(folder: Path, kind: str = "part") -> list[Path]:
    """The objects of one kind of a lake."""
    return sorted(path for path in (folder / kind).rglob("*") if path.is_file())
