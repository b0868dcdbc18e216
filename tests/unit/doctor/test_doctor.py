"""The doctor finds what was really broken, and leaves everything as it was."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tests.unit.doctor.lakes import bad, files, lake, only
from tidegate.cli.main import main
from tidegate.doctor import Severity, diagnose_location
from tidegate.doctor.clocks import compare_clocks
from tidegate.storage.catalog import RootMarker

pytestmark = pytest.mark.usefixtures("commits_make_files")

HOUR = 3_600_000


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of the lake but SQLite's own, and what SQLite holds."""
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("metadata.sqlite")
    }
    with sqlite3.connect(folder / "metadata.sqlite") as connection:
        rows = connection.execute("SELECT key, number, data FROM consensus ORDER BY key, number").fetchall()
    connection.close()
    return found | {f"{key}#{number}": data for key, number, data in rows}


# ---------------------------------------------------------------- a lake that is well


@pytest.mark.parametrize("metadata", ["", "?metadata=log"])
def test_a_healthy_lake_is_healthy_and_stays_as_it_is(tmp_path: Path, metadata: str) -> None:
    url = f"{tmp_path / 'lake'}{metadata}"
    with tidegate.open(url) as db:
        db.sql("CREATE TABLE orders (id int8); INSERT INTO orders VALUES (1), (2)")
    before = {path for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    diagnosis = diagnose_location(url, deep=True)
    assert bad(diagnosis) == []
    assert diagnosis.left_out == ()
    assert {f.check for f in diagnosis.findings} >= {
        "blobs",
        "metadata",
        "clocks",
        "files",
        "checksums",
        "leases",
    }
    assert {path for path in (tmp_path / "lake").rglob("*") if path.is_file()} == before


def test_nothing_of_the_lake_changes(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    before = snapshot(folder)
    diagnose_location(str(folder), deep=True)
    diagnose_location(str(folder), read_only=True)
    assert snapshot(folder) == before


def test_an_open_database_examines_itself(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    with tidegate.open(lake(tmp_path / "lake")) as db:
        diagnosis = db.doctor(deep=True, progress=lambda *step: steps.append(step))
        assert diagnosis.healthy
        assert diagnosis.lake == str(tmp_path / "lake")
    assert {what for what, _, _ in steps} >= {"collections", "files", "doctor"}
    assert all(count <= total for _, count, total in steps)


def test_a_lake_in_memory() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1)")
        assert bad(db.doctor(deep=True)) == []


def test_deletions_rollups_and_dropped_tables_are_no_trouble(tmp_path: Path) -> None:
    with tidegate.open(tmp_path, config=tidegate.Config(maintenance=False)) as db:
        db.sql("CREATE TABLE t (id int8); CREATE TABLE gone (id int8); INSERT INTO gone VALUES (1)")
        db.sql("DROP TABLE gone")
        for i in range(150):  # past one rollup
            db.append("t", {"id": list(range(i * 9, i * 9 + 9))})
        db.sql("DELETE FROM t WHERE id % 90 = 0")
        found = bad(db.doctor(deep=True))
    assert [finding.message.partition(":")[0] for finding in found] == ["150 of 150 parts are small"]


# ---------------------------------------------------------------- files


def test_a_missing_file(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    lost = files(folder)[1]
    lost.unlink()
    finding = only(diagnosis := diagnose_location(str(folder)))
    assert finding.severity is Severity.PROBLEM
    assert finding.subject == "orders"
    assert str(lost.relative_to(folder)) in finding.message
    assert "backup" in finding.action
    assert not diagnosis.healthy


def test_a_flipped_byte_is_found_by_the_deep_check_alone(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    damaged = files(folder)[0]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    assert bad(diagnose_location(str(folder))) == []
    finding = only(diagnose_location(str(folder), deep=True))
    assert finding.check == "checksums"
    assert str(damaged.relative_to(folder)) in finding.message


def test_a_truncated_file(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    cut = files(folder)[0]
    cut.write_bytes(cut.read_bytes()[:-1])
    finding = only(diagnose_location(str(folder)))
    assert "another size" in finding.message
    assert str(cut.relative_to(folder)) in finding.message


def test_a_folder_full_of_orphans(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    shard = files(folder)[0].parent
    old = time.time() - 3 * 86_400
    for i in range(500):
        (shard / f"orphan{i}").write_bytes(b"x" * 100)
        os.utime(shard / f"orphan{i}", (old, old))
    (shard / "young").write_bytes(b"a write that is under way")
    finding = only(diagnosis := diagnose_location(str(folder)))
    assert finding.severity is Severity.WARNING
    assert (finding.subject, finding.action) == ("orders", "tidegate sweep")
    assert finding.message.startswith("500 files, 50 kB, the oldest of 3 days ago")
    assert diagnosis.healthy
    assert main(["sweep", "--lake", str(folder)]) == 0  # what the doctor says helps
    assert bad(diagnose_location(str(folder))) == []


def test_files_of_a_collection_that_the_metadata_does_not_know(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    old = time.time() - 86_400
    stray = folder / "part" / "0123456789abcdef" / "x"
    stray.parent.mkdir()
    stray.write_bytes(b"x")
    os.utime(stray, (old, old))
    finding = only(diagnose_location(str(folder)))
    assert finding.subject == "unknown 0123456789abcdef"


def test_temporary_files_of_killed_writers(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    left, old = folder / "part" / ".tmp-0123", time.time() - 86_400
    left.write_bytes(b"half")
    os.utime(left, (old, old))
    assert only(diagnose_location(str(folder))).message == "1 temporary file of writers that were killed"


def test_probes_of_a_killed_doctor_are_removed_by_the_next(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    left, old = folder / "probe" / "0123", time.time() - 3 * 86_400
    left.parent.mkdir()
    left.write_bytes(b"left")
    os.utime(left, (old, old))
    (folder / "probe" / "young").write_bytes(b"of a doctor that runs")
    assert bad(diagnose_location(str(folder))) == []
    assert not left.exists()
    assert (folder / "probe" / "young").exists()


# ---------------------------------------------------------------- states, leases, sizes, clocks


def test_a_collection_whose_log_is_damaged(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    with tidegate.open(folder) as db:
        db.sql("CREATE TABLE fine (id int8)")
        shard = db.context.catalog.items()["orders"].shard  # type: ignore[union-attr]  # it is a table
    with sqlite3.connect(folder / "metadata.sqlite") as connection:
        connection.execute(
            "UPDATE consensus SET data = x'00' WHERE key = ? AND number = 2", [f"shard/{shard}"]
        )
    connection.close()
    finding = only(diagnose_location(str(folder)))
    assert (finding.check, finding.subject, finding.severity) == ("readable", "orders", Severity.PROBLEM)
    assert "state cannot be read" in finding.message


def test_a_stale_lease(tmp_path: Path) -> None:
    clock = tidegate.ManualClock(at=1_700_000_000_000)
    with tidegate.open(tmp_path, clock=clock) as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
        reader = db.sql("SELECT id FROM t", as_of=clock.now()).batches()
        held = [finding for finding in db.doctor(read_only=True).findings if finding.check == "leases"]
        assert any("1 lease held" in finding.message for finding in held)
        clock.advance(2 * HOUR)
        with tidegate.open(tmp_path, clock=clock) as another:
            finding = only(another.doctor(read_only=True))
        assert (finding.check, finding.action) == ("leases", "tidegate sweep")
        assert finding.message.startswith("1 lease of readers that ended without a word (")
        del reader


def test_times_ahead_of_the_clock(tmp_path: Path) -> None:
    clock = tidegate.ManualClock(at=1_700_000_000_000)
    with tidegate.open(tmp_path, clock=clock) as db:
        db.sql("CREATE TABLE t (id int8)")
        db.append("t", {"id": [1]}, at=clock.now() + 60_000)
        finding = only(db.doctor(read_only=True))
        assert (finding.check, finding.severity) == ("uppers", Severity.WARNING)
        clock.advance(-2 * HOUR)
        finding = only(db.doctor(read_only=True))
        assert finding.severity is Severity.PROBLEM
        assert finding.action == "if this clock is right: tidegate repair t"
        db.repair("t", clock.now())  # what the doctor says helps
        assert bad(db.doctor(read_only=True)) == []


@pytest.mark.parametrize(("ahead", "severity"), [(20_000, Severity.WARNING), (2 * HOUR, Severity.PROBLEM)])
def test_a_machine_whose_clock_is_wrong(tmp_path: Path, ahead: int, severity: Severity) -> None:
    folder = lake(tmp_path / "lake")
    for way in (1, -1):
        clock = tidegate.ManualClock(at=time.time_ns() // 1_000_000 + way * ahead)
        found = [f for f in bad(diagnose_location(str(folder), clock=clock)) if f.check == "clocks"]
        assert [finding.severity for finding in found] == [severity]
        assert ("ahead of" if way > 0 else "behind") in found[0].message


def test_clocks_agree_within_the_time_of_the_question() -> None:
    assert compare_clocks("S3", 5_000, 4_000, 9_000, 600_000).severity is Severity.OK
    assert (
        compare_clocks("S3", 3_000, 4_500, 4_600, 600_000).severity is Severity.OK
    )  # S3 gives whole seconds
    assert compare_clocks("S3", 0, 60_000, 60_000, 600_000).message.startswith(
        "the clock of this machine is 60.0 seconds ahead"
    )


def test_deleted_rows(tmp_path: Path) -> None:
    with tidegate.open(tmp_path) as db:
        db.sql("CREATE TABLE t (id int8)")
        db.append("t", {"id": list(range(100))})
        db.sql("DELETE FROM t WHERE id < 50")
        finding = only(db.doctor())
    assert (finding.check, finding.action) == ("sizes", "tidegate compact t --full")
    assert finding.message == "50 of 100 stored rows are deleted, and kept for AS OF"


def test_a_hundred_troubles_of_one_kind_are_summed_up(tmp_path: Path) -> None:
    with tidegate.open(tmp_path) as db:
        db.sql("; ".join(f"CREATE TABLE t{i} (id int8); INSERT INTO t{i} VALUES (1)" for i in range(30)))
        for part in files(tmp_path):
            part.unlink()
        found = bad(db.doctor())
    assert len(found) == 11
    assert found[-1].subject == "20 more"


# ---------------------------------------------------------------- stores


def test_no_lake_and_no_folder_are_not_created(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        finding = only(diagnosis := diagnose_location(str(folder)))
        assert (finding.check, finding.severity) == ("open", Severity.PROBLEM)
        assert diagnosis.left_out
    assert list(tmp_path.iterdir()) == []


def test_a_lake_without_its_metadata(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    for path in folder.glob("metadata.sqlite*"):
        path.unlink()
    finding = only(diagnose_location(str(folder)))
    assert finding.check == "open"
    assert "metadata does not have it" in finding.message


def test_a_postgres_that_is_dead(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    (folder / "root").unlink()
    (folder / "root").write_bytes(RootMarker("0123", "postgres").encode())
    url = f"{folder}?metadata=postgresql://tidegate:s3cret@127.0.0.1:9/meta"
    finding = only(diagnosis := diagnose_location(url))
    assert "PostgreSQL cannot be reached" in finding.message
    assert "psql" in finding.action
    assert "s3cret" not in diagnosis.text()


def test_read_only_says_what_was_left_out(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake")
    diagnosis = diagnose_location(str(folder), read_only=True)
    assert bad(diagnosis) == []
    assert [reason.partition(":")[0] for reason in diagnosis.left_out] == [
        "writing to the blob store",
        "writing metadata",
        "the clock of the blob store",
    ]


DOCTOR_AS_ANOTHER = """
import json, os, sys
import tidegate
from tidegate.doctor import diagnose_location
with tidegate.open("memory://") as db:
    db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1)")
    db.doctor(deep=True)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(json.dumps(diagnose_location(sys.argv[1], deep=True).data()))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user can get to, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-test-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def test_a_user_who_may_only_read(shared: Path) -> None:
    folder = lake(shared / "lake")
    files(folder)[0].chmod(0o400 if os.geteuid() == 0 else 0)
    if os.geteuid() != 0:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(path.stat().st_mode & ~0o222)
    command = [sys.executable, "-W", "error", "-c", DOCTOR_AS_ANOTHER, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(ended.stdout)
    assert [reason.partition(":")[2].strip() for reason in found["left_out"]] == [
        "this user has no write permission",
        "this user has no write permission",
        "this user cannot write an object",
    ]
    bad_ones = {f["check"]: f for f in found["findings"] if f["severity"] == "problem"}
    assert bad_ones.keys() == {"machine", "checksums"}
    assert bad_ones["machine"]["message"].startswith("1 file cannot be read by this user, such as part/")


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
