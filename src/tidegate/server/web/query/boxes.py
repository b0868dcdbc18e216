"""The state of query boxes on the server: a session each, and the query that runs in it.

    box = boxes.get(id)               a session with settings of its own (SET)
    watch = box.begin()               starts a query; the one before it is cancelled, since a box runs one at a time
    boxes.cancel(id)                  the Cancel button

A page makes a box with a random id. At most `MAX_BOXES` are remembered; the least recently used is forgotten.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate import fork
from tidegate.query import CancelToken
from tidegate.server.gateway import ClientSession, Gateway

MAX_BOXES = 256
TIMEOUT_MS = 120_000
RESULT_BYTES = 64 << 20
"""The largest result that a box materializes: a page shows a thousand rows, and downloads are streamed."""


class QueryBox:
    """One query box."""

    def __init__(self, client: ClientSession) -> None:
        self.client = client
        client.limit("max_result_bytes", RESULT_BYTES)
        self._watch: CancelToken | None = None
        self._lock, self._explain_lock, self._newest = fork.lock(), fork.lock(), 0

    @contextmanager
    def explaining(self) -> Iterator[bool]:
        """Explains one text at a time; gives False if a newer text arrived while this one waited."""
        with self._lock:
            self._newest += 1
            number = self._newest
        with self._explain_lock:
            yield number == self._newest

    def begin(self) -> CancelToken:
        """Starts a query; cancels the one before it."""
        with self._lock:
            if self._watch is not None:
                self._watch.cancel()
            self._watch = CancelToken(TIMEOUT_MS)
            return self._watch

    def cancel(self) -> bool:
        """Cancels the running query; whether there is one."""
        with self._lock:
            if self._watch is None:
                return False
            self._watch.cancel()
            return True

    def end(self, watch: CancelToken) -> None:
        """Marks a query as finished."""
        with self._lock:
            if self._watch is watch:
                self._watch = None


class QueryBoxes:
    """The query boxes of a server."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._boxes: OrderedDict[str, QueryBox] = OrderedDict()
        self._lock = fork.lock()

    @staticmethod
    def new_id() -> str:
        """Returns an id for a new box."""
        return secrets.token_urlsafe(12)

    def get(self, id_: str) -> QueryBox:
        """Returns the box with an id; makes it if it is unknown."""
        id_ = id_[:64]
        with self._lock:
            box = self._boxes.pop(id_, None) or QueryBox(self.gateway.client())
            self._boxes[id_] = box
            forgotten = [self._boxes.popitem(last=False)[1] for _ in range(len(self._boxes) - MAX_BOXES)]
        for old in forgotten:
            old.cancel()
        return box

    def cancel(self, id_: str) -> bool:
        """Cancels the query that runs in a box; whether there is one."""
        with self._lock:
            box = self._boxes.get(id_[:64])
        return box is not None and box.cancel()
