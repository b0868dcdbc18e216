"""The core works without any extra, and each feature that needs one says which.

A subprocess hides every optional package, runs the core, and then asks for each feature.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPTIONAL = {
    "cli": ("cyclopts", "rich", "prompt_toolkit"),
    "server": ("starlette", "uvicorn", "scramp"),
    "ingest": ("confluent_kafka", "fastavro", "psycopg"),
    "postgres": ("psycopg",),
    "spark": ("pyspark",),
}
HIDE = f"""
import sys
finders, hidden = sys.meta_path[:], {sorted({name for names in OPTIONAL.values() for name in names})}
class Without:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in hidden:
            return next((spec for one in finders if (spec := one.find_spec(name, path, target))), None)
    @staticmethod
    def find_distributions(*asked):
        return (found for one in finders if hasattr(one, "find_distributions") for found in one.find_distributions(*asked))
sys.meta_path[:] = [Without]
"""
"""Imports of optional packages fail, and `find_spec` does not find them: as where they are not installed."""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs code where no optional package can be imported."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", HIDE + textwrap.dedent(code)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_extras_name_these_packages() -> None:
    """A package that is added to an extra is hidden here too."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, names in OPTIONAL.items():
        listed = {word.partition(">")[0].partition("[")[0].replace("-", "_") for word in extras[extra]}
        assert listed == set(names), extra
    everything = extras["all"][0].removeprefix("tidegate[").removesuffix("]").split(",")
    assert sorted(everything) == sorted(OPTIONAL)


def test_the_core_needs_no_extra(tmp_path: Path) -> None:
    done = run(
        """
        import pyarrow as pa
        import tidegate
        with tidegate.open("lake") as db:
            db.sql("CREATE TABLE t (id int8, at timestamptz, payload jsonb)")
            db.append("t", pa.table({"id": [1, 2], "at": pa.nulls(2), "payload": ['{"x": 1}', '{"x": 2}']}))
            db.sql("INSERT INTO t VALUES (3, now(), '{}')")
            db.sql("CREATE SOURCE s FROM GENERATOR orders (ROWS 100)")
            db.ingest("s", once=True, spark=False).wait()
            print(db.sql("SELECT id FROM t WHERE (payload->>'x')::numeric > 1").rows(), db.sql("SELECT count(*) FROM s").rows())
            db.compact("t")
            print(sorted(db.status().collections), len(db.metrics()) > 100, "parts" in db.sql("EXPLAIN SELECT id FROM t").text())
        import tidegate.cli, tidegate.server
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[(2,)] [(100,)]\n['s', 's_errors', 't'] True True\n"


def test_each_feature_names_its_extra(tmp_path: Path) -> None:
    done = run(
        """
        import asyncio
        import tidegate
        from tidegate.server import ServerOptions, serve
        def said(work):
            try:
                work()
                print("no error")
            except tidegate.TidegateError as error:
                print(type(error).__name__, error.hint)
        db = tidegate.open("memory://")
        db.sql("CREATE TABLE t (id int8)")
        db.sql("CREATE CONNECTION p TO POSTGRES (HOST 'localhost', DATABASE 'd')")
        said(lambda: tidegate.open("lake?metadata=postgresql://localhost/d"))
        said(lambda: db.sql("CREATE CONNECTION k TO KAFKA (BROKER 'localhost:9')"))
        said(lambda: db.sql("CREATE SOURCE s FROM POSTGRES CONNECTION p (PUBLICATION 'p') FOR TABLES (t)"))
        said(lambda: db.sql(
            "CREATE SOURCE s FROM FILES 'in/*.avro' FORMAT AVRO USING SCHEMA '{\\"type\\": \\"int\\"}'"))
        said(lambda: asyncio.run(serve(db, ServerOptions(port=0), print)))
        said(lambda: asyncio.run(serve(db, ServerOptions(port=None, pg=0), print)))
        assert db.sql("SELECT id, ntile(2) OVER (ORDER BY id) FROM t").path == "embedded"
        said(lambda: db.sql("SELECT id, ntile(2) OVER (ORDER BY id) FROM t OPTIONS (engine = spark)"))
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    extras = ["postgres", "ingest", "ingest", "ingest", "server", "server", "spark"]
    lines = done.stdout.splitlines()
    assert len(lines) == len(extras), done.stdout
    for line, extra in zip(lines, extras, strict=True):
        assert f"pip install 'tidegate[{extra}]'" in line, (extra, line)


def test_the_program_without_its_extra(tmp_path: Path) -> None:
    done = run("from tidegate.cli import run\nrun()", tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "The command line needs cyclopts, rich, prompt_toolkit. Install with: pip install 'tidegate[cli]'\n"
    )
