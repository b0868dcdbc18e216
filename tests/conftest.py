"""Hypothesis profiles, the order of tests, and their time limits (`tests/limits.py`).

`quick` (the default) tries 100 cases a law, what `make test` can afford; a law that needs more to catch its planted lie says
so itself. Its cases are the same each time, so that `make test` tells of a change and not of luck. `prove` (`make prove`)
tries 5,000 with fresh seeds, for the corners that need several poison values in one row. Neither has a deadline nor minds
slow generation: the machine that runs the tests may be busy, and a law that is slow is not false.
"""

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.limits",)

settings.register_profile(
    "quick",
    max_examples=100,
    deadline=None,
    print_blob=True,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("prove", settings.get_profile("quick"), max_examples=5_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


LONGEST = (
    "test_a_worker_is_killed_in_the_middle_of_everything",
    "test_killed_drivers",
    "test_two_endpoints_with_one_bucket_name_and_a_worker_lost",
    "test_demo_runs_and_compares_its_answers",
    "test_pages_with_spark",
    "test_two_at_once_and_killed_in_the_middle",
    "test_queries_of_every_shape",
    "test_table",
    "test_spark_dataframes",
    "test_every_record_once",
    "test_many_tiny_partitions_are_few_parts",
)
"""Tests of a minute or more: begun first, so that at the end no process works at one while the others have nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, with more time; all others as they are."""
    from tests.limits import give_more_time  # a plugin must not be imported before pytest does so

    for item in items:
        if item.name in LONGEST:
            give_more_time(item)
    items.sort(key=lambda item: item.name not in LONGEST)


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
