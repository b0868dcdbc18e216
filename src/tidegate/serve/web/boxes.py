"""Query boxes: what each page that asks has of its own.

    box = boxes.get(id)               its settings (SET), for as long as it is used
    watch = box.begin()               the query that ran in it before is cancelled: a box asks one at a time
    boxes.cancel(id)                  the button

A box is made by the page that shows it and is known by a random name. Of those that are not used any more the oldest are forgotten.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate import fork
from tidegate.scan.watch import Watch
from tidegate.serve.desk import Client, Desk

MOST = 256
TIMEOUT_MS = 120_000
RESULT_BYTES = 64 << 20
"""A page shows a thousand rows: who wants more than this has a better way."""


class Box:
    """One query box."""

    def __init__(self, client: Client) -> None:
        self.client = client
        client.limit("max_result_bytes", RESULT_BYTES)
        self._watch: Watch | None = None
        self._lock, self._alone, self._newest = fork.lock(), fork.lock(), 0

    @contextmanager
    def explaining(self) -> Iterator[bool]:
        """One at a time. False: while this one waited, what is typed became another text, and nobody wants it any more."""
        with self._lock:
            self._newest += 1
            mine = self._newest
        with self._alone:
            yield mine == self._newest

    def begin(self) -> Watch:
        """For a new query; the one before it ends."""
        with self._lock:
            if self._watch is not None:
                self._watch.cancel()
            self._watch = Watch(TIMEOUT_MS)
            return self._watch

    def cancel(self) -> bool:
        """Ends the query that runs; whether there is one."""
        with self._lock:
            if self._watch is None:
                return False
            self._watch.cancel()
            return True

    def end(self, watch: Watch) -> None:
        """It is over."""
        with self._lock:
            if self._watch is watch:
                self._watch = None


class Boxes:
    """All boxes of a server."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._boxes: OrderedDict[str, Box] = OrderedDict()
        self._lock = fork.lock()

    @staticmethod
    def name() -> str:
        """For a new box."""
        return secrets.token_urlsafe(12)

    def get(self, name: str) -> Box:
        """The box of that name, made if it is not known."""
        name = name[:64]
        with self._lock:
            box = self._boxes.pop(name, None) or Box(self.desk.client())
            self._boxes[name] = box
            old = [self._boxes.popitem(last=False)[1] for _ in range(len(self._boxes) - MOST)]
        for one in old:
            one.cancel()
        return box

    def cancel(self, name: str) -> bool:
        """Ends what runs in a box."""
        with self._lock:
            box = self._boxes.get(name[:64])
        return box is not None and box.cancel()
