"""Checks of clocks: this machine against the stores and the newest times of collections.

Writers take the time of a commit from their own clock. If one is ahead, `upper` of what it writes is ahead too, and others must
wait or are refused (`max_ahead_ms`). `sweep` compares ages by the clock of the store.
"""

from __future__ import annotations

import contextlib
import secrets

from tidegate.doctor.examination import Examination
from tidegate.doctor.finding import Finding, Severity, condense
from tidegate.doctor.stores import BODY, PROBES
from tidegate.errors import ReadOnlyError, StoreError
from tidegate.storage.consensus import PostgresConsensus
from tidegate.text import format_time

DEFAULT_AHEAD_MS = 600_000
NOTABLE_MS = 2_000
"""Less is the resolution of a store's clock (S3: a second) and the way of the answer."""


def check_store_clock(examination: Examination) -> list[Finding]:
    """Compares this machine's clock with the time that the blob store gives to an object."""
    if not examination.write:
        examination.leave_out("the clock of the blob store: it can only be seen by writing an object")
        return []
    blob, name = examination.root.blob, f"{PROBES}{secrets.token_hex(8)}"
    try:
        before = examination.clock.now()
        blob.put(name, BODY)
        after = examination.clock.now()
        written = next((info.written for info in blob.list(PROBES) if info.name == name), None)
    except ReadOnlyError:
        examination.leave_out("the clock of the blob store: this user cannot write an object")
        return []
    finally:
        with contextlib.suppress(StoreError):
            blob.delete(name)
    if written is None:
        return []  # the check of blobs reports it
    return [compare_clocks("the blob store", written, before, after, examination.config.max_ahead_ms)]


def check_server_clock(examination: Examination) -> list[Finding]:
    """Compares this machine's clock with that of PostgreSQL, if the metadata is there."""
    consensus = examination.root.consensus
    if not isinstance(consensus, PostgresConsensus):
        return []
    before = examination.clock.now()
    theirs = consensus.now()
    after = examination.clock.now()
    return [compare_clocks("PostgreSQL", theirs, before, after, examination.config.max_ahead_ms)]


def compare_clocks(store: str, theirs: int, before: int, after: int, max_ahead_ms: int) -> Finding:
    """The finding for a store whose clock said `theirs` between two times of ours, in ms."""
    ahead = before - theirs if theirs < before else after - theirs if theirs > after else 0
    if abs(ahead) <= NOTABLE_MS:
        return Finding(Severity.OK, "clocks", store, "its clock agrees with that of this machine")
    far = abs(ahead) > (max_ahead_ms or DEFAULT_AHEAD_MS)
    way = "ahead of" if ahead > 0 else "behind"
    return Finding(
        Severity.PROBLEM if far else Severity.WARNING,
        "clocks",
        store,
        f"the clock of this machine is {_seconds(ahead)} {way} that of {store}: rows get wrong times, and expire at wrong times",
        "synchronise both clocks, as with chrony or systemd-timesyncd: timedatectl status",
    )


def check_uppers(examination: Examination) -> list[Finding]:
    """Looks for collections with times that this machine's clock has not reached."""
    now, limit = examination.clock.now(), examination.config.max_ahead_ms or DEFAULT_AHEAD_MS
    findings = []
    for facts in sorted(examination.facts, key=lambda facts: -facts.upper):
        ahead = facts.upper - 1 - now
        if facts.error is not None or ahead <= NOTABLE_MS:
            continue
        far = ahead > limit
        findings.append(
            Finding(
                Severity.PROBLEM if far else Severity.WARNING,
                "uppers",
                facts.name,
                f"it has rows at {format_time(facts.upper - 1)}, {_seconds(ahead)} ahead of this clock: "
                + ("appends are refused" if far else "appends get that time, not now"),
                f"if this clock is right: tidegate repair {facts.name}",
            )
        )
    whole = Finding(Severity.OK, "uppers", "all collections", "no time is ahead of this machine's clock")
    return condense(findings, whole)


def _seconds(milliseconds: int) -> str:
    seconds = abs(milliseconds) / 1000
    for step, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * step:
            return f"{seconds / step:,.0f} {unit}"
    return f"{seconds:.1f} seconds"
