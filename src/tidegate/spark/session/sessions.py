"""The Spark session to use: the user's active session, else a new one on this machine.

Spark's tasks run Python with the interpreter of this process, unless PYSPARK_PYTHON names another.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.spark.session.java import java_home

LOG_VARIABLE = "TIDEGATE_SPARK_LOG"
"""Names the file for the log of a JVM that Tidegate starts; without it, that is standard error."""
STDERR, TAIL = 2, 4_000
STARTING, CLEAR_LINE = "starting Spark …".encode(), b"\r\x1b[K"
_USER_SESSION = "_tidegate_beside"
"""Attribute of a session of ours: the user's session that it was created beside."""
DEFAULT_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Returns the active session, or starts one with this master and these settings.

    A thread of the user that has not used Spark yet has no active session. If the process has one, it is used as it is.
    """
    existing = user_session()
    if existing is not None:
        return existing
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    prepare()
    builder = SparkSession.builder.master(master).appName("tidegate")
    for name, value in {**DEFAULT_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    with log_to(os.environ.get(LOG_VARIABLE)):
        return builder.getOrCreate()


@contextmanager
def log_to(path: str | None) -> Iterator[None]:
    """The JVM that is started inside writes its log, and whatever else it has to say, to this file.

    It inherits our standard error, which is the file meanwhile. If it does not start, the file is shown. A terminal says that Spark
    starts, since that takes some seconds.
    """
    if not path:
        yield
        return
    sys.stderr.flush()
    kept, log = os.dup(STDERR), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    terminal = os.isatty(kept)
    os.write(kept, STARTING if terminal else b"")
    os.dup2(log, STDERR)
    try:
        yield
    except BaseException:
        os.dup2(kept, STDERR)
        with open(path, encoding="utf-8", errors="replace") as lines:
            sys.stderr.write("\n" * terminal + lines.read()[-TAIL:])
        terminal = False
        raise
    finally:
        os.write(kept, CLEAR_LINE if terminal else b"")
        os.dup2(kept, STDERR)
        os.close(kept)
        os.close(log)


def user_session() -> SparkSession | None:
    """Returns the active session; if that is one of ours, the user's session beside which it was created.

    pyspark keeps one active session for all threads, so a query in another thread may have made its own session active.
    """
    spark = SparkSession.getActiveSession()
    while spark is not None and hasattr(spark, _USER_SESSION):
        spark = getattr(spark, _USER_SESSION)
    return spark


def sibling_session(spark: SparkSession) -> SparkSession:
    """Creates a session of ours with the same tables as `spark` and settings of its own."""
    sibling = spark.newSession()
    setattr(sibling, _USER_SESSION, spark)
    return sibling


@contextmanager
def use_session(spark: SparkSession) -> Iterator[None]:
    """Makes `spark` the JVM's active session of this thread, and restores the previous one at the end.

    Spark looks up Python data sources in the active session, whichever session a query belongs to. If none or another session
    is active, a source is not found, or is taken for one that is registered already.
    """
    jvm: Any = spark._jvm
    classic = jvm.org.apache.spark.sql.classic.SparkSession
    before = classic.getActiveSession()
    classic.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            classic.setActiveSession(before.get())
        else:
            classic.clearActiveSession()


def prepare() -> None:
    """Sets the environment in which a session can start: a Java runtime, and this Python for tasks."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
