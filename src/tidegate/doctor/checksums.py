"""The deep check: reads every object, and compares its bytes with the digest that was recorded."""

from __future__ import annotations

from tidegate.doctor.examination import Examination
from tidegate.doctor.finding import Finding, Severity, condense
from tidegate.errors import TidegateError
from tidegate.storage.maintain import verify_objects
from tidegate.text import format_bytes, plural


def check_checksums(examination: Examination) -> list[Finding]:
    """Verifies every part, rollup and bitmap; only with `deep`."""
    if not examination.deep:
        return []
    total = sum(facts.objects.num_rows for facts in examination.facts)
    progress = examination.paced("checksums", total)
    findings, count, size = [], 0, 0
    for facts in examination.facts:
        if facts.error is not None:
            continue
        try:
            for one in verify_objects(examination.machine(facts.shard)):
                next(progress, None)
                count, size = count + 1, size + one.size
                if one.error is not None:
                    findings.append(_damaged(facts.name, one.error))
        except TidegateError as error:
            findings.append(_damaged(facts.name, error))
    message = f"{plural(count, 'file')}, {format_bytes(size)}: each holds what was written"
    return condense(findings, Finding(Severity.OK, "checksums", "all collections", message))


def _damaged(name: str, error: TidegateError) -> Finding:
    action = "restore this file from a backup: docs/operations.md, Backup"
    return Finding(Severity.PROBLEM, "checksums", name, error.message, action)
