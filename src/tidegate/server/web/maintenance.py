"""The page `/maintenance`: what compaction and sweep would do now, and what they did.

| request | |
|---|---|
| `GET /maintenance` | all collections; with `?orphans=name` the store is listed for objects that nothing refers to |
| `POST /maintenance` | `do=compact&name=orders` or `do=sweep`: only if the server allows writes |

Work runs in a thread of the gateway, one piece for each collection at a time, and the page shows it as it goes on. `guard.py`
refuses requests of other sites, as for every form.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from urllib.parse import quote

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tidegate import fork
from tidegate.errors import BindError, ReadOnlyError, TidegateError
from tidegate.server.gateway import Gateway
from tidegate.server.web.collections import collection_url
from tidegate.server.web.forms import form_fields
from tidegate.server.web.layout import card, error_box, facts, live, page, table
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.terms import hint, term
from tidegate.storage.maintain import MaintenanceOutlook, maintenance_outlook, orphan_objects
from tidegate.text import format_bytes, format_count, format_time, plural, time_ago, time_until

MAX_RUNS = 50
"""Runs that are remembered."""
BUCKETS = (64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20)
"""Upper ends of the sizes of parts in the picture; the last bar holds larger ones."""
ORPHANS_LISTED = 100


@dataclass(frozen=True)
class MaintenanceRun:
    """One piece of work that was started on the page."""

    number: int
    what: str
    began: float
    """Seconds since 1970."""
    ended: float | None = None
    outcome: str = "running"
    failed: bool = False


class MaintenanceRuns:
    """The last runs of this server, the newest first. Threads may share it."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._runs: deque[MaintenanceRun] = deque(maxlen=MAX_RUNS)
        self._next, self._lock = 1, fork.lock()

    def list(self) -> list[MaintenanceRun]:
        """Returns the runs, the newest first."""
        with self._lock:
            return list(self._runs)[::-1]

    def start(self, name: str | None) -> None:
        """Starts compaction of a collection, or a sweep of all; not a second time while it runs."""
        what = "sweep" if name is None else f"compact {name}"
        with self._lock:
            if any(run.what == what and run.ended is None for run in self._runs):
                return
            run = MaintenanceRun(self._next, what, time.time())
            self._runs.append(run)
            self._next += 1
        self.gateway.threads.submit(self._work, run, name)

    def _work(self, run: MaintenanceRun, name: str | None) -> None:
        failed = False
        try:
            outcome = self._sweep() if name is None else self._compact(name)
        except TidegateError as error:
            outcome, failed = error.message, True
        done = replace(run, ended=time.time(), outcome=outcome, failed=failed)
        with self._lock:
            self._runs = deque(
                (done if other.number == run.number else other for other in self._runs), maxlen=MAX_RUNS
            )

    def _compact(self, name: str) -> str:
        done = self.gateway.db.compact(name)
        words = [
            f"{plural(done.removed, 'part')} became {done.added:,}" if done.removed else "",
            f"{plural(done.expired, 'part')} dropped" if done.expired else "",
            f"{plural(done.settled, 'retraction')} settled" if done.settled else "",
            f"{plural(done.conflicts, 'merge')} left to another compaction" if done.conflicts else "",
        ]
        return ", ".join(filter(None, words)) or "nothing to merge"

    def _sweep(self) -> str:
        done = self.gateway.db.sweep()
        counts = {
            "object": done.garbage, "orphan": done.orphans, "temporary file": done.temporary, "expired lease": done.leases,
        }  # fmt: skip
        return (
            ", ".join(plural(count, noun) for noun, count in counts.items() if count) or "nothing to delete"
        )


class MaintenancePage:
    """Serves `/maintenance`."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.runs = gateway, MaintenanceRuns(gateway)

    async def page(self, request: Request) -> Response:
        """Shows what could be done, or starts it."""
        if request.method == "POST":
            return await self._start(request)
        content = await run_in_threadpool(self._content, request.query_params.get("orphans"))
        heading = el("h1", "Maintenance")
        return page("Maintenance", heading, content, at="/maintenance", write=self.gateway.write)

    async def _start(self, request: Request) -> Response:
        fields = await form_fields(request)
        if not self.gateway.write:
            refused = ReadOnlyError(
                "this server is read-only, and maintenance writes",
                hint="tidegate serve --write lets clients change the lake",
            )
            shown = el("h1", "Maintenance"), error_box(refused)
            return page("Maintenance", *shown, at="/maintenance", status=403)
        self.runs.start(None if fields.get("do") == "sweep" else fields.get("name", ""))
        return RedirectResponse("/maintenance", 303)

    def _content(self, orphans: str | None) -> list[Child]:
        context = self.gateway.db.context
        outlooks: dict[str, MaintenanceOutlook] = {}
        for name in self.gateway.db.status().collections:
            try:
                outlooks[name] = maintenance_outlook(context.collection(name))
            except BindError:  # dropped meanwhile
                continue
        return [
            live(
                "outlook",
                self._summary(outlooks),
                self._collections(outlooks) if outlooks else card("No collections", el("p", "This lake is empty.")),
                self._runs(),
            ),
            self._orphans(orphans) if orphans is not None else None,
        ]  # fmt: skip

    def _summary(self, outlooks: dict[str, MaintenanceOutlook]) -> Html:
        every = outlooks.values()
        return facts(
            (term("part", "parts"), format_count(sum(len(one.sizes) for one in every))),
            ("bytes", format_bytes(sum(int(one.sizes.sum()) for one in every))),
            (term("compaction", "to merge"), plural(sum(one.merged for one in every), "part")),
            (term("expiry", "to drop"), plural(sum(one.expired for one in every), "part")),
            (term("sweep", "to sweep"), plural(sum(one.sweepable for one in every), "object")),
            (term("garbage", "protected garbage"), plural(sum(one.waiting for one in every), "object")),
            (term("lease", "leases"), format_count(sum(len(one.leases) for one in every))),
        )

    def _collections(self, outlooks: dict[str, MaintenanceOutlook]) -> Html:
        rows = [self._row(name, outlook) for name, outlook in outlooks.items()]
        names = [
            "collection",
            "parts by size",
            "parts",
            "compaction would",
            "garbage",
            "leases",
            "compacted",
            "objects",
        ]
        words = {
            "compaction would": "compaction",
            "garbage": "garbage",
            "leases": "lease",
            "parts": "part",
            "objects": "orphan",
        }
        names, words = (names, words) if not self.gateway.write else ([*names, "do"], words)
        sweep = _button("Sweep all", do="sweep") if self.gateway.write else None
        return card(
            "Collections",
            table(
                names, rows, frozenset((2,)), words=words, stacked=True, label="Maintenance of collections"
            ),
            more=sweep or el("span", "tidegate serve --write offers buttons here", class_="quiet"),
        )

    def _row(self, name: str, outlook: MaintenanceOutlook) -> list[Child]:
        row: list[Child] = [
            el("a", name, href=collection_url(name)), size_chart(outlook.sizes), format_count(len(outlook.sizes)),
            _would(outlook), _garbage(outlook), _leases(outlook),
            "never" if outlook.compacted_at is None else time_ago(outlook.compacted_at),
            el("a", "look for orphans", href=f"/maintenance?orphans={quote(name, safe='')}"),
        ]  # fmt: skip
        return [*row, _button("Compact", do="compact", name=name)] if self.gateway.write else row

    def _runs(self) -> Html:
        rows: list[list[Child]] = [
            [
                format_time(int(run.began * 1000)), run.what, "…" if run.ended is None else f"{run.ended - run.began:,.1f} s",
                el("span", run.outcome, class_="wrong" if run.failed else None),
            ]
            for run in self.runs.list()
        ]  # fmt: skip
        names = ["began", "what", "took", "result"]
        content = (
            table(names, rows, stacked=True, label="Runs")
            if rows
            else el("p", "Nothing yet.", class_="quiet")
        )
        return card("Done by this server since it started", content)

    def _orphans(self, name: str) -> Html:
        try:
            orphans = orphan_objects(self.gateway.db.context.collection(name))
        except TidegateError as error:
            return error_box(error)
        rows: list[list[Child]] = [
            [el("code", one.name), format_bytes(one.size), time_ago(one.written)]
            for one in orphans[:ORPHANS_LISTED]
        ]
        grace = self.gateway.db.context.config.sweep_grace_ms / 60_000
        words = f"{plural(len(orphans), 'object')}, {format_bytes(sum(one.size for one in orphans))}. "
        return card(
            f"Orphans of {name}",
            el(
                "p", words, "A writer may still be about to commit new ones: ", term("sweep"),
                f" deletes those that are older than {grace:,.0f} minutes.",
            ),
            table(["object", "bytes", "written"], rows, frozenset((1,)), stacked=True, label="Orphans") if rows else None,
            id_="orphans",
        )  # fmt: skip


def _button(text: str, **fields: str) -> Html:
    hidden = [el("input", type="hidden", name=name, value=value) for name, value in fields.items()]
    return el(
        "form", hidden, el("button", text, type="submit", class_="act"), method="post", action="/maintenance", class_="inline",
    )  # fmt: skip


def _would(outlook: MaintenanceOutlook) -> str:
    verb, groups = "merge", f" in {plural(outlook.groups, 'group')}"
    if outlook.merged == outlook.groups:  # alone, without their deleted rows
        verb, groups = "rewrite", ""
    words = [
        f"{verb} {plural(outlook.merged, 'part')} ({format_bytes(outlook.merged_bytes)}){groups}"
        if outlook.groups
        else "",
        f"drop {plural(outlook.expired, 'part')}" if outlook.expired else "",
    ]
    return ", ".join(filter(None, words)) or "do nothing"


def _garbage(outlook: MaintenanceOutlook) -> Child:
    if not outlook.sweepable and not outlook.waiting:
        return "none"
    protected = "A lease or the grace period (sweep_grace_ms) protects them."
    waiting = hint(f"{outlook.waiting:,} protected", protected) if outlook.waiting else None
    ready = f"{outlook.sweepable:,} to delete" if outlook.sweepable else None
    return [ready, ", " if ready and waiting else None, waiting]


def _leases(outlook: MaintenanceOutlook) -> Child:
    if not outlook.leases:
        return "none"
    last = max(lease.until for lease in outlook.leases.values())
    since = min(lease.since for lease in outlook.leases.values())
    ends = "has run out" if last <= time.time() * 1000 else f"ends {time_until(last)}"
    meaning = f"Readers may read from {format_time(since)} on. The last lease {ends} unless it is renewed."
    return hint(format_count(len(outlook.leases)), meaning)


def size_chart(sizes: np.ndarray) -> Html:
    """Draws how many parts have which size."""
    counts = np.bincount(np.searchsorted(BUCKETS, sizes), minlength=len(BUCKETS) + 1)
    most, width, height = max(int(counts.max()), 1), 16, 28
    ends = [f"up to {format_bytes(end)}" for end in BUCKETS] + [f"above {format_bytes(BUCKETS[-1])}"]
    words = "; ".join(f"{plural(int(n), 'part')} {end}" for n, end in zip(counts, ends, strict=True) if n)
    bars = [
        el("rect", x=i * width, y=height - bar, width=width - 3, height=bar)
        for i, n in enumerate(counts.tolist())
        if (bar := max(round(n / most * height), 2) if n else 1)
    ]
    return el(
        "svg", bars, viewBox=f"0 0 {len(counts) * width - 3} {height}", class_="sizes", role="img", tabindex="0",
        aria_label=words or "no parts", data_tip=words or "There are no parts.",
    )  # fmt: skip
