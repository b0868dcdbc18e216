"""Hypothesis profiles, the order of tests, and their time limits (`tests/limits.py`).

`test` (the default, for `make test`) tries 100 cases per law; a law that needs more to catch its planted lie says so itself. The
cases are the same each time, so that a failure means a change and not bad luck. `brief` (`make quick`) tries 10. `prove`
(`make prove`) tries 5,000 with fresh seeds, for corners that need several poison values in one row. No profile has a deadline or
a health check for slow generation: the machine may be busy, and a slow law is not a false one.
"""

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.limits",)

settings.register_profile(
    "test",
    max_examples=100,
    deadline=None,
    print_blob=True,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("prove", settings.get_profile("test"), max_examples=5_000, derandomize=False)
settings.register_profile("brief", settings.get_profile("test"), max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_configure() -> None:
    """Hears of Ctrl-C although a shell that starts a job in the background lets it ignore it: some tests send one."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts `@pytest.mark.long` tests first, with more time, so that no process works on one alone at the end."""
    from tests.limits import give_more_time  # a plugin must not be imported before pytest does so

    for item in items:
        if item.get_closest_marker("long") is not None:
            give_more_time(item)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Spares the garbage collector the fourteen thousand tests, and all modules, from now on."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def commits_make_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit makes files, however small it is: for tests of objects. By default small commits are in the log alone."""
    from tidegate.storage.shard import shard as writer

    monkeypatch.setattr(writer, "MAX_INLINE_PARTS_BYTES", 0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Gives a function back its settings after each case: hypothesis' plugin wraps them once more for every case of a parametrised
    test, and with a thousand cases in one process asking them for their database exceeds Python's recursion limit.
    """
    test = getattr(item, "obj", None)
    before = getattr(test, "_hypothesis_internal_use_settings", None)
    try:
        return (yield)
    finally:
        if before is not None:
            test._hypothesis_internal_use_settings = before  # type: ignore[union-attr]  # it has, as it had before
