"""A lake with metadata in PostgreSQL that was copied, moved, or is reached by another name."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

import tidegate
from tests import servers
from tests.test_database import ROWS, ids, made
from tidegate.database import Database
from tidegate.storage.blob.object_store import ObjectBlob

pytestmark = pytest.mark.usefixtures("commits_make_files")

REFUSED = "its metadata in PostgreSQL belongs to"


@pytest.fixture
def metadata() -> str:
    try:
        return f"?metadata={servers.postgres()}"
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")


def _lake(place: str) -> Database:
    db = made(place)
    db.append("t", ROWS)
    return db


def test_a_copy_is_refused_and_harms_nobody(tmp_path: Path, metadata: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with _lake(f"{one}{metadata}") as db:
        shutil.copytree(one, two, copy_function=shutil.copy2)
        with pytest.raises(
            tidegate.StoreError, match=f"{two} is not where this lake was: {REFUSED} {one}"
        ) as told:
            tidegate.open(f"{two}{metadata}")
        assert "adopt --as" in str(told.value)
        db.append("t", ROWS)
        assert ids(db) == [1, 1, 2, 2, 3, 3]


def test_a_copy_at_the_same_path_is_refused(tmp_path: Path, metadata: str) -> None:
    """As in a container whose volume is a copy: the path is the same there."""
    lake, away = tmp_path / "lake", tmp_path / "away"
    _lake(f"{lake}{metadata}").close()
    lake.rename(away)
    shutil.copytree(away, lake, copy_function=shutil.copy2)
    with pytest.raises(tidegate.StoreError, match=REFUSED):
        tidegate.open(f"{lake}{metadata}")
    shutil.rmtree(lake)
    away.rename(lake)
    assert ids(tidegate.open(f"{lake}{metadata}")) == [1, 2, 3]


def test_a_copy_becomes_a_lake_of_its_own(tmp_path: Path, metadata: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with _lake(f"{one}{metadata}") as db:
        db.sql("CREATE VIEW v AS SELECT id FROM t WHERE id > 1")
        db.sql("UPDATE t SET id = id + 150")
        machine = db.context.table("t").machine
        machine.roll(machine.fetch())  # so that there is a rollup too, as after many changes
        shutil.copytree(one, two)
        tidegate.adopt(f"{two}{metadata}", "copy")
        with tidegate.open(f"{two}{metadata}") as other:
            assert ids(other) == ids(other, "SELECT id FROM v") == [151, 152, 153]
            other.append("t", ROWS)
            db.append("t", {"id": [7], "at": [None], "payload": [None]})
            db.compact("t", full=True)
            db.sweep()
            assert ids(db) == [7, 151, 152, 153]
            assert ids(other) == [1, 2, 3, 151, 152, 153]
        with pytest.raises(tidegate.StoreError, match="is the original, and no copy"):
            tidegate.adopt(f"{one}{metadata}", "copy")


def test_a_copy_that_is_older_than_the_metadata(tmp_path: Path, metadata: str) -> None:
    import psycopg

    one, two = tmp_path / "one", tmp_path / "two"
    with _lake(f"{one}{metadata}") as db:
        shutil.copytree(one, two)
        db.append("t", ROWS)
        with psycopg.connect(metadata.partition("=")[2]) as connection:
            before = connection.execute("SELECT count(*) FROM tidegate_consensus").fetchall()
        with pytest.raises(tidegate.StoreError, match=r"1 objects that the metadata names are not at"):
            tidegate.adopt(f"{two}{metadata}", "copy")
        with psycopg.connect(metadata.partition("=")[2]) as connection:
            assert connection.execute("SELECT count(*) FROM tidegate_consensus").fetchall() == before
        shutil.copytree(one / "part", two / "part", dirs_exist_ok=True)
        tidegate.adopt(f"{two}{metadata}", "copy")
        assert ids(tidegate.open(f"{two}{metadata}")) == [1, 1, 2, 2, 3, 3]


def test_a_lake_that_was_moved(tmp_path: Path, metadata: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with _lake(f"{one}{metadata}") as db:
        shutil.copytree(one, two)
        with pytest.raises(tidegate.StoreError, match=REFUSED):
            tidegate.open(f"{two}{metadata}")
        command = [
            sys.executable,
            "-m",
            "tidegate.cli",
            "adopt",
            "--as",
            "moved",
            "--lake",
            f"{two}{metadata}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "adopted as moved\n"), done.stderr
        with tidegate.open(f"{two}{metadata}") as moved:
            moved.append("t", ROWS)
            assert ids(moved) == [1, 1, 2, 2, 3, 3]
        # Who has it open where it was can break nothing either.
        with pytest.raises(tidegate.StoreError, match=f"{REFUSED} {two}"):
            db.append("t", ROWS)
        with pytest.raises(tidegate.StoreError, match=f"{REFUSED} {two}"):
            tidegate.open(f"{one}{metadata}")


def test_other_names_of_the_same_place(
    tmp_path: Path, metadata: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, link = tmp_path / "lake", tmp_path / "link"
    _lake(f"{lake}{metadata}").close()
    link.symlink_to(lake)
    monkeypatch.chdir(tmp_path)
    for name in (f"{link}", "lake", f"file://{lake}", f"{tmp_path}/../{tmp_path.name}/lake"):
        assert ids(tidegate.open(f"{name}{metadata}")) == [1, 2, 3]
    (lake / "root").chmod(0o600)  # changes its ctime
    assert ids(tidegate.open(f"{lake}{metadata}")) == [1, 2, 3]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a folder, which only root can")
def test_another_mount_point(tmp_path: Path, metadata: str) -> None:
    lake, mounted, copied = tmp_path / "lake", tmp_path / "mounted", tmp_path / "copied"
    _lake(f"{lake}{metadata}").close()
    mounted.mkdir()
    if subprocess.run(["mount", "--bind", lake, mounted], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount anything")
    try:
        with pytest.raises(tidegate.StoreError, match=REFUSED):
            tidegate.open(f"{mounted}{metadata}")
        tidegate.adopt(f"{mounted}{metadata}", "alias")
        with tidegate.open(f"{mounted}{metadata}") as one, tidegate.open(f"{lake}{metadata}") as two:
            one.append("t", ROWS)
            assert ids(one) == ids(two) == [1, 1, 2, 2, 3, 3]
        shutil.copytree(lake, copied)
        with pytest.raises(tidegate.StoreError, match="is not another name of"):
            tidegate.adopt(f"{copied}{metadata}", "alias")
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_a_copy_of_a_bucket(metadata: str) -> None:
    try:
        options = servers.s3()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")
    one, two = (f"s3://lake/{secrets.token_hex(6)}" for _ in range(2))
    places = [f"{url}?{urlencode(options)}&{metadata[1:]}" for url in (one, two)]
    with _lake(places[0]) as db:
        here, there = (ObjectBlob.open(url, **options) for url in (one, two))
        for entry in here.list():
            there.put(entry.name, here.get(entry.name) or b"")
        with pytest.raises(tidegate.StoreError, match=f"{REFUSED} {one}"):
            tidegate.open(places[1])
        tidegate.adopt(places[1], "copy")
        with tidegate.open(places[1]) as other:
            other.append("t", ROWS)
            assert ids(other) == [1, 1, 2, 2, 3, 3]
        assert ids(db) == [1, 2, 3]


def test_metadata_beside_the_parts_moves_and_copies_as_it_did(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for metadata in ("", "?metadata=log"):
        _lake(f"{one}{metadata}").close()
        shutil.copytree(one, two)
        one.rename(three)
        for place in (two, three):
            with tidegate.open(f"{place}{metadata}") as db:
                db.append("t", ROWS)
                assert ids(db) == [1, 1, 2, 2, 3, 3]
        with pytest.raises(tidegate.StoreError, match="can be moved and copied as it is"):
            tidegate.adopt(f"{two}{metadata}", "moved")
        shutil.rmtree(two)
        shutil.rmtree(three)


def test_a_lake_from_before_places_were_known(tmp_path: Path, metadata: str) -> None:
    from tidegate.storage.catalog.catalog import PLACES
    from tidegate.storage.shard.changes import Configure

    one, two = tmp_path / "one", tmp_path / "two"
    with _lake(f"{one}{metadata}") as db:
        db.context.catalog.machine.update(lambda _: Configure({PLACES: None}))
        shutil.copytree(one, two)
        with pytest.raises(tidegate.StoreError, match="nobody knows yet where the original is"):
            tidegate.adopt(f"{two}{metadata}", "copy")
    assert ids(tidegate.open(f"{one}{metadata}")) == [1, 2, 3]  # writes it down
    with pytest.raises(tidegate.StoreError, match=REFUSED):
        tidegate.open(f"{two}{metadata}")
