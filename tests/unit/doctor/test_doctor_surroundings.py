"""The doctor examines what is around a lake: sources, this machine, versions; and the command that prints it."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

import tidegate
from tests.unit.doctor.lakes import files, lake
from tidegate.cli.main import main
from tidegate.doctor import Severity, diagnose_location
from tidegate.doctor.host import disk_finding, open_files_finding
from tidegate.doctor.versions import in_range, library_findings, python_finding

pytestmark = pytest.mark.usefixtures("commits_make_files")

# ---------------------------------------------------------------- sources


def test_sources_that_are_behind_paused_stopped_and_without_their_files(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.json").write_text('{"id": 1}\n{"id": "no number"}\n')
    with tidegate.open(tmp_path / "lake") as db:
        for name, more in (("strict", " WITH (MAX ERRORS 0)"), ("lenient", "")):
            transform = f"TRANSFORM USING (SELECT (data->>'id')::int8 AS id FROM {name})"
            db.sql(f"CREATE SOURCE {name} FROM FILES '{raw}/*.json' FORMAT JSON {transform}{more}")
        found = {f.subject: f for f in db.doctor().findings if f.check == "sources"}
        assert "behind" in found["lenient"].message
        assert found["lenient"].action == "tidegate ingest lenient"
        for name in ("strict", "lenient"):
            try:
                db.ingest(name, once=True, spark=False)
            except tidegate.SourceError:
                assert name == "strict"
        db.sql("ALTER SOURCE lenient PAUSE")
        sources = [f for f in db.doctor().findings if f.check == "sources"]
        of = {(f.subject, f.severity): f.message for f in sources}
        assert of["strict", Severity.PROBLEM].startswith("stopped: 1 bad rows are more than MAX ERRORS 0")
        assert of["lenient", Severity.WARNING] == "1 bad record in lenient_errors"
        assert of["lenient", Severity.NOTE].startswith("paused; last batch")
        assert "nothing is waiting upstream" in of["lenient", Severity.OK]


# ---------------------------------------------------------------- this machine


def test_little_room() -> None:
    assert disk_finding("the lake", "/x", 50 << 20, 10**6).severity is Severity.PROBLEM
    assert disk_finding("the lake", "/x", 1 << 30, 10**6).severity is Severity.WARNING
    assert disk_finding("the lake", "/x", 1 << 40, 5).severity is Severity.WARNING
    assert disk_finding("the lake", "/x", 1 << 40, 0).severity is Severity.PROBLEM
    assert disk_finding("the lake", "/x", 1 << 40, None).severity is Severity.OK


def test_a_low_limit_of_open_files(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with tidegate.open(lake(tmp_path)) as db:
            found = [f for f in db.doctor().findings if f.subject == "open files"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found[0].severity is Severity.WARNING
    assert found[0].action.startswith("ulimit -n ")
    assert open_files_finding(resource.RLIM_INFINITY, resource.RLIM_INFINITY).severity is Severity.OK


def test_a_lake_that_everybody_can_change(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    files(folder)[0].chmod(0o666)
    found = [f for f in diagnose_location(str(folder)).findings if f.subject == "permissions"]
    assert found[0].severity is Severity.WARNING
    assert found[0].action == f"chmod -R o-w {folder}"


def test_versions() -> None:
    assert python_finding((3, 10)).severity is Severity.PROBLEM
    assert python_finding((3, 11)).severity is Severity.OK
    assert python_finding((3, 99)).severity is Severity.NOTE
    for version, ranges, inside in (
        ("2.1.0", "<3,>=2.0", True), ("3.0", "<3,>=2.0", False), ("1.9.9", "<3,>=2.0", False), ("2.0.0rc1", ">=2", True),
        ("24.0", "<27,>=24", True), ("2.2", ">=2.1,<2.2", False), ("7", "", True), ("1.4.2", "!=1.4.2", False),
    ):  # fmt: skip
        assert in_range(version, ranges) is inside, (version, ranges)


def test_libraries_that_are_old_or_absent() -> None:
    installed = {"duckdb": "1.9", "numpy": "2.3", "rich": "14.1"}
    requirements = [
        "duckdb<3,>=2.0", "numpy<3,>=2.2", "pyarrow<27,>=24", 'rich>=14; extra == "cli"', "uvicorn>=0.40; extra == 'server'",
        "tidegate[cli]; extra == 'all'", "mypy>=2; extra == 'dev'",
    ]  # fmt: skip
    found = {f.subject: f for f in library_findings(requirements, installed.get)}
    assert found["duckdb"].severity is Severity.WARNING
    assert found["pyarrow"].severity is Severity.PROBLEM
    assert found["pyarrow"].action == "pip install 'pyarrow<27,>=24'"
    assert found["extras"].message == "not installed: server"
    assert found["libraries"].message == "2 are in their tested ranges"


# ---------------------------------------------------------------- the command


def test_the_command_prints_and_exits_by_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = lake(tmp_path / "lake")
    assert main(["doctor", "--lake", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["healthy"] is True
    files(folder)[0].unlink()
    assert main(["doctor", "--lake", str(folder), "--deep"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"doctor of {folder}"
    assert any(line.startswith("problem  files        orders: part/") for line in lines)
    assert "2 problems" in lines[-1]
    assert main(["doctor", "--lake", str(tmp_path / "none")]) == 1
