"""Lists and opens files in local folders and in buckets, and detects files that change after listing.

    place = open_location("/in/*.json", {})      LocalFolder; a Bucket for "s3://bucket/in/*.json" and {"region": …}
    place.list()                                 ListedFile(path, size, written), …
    opened = place.open(file)                    reads `size` bytes, even if the file grows meanwhile
    opened.raw.check()                           raises a SourceError if the file has changed since it was listed

A file counts as unchanged while its size and modification time stay the same. Every failure is a `SourceError`, including those
inside `read`: a failing disk or network must not look like a damaged file.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, Protocol

from tidegate.errors import SourceError, StoreError
from tidegate.ingest.upstreams.files.pattern import Pattern
from tidegate.storage.blob import OBJECT_SCHEMES, open_object_store
from tidegate.text import first_line

_MAX_CONCURRENT_FETCHES = 16
"""Small objects that are requested concurrently."""
_RANGE_BYTES = 8 << 20
"""Bytes of a large object that one request fetches; several requests run concurrently."""
_BUFFER_BYTES = 1 << 20


class ListedFile(NamedTuple):
    """A file with the size and modification time that the listing reported."""

    path: str
    """The absolute path or the URL; positions use it as key."""
    size: int
    written: int
    """The modification time in µs since 1970; whole seconds for objects, as some responses are no more precise."""


class OpenFile(io.BufferedReader):
    """An open file that matched its listing. `with` closes it, or garbage collection does."""

    raw: RangeFile

    def close(self) -> None:
        """Does nothing: some formats close their input, and `raw.check()` must still work afterwards."""

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        super().close()


class FileLocation(Protocol):
    """The files that match a pattern, in one kind of storage."""

    def connect(self) -> None:
        """Raises if the options are invalid; sends nothing over the network."""
        ...

    def list(self) -> Iterator[ListedFile]:
        """Lists the files that exist now, in no order."""
        ...

    def open(self, file: ListedFile) -> OpenFile:
        """Opens a file; raises if it has changed since it was listed."""
        ...

    def fetch(self, files: Sequence[ListedFile]) -> Iterator[bytes]:
        """Yields the contents of small files, in order."""
        ...


def open_location(pattern: str, options: Mapping[str, str]) -> FileLocation:
    """The location that a pattern refers to; `options` are those of obstore."""
    if not pattern.startswith(OBJECT_SCHEMES):
        return LocalFolder(Pattern.of(pattern))
    scheme, _, rest = pattern.partition("://")
    bucket, _, path = rest.partition("/")
    return Bucket(f"{scheme}://{bucket}", Pattern.of(f"/{path}"), tuple(sorted(options.items())))


def file_changed_error(path: str) -> SourceError:
    """The error for a file that has changed since it was listed."""
    return SourceError(
        f'the file "{path}" was written, or taken away, while it was about to be read',
        again=True,
        hint="write files under another name and rename them once they are complete; or WITH (SETTLE MS …)",
    )


def unreadable_error(path: str, error: Exception, *, again: bool = True) -> SourceError:
    """The error for a file, folder or bucket that cannot be read."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
    return SourceError(f'"{path}" cannot be read: {why}', again=again)


class RangeFile(io.RawIOBase):
    """The first `size` bytes of a file.

    `fill` reads bytes at an offset into a buffer and returns their number; `look` returns the file's present state.
    """

    def __init__(
        self,
        file: ListedFile,
        fill: Callable[[int, memoryview], int],
        look: Callable[[], ListedFile | None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.file, self.position = file, 0
        self._fill, self._look, self._close = fill, look, close

    def check(self) -> None:
        """Raises if the file has changed since it was listed."""
        if self._look() != self.file:
            raise file_changed_error(self.file.path)

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to an offset and returns it."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.file.size}[whence]
        self.position = max(0, start + offset)
        return self.position

    def tell(self) -> int:
        """The current offset."""
        return self.position

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer, completely unless the file ends before."""
        view = memoryview(buffer).cast("B")
        view = view[: max(0, self.file.size - self.position)]
        done = 0
        while done < len(view):
            more = self._fill(self.position, view[done:])
            if not more:
                raise file_changed_error(self.file.path)  # the file was truncated
            done, self.position = done + more, self.position + more
        return done

    def close(self) -> None:
        """Releases the file handle."""
        if not self.closed:
            self._close()
        super().close()


def _open_checked(raw: RangeFile) -> OpenFile:
    """A buffered reader; closes the file and raises if it has changed since it was listed."""
    try:
        raw.check()
    except SourceError:
        raw.close()
        raise
    return OpenFile(raw, min(_BUFFER_BYTES, max(raw.file.size, 1)))


# ---------------------------------------------------------------- this machine


@dataclass(frozen=True)
class LocalFolder:
    """Files of this machine, or of a file system that it has mounted."""

    pattern: Pattern

    def connect(self) -> None:
        """Does nothing: a folder needs no connection."""

    def list(self) -> Iterator[ListedFile]:
        """Lists the files that exist now."""
        return self._below(self.pattern.folder or "/", self.pattern.fixed)

    def _below(self, folder: str, segment: int) -> Iterator[ListedFile]:
        """The matching files in a folder that matches the segments before `segment`."""
        deep = self.pattern.deep is not None and segment >= self.pattern.deep
        last = segment == len(self.pattern.segments) - 1
        for entry in _entries(folder):
            if (deep or last) and self.pattern.matches(entry.path) and (file := _file(entry)):
                yield file
            if deep and entry.is_dir(follow_symlinks=False) and self.pattern.descends(segment, entry.name):
                yield from self._below(entry.path, segment)
            elif not deep and not last and self.pattern.descends(segment, entry.name) and entry.is_dir():
                yield from self._below(entry.path, segment + 1)

    def open(self, file: ListedFile) -> OpenFile:
        """Opens a file; raises if it has changed since it was listed."""
        try:
            number = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise file_changed_error(file.path) from None
        except OSError as error:
            raise unreadable_error(file.path, error) from None

        def fill(position: int, view: memoryview) -> int:
            try:
                return os.preadv(number, [view], position)
            except OSError as error:
                raise unreadable_error(file.path, error) from None

        def look() -> ListedFile:  # a file that was removed or replaced meanwhile stays readable
            return _listed_file(file.path, os.fstat(number))

        return _open_checked(RangeFile(file, fill, look, lambda: os.close(number)))

    def fetch(self, files: Sequence[ListedFile]) -> Iterator[bytes]:
        """Yields the contents of small files, in order."""
        for file in files:
            with self.open(file) as opened:
                data = opened.read()
                opened.raw.check()
            yield data


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unreadable_error(folder, error) from None


def _file(entry: os.DirEntry[str]) -> ListedFile | None:
    try:
        status = entry.stat()
    except OSError:  # a broken link, or a file that was just removed
        return None
    return _listed_file(entry.path, status) if stat.S_ISREG(status.st_mode) else None


def _listed_file(path: str, status: os.stat_result) -> ListedFile:
    return ListedFile(path, status.st_size, status.st_mtime_ns // 1000)


# ---------------------------------------------------------------- buckets


@dataclass(frozen=True)
class Bucket:
    """Objects of a bucket, read through obstore."""

    url: str
    """The scheme and the name of the bucket: `s3://bucket`."""
    pattern: Pattern
    options: tuple[tuple[str, str], ...] = ()

    @property
    def _store(self) -> Any:
        return _cached_store(self.url, self.options)

    def connect(self) -> None:
        """Raises if an option is invalid."""
        assert self._store is not None

    def list(self) -> Iterator[ListedFile]:
        """Lists the files that exist now."""
        import obstore

        folder = self.pattern.folder.strip("/") or None
        batches = self._call(
            self.pattern.folder, lambda: list(obstore.list(self._store, prefix=folder, chunk_size=1000))
        )
        for item in (item for batch in batches or () for item in batch):
            if self.pattern.matches("/" + item["path"]):
                yield self._listed_file(item)

    def open(self, file: ListedFile) -> OpenFile:
        """Opens an object; raises if it has changed since it was listed."""
        import obstore

        path = self._path(file)

        def fill(position: int, view: memoryview) -> int:
            starts = range(position, position + len(view), _RANGE_BYTES)
            ends = [min(start + _RANGE_BYTES, position + len(view)) for start in starts]
            pieces = self._call(
                path, lambda: obstore.get_ranges(self._store, path, starts=list(starts), ends=ends)
            )
            data = b"".join(bytes(piece) for piece in pieces or ())
            view[: len(data)] = data
            return len(data)

        tags: dict[str, Any] = {}

        def look() -> ListedFile | None:
            metadata = self._call(path, lambda: obstore.head(self._store, path))
            if metadata is None or tags.setdefault(path, metadata["e_tag"]) != metadata["e_tag"]:
                return None  # two writes within a second may have the same size and time
            return self._listed_file(metadata)

        return _open_checked(RangeFile(file, fill, look))

    def fetch(self, files: Sequence[ListedFile]) -> Iterator[bytes]:
        """Yields the contents of small objects, in order; fetches several concurrently."""
        if len(files) == 1:
            yield self._get(files[0])
            return
        with ThreadPoolExecutor(min(_MAX_CONCURRENT_FETCHES, len(files))) as pool:
            yield from _fetch_in_order(pool, self._get, files)

    def _get(self, file: ListedFile) -> bytes:
        import obstore

        path = self._path(file)
        response = self._call(path, lambda: obstore.get(self._store, path))
        if response is None or self._listed_file(response.meta) != file:
            raise file_changed_error(file.path)
        return bytes(self._call(path, response.bytes) or b"")

    def _path(self, file: ListedFile) -> str:
        return file.path[len(self.url) + 1 :]

    def _listed_file(self, item: Mapping[str, Any]) -> ListedFile:
        return ListedFile(
            f"{self.url}/{item['path']}", item["size"], int(item["last_modified"].timestamp()) * 1_000_000
        )

    def _call(self, path: str, work: Callable[[], Any]) -> Any:
        """The result of a request; None if the object does not exist."""
        from obstore.exceptions import BaseError

        where = f"{self.url}/{path.lstrip('/')}"
        try:
            return work()
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            # Decides by the error's text: obstore reports a forbidden listing as a GenericError that carries no status, so the
            # classes PermissionDeniedError and UnauthenticatedError do not cover every refusal.
            refused = re.search(
                r"\b(401|403) (Unauthorized|Forbidden)|PermissionDenied|Unauthenticated", repr(error)
            )
            raise unreadable_error(where, error, again=not refused) from None


def _fetch_in_order(
    pool: ThreadPoolExecutor, work: Callable[[ListedFile], bytes], files: Iterable[ListedFile]
) -> Iterator[bytes]:
    """The results of `work` in the order of `files`, with a bounded number of calls under way."""
    waiting = iter(files)
    going: list[Future[bytes]] = [
        pool.submit(work, file) for file in islice(waiting, _MAX_CONCURRENT_FETCHES)
    ]
    try:
        while going:
            done = going.pop(0).result()
            going += [pool.submit(work, file) for file in islice(waiting, 1)]
            yield done
    finally:
        for future in going:
            future.cancel()


@lru_cache(64)
def _cached_store(url: str, options: tuple[tuple[str, str], ...]) -> Any:
    try:
        return open_object_store(url, **dict(options))
    except StoreError as error:
        raise SourceError(error.message, again=False, hint=error.hint) from None
