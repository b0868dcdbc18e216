"""Where a database is: one root is one database, and what is wrong with a place is said clearly."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

import tidegate
from tests import servers
from tests.test_database import ROWS, ids, made
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.catalog.root import RootMarker


def test_one_root_is_one_database(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    made(root).append("t", ROWS)
    for other in ("?metadata=log", f"?metadata={_postgres()}"):
        with pytest.raises(tidegate.StoreError, match="keeps its metadata in sqlite"):
            tidegate.open(root + other)
    assert ids(tidegate.open(root)) == [1, 2, 3]


def _postgres() -> str:
    try:
        return servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")


def test_another_postgres_is_another_database(tmp_path: Path) -> None:
    import psycopg

    url, name = _postgres(), f"d{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    root = tmp_path / "lake"
    made(f"{root}?metadata={url}")
    with pytest.raises(tidegate.StoreError, match="metadata does not have it"):
        tidegate.open(f"{root}?metadata={url.replace('/postgres?', f'/{name}?')}")
    encoded = tidegate.open(f"{root}?metadata={quote(url, safe='')}")
    assert encoded.sql("SHOW TABLES").rows() == [("t",)]


def test_two_roots_share_a_postgres(tmp_path: Path) -> None:
    url = _postgres()
    one, two = (made(f"{tmp_path / name}?metadata={url}") for name in ("one", "two"))
    one.append("t", ROWS)
    assert (ids(one), ids(two)) == ([1, 2, 3], [])


def test_a_metadata_file_of_another_database(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    made(one).close()
    made(two).close()
    Path(one, "metadata.sqlite").write_bytes(Path(two, "metadata.sqlite").read_bytes())
    with pytest.raises(tidegate.CorruptError, match="two databases were put on one root"):
        tidegate.open(one)


def test_lost_metadata(tmp_path: Path) -> None:
    made(str(tmp_path)).close()
    for file in tmp_path.glob("metadata.sqlite*"):
        file.unlink()
    with pytest.raises(tidegate.StoreError, match="metadata does not have it"):
        tidegate.open(tmp_path)


def test_a_newer_format(tmp_path: Path) -> None:
    tidegate.open(tmp_path).close()
    FileBlob(tmp_path).put("root", RootMarker("x", "sqlite", format=99).encode())
    with pytest.raises(
        tidegate.TidegateError, match=r"has format 99, and this version of Tidegate knows 4(.|\n)*upgrade"
    ):
        tidegate.open(tmp_path)


def test_a_damaged_root_is_named(tmp_path: Path) -> None:
    tidegate.open(tmp_path).close()
    data = bytearray(Path(tmp_path, "root").read_bytes())
    data[-3] ^= 1
    Path(tmp_path, "root").write_bytes(bytes(data))
    with pytest.raises(tidegate.CorruptError, match="root is damaged"):
        tidegate.open(tmp_path)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "needs a location"),
        ("ftp://host/lake", "ftp:// is not a location"),
        ("lake?metadata=mysql://x", "metadata cannot be kept in"),
        ("s3://bucket/lake?metadata=sqlite", "SQLite is a file"),
        ("/dev/null/lake", "Not a directory"),
    ],
)
def test_bad_places(url: str, message: str) -> None:
    with pytest.raises(tidegate.StoreError, match=message):
        tidegate.open(url)


def test_a_postgres_that_is_not_there(tmp_path: Path) -> None:
    _postgres()
    with pytest.raises(tidegate.StoreError, match="cannot be reached"):
        tidegate.open(f"{tmp_path}?metadata=postgresql://nobody@/x?host={tmp_path}")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root can")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    """Both an empty folder and a lake: a clear error, and the lake as it was."""
    (tmp_path / "empty").mkdir(mode=0o755)
    made(str(tmp_path / "lake")).append("t", ROWS)
    code = (
        "import os, sys, tidegate\n"
        "tidegate.open('memory://').sql('CREATE TABLE t (id int8); INSERT INTO t VALUES (1)')  # imports what is needed\n"
        "os.setuid(65534)\n"
        "try: tidegate.open(sys.argv[1]).sql('INSERT INTO t (id) VALUES (1)')\n"
        "except tidegate.StoreError as error: print(error)"
    )
    for folder in ("empty", "lake"):
        path = tmp_path / folder
        for above in (path, *path.parents):
            if str(above).startswith("/tmp/") and above != Path("/tmp"):
                above.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert "Traceback" not in done.stderr
    assert ids(tidegate.open(tmp_path / "lake")) == [1, 2, 3]


def test_closed(tmp_path: Path) -> None:
    db = tidegate.open(tmp_path)
    db.close()
    with pytest.raises(tidegate.StoreError, match="was closed"):
        db.sql("SELECT 1")
    assert "closed" in repr(db)


@pytest.mark.usefixtures("commits_make_files")
def test_a_part_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    db = made(str(tmp_path))
    db.append("t", ROWS)
    (part,) = (path for path in Path(tmp_path, "part").rglob("*") if path.is_file())
    name, data = part.relative_to(tmp_path).as_posix(), bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))
    with pytest.raises(tidegate.CorruptError, match=f"{name} is damaged"):
        ids(db)
    part.unlink()
    with pytest.raises(tidegate.StoreError, match=f"{name} is missing"):
        ids(db)
    assert ids(db, "SELECT id FROM t WHERE id > 100") == []  # which its statistics answer


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which only root can")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tidegate-test", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount anything")
    try:
        with made(str(tmp_path / "lake")) as db:
            db.append("t", ROWS)
            ballast = tmp_path / "ballast"
            ballast.write_bytes(bytes(3 << 20))
            noise = [secrets.token_hex(1000) for _ in range(2000)]
            big = {"id": list(range(2000)), "at": [None] * 2000, "payload": [f'"{text}"' for text in noise]}
            with pytest.raises(tidegate.StoreError, match="disk is full"):
                db.append("t", big)
            ballast.unlink()
            assert ids(db) == [1, 2, 3]
            db.append("t", ROWS)
            assert ids(db) == [1, 1, 2, 2, 3, 3]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_slip_of_memory_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tidegate.StoreError, match="folder of that name"):
        tidegate.open("memory:")
    assert not list(tmp_path.iterdir())
