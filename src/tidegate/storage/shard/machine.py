"""The compare-and-set loop: read the newest state, think of a change, propose it, and think again if somebody was faster.

    machine.change(lambda state: Append(state.upper, at + 1, parts, token))

The loop is where failures are dealt with, once for all changes. **The log decides, never the answer of the store**: whatever a
compare-and-set answers, the entry of that number is read, and its token says whose it is.

| the store says | the entry is | so |
|---|---|---|
| done, lost, an error | ours | the change was made |
| nothing (the answer was lost) | ours | it is proposed again, so that the store says that it is durable; then it was made |
| done, lost, an error, nothing | another's | it was not, and never will be: the number is taken |
| done, or lost to another | not there | the answer is wrong: it is proposed again |
| an error | not there | it is proposed again; in the end the error is raised |
| an error, or nothing | unreadable, or truncated by now | `IndeterminateError` |
| done, or lost to another | truncated by now | what the store says: others have made many entries since, and nothing else is left |

A client library that repeats a request makes all of these from one lost packet: its own first attempt makes the second "lost".

A state is kept in memory and only the entries after it are read; a machine that starts reads the newest rollup and what came after
it. Entries are truncated only below a rollup that was read back.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from tidegate import fork
from tidegate.clock import Clock, SystemClock
from tidegate.errors import CorruptError, IndeterminateError, ReadOnlyError, StoreError
from tidegate.shard.change import Change, Create, Entry, Roll, decode, encode
from tidegate.shard.rollup import load_rollup, write_rollup
from tidegate.shard.state import Conflict, State, apply, create
from tidegate.store.blob import Blob, Missing, missing
from tidegate.store.consensus import Consensus, Numbered, following

T = TypeVar("T")

TRUNCATED = ""
"""In place of the token of an entry that is not in the log any more."""
SETTLE_AT = 1024
"""Fresh parts that are kept as Python values in a process that never rolls up itself."""
ROLL_EVERY = 128
"""Entries between two rollups: opening reads one rollup and at most about so many entries, and those of `TRUNCATION_LAG`."""
TRUNCATION_LAG = 128
"""Entries below a rollup that stay: writers who were just beaten, or whose answer was lost, still look for theirs."""
ROLL_PARTS = 8192
"""Parts that entries may have added since the last rollup: one entry can bring thousands, and each is read as JSON."""


@dataclass(frozen=True)
class Retries:
    """How often and how patiently a store that fails is asked again."""

    times: int = 8
    first_s: float = 0.01
    longest_s: float = 2.0

    def wait(self, attempt: int) -> None:
        """Sleeps a random while that doubles with each attempt, so that rivals do not keep in step."""
        time.sleep(random.uniform(0.5, 1.0) * min(self.first_s * 2**attempt, self.longest_s))


class Machine:
    """One shard's log, and the newest state that is known of it. Safe to share between threads."""

    def __init__(
        self,
        consensus: Consensus,
        blob: Blob,
        key: str,
        clock: Clock | None = None,
        retries: Retries | None = None,
        state: State | None = None,
    ) -> None:
        """`state` is what is known already: a task that is sent one, and changes nothing, never asks consensus."""
        self.consensus, self.blob, self.key = consensus, blob, key
        self.clock, self.retries = clock or SystemClock(), retries or Retries()
        self._state = state
        self._lock = fork.rlock()

    def exists(self) -> bool:
        """Whether the shard was created."""
        return self.attempt(lambda: self.consensus.head(self.key)) is not None

    def create(self, first: Create) -> State:
        """Creates the shard; a `Conflict` if it is there already."""
        token = secrets.token_hex(8)
        data = encode(Entry(token, self.clock.now(), first))
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

    def known(self) -> State:
        """The newest state that was seen: for what never changes, such as options given at creation."""
        with self._lock:
            return self.fetch() if self._state is None else self._state

    def change(self, think: Callable[[State], Change | None]) -> State:
        """Makes the change that `think` wants of the newest state, however often it must be asked; None: nothing to do.

        `think` may raise to give up. The state returned is one that holds the change.
        """
        while True:
            state = self.fetch()
            wanted = think(state)
            if wanted is None:
                return state
            entry = Entry(secrets.token_hex(8), self.clock.now(), wanted)
            # Raises if it does not fit: nothing is proposed that readers could not apply.
            changed = apply(state, entry)
            if self._propose(state.number, encode(entry), entry.token):
                # Nothing is read from here on: a failure would be taken for one of the change, which was made.
                with self._lock:
                    if self._state is state:
                        self._state = changed
                self._maybe_roll(changed)
                return changed

    def _propose(self, expected: int | None, data: bytes, token: str) -> bool:
        """Adds an entry after `expected`; False if another has its number. See the module's docstring."""
        unknown = False
        failure: StoreError | None = None
        for attempt in range(self.retries.times):
            failure, won = None, False
            try:
                won = self.consensus.compare_and_set(self.key, expected, data)
            except StoreError as error:
                failure, unknown = error, unknown or isinstance(error, IndeterminateError)
            winner = self._token_at(following(expected))
            if winner == TRUNCATED:
                if failure is None and not unknown:
                    return won
                raise IndeterminateError(
                    f"{self.key}: the log was truncated before it could be seen whether the change was made"
                )
            # One of ours that the store is not sure of may not be durable: it is asked again, which changes nothing.
            if winner is not None and (winner != token or not isinstance(failure, IndeterminateError)):
                return winner == token
            if isinstance(failure, ReadOnlyError) and not unknown:
                raise failure
            self.retries.wait(attempt)
        if failure is None or unknown:
            raise IndeterminateError(f"{self.key}: the store does not say whether the change was made")
        raise failure

    def _token_at(self, number: int) -> str | None:
        """The token of the entry of this number; None if there is none yet, `TRUNCATED` if there is none any more."""
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
        return decode(f"{self.key}#{number}", entries[0].data).token

    def _open(self) -> State:
        """The newest state that a rollup or the first entry gives; `_catch_up` does the rest."""
        known = {} if self._state is None else {s.name: s for s in self._state.parts.segments if s.name}
        lost = ""
        while True:
            entries = self.attempt(lambda: self.consensus.scan(self.key, 0))
            if not entries:
                raise StoreError(
                    f"{self.key} has no log", hint="the collection does not exist, or its metadata is lost"
                )
            decoded = [(number, decode(f"{self.key}#{number}", data)) for number, data in entries]
            rolls = [entry.change for _, entry in decoded if isinstance(entry.change, Roll)]
            if not rolls:
                if decoded[0][0] != 0:
                    raise StoreError(f"{self.key}: the beginning of the log is lost")
                return create(decoded[0][1])
            try:
                return load_rollup(self._fetch_blob, rolls[-1].name, known)
            except FileNotFoundError as gone:
                # Swept between our reading of the log and of the rollup: then a newer one is there.
                if rolls[-1].name == lost:
                    raise missing(str(gone)) from None
                lost = rolls[-1].name
                self.retries.wait(0)

    def _fetch_blob(self, name: str) -> bytes | None:
        return self.attempt(lambda: self.blob.get(name))

    def _catch_up(self) -> None:
        assert self._state is not None
        state = self._state
        entries = self._entries(state.number + 1)
        while entries and entries[0].number != state.number + 1:
            # We slept while the log went on and was truncated: start again from the newest rollup. That may happen again.
            state = self._open()
            entries = self._entries(state.number + 1)
        for number, data in entries:
            state = apply(state, decode(f"{self.key}#{number}", data))
            assert state.number == number
        if len(state.parts.fresh) > SETTLE_AT:
            state = replace(state, parts=state.parts.settled())
        self._state = state

    def _entries(self, first: int) -> list[Numbered]:
        return self.attempt(lambda: self.consensus.scan(self.key, first))

    def _maybe_roll(self, state: State) -> None:
        """Writes a rollup when the last one is far behind. Failing to is no failure of the change that was made."""
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
        """Writes `state` as a rollup, points the log at it, and truncates what came long before."""
        if not {s.name for s in state.parts.segments if s.name} <= set(state.segments):
            state = self._adopt()
        name, stored, segments = write_rollup(self._put_verified, state)
        entry = Entry(secrets.token_hex(8), self.clock.now(), Roll(name, state.number, segments))
        if not self._propose(state.number, encode(entry), entry.token):
            return  # somebody was faster; what we wrote is an orphan that sweep finds
        with self._lock:
            if self._state is not None and self._state.number == state.number:
                self._state = stored
        self.fetch()
        self.consensus.truncate(self.key, state.number - TRUNCATION_LAG)

    def _put_verified(self, name: str, data: bytes) -> None:
        """Stores an object and reads it back: what it stands for is removed from the log on its strength."""
        self.blob.put(name, data)
        if self._fetch_blob(name) != data:
            raise StoreError(f"{name} does not hold what was just written into it")

    def _adopt(self) -> State:
        """The newest state, with the segments of the newest rollup.

        Another process rolled up and merged segments that we had from the rollup before: ours are garbage, soon swept, and a
        rollup that referred to them could not be read. What we know of the others is not read again.
        """
        with self._lock:
            self._state = self._open()
            return self.fetch()

    def attempt(self, work: Callable[[], T]) -> T:
        """Does what can be done twice without harm, asking again when the store fails."""
        for attempt in range(self.retries.times - 1):
            try:
                return work()
            except (ReadOnlyError, Missing, CorruptError):
                raise  # asking again would not help
            except StoreError:
                self.retries.wait(attempt)
        return work()
