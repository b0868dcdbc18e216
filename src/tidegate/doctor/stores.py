"""Checks of the stores: whether they answer, keep their promises, and how fast they are.

Objects of a probe have names below `probe/`, which readers and `sweep` do not look at; logs of a probe have keys below `probe/`.
Both are removed at the end. Of a doctor that was killed, the next one removes the objects that are older than a day; in SQLite and
PostgreSQL two entries of a few bytes may stay.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from typing import TypeVar

from tidegate.doctor.examination import Examination
from tidegate.doctor.finding import Finding, Severity
from tidegate.errors import ReadOnlyError, StoreError
from tidegate.storage.blob import Blob, check_create
from tidegate.storage.catalog import ROOT_OBJECT, Catalog

T = TypeVar("T")
PROBES = "probe/"
PROBE_FOLDERS = (PROBES, "log/probe/", "floor/probe/")
OLD_PROBE_MS = 86_400_000
SLOW_SECONDS = 1.0
BODY = b"a probe of tidegate doctor; it can be deleted"


class Stopwatch:
    """Times the calls of a probe, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, name: str, work: Callable[[], T]) -> T:
        """The result of `work`."""
        began = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds[name] = time.perf_counter() - began

    def text(self) -> str:
        """Each call with its time."""
        return ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in self.seconds.items())

    @property
    def is_slow(self) -> bool:
        """Whether a call took so long that every commit is slow."""
        return max(self.seconds.values(), default=0.0) >= SLOW_SECONDS


def check_blob(examination: Examination) -> list[Finding]:
    """Reads the root object; writes, reads, lists, creates once and deletes probe objects."""
    blob, where = examination.root.blob, examination.root.place.root or "memory"
    watch = Stopwatch()
    watch.time("get", lambda: blob.get(ROOT_OBJECT))
    if not examination.write:
        examination.leave_out("writing to the blob store: only reading is allowed")
        return [_timed("blobs", where, "the root object can be read", watch)]
    name = f"{PROBES}{secrets.token_hex(8)}"
    try:
        broken = _try_blob(blob, name, watch)
        if broken is None and examination.root.place.metadata == "log":
            watch.time("create once", lambda: check_create(blob, where, PROBES))
    except ReadOnlyError:
        examination.leave_out("writing to the blob store: this user has no write permission")
        return [_timed("blobs", where, "objects can be read; this user cannot write", watch)]
    finally:
        with contextlib.suppress(StoreError):
            blob.delete(name)
    remove_old_probes(blob)
    if broken is not None:
        return [
            Finding(
                Severity.PROBLEM,
                "blobs",
                where,
                f"{broken}: rows that are written there can be lost",
                "use another store, or a gateway that is consistent: tidegate needs reads to see finished writes",
            )
        ]
    return [_timed("blobs", where, "objects can be written, read back, listed and deleted", watch)]


def _try_blob(blob: Blob, name: str, watch: Stopwatch) -> str | None:
    """Writes an object and deletes it; returns which promise is broken, or None."""
    watch.time("put", lambda: blob.put(name, BODY))
    if watch.time("read back", lambda: blob.get(name)) != BODY:
        return "an object does not hold what was just written into it"
    if blob.get_ranges(name, [(2, 5)]) != [BODY[2:7]]:
        return "a range of an object is not what was written"
    if name not in [info.name for info in watch.time("list", lambda: [*blob.list(PROBES)])]:
        return "an object that was just written is not listed"
    watch.time("delete", lambda: blob.delete(name))
    if blob.get(name) is not None:
        return "an object that was deleted is still there"
    return None


def check_consensus(examination: Examination) -> list[Finding]:
    """Reads the newest entry of the catalog; adds two entries to a probe's log, and is refused a third."""
    consensus, kind = examination.root.consensus, f"metadata in {examination.root.place.metadata}"
    watch = Stopwatch()
    watch.time("head", lambda: consensus.head(Catalog.KEY))
    if not examination.write:
        examination.leave_out("writing metadata: only reading is allowed")
        return [_timed("metadata", kind, "the catalog can be read", watch)]
    key = f"{PROBES}{secrets.token_hex(8)}"
    try:
        first = watch.time("compare-and-set", lambda: consensus.compare_and_set(key, None, BODY))
        again = consensus.compare_and_set(key, None, b"another")
        second = consensus.compare_and_set(key, 0, b"second")
        entries = [entry.data for entry in consensus.scan(key, 0)]
    except ReadOnlyError:
        examination.leave_out("writing metadata: this user has no write permission")
        return [_timed("metadata", kind, "the catalog can be read; this user cannot write", watch)]
    finally:
        with contextlib.suppress(StoreError):
            consensus.remove_log(key)
    if (first, again, second) != (True, False, True) or entries != [BODY, b"second"]:
        return [
            Finding(
                Severity.PROBLEM,
                "metadata",
                kind,
                "two writers can both win the same entry of a log, or an entry is lost: commits overwrite each other",
                "stop all writers, and keep the metadata in a store that has compare-and-set: ?metadata=postgresql://…",
            )
        ]
    return [_timed("metadata", kind, "compare-and-set admits one writer", watch)]


def remove_old_probes(blob: Blob) -> int:
    """Deletes what killed doctors left behind, by the store's own clock; returns how many."""
    removed = 0
    for folder in PROBE_FOLDERS:
        infos = [*blob.list(folder)]
        newest = max((info.written for info in infos), default=0)
        for info in infos:
            if info.written <= newest - OLD_PROBE_MS:
                blob.delete(info.name)
                removed += 1
    return removed


def _timed(check: str, subject: str, message: str, watch: Stopwatch) -> Finding:
    if watch.is_slow:
        return Finding(
            Severity.WARNING,
            check,
            subject,
            f"{message}, but slowly: {watch.text()}; every query and commit waits for it",
            "look at the network between this machine and the store, and at the load of the store",
        )
    return Finding(Severity.OK, check, subject, f"{message} ({watch.text()})")
