"""A cold start: what it imports, that methods are compiled when they are called, and how it ends."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.cli.deferred_methods import deferring

CREATE = getattr(dataclasses, "_create_fn", None)
NOT_NEEDED = (
    "pandas",
    "polars",
    "duckdb",
    "pyspark",
    "rich",
    "prompt_toolkit",
    "obstore",
    "starlette",
    "pyarrow.parquet",
    "ssl",
)


@pytest.mark.skipif(CREATE is None, reason="this Python compiles all methods of a class at once")
def test_deferred_methods_are_those_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def create(name: str, *given: object, **scope: object) -> object:
        made.append(name)
        assert CREATE is not None
        return CREATE(name, *given, **scope)

    monkeypatch.setattr(dataclasses, "_create_fn", deferring(create))
    scope: dict[str, object] = {
        "__name__": "tidegate.sample",
        "dataclass": dataclasses.dataclass,
        "field": dataclasses.field,
    }
    monkeypatch.setitem(sys.modules, "tidegate.sample", type(sys)("tidegate.sample"))
    vars(sys.modules["tidegate.sample"]).update(scope)
    exec(  # a module of Tidegate, made here
        "@dataclass(frozen=True, order=True)\nclass Base:\n  a: int\n  b: list = field(default_factory=list)\n"
        "@dataclass(frozen=True)\nclass Inner(Base):\n  c: int = 5\n",
        vars(sys.modules["tidegate.sample"]),
    )
    base, inner = (vars(sys.modules["tidegate.sample"])[name] for name in ("Base", "Inner"))
    assert made == []
    one = inner(1)
    assert made == ["__init__"]
    assert (one.a, one.b, one.c) == (1, [], 5)
    assert one == inner(1, [], 5) != inner(2)
    assert "Inner(a=1, b=[], c=5)" in repr(one)
    assert base(1) < base(2)
    assert hash(base(1, ())) == hash(base(1, ()))  # type: ignore[arg-type, unused-ignore]  # a tuple can be hashed
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.a = 2
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        inner()
    assert dataclasses.replace(one, a=7).a == 7
    assert made.count("__init__") == 2


def test_a_cold_statement_imports_little(tmp_path: Path) -> None:
    code = (
        "import sys, atexit; from tidegate.cli import run; "
        "atexit.register(lambda: print('MODULES', *sorted(sys.modules))); "
        "sys.argv = ['tidegate', 'sql', 'SELECT 1 AS one']; run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    rows, _, modules = done.stdout.partition("MODULES")
    assert rows == "one\n───\n  1\n(1 row)\n"
    assert not set(NOT_NEEDED) & set(modules.split())
    assert "tidegate.database" in modules.split()


@pytest.mark.parametrize("given", [None, "3"])
def test_numpy_starts_no_threads_unless_it_is_told_to(tmp_path: Path, given: str | None) -> None:
    """Those of OpenBLAS spin for a third of the CPU time of a cold statement."""
    code = (
        "import os, sys, atexit; from tidegate.cli import run; "
        "atexit.register(lambda: print('BLAS', os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules)); "
        "sys.argv = ['tidegate', 'sql', 'SELECT 1 AS one']; run()"
    )
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    env |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout.endswith(f"BLAS {given or 1} True\n")


def test_the_exit_code_survives(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidegate.cli", "sql"]
    done = subprocess.run(
        [*command, "SELECT nope"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "BindError" in done.stderr
    assert "Traceback" not in done.stderr
