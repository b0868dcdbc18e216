"""Blobs as files below a folder, made durable the long way: temporary file, fsync, link or rename, fsync of the folder.

A file appears under its name only when all of it is on the disk; so a crash leaves the whole object or nothing but a temporary
file, which `list` does not show and `sweep_temporary` removes. `create` uses a hard link, which fails if the name is taken: the
one conditional write that every file system has.

When the folder's fsync fails after the file has its name, the file is there, and may be gone after a crash: the outcome is unknown,
and said to be; whoever asks again has the folder fsynced again. A link whose answer is lost (NFS asks again by itself, and is then
told that the name exists) is known by its count of links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate.errors import IndeterminateError, ReadOnlyError, StoreError
from tidegate.store.blob import Entry, checked, missing, short

_TEMPORARY = ".tmp-"
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)


class FileBlob:
    """A folder of objects."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._guard(self.root.mkdir, parents=True, exist_ok=True)
        self._folders: set[Path] = {self.root}

    def put(self, name: str, data: bytes) -> None:
        """Stores `data` durably, all of it or none."""
        self._write(name, data, os.replace)

    def create(self, name: str, data: bytes) -> bool:
        """Stores `data` if there is nothing by that name; whether it did."""
        path = self._path(name)
        if not path.exists() and self.create_unseen(name, data):
            return True
        # Whoever made it may not have come so far as to make it durable: nobody builds on what a crash could undo.
        _settle(name, path.parent)
        return False

    def create_unseen(self, name: str, data: bytes) -> bool:
        """`create` without a look at what is there: the link alone decides, as it does between two who look at once."""
        return self._write(name, data, _link)

    def get(self, name: str) -> bytes | None:
        """The bytes by that name, or None."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(name, error) from None

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(start, length)`."""
        with self._opened(name) as descriptor:
            return [os.pread(descriptor, length, start) for start, length in ranges]

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Fills each target with the bytes from its start on."""
        with self._opened(name) as descriptor:
            for start, target in zip(starts, targets, strict=True):
                at = 0
                while at < len(target):
                    got = os.preadv(descriptor, [target[at:]], start + at)
                    if not got:
                        raise short(name)
                    at += got

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise missing(name) from None
        except OSError as error:
            raise _failed(name, error) from None
        try:
            yield descriptor
        except OSError as error:
            raise _failed(name, error) from None
        finally:
            os.close(descriptor)

    def delete(self, name: str) -> None:
        """Removes what is by that name."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise _failed(name, error, writing=True) from None

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """Every object whose name begins with `prefix` and is greater than `after`, by name."""
        found = []
        start = self.root / prefix.rpartition("/")[0]
        for folder, _, names in os.walk(start):
            for plain in names:
                path = Path(folder, plain)
                name = path.relative_to(self.root).as_posix()
                if plain.startswith(_TEMPORARY) or not name.startswith(prefix) or name <= after:
                    continue
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue  # deleted while we looked
                found.append(Entry(name, status.st_size, status.st_mtime_ns // 1_000_000))
        yield from sorted(found)

    def sweep_temporary(self, older_than_s: float) -> int:
        """Removes what killed writers left behind, if it is older than that; how many."""
        removed = 0
        for path in self.root.rglob(f"{_TEMPORARY}*"):
            try:
                old = path.is_file() and time.time() - path.stat().st_mtime >= older_than_s
            except FileNotFoundError:
                continue  # its writer is done with it
            if old:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _path(self, name: str) -> Path:
        return self.root / checked(name)

    def _write(self, name: str, data: bytes, place: object) -> bool:
        path = self._path(name)
        temporary = path.parent / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            self._make_folder(path.parent)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            assert callable(place)
            place(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            raise _failed(name, error, writing=True) from None
        else:
            _settle(name, path.parent)
            return True
        finally:
            with contextlib.suppress(OSError):  # what is left over is swept
                temporary.unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        """Makes `folder` durably: a new folder is only there after a crash if the one above was fsynced."""
        if folder in self._folders:
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _fsync_folder(folder.parent)
        self._folders.add(folder)

    def _guard(self, work: object, **options: bool) -> None:
        try:
            assert callable(work)
            work(**options)
        except OSError as error:
            raise _failed(str(self.root), error, writing=True) from None


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        if temporary.stat().st_nlink < 2:  # else it is our own link that exists
            raise


def _settle(name: str, folder: Path) -> None:
    """Makes durable what a folder lists; a failure leaves it unknown what a crash would."""
    try:
        _fsync_folder(folder)
    except OSError as error:
        raise IndeterminateError(f"{name}: {os.strerror(error.errno or 0)} after it was written") from None


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(name: str, error: OSError, *, writing: bool = False) -> StoreError:
    what = "write" if writing else "read"
    hints = {
        errno.ENOSPC: "the disk is full: make room and try again; nothing was lost",
        errno.EDQUOT: "the quota is used up: make room and try again; nothing was lost",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: f"this user may not {what} there",
        errno.EPERM: f"this user may not {what} there",
    }
    reason = os.strerror(error.errno) if error.errno else "input/output error"
    kind = ReadOnlyError if writing and error.errno in _REFUSED else StoreError
    return kind(f"{name}: {reason}", hint=hints.get(error.errno or 0))
