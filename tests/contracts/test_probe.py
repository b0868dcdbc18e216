"""A store that lets two writers create one object is refused before a lake is put there; one that fails now and then is not."""

from __future__ import annotations

import errno
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest

import tidegate
from tests import servers
from tests.contracts.stores import BLOBS, recipe
from tests.test_database import ROWS, ids, made
from tests.unconditional import unconditional
from tidegate.errors import IndeterminateError, StoreError
from tidegate.storage.blob import files as file
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.blob.object_store import ObjectBlob
from tidegate.storage.blob.probe import check_create
from tidegate.storage.blob.protocol import Blob, MemoryBlob

PREFIX = "mark/catalog/"


def _s3() -> servers.S3:
    try:
        return servers.s3()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")


def _postgres() -> str:
    try:
        return servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")


@pytest.mark.parametrize("kind", BLOBS)
def test_good_stores_pass_and_nothing_is_left(kind: str, tmp_path: Path) -> None:
    blob = recipe(kind, tmp_path).blob()
    check_create(blob, "here", PREFIX)
    assert list(blob.list()) == []


def test_an_s3_server_that_ignores_the_condition_is_named() -> None:
    with unconditional(_s3()) as options:
        url = f"s3://lake/{secrets.token_hex(6)}"
        with pytest.raises(StoreError, match=rf"{url}: this store does not do conditional writes") as told:
            tidegate.open(f"{url}?{urlencode(options)}")
        assert "?metadata=postgresql://" in str(told.value)
        # No lake was begun there, and no probe is left.
        assert list(ObjectBlob.open(url, **options).list()) == []


def test_an_s3_server_that_refuses_the_condition_is_named() -> None:
    with unconditional(_s3(), answer=400) as options:
        url = f"s3://lake/{secrets.token_hex(6)}"
        with pytest.raises(StoreError, match="does not do conditional writes"):
            tidegate.open(f"{url}?{urlencode(options)}")


def test_what_the_hint_says_works() -> None:
    """With metadata in PostgreSQL, a lake in a store without conditional writes loses nothing; of two who make it, one does."""
    url = f"s3://lake/{secrets.token_hex(6)}"
    with unconditional(_s3()) as options:
        place = f"{url}?{urlencode(options)}&metadata={_postgres()}"
        code = (
            "import sys, tidegate; db = tidegate.open(sys.argv[1])\n"
            "db.sql('CREATE TABLE IF NOT EXISTS t (id int8); INSERT INTO t VALUES (1)')"
        )
        many = [subprocess.Popen([sys.executable, "-c", code, place]) for _ in range(3)]
        assert [process.wait(120) for process in many] == [0, 0, 0]
        with tidegate.open(place) as db:
            assert db.sql("SELECT count(*) FROM t").rows() == [(3,)]


@pytest.mark.parametrize("metadata", ["", "?metadata=log"])
def test_a_folder_whose_link_replaces_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: str
) -> None:
    monkeypatch.setattr(file, "_link", os.replace)  # a file system that says yes to every link
    with pytest.raises(StoreError, match=f"{tmp_path}/lake: this file system cannot create a file only if"):
        tidegate.open(f"{tmp_path}/lake{metadata}")
    assert not any(path.is_file() for path in (tmp_path / "lake").rglob("*"))


def test_a_file_system_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(temporary: Path, path: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")  # as FAT does

    monkeypatch.setattr(file, "_link", refuse)
    with pytest.raises(StoreError, match="this file system cannot create a file only if") as told:
        tidegate.open(tmp_path / "lake")
    assert not isinstance(told.value, tidegate.ReadOnlyError)


def test_a_disk_that_cannot_be_written_is_not_blamed_for_its_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file, "_write_all", refuse)
    with pytest.raises(StoreError, match="the disk is full"):
        tidegate.open(tmp_path / "lake")


class Troubled(MemoryBlob):
    """A store whose `create` has a trouble the first times that it is asked."""

    def __init__(self, trouble: Callable[[Callable[[], bool]], bool], times: int) -> None:
        super().__init__()
        self.trouble, self.times = trouble, times

    def create(self, name: str, data: bytes) -> bool:
        if not self.times:
            return super().create(name, data)
        self.times -= 1
        return self.trouble(lambda: MemoryBlob.create(self, name, data))


def _lost(_: Callable[[], bool]) -> bool:
    raise IndeterminateError("not done, and not known")


def _done_and_lost(create: Callable[[], bool]) -> bool:
    create()
    raise IndeterminateError("done, and not known")


def _done_and_repeated(create: Callable[[], bool]) -> bool:
    create()
    return create()  # the client library tries again, and meets its own first try


def _done_and_failed(create: Callable[[], bool]) -> bool:
    create()
    raise StoreError("done, and a plain error")


def _lies(_: Callable[[], bool]) -> bool:
    return True


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("trouble", [_lost, _done_and_lost, _done_and_repeated, _done_and_failed, _lies])
def test_lost_answers_blame_nobody(trouble: Callable[[Callable[[], bool]], bool], times: int) -> None:
    blob: Blob = Troubled(trouble, times)
    check_create(blob, "here", PREFIX)
    assert list(blob.list()) == []


def test_a_store_that_replaces_and_loses_the_answer_is_refused() -> None:
    class Replacing(MemoryBlob):
        def create(self, name: str, data: bytes) -> bool:
            self.put(name, data)
            raise IndeterminateError("done, and not known")

    with pytest.raises(StoreError, match="does not do conditional writes"):
        check_create(Replacing(), "here", PREFIX)


def test_a_probe_that_was_killed_is_swept(tmp_path: Path) -> None:
    FileBlob(tmp_path).put(f"{PREFIX}0011223344556677", b"first")
    os.utime(tmp_path / PREFIX / "0011223344556677", (0, 0))
    with made(str(tmp_path)) as db:
        db.append("t", ROWS)
        db.sweep()
        assert ids(db) == [1, 2, 3]
    assert not any(path.is_file() for path in (tmp_path / "mark").rglob("*"))
