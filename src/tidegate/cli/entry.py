"""The program `tidegate`: checks that its libraries are installed, then runs the command line."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from importlib.util import find_spec
from typing import NoReturn

from tidegate.cli.deferred_methods import defer_methods

LIBRARIES = ("cyclopts", "rich", "prompt_toolkit")
"""What the extra `cli` installs. The core works without them."""


def run() -> NoReturn:
    """Runs the command line with the arguments of this process, and exits with its code."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"The command line needs {', '.join(missing)}. Install with: pip install 'tidegate[cli]'\n"
        )
        sys.exit(2)
    # Each thread of numpy's OpenBLAS spins for a while, 0.1 s of CPU time for two cores; nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # searching the freshly imported modules for garbage would be a tenth of a cold start
    defer_methods()
    try:
        from tidegate.cli.main import main

        code = main()
    except KeyboardInterrupt:  # while modules are imported, or as a database is closed
        sys.stderr.write("interrupted\n")
        code = 130
    leave(code)


def leave(code: int) -> NoReturn:
    """Ends the process as `sys.exit` does, without taking its modules apart, which takes 0.02 s.

    Other threads, such as those of servers and of Spark, get the usual end.
    """
    if threading.active_count() > 1 or "pyspark" in sys.modules:
        sys.exit(code)
    atexit._run_exitfuncs()  # databases are closed, logs are flushed
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # a pipe whose reader has left, or a stream that is closed
            code = code or 1
    os._exit(code)
