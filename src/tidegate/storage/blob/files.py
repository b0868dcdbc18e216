"""A blob store of files in a folder.

A write creates a temporary file, fsyncs it, links or renames it to its name, and fsyncs the folder. So a file appears under its
name only when all of it is on the disk. A crash leaves the whole object, or nothing but a temporary file, which `list` does not
show and `sweep_temporary` removes. `create` uses a hard link, which fails if the name is taken: the one conditional write that
every file system has.

If the fsync of the folder fails after the file has its name, the file exists, but may be gone after a crash. The outcome is
unknown, so the call raises `IndeterminateError`; a second call fsyncs the folder again. NFS repeats a link by itself if the
answer is lost, and then reports that the name exists; the link count of the temporary file shows that the link is ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidegate.errors import IndeterminateError, ReadOnlyError, StoreError
from tidegate.storage.blob.protocol import BlobInfo, check_name, missing_object, truncated_object

_TEMPORARY = ".tmp-"
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)


class FileBlob:
    """A folder of objects."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _failed(str(self.root), error, writing=True) from None
        self._folders: set[Path] = {self.root}

    def put(self, name: str, data: bytes) -> None:
        """Stores `data` durably, all of it or none."""
        self._write(name, data, os.replace)

    def create(self, name: str, data: bytes) -> bool:
        """Stores `data` if no object has that name; returns whether it did."""
        path = self._path(name)
        if not path.exists() and self.create_unseen(name, data):
            return True
        # The writer that created it may not have made it durable yet, and we must not rely on what a crash could undo.
        _make_durable(name, path.parent)
        return False

    def create_unseen(self, name: str, data: bytes) -> bool:
        """`create` without looking first: the link alone decides, as it does between two concurrent callers."""
        return self._write(name, data, _link)

    def get(self, name: str) -> bytes | None:
        """The bytes of the object with that name, or None."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(name, error) from None

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(start, length)`."""
        with self._open(name) as descriptor:
            return [os.pread(descriptor, length, start) for start, length in ranges]

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Fills each target with the bytes that begin at its start."""
        with self._open(name) as descriptor:
            for start, target in zip(starts, targets, strict=True):
                at = 0
                while at < len(target):
                    size = os.preadv(descriptor, [target[at:]], start + at)
                    if not size:
                        raise truncated_object(name)
                    at += size

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[int]:
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise missing_object(name) from None
        except OSError as error:
            raise _failed(name, error) from None
        try:
            yield descriptor
        except OSError as error:
            raise _failed(name, error) from None
        finally:
            os.close(descriptor)

    def delete(self, name: str) -> None:
        """Deletes the object with that name."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise _failed(name, error, writing=True) from None

    def list(self, prefix: str = "", after: str = "") -> Iterator[BlobInfo]:
        """Every object whose name begins with `prefix` and is greater than `after`, by name."""
        infos = []
        for folder, _, names in os.walk(self.root / prefix.rpartition("/")[0]):
            inside = Path(folder).relative_to(self.root).as_posix()
            for (
                plain
            ) in names:  # paths as texts: a Path for each of 100,000 files would take most of the time
                name = plain if inside == "." else f"{inside}/{plain}"
                if plain.startswith(_TEMPORARY) or not name.startswith(prefix) or name <= after:
                    continue
                try:
                    status = os.stat(os.path.join(folder, plain))
                except FileNotFoundError:
                    continue  # deleted while we looked
                infos.append(BlobInfo(name, status.st_size, status.st_mtime_ns // 1_000_000))
        yield from sorted(infos)

    def sweep_temporary(self, older_than_s: float) -> int:
        """Removes temporary files of killed writers that are older than this, and returns how many."""
        removed = 0
        for path in self.temporary_files(older_than_s):
            path.unlink(missing_ok=True)
            removed += 1
        return removed

    def temporary_files(self, older_than_s: float) -> Iterator[Path]:
        """The temporary files that are older than this: those of killed writers."""
        for path in self._named(_TEMPORARY):
            try:
                old = path.is_file() and time.time() - path.stat().st_mtime >= older_than_s
            except FileNotFoundError:
                continue  # its writer has finished
            if old:
                yield path

    def _named(self, start: str) -> Iterator[Path]:
        """The files whose plain name begins so."""
        for folder, _, names in os.walk(self.root):
            yield from (Path(folder, plain) for plain in names if plain.startswith(start))

    def _path(self, name: str) -> Path:
        return self.root / check_name(name)

    def _write(self, name: str, data: bytes, place: Callable[[Path, Path], None]) -> bool:
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
            place(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            raise _failed(name, error, writing=True) from None
        else:
            _make_durable(name, path.parent)
            return True
        finally:
            with contextlib.suppress(OSError):  # sweep removes it
                temporary.unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        """Creates a folder durably: it survives a crash only if the folder above it was fsynced."""
        if folder in self._folders:
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _fsync_folder(folder.parent)
        self._folders.add(folder)


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        if temporary.stat().st_nlink < 2:  # else it is our own link that exists
            raise


def _make_durable(name: str, folder: Path) -> None:
    """Makes the entries of a folder durable; a failure leaves it unknown whether they are."""
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
