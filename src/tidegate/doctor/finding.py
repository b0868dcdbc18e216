"""What the doctor finds: findings, and the diagnosis that holds them.

    diagnosis = db.doctor()
    diagnosis.healthy                          False if any finding is a problem
    for finding in diagnosis.findings:
        finding.severity, finding.check, finding.subject, finding.message, finding.action

| severity | meaning |
|---|---|
| `ok` | checked, and as it should be |
| `note` | worth knowing; nothing has to be done |
| `warning` | works now, but costs something or will fail later |
| `problem` | something fails, or rows cannot be read |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tidegate.text import plural


class Severity(Enum):
    """How bad a finding is: `finding.severity is Severity.PROBLEM`."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


ORDER = tuple(Severity)
"""From good to bad."""
MAX_SUBJECTS = 10
"""Findings of one kind that are listed one by one; others are only counted."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked, and what came of it: `db.doctor().findings[0].message`."""

    severity: Severity
    check: str
    """The name of the check, such as `clocks`."""
    subject: str
    """What was checked: a collection, a source, a store."""
    message: str
    """What is the case, and what it means."""
    action: str = ""
    """What to do; mostly a command. Empty: nothing."""


@dataclass(frozen=True)
class Diagnosis:
    """All findings of one examination of a lake: `print(db.doctor().text())`."""

    lake: str
    findings: tuple[Finding, ...]
    left_out: tuple[str, ...] = ()
    """Checks that were not made, each with the reason."""
    seconds: float = 0.0

    @property
    def healthy(self) -> bool:
        """Whether nothing is a problem; there may be warnings."""
        return all(finding.severity is not Severity.PROBLEM for finding in self.findings)

    def of(self, severity: Severity) -> list[Finding]:
        """The findings of one severity."""
        return [finding for finding in self.findings if finding.severity is severity]

    def data(self) -> dict[str, Any]:
        """The diagnosis as a JSON-compatible dict."""
        return {
            "lake": self.lake,
            "healthy": self.healthy,
            "seconds": round(self.seconds, 3),
            "findings": [
                {
                    "severity": finding.severity.value,
                    "check": finding.check,
                    "subject": finding.subject,
                    "message": finding.message,
                    "action": finding.action,
                }
                for finding in self.findings
            ],
            "left_out": list(self.left_out),
        }

    def text(self) -> str:
        """The diagnosis for people: the worst findings last, next to the summary."""
        lines = [f"doctor of {self.lake}", ""]
        for finding in sorted(self.findings, key=lambda finding: ORDER.index(finding.severity)):
            lines.append(
                f"{finding.severity.value:<8} {finding.check:<12} {finding.subject}: {finding.message}"
            )
            if finding.action:
                lines.append(f"{'':<21} → {finding.action}")
        lines += [f"{'left out':<8} {reason}" for reason in self.left_out]
        counts = [(len(self.of(severity)), severity) for severity in reversed(ORDER)]
        words = [
            f"{count} ok" if severity is Severity.OK else plural(count, severity.value)
            for count, severity in counts
        ]
        return "\n".join([*lines, "", ", ".join(words) + f" ({self.seconds:.1f} s)"])


def condense(findings: Iterable[Finding], whole: Finding) -> list[Finding]:
    """The first findings of one kind, and how many more there are; `whole` if there is none."""
    listed = list(findings)
    if not listed:
        return [whole]
    rest = listed[MAX_SUBJECTS:]
    if not rest:
        return listed
    worst = max(rest, key=lambda finding: ORDER.index(finding.severity))
    more = Finding(worst.severity, worst.check, f"{len(rest)} more", f"such as {_names(rest)}", worst.action)
    return [*listed[:MAX_SUBJECTS], more]


def _names(findings: Sequence[Finding]) -> str:
    return ", ".join(finding.subject for finding in findings[:3])
