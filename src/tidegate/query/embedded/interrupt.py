"""Ends a query that DuckDB runs: when it is cancelled, at its time-out, and on Ctrl-C.

DuckDB runs a query in one call, during which Python's main thread does not hear of signals. So in the main thread the call is made
by another thread, and the main thread waits for it, which a signal ends; while it waits, it draws the progress of the query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any, TypeVar

from tidegate.errors import TidegateError
from tidegate.query.cancellation import CancelToken

T = TypeVar("T")
POLL_S = 0.05
"""How often it is checked whether a query was cancelled."""
WAIT_S = 0.25
"""How often the progress of a query is drawn."""


@contextmanager
def interrupting(duckdb: Any, cancel: CancelToken) -> Iterator[None]:
    """Interrupts DuckDB when the query is cancelled."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            try:
                cancel.check()
            except TidegateError:
                duckdb.interrupt()

    watcher = threading.Thread(target=watch, name="tidegate-embedded-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def call_interruptibly(
    call: Callable[[], T], interrupt: Callable[[], None], waiting: Callable[[], None] = lambda: None
) -> T:
    """The value of a call, during which the main thread hears of signals; `interrupt` ends the call.

    The main thread calls `waiting` now and then.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    values: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            values.append(call())
        except BaseException as error:  # noqa: BLE001  # raised in the main thread
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=copy_context().run, args=(work,), name="tidegate-embedded", daemon=True).start()
    try:
        while not done.wait(WAIT_S):
            waiting()
    except BaseException:
        while not done.is_set():  # DuckDB stops within milliseconds; its connection is in use until then
            interrupt()
            with suppress(KeyboardInterrupt):
                done.wait(POLL_S)
        raise
    if errors:
        raise errors[0]
    return values[0]
