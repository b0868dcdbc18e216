"""A collection whose rows are several times larger than what a process may hold, and processes that are measured reading it.

grow(db, "t", megabytes=192, parts=6)       id int8, grp int4, body text of 200 random letters
peak(code)                                  a fresh Python runs it: bytes at its most, beyond those at `begin()`
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate

WIDTH = 200
ROW = WIDTH + 4 + 8 + 4
SOURCE = Path(tidegate.__file__).parents[1]
HEAD = """
import json, resource, sys
import tidegate, pyarrow, pyarrow.parquet

def vm(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024

def begin():
    global base
    open("/proc/self/clear_refs", "w").write("5")  # the highest mark of memory starts anew
    base = vm("VmRSS")

def end(**more):
    print(json.dumps({"peak": vm("VmHWM") - base, **more}))
"""


def bodies(rows: int, seed: int) -> pa.Array:
    """Texts that hardly compress."""
    letters = np.frombuffer(np.random.default_rng(seed).bytes(rows * WIDTH), np.uint8) % 64 + 48
    ends = np.arange(0, rows * WIDTH + 1, WIDTH, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(letters.astype(np.uint8))]
    )


def grow(db: tidegate.Database, name: str, megabytes: int, parts: int) -> int:
    """Makes the collection; how many rows it has."""
    db.sql(f"CREATE TABLE {name} (id int8, grp int4, body text)")
    each = megabytes * 1_000_000 // ROW // parts
    for part in range(parts):
        ids = pa.array(np.arange(part * each, (part + 1) * each))
        groups = pa.array((np.arange(each) % 10).astype(np.int32))
        db.append(name, pa.table({"id": ids, "grp": groups, "body": bodies(each, part)}))
    return parts * each


MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(f"{code} {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}")
"""


def measured(words: Sequence[str], stdout: Any = subprocess.DEVNULL) -> tuple[int, int]:
    """The exit code of a program, and the most memory that it had.

    A small process runs it: what the system tells of a program begins with the memory of the process that started it.
    """
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with tempfile.NamedTemporaryFile("r") as told:
        subprocess.run(
            [sys.executable, "-S", "-c", MEASURE, told.name, *words],
            stdout=stdout,
            env=environment,
            check=True,
        )
        code, peak = told.read().split()
    return int(code), int(peak)


def peak(code: str, *arguments: str, seconds: float = 120) -> dict[str, int]:
    """What a fresh process prints at its `end(…)`."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(code), *arguments],
        capture_output=True, text=True, timeout=seconds, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found
