"""Checks of collections, from their states alone: unreadable ones, leases, sizes."""

from __future__ import annotations

from tidegate.doctor.examination import CATALOG_NAME, CollectionFacts, Examination
from tidegate.doctor.finding import Finding, Severity, condense
from tidegate.text import format_bytes, format_count, format_time, plural, time_ago, time_until

MANY_SMALL_PARTS = 64
"""Small parts from which reading a collection costs visibly more."""
DELETED_SHARE = 0.25
LATE_ROLLUP = 1_024
"""Entries since the last rollup; there is one every 128, if it can be written."""


def check_readable(examination: Examination) -> list[Finding]:
    """Names the collections whose state cannot be read."""
    facts = examination.facts
    findings = [
        Finding(
            Severity.PROBLEM,
            "readable",
            one.name,
            f"its state cannot be read: {one.error.message}",
            one.error.hint or "restore the lake from a backup: docs/operations.md, Backup",
        )
        for one in facts
        if one.error is not None
    ]
    message = f"the states of {plural(len(facts) - 1, 'collection')} can be read"
    return condense(findings, Finding(Severity.OK, "readable", "all collections", message))


def check_leases(examination: Examination) -> list[Finding]:
    """Names leases that have expired, and counts those that are held."""
    now, findings, held = examination.clock.now(), [], 0
    for facts in examination.facts:
        expired = {name: until for name, (_, until) in facts.leases.items() if until <= now}
        held += len(facts.leases) - len(expired)
        if expired:
            oldest = min(expired.values())
            findings.append(
                Finding(
                    Severity.WARNING,
                    "leases",
                    facts.name,
                    f"{plural(len(expired), 'lease')} of readers that ended without a word ({', '.join(sorted(expired)[:3])}), "
                    f"the oldest expired {time_ago(oldest, now / 1000)}: files that they kept are not deleted",
                    "tidegate sweep",
                )
            )
    whole = Finding(Severity.OK, "leases", "all collections", "no lease has expired")
    return [*condense(findings, whole), *_held(examination, held)]


def _held(examination: Examination, held: int) -> list[Finding]:
    """The leases that are held, and the collection whose lease reaches back furthest."""
    if not held:
        return []
    now = examination.clock.now()
    since, name, lease, until = min(
        (since, facts.name, lease, until)
        for facts in examination.facts
        for lease, (since, until) in facts.leases.items()
        if until > now
    )
    return [
        Finding(
            Severity.NOTE,
            "leases",
            "readers",
            f"{plural(held, 'lease')} held; {lease} of {name} keeps times from {format_time(since)} on, "
            f"and ends {time_until(until, now / 1000)} unless its reader renews it",
        )
    ]


def check_sizes(examination: Examination) -> list[Finding]:
    """Sums up the lake, and names collections that maintenance would make cheaper to read."""
    facts = [one for one in examination.facts if one.error is None]
    findings = [finding for one in facts for finding in size_findings(one)]
    parts, rows = sum(one.parts for one in facts), sum(one.rows for one in facts)
    size = sum(one.bytes for one in facts)
    message = f"{plural(parts, 'part')}, {plural(rows, 'row')}, {format_bytes(size)}"
    whole = Finding(Severity.OK, "sizes", "all collections", f"{message}; nothing needs maintenance")
    total = [Finding(Severity.NOTE, "sizes", "all collections", message)] if findings else []
    return [*condense(findings, whole), *total, *_history(facts)]


def size_findings(facts: CollectionFacts) -> list[Finding]:
    """What maintenance would improve in one collection."""
    found = []
    if facts.small_parts >= MANY_SMALL_PARTS and facts.name != CATALOG_NAME:
        message = f"{format_count(facts.small_parts)} of {plural(facts.parts, 'part')} are small: each costs a query a request"
        found.append(
            Finding(Severity.WARNING, "sizes", facts.name, message, f"tidegate compact {facts.name}")
        )
    if facts.rows and facts.deleted > DELETED_SHARE * facts.rows:
        message = f"{format_count(facts.deleted)} of {plural(facts.rows, 'stored row')} are deleted, and kept for AS OF"
        found.append(
            Finding(Severity.WARNING, "sizes", facts.name, message, f"tidegate compact {facts.name} --full")
        )
    behind = facts.entries - facts.rollup
    if behind > LATE_ROLLUP:
        message = (
            f"{format_count(behind)} entries of the log since the last rollup: opening it reads all of them"
        )
        action = (
            "look for errors of writers with --log-level debug; rollups need write access to the blob store"
        )
        found.append(Finding(Severity.WARNING, "sizes", facts.name, message, action))
    return found


def _history(facts: list[CollectionFacts]) -> list[Finding]:
    """The collection with the longest history."""
    dated = [one for one in facts if one.parts and one.name != CATALOG_NAME]
    if not dated:
        return []
    longest = max(dated, key=lambda one: one.upper - one.since)
    whole = "all of it" if longest.since == 0 else f"from {format_time(longest.since)} on"
    return [Finding(Severity.NOTE, "sizes", longest.name, f"keeps the longest history: {whole}")]
