"""The compare-and-set loop: read the state, propose a change, repeat if another writer was faster.

    machine.update(lambda state: Append(state.upper, at + 1, parts, token))

The loop handles failures, once for all kinds of changes. **The log decides, never the answer of the store**: whatever a
compare-and-set answers, the entry with that number is read, and its token tells whose entry it is.

| the store answers | the entry is | so |
|---|---|---|
| done, lost, an error | ours | the change was made |
| nothing (the answer was lost) | ours | it is proposed again, so that the store confirms that it is durable; then it was made |
| done, lost, an error, nothing | another's | it was not made, and never will be: the number is taken |
| done, or lost to another | absent | the answer is wrong: it is proposed again |
| an error | absent | it is proposed again; in the end the error is raised |
| an error, or nothing | unreadable, or truncated by now | `IndeterminateError` |
| done, or lost to another | truncated by now | the answer counts: many entries were made since, and no other evidence is left |

A client library that repeats a request produces all of these from one lost packet: its own first attempt makes the second "lost".

The state is kept in memory, and only newer entries are read. A machine that starts reads the newest rollup and the entries after
it. Entries are truncated only below a rollup that was read back.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tidegate import fork
from tidegate.clock import Clock, SystemClock
from tidegate.errors import IndeterminateError, ReadOnlyError, StoreError
from tidegate.storage.blob.protocol import Blob, missing_object
from tidegate.storage.blob.retrying import RetryingBlob
from tidegate.storage.consensus.protocol import Consensus, NumberedEntry, next_number
from tidegate.storage.part.part_file import PartFiles
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard.changes import (
    Change,
    Create,
    LogEntry,
    Roll,
    commit_fields,
    decode_entry,
    encode_entry,
)
from tidegate.storage.shard.leases.held import HeldLeases
from tidegate.storage.shard.rollup import load_rollup, write_rollup
from tidegate.storage.shard.state import Conflict, State, apply_entry, create_state
from tidegate.storage.stats.counters import StatsCounters

T = TypeVar("T")
_LOG = logging.getLogger("tidegate.commit")

TRUNCATED = ""
"""Stands for the token of an entry that was truncated."""
MAX_FRESH_PARTS = 1024
"""Fresh parts that a process which never writes a rollup keeps as Python values."""
ROLL_EVERY = 128
"""Entries between two rollups. Opening reads one rollup and about as many entries, and those of `TRUNCATION_LAG`."""
TRUNCATION_LAG = 128
"""Entries below a rollup that stay, because writers that just lost, or whose answer was lost, still look for theirs."""
ROLL_PARTS = 8192
"""Parts that entries may add before the next rollup: one entry can add thousands, and each is parsed from JSON."""


class Machine:
    """The log of one shard, and the newest state that was read from it. Threads may share it."""

    def __init__(
        self,
        consensus: Consensus,
        blob: Blob,
        key: str,
        clock: Clock | None = None,
        retries: RetryPolicy | None = None,
        state: State | None = None,
    ) -> None:
        """A task gets a `state` that is already known; if it changes nothing, it never calls consensus."""
        self.consensus, self.blob, self.key = consensus, blob, key
        self.clock, self.retries = clock or SystemClock(), retries or RetryPolicy()
        self.objects = RetryingBlob(blob, self.retries)
        self.files = PartFiles(self.objects, StatsCounters())
        self.leases = HeldLeases()
        self.maintenance = fork.lock()
        """Held by the thread that maintains the shard after its commit."""
        self.small_parts_left = 0
        """Small parts that the last merge by this process left."""
        self._state = state
        self._lock = fork.rlock()

    def exists(self) -> bool:
        """Whether the shard was created."""
        return self.attempt(lambda: self.consensus.head(self.key)) is not None

    def create(self, first: Create) -> State:
        """Creates the shard; a `Conflict` if it exists already."""
        token = secrets.token_hex(8)
        data = encode_entry(LogEntry(token, self.clock.now(), first))
        if not self._propose(None, data, token):
            raise Conflict("the collection exists already")
        return self.fetch()

    def fetch(self) -> State:
        """The newest state."""
        with self._lock:
            if self._state is None:
                self._state = self._open()
            self._catch_up()
            assert self._state is not None
            return self._state

    def cached_state(self) -> State:
        """The newest state that was read so far: for what never changes, such as options given at creation."""
        with self._lock:
            return self.fetch() if self._state is None else self._state

    def update(self, propose: Callable[[State], Change | None]) -> State:
        """Makes the change that `propose` returns for the newest state; None: nothing to do.

        `propose` is called again with a newer state if another writer was faster, and may raise to give up. The state that is
        returned includes the change.
        """
        while True:
            state = self.fetch()
            change = propose(state)
            if change is None:
                return state
            entry = LogEntry(secrets.token_hex(8), self.clock.now(), change)
            # Raises if the change does not fit: no entry is proposed that readers could not apply.
            changed = apply_entry(state, entry)
            if self._propose(state.number, encode_entry(entry), entry.token):
                # Nothing is read from here on: a failure would look like a failure of the change, which was made.
                with self._lock:
                    if self._state is state:
                        self._state = changed
                _log_commit(changed, entry)
                self._maybe_roll(changed)
                return changed

    def _propose(self, expected: int | None, data: bytes, token: str) -> bool:
        """Adds an entry after `expected`; False if another has its number. See the module docstring."""
        unknown = False
        failure: StoreError | None = None
        for attempt in range(self.retries.times):
            failure, won = None, False
            try:
                won = self.consensus.compare_and_set(self.key, expected, data)
            except StoreError as error:
                failure, unknown = error, unknown or isinstance(error, IndeterminateError)
            winner = self._token_at(next_number(expected))
            if winner == TRUNCATED:
                if failure is None and not unknown:
                    return won
                raise IndeterminateError(
                    f"{self.key}: the log was truncated before it could be seen whether the change was made"
                )
            # Our entry may not be durable if the store does not confirm it. Proposing it again changes nothing.
            if winner is not None and (winner != token or not isinstance(failure, IndeterminateError)):
                return winner == token
            if isinstance(failure, ReadOnlyError) and not unknown:
                raise failure
            self.retries.wait(attempt)
        if failure is None or unknown:
            raise IndeterminateError(f"{self.key}: the store does not say whether the change was made")
        raise failure

    def _token_at(self, number: int) -> str | None:
        """The token of the entry with this number; None if it does not exist yet.

        `TRUNCATED` if it does not exist any more.
        """
        try:
            entries = self.attempt(lambda: self.consensus.scan(self.key, number, 1))
        except StoreError as error:
            raise IndeterminateError(
                f"{self.key}: the store does not say whether the change was made: {error.message}"
            ) from None
        if not entries:
            return None
        if entries[0].number != number:
            return TRUNCATED
        return decode_entry(f"{self.key}#{number}", entries[0].data).token

    def _open(self) -> State:
        """The state of the newest rollup, or of the first entry; `_catch_up` applies the entries after it."""
        known = {} if self._state is None else {s.name: s for s in self._state.parts.segments if s.name}
        lost = ""
        while True:
            entries = self.attempt(lambda: self.consensus.scan(self.key, 0))
            if not entries:
                raise StoreError(
                    f"{self.key} has no log", hint="the collection does not exist, or its metadata is lost"
                )
            decoded = [(number, decode_entry(f"{self.key}#{number}", data)) for number, data in entries]
            rolls = [entry.change for _, entry in decoded if isinstance(entry.change, Roll)]
            if not rolls:
                if decoded[0][0] != 0:
                    raise StoreError(f"{self.key}: the beginning of the log is lost")
                return create_state(decoded[0][1])
            try:
                return load_rollup(self.objects.find, rolls[-1].name, known)
            except FileNotFoundError as gone:
                # Swept after we read the log: then a newer rollup exists.
                if rolls[-1].name == lost:
                    raise missing_object(str(gone)) from None
                lost = rolls[-1].name
                self.retries.wait(0)

    def _catch_up(self) -> None:
        assert self._state is not None
        state = self._state
        entries = self._entries(state.number + 1)
        while entries and entries[0].number != state.number + 1:
            # The log was truncated while we were idle: start from the newest rollup, as often as that happens.
            state = self._open()
            entries = self._entries(state.number + 1)
        for number, data in entries:
            state = apply_entry(state, decode_entry(f"{self.key}#{number}", data))
            assert state.number == number
        if len(state.parts.fresh) > MAX_FRESH_PARTS:
            state = replace(state, parts=state.parts.with_fresh_as_segment())
        self._state = state

    def _entries(self, first: int) -> list[NumberedEntry]:
        return self.attempt(lambda: self.consensus.scan(self.key, first))

    def _maybe_roll(self, state: State) -> None:
        """Writes a rollup if the last one is far behind. The change succeeds even if the rollup fails."""
        behind = state.number - (0 if state.rollup is None else state.rollup[1])
        unstored = [segment for segment in state.parts.segments if not segment.name]
        parts = len(state.parts.fresh) + sum(segment.alive for segment in unstored)
        if behind < ROLL_EVERY and parts < ROLL_PARTS:
            return
        try:
            self.roll(state)
        except (StoreError, Conflict):
            return

    def roll(self, state: State) -> None:
        """Writes `state` as a rollup, records it in the log, and truncates entries long before it."""
        if not {s.name for s in state.parts.segments if s.name} <= set(state.segments):
            state = self._adopt()
        name, stored, segments = write_rollup(self._put_verified, state)
        entry = LogEntry(secrets.token_hex(8), self.clock.now(), Roll(name, state.number, segments))
        if not self._propose(state.number, encode_entry(entry), entry.token):
            return  # another writer was faster; our rollup is an orphan, which sweep deletes
        with self._lock:
            if self._state is not None and self._state.number == state.number:
                self._state = stored
        self.fetch()
        self.consensus.truncate(self.key, state.number - TRUNCATION_LAG)

    def _put_verified(self, name: str, data: bytes) -> None:
        """Stores an object and reads it back, because entries are removed from the log on its strength."""
        self.blob.put(name, data)
        if self.objects.find(name) != data:
            raise StoreError(f"{name} does not hold what was just written into it")

    def _adopt(self) -> State:
        """The newest state, with the segments of the newest rollup.

        Another process rolled up and merged segments that we had from the rollup before. Ours are garbage and will be swept soon,
        and a rollup that refers to them could not be read. Segments that we already have are not read again.
        """
        with self._lock:
            self._state = self._open()
            return self.fetch()

    def attempt(self, work: Callable[[], T]) -> T:
        """Calls a store again when it fails; `work` can be done twice without harm."""
        return self.objects.call(work)


def _log_commit(state: State, entry: LogEntry) -> None:
    """Logs an entry that was made: at INFO if it changes rows."""
    fields = commit_fields(entry.change)
    level = logging.DEBUG if fields is None else logging.INFO
    if _LOG.isEnabledFor(level):
        ids = {"shard": state.shard, "entry": state.number, "token": entry.token, "change": entry.change.kind}
        _LOG.log(level, "commit %s", entry.change.kind, extra={"tidegate": {**ids, **(fields or {})}})
