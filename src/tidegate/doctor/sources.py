"""Checks of sources: whether they run, how far behind they are, and whether their upstream answers."""

from __future__ import annotations

import threading

from tidegate.context import Context
from tidegate.doctor.examination import Examination
from tidegate.doctor.finding import Finding, Severity
from tidegate.errors import TidegateError
from tidegate.storage.catalog import SourceItem
from tidegate.text import format_bytes, plural, time_ago

ANSWER_SECONDS = 15.0
"""How long an upstream may take to say how much is new."""


def check_sources(examination: Examination) -> list[Finding]:
    """Reports the state and the lag of each source; this connects to upstreams."""
    items = examination.context.catalog.items()
    sources = {name: item for name, item in items.items() if isinstance(item, SourceItem)}
    findings = []
    for i, (name, item) in enumerate(sources.items()):
        examination.report("sources", i, len(sources))
        try:
            findings += _state(examination, name, item)
        except TidegateError as error:
            findings.append(Finding(Severity.PROBLEM, "sources", name, error.message, error.hint or ""))
    return findings


def _state(examination: Examination, name: str, item: SourceItem) -> list[Finding]:
    from tidegate.ingest.runtime import source_status

    status = source_status(examination.context, name, item)
    found = []
    now = examination.clock.now()
    last = (
        "never read" if status.committed is None else f"last batch {time_ago(status.committed, now / 1000)}"
    )
    if status.state in ("stopped", "failed"):
        action = f"SELECT * FROM {name}_errors LIMIT 10; then ALTER SOURCE {name} REPLAY ERRORS"
        found.append(
            Finding(Severity.PROBLEM, "sources", name, f"{status.state}: {status.trouble}; {last}", action)
        )
    elif status.state == "retrying":
        found.append(
            Finding(Severity.WARNING, "sources", name, f"its upstream fails: {status.trouble}; {last}")
        )
    elif status.state == "paused":
        found.append(
            Finding(Severity.NOTE, "sources", name, f"paused; {last}", f"ALTER SOURCE {name} RESUME")
        )
    if status.errors and status.state != "stopped":
        message = f"{plural(status.errors, 'bad record')} in {name}_errors"
        action = f'tidegate sql "SELECT message, position FROM {name}_errors LIMIT 10"'
        found.append(Finding(Severity.WARNING, "sources", name, message, action))
    return [*found, _lag(examination.context, name, item, last)]


def _lag(context: Context, name: str, item: SourceItem, last: str) -> Finding:
    """Asks the upstream, for a limited time."""
    from tidegate.ingest.runtime import upstream_lag

    outcome: list[Finding] = []

    def ask() -> None:
        try:
            lag = upstream_lag(context, item)
        except TidegateError as error:
            message = f"its upstream cannot be read: {error.message}; {last}"
            outcome.append(Finding(Severity.PROBLEM, "sources", name, message, error.hint or ""))
            return
        finally:
            context.root.consensus.close()  # the connection of this thread
        amounts = [] if lag.records is None else [plural(lag.records, "record")]
        amounts += [] if lag.bytes is None else [format_bytes(lag.bytes)]
        behind = (
            f"{' and '.join(amounts)} behind" if lag.records or lag.bytes else "nothing is waiting upstream"
        )
        severity = Severity.NOTE if lag.records or lag.bytes else Severity.OK
        notes = "".join(f"; {note}" for note in lag.notes)
        action = f"tidegate ingest {name}" if severity is Severity.NOTE else ""
        outcome.append(Finding(severity, "sources", name, f"{last}; {behind}{notes}", action))

    asking = threading.Thread(target=ask, name=f"doctor {name}", daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    if outcome:
        return outcome[0]
    message = f"its upstream did not answer within {ANSWER_SECONDS:.0f} s; {last}"
    return Finding(Severity.WARNING, "sources", name, message, "look at the network and at the upstream")
