"""One Spark session for all Spark tests of a process: starting one takes ten seconds. Tests clean up after themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidegate.spark.session import prepare, use_session

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Half the processor time of a short session (research/spark.md §3); not for long scans."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two cores."""
    prepare()
    found = (
        SparkSession.builder.master("local[2]")
        .appName("tidegate tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", JAVA)
        .getOrCreate()
    )
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def _active(request: pytest.FixtureRequest) -> Iterator[None]:
    """Makes it the active one for each test that has it: `createDataFrame` of another session, in whichever test ran before in
    this process, leaves that one active, and `DataFrame.rdd` looks there for sources written in Python.
    """
    if "spark" not in request.fixturenames:
        yield
        return
    with use_session(request.getfixturevalue("spark")):
        yield


@pytest.fixture(autouse=True)
def _files(request: pytest.FixtureRequest) -> None:
    """Lets tests of a few rows have the parts that they made, as files.

    `test_inline_parts.py` has those that are in the log, which `db.table` merges first.
    """
    if request.module.__name__.rpartition(".")[2] != "test_inline_parts":
        request.getfixturevalue("commits_make_files")
