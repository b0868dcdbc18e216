"""Where files are: folders of this machine, or a bucket. Listed by a pattern, opened as they were when they were listed.

    place = at("/in/*.json", {})                 Folder;  at("s3://bucket/in/*.json", {"region": …})   Bucket
    place.list()                                 File(path, size, written), …
    opened = place.open(file)                    reads `size` bytes, whatever becomes of the file meanwhile
    opened.raw.check()                           a SourceError, if it has changed since it was listed

A file is what it was as long as its size and the time at which it was written are the same. Trouble is always a `SourceError`,
also from inside of `read`: a disk or a network that fails must not pass for a file that is damaged.
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
from tidegate.ingest.files_pattern import Pattern
from tidegate.store.object import SCHEMES, connected, first_line

_AHEAD = 16
"""Small objects that are asked for at once."""
_RANGE = 8 << 20
"""Bytes of a large object that are asked for in one request; several are under way at once."""
_BUFFER = 1 << 20


class File(NamedTuple):
    """A file as it was listed."""

    path: str
    """The whole path, or the URL; a key of the positions."""
    size: int
    written: int
    """When, in µs since 1970; of objects by whole seconds, as that is all that every answer tells."""


class Opened(io.BufferedReader):
    """A file that was opened as it was listed. It is closed by `with`, or when nobody has it any more."""

    raw: Ranged

    def close(self) -> None:
        """Nothing: some formats close what they are given, and it must still be asked whether it has changed."""

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        super().close()


class Place(Protocol):
    """Files that a pattern names."""

    def connect(self) -> None:
        """Raises if what it was given cannot be; nothing is asked over any network."""
        ...

    def list(self) -> Iterator[File]:
        """Those that are there now, in no order."""
        ...

    def open(self, file: File) -> Opened:
        """The file, if it is as it was listed."""
        ...

    def fetch(self, files: Sequence[File]) -> Iterator[bytes]:
        """Small files, whole, in order."""
        ...


def at(pattern: str, options: Mapping[str, str]) -> Place:
    """The place that a pattern means; options are obstore's."""
    if not pattern.startswith(SCHEMES):
        return Folder(Pattern.of(pattern))
    scheme, _, rest = pattern.partition("://")
    bucket, _, path = rest.partition("/")
    return Bucket(f"{scheme}://{bucket}", Pattern.of(f"/{path}"), tuple(sorted(options.items())))


def changed(path: str) -> SourceError:
    """The error for a file that is not as it was listed."""
    return SourceError(
        f'the file "{path}" was written, or taken away, while it was about to be read',
        again=True,
        hint="write files under another name and rename them once they are complete; or WITH (SETTLE MS …)",
    )


def unreadable(path: str, error: Exception, *, again: bool = True) -> SourceError:
    """The error for what cannot be reached."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
    return SourceError(f'"{path}" cannot be read: {why}', again=again)


class Ranged(io.RawIOBase):
    """The first `size` bytes of a file.

    `fill` puts the bytes from a place on into a buffer, and says how many; `seen` looks what the file is now.
    """

    def __init__(
        self,
        file: File,
        fill: Callable[[int, memoryview], int],
        seen: Callable[[], File | None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.file, self.position = file, 0
        self._fill, self._seen, self._close = fill, seen, close

    def check(self) -> None:
        """Raises if the file has changed since it was listed."""
        if self._seen() != self.file:
            raise changed(self.file.path)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to a place."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.file.size}[whence]
        self.position = max(0, start + offset)
        return self.position

    def tell(self) -> int:
        """The place."""
        return self.position

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer; less of it at the end of the file alone."""
        view = memoryview(buffer).cast("B")
        view = view[: max(0, self.file.size - self.position)]
        done = 0
        while done < len(view):
            more = self._fill(self.position, view[done:])
            if not more:
                raise changed(self.file.path)  # it has become shorter
            done, self.position = done + more, self.position + more
        return done

    def close(self) -> None:
        """Gives back what it holds."""
        if not self.closed:
            self._close()
        super().close()


def _buffered(raw: Ranged) -> Opened:
    """Raises if the file is not as it was listed."""
    try:
        raw.check()
    except SourceError:
        raw.close()
        raise
    return Opened(raw, min(_BUFFER, max(raw.file.size, 1)))


# ---------------------------------------------------------------- this machine


@dataclass(frozen=True)
class Folder:
    """Files of this machine, or of a file system that it shares with others."""

    pattern: Pattern

    def connect(self) -> None:
        """There is nothing to connect to."""

    def list(self) -> Iterator[File]:
        """Those that are there now."""
        return self._below(self.pattern.folder or "/", self.pattern.fixed)

    def _below(self, folder: str, segment: int) -> Iterator[File]:
        """What matches from a segment on, in a folder that matches what is before."""
        deep = self.pattern.deep is not None and segment >= self.pattern.deep
        last = segment == len(self.pattern.segments) - 1
        for entry in _entries(folder):
            if (deep or last) and self.pattern.matches(entry.path) and (file := _file(entry)):
                yield file
            if deep and entry.is_dir(follow_symlinks=False) and self.pattern.descends(segment, entry.name):
                yield from self._below(entry.path, segment)
            elif not deep and not last and self.pattern.descends(segment, entry.name) and entry.is_dir():
                yield from self._below(entry.path, segment + 1)

    def open(self, file: File) -> Opened:
        """The file, if it is as it was listed."""
        try:
            number = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise changed(file.path) from None
        except OSError as error:
            raise unreadable(file.path, error) from None

        def fill(position: int, view: memoryview) -> int:
            try:
                return os.preadv(number, [view], position)
            except OSError as error:
                raise unreadable(file.path, error) from None

        def seen() -> File:  # one that was taken away or replaced meanwhile is read as it was
            return _seen(file.path, os.fstat(number))

        return _buffered(Ranged(file, fill, seen, lambda: os.close(number)))

    def fetch(self, files: Sequence[File]) -> Iterator[bytes]:
        """Small files, whole, in order."""
        for file in files:
            with self.open(file) as opened:
                data = opened.read()
                opened.raw.check()
            yield data


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unreadable(folder, error) from None


def _file(entry: os.DirEntry[str]) -> File | None:
    try:
        found = entry.stat()
    except OSError:  # a link to nothing, or just taken away
        return None
    return _seen(entry.path, found) if stat.S_ISREG(found.st_mode) else None


def _seen(path: str, found: os.stat_result) -> File:
    return File(path, found.st_size, found.st_mtime_ns // 1000)


# ---------------------------------------------------------------- buckets


@dataclass(frozen=True)
class Bucket:
    """Objects, through obstore."""

    url: str
    """The scheme and the bucket."""
    pattern: Pattern
    options: tuple[tuple[str, str], ...] = ()

    @property
    def _store(self) -> Any:
        return _connected(self.url, self.options)

    def connect(self) -> None:
        """Raises if an option is wrong."""
        assert self._store is not None

    def list(self) -> Iterator[File]:
        """Those that are there now."""
        import obstore

        folder = self.pattern.folder.strip("/") or None
        found = self._call(
            self.pattern.folder, lambda: list(obstore.list(self._store, prefix=folder, chunk_size=1000))
        )
        for item in (one for batch in found or () for one in batch):
            if self.pattern.matches("/" + item["path"]):
                yield self._seen(item)

    def open(self, file: File) -> Opened:
        """The object, if it is as it was listed."""
        import obstore

        path = self._path(file)

        def fill(position: int, view: memoryview) -> int:
            starts = range(position, position + len(view), _RANGE)
            ends = [min(start + _RANGE, position + len(view)) for start in starts]
            pieces = self._call(
                path, lambda: obstore.get_ranges(self._store, path, starts=list(starts), ends=ends)
            )
            data = b"".join(bytes(piece) for piece in pieces or ())
            view[: len(data)] = data
            return len(data)

        tags: dict[str, Any] = {}

        def seen() -> File | None:
            found = self._call(path, lambda: obstore.head(self._store, path))
            if found is None or tags.setdefault(path, found["e_tag"]) != found["e_tag"]:
                return None  # two writes within a second may give files of the same size
            return self._seen(found)

        return _buffered(Ranged(file, fill, seen))

    def fetch(self, files: Sequence[File]) -> Iterator[bytes]:
        """Small objects, whole, in order; several are asked for at once."""
        if len(files) == 1:
            yield self._get(files[0])
            return
        with ThreadPoolExecutor(min(_AHEAD, len(files))) as pool:
            yield from _in_turn(pool, self._get, files)

    def _get(self, file: File) -> bytes:
        import obstore

        path = self._path(file)
        found = self._call(path, lambda: obstore.get(self._store, path))
        if found is None or self._seen(found.meta) != file:
            raise changed(file.path)
        return bytes(self._call(path, found.bytes) or b"")

    def _path(self, file: File) -> str:
        return file.path[len(self.url) + 1 :]

    def _seen(self, item: Mapping[str, Any]) -> File:
        return File(
            f"{self.url}/{item['path']}", item["size"], int(item["last_modified"].timestamp()) * 1_000_000
        )

    def _call(self, path: str, work: Callable[[], Any]) -> Any:
        """What a request gives; None if there is nothing."""
        from obstore.exceptions import BaseError

        where = f"{self.url}/{path.lstrip('/')}"
        try:
            return work()
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            # Not every refusal has an error of its own: a listing that is forbidden is a generic one.
            refused = re.search(
                r"\b(401|403) (Unauthorized|Forbidden)|PermissionDenied|Unauthenticated", repr(error)
            )
            raise unreadable(where, error, again=not refused) from None


def _in_turn(
    pool: ThreadPoolExecutor, work: Callable[[File], bytes], files: Iterable[File]
) -> Iterator[bytes]:
    """What the work gives of each, in order, never more than some under way."""
    waiting = iter(files)
    going: list[Future[bytes]] = [pool.submit(work, file) for file in islice(waiting, _AHEAD)]
    try:
        while going:
            done = going.pop(0).result()
            going += [pool.submit(work, file) for file in islice(waiting, 1)]
            yield done
    finally:
        for one in going:
            one.cancel()


@lru_cache(64)
def _connected(url: str, options: tuple[tuple[str, str], ...]) -> Any:
    try:
        return connected(url, **dict(options))
    except StoreError as error:
        raise SourceError(error.message, again=False, hint=error.hint) from None
