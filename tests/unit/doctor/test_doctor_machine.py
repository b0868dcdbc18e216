"""What the doctor says of the machine, of versions, and of lakes that others change meanwhile."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

import tidegate
from tests.unit.doctor.lakes import bad, files, lake
from tidegate.cli.main import main
from tidegate.doctor import Severity, diagnose_location
from tidegate.doctor.host import disk_finding, open_files_finding
from tidegate.doctor.versions import in_range, library_findings, python_finding

HOUR = 3_600_000


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


# ---------------------------------------------------------------- others work meanwhile


def test_parts_that_others_replace_and_sweep_meanwhile_are_not_missing(tmp_path: Path) -> None:
    with tidegate.open(tmp_path, config=tidegate.Config(sweep_grace_ms=0)) as db:
        db.sql("CREATE TABLE t (id int8)")
        for i in range(4):
            db.append("t", {"id": [i]})
        before = files(tmp_path)
        happened = []

        def meddle(what: str, count: int, total: int) -> None:
            if what == "files" and not happened:  # the states were read, the listing was not
                happened.append(db.compact("t", full=True))
                db.sweep()

        diagnosis = db.doctor(progress=meddle)
        assert happened
        assert not set(before) & set(files(tmp_path))
        assert bad(diagnosis) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["roll", "seg", "del"])
def test_a_damaged_rollup_segment_or_bitmap(tmp_path: Path, kind: str) -> None:
    with tidegate.open(tmp_path) as db:
        db.sql("CREATE TABLE t (id int8)")
        db.append("t", {"id": [i * 7_368_787 % 1_000_003 for i in range(800_000)]})  # in no order
        for i in range(140):
            db.append("t", {"id": [i]})
        db.sql("DELETE FROM t WHERE id < 500000")  # too many bits for the log
    for damaged in files(tmp_path, kind):
        data = bytearray(damaged.read_bytes())
        data[-1] ^= 1
        damaged.write_bytes(data)
    assert files(tmp_path, kind), "the table is too small for one"
    problems = diagnose_location(str(tmp_path), deep=True).of(Severity.PROBLEM)
    assert {finding.subject for finding in problems} == {"t"}
    assert any(f"{kind}/" in finding.message for finding in problems)
