"""FILES: everything that a pattern names, each file once.

    CREATE SOURCE s FROM FILES '/in/**/*.json.gz' FORMAT JSON INCLUDE FILE, LINE WITH (SETTLE MS 2000)
    CREATE SOURCE s FROM FILES 's3://bucket/in/*.csv' (REGION 'eu-west-1') FORMAT CSV WITH HEADER

**Positions** have a key for each file that was read: `{"/in/a.json": [size, written]}`, so a file that comes late, with whatever
time it claims to have been written, is read like any other. A very large file of lines may be read over several batches;
its position then has a third number, the bytes that are done.

**A file that changes.** Before it is read: what was planned does not fit any more, and the batch is planned anew. After it
was read: it is never read again, and `lag` says so in its notes. SETTLE MS lets a file wait until nobody has written it
for so long; files that are renamed into place, and objects, need none. An empty file has not begun: it is read once there is
something in it.

**Splits** have about 64 MiB: many small files, or a stretch of a large one, if the format is one of lines and the file is not
packed. What INCLUDE LINE counts would have to be counted from the beginning, so with it files are not cut.

| file | what it does |
|---|---|
| `files_pattern.py` | which names match |
| `files_place.py` | folders and buckets: listing, opening |
| `files_read.py` | in a task: from files to chunks |
| `files_sample.py` | how large records are, about, for a limit by rows |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, BinaryIO, cast
from urllib.parse import parse_qsl, unquote

from tidegate.clock import Clock, SystemClock
from tidegate.errors import BindError, SourceError
from tidegate.expr.types import INT8, TEXT, TIMESTAMPTZ, Type
from tidegate.ingest import files_place, files_read
from tidegate.ingest.connect import Connection, Given, resolved
from tidegate.ingest.files_place import File, Place
from tidegate.ingest.files_sample import record_size
from tidegate.ingest.source import Chunk, Format, Included, Lag, Limit, Position, Split, Wanted
from tidegate.store.object import SCHEMES

STRETCH = 64 << 20
"""Bytes that one task reads."""
_OPENING = 128 << 10
"""What opening a file costs, in bytes that could be read meanwhile: 512 empty files make a split."""
_PACKED = 4
"""How often larger a file is once it is unpacked, about."""
_NOTES = 5
"""Files that a note names."""
_URL_OPTIONS = re.compile(r"\?((?:[a-z_0-9]+=[^&?*]*&?)+)$")
_INCLUDES = {"file": TEXT, "line": INT8, "timestamp": TIMESTAMPTZ}


@dataclass(frozen=True)
class Files:
    """Files by a pattern."""

    pattern: str
    """A whole path, or a URL without options."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of a bucket, by their names in lower case (`access key id`)."""
    connection: Connection | None = None
    """TO AWS: more such options."""
    settle_ms: int = 0
    lines: bool = False
    """Whether the format is one of lines that know nothing of each other."""
    numbered: bool = False
    """Whether each record's line is asked for."""
    clock: Clock = field(default_factory=SystemClock, compare=False, repr=False)

    # ------------------------------------------------------------ created and kept

    @staticmethod
    def create(given: Given) -> Files:
        """The files that a statement names; a relative path is made a whole one now."""
        pattern, options = _taken_apart(given.of or "")
        settle = 0
        for name, value in {**given.options, **given.more}.items():
            if name in ("settle ms", "settle"):
                settle = _milliseconds(value)
            elif pattern.startswith(SCHEMES) and name in given.options:
                options[name] = str(value).lower() if isinstance(value, bool) else str(value)
            else:
                raise BindError(f"FILES has no option {name.upper()}", hint="it has SETTLE MS")
        made = Files(pattern, options, given.connection, settle)
        try:
            made._place.connect()
        except SourceError as error:
            raise BindError(error.message, hint=error.hint) from None
        return made

    def to_json(self) -> dict[str, Any]:
        """What the catalog keeps."""
        return {
            "pattern": self.pattern,
            "options": dict(self.options),
            "connection": None if self.connection is None else self.connection.name,
            "settle_ms": self.settle_ms,
            "lines": self.lines,
            "numbered": self.numbered,
        }

    @staticmethod
    def from_json(kept: Mapping[str, Any], connection: Connection | None) -> Files:
        """What `to_json` gave."""
        return Files(
            kept["pattern"],
            kept["options"],
            connection,
            kept["settle_ms"],
            kept["lines"],
            kept["numbered"],
        )

    def for_format(self, format_: Format, included: Sequence[Included] = ()) -> Files:
        """The same files, knowing what will be asked of them."""
        return replace(self, lines=format_.splittable, numbered=any(one.what == "line" for one in included))

    def first(self) -> tuple[BinaryIO, str]:
        """Opens a file that is there now, for a format that takes its columns from it."""
        for file in sorted(self._listed(), key=lambda file: (not file.size, file.written, file.path)):
            return cast("BinaryIO", self._place.open(file)), file.path
        raise BindError(
            f"there is no file {self.pattern} yet to take the columns from",
            hint="create the source once there is one; or name the columns, as in FORMAT CSV WITH HEADER (a, b)",
        )

    # ------------------------------------------------------------ Upstream

    def tables(self) -> dict[str, Format]:
        """None: a format says what the columns are."""
        return {}

    def includes(self, included: Included) -> Type:
        """FILE, LINE (from 1; of Avro and Parquet the record's number) and TIMESTAMP (when the file was written)."""
        if included.what not in _INCLUDES:
            raise BindError(f"files have no {included.what.upper()}", hint="INCLUDE FILE, LINE or TIMESTAMP")
        return _INCLUDES[included.what]

    def start(self) -> Position:
        """No file was read."""
        return {}

    def latest(self, after: Position, limit: Limit) -> Position:
        """Adds files that were not read, those first that were written first; at least one, whatever the limit."""
        upto, taken, count = dict(after), 0, 0
        files = sorted(self._unread(after), key=lambda file: (file.written, file.path))
        most = self._most(files, limit)
        for file in files:
            done = _done(after.get(file.path))
            left = file.size - done
            if count and (count == limit.files or (most is not None and taken + left > most)):
                break
            value = [file.size, file.written]
            if most is not None and left > most and self._cut(file.path):
                value.append(done + most)
            upto[file.path] = value
            taken, count = taken + left, count + 1
        return upto

    def _most(self, files: Sequence[File], limit: Limit) -> int | None:
        """Bytes that a batch may have; rows are taken to be as large as those of the first file."""
        most = [] if limit.bytes is None else [limit.bytes]
        if limit.rows is not None and files:
            most.append(int(limit.rows * record_size(self._place, files[0])))
        return max(1, min(most)) if most else None

    def splits(self, after: Position, upto: Position) -> list[Split]:
        """Groups of small files and stretches of large ones, in the order in which the files were written."""
        found: list[Split] = []
        group: list[File] = []
        weight = 0
        for file, start, end in _between(after, upto):
            if self._cut(file.path) and (end - start > STRETCH or (start, end) != (0, file.size)):
                found += _stretches(file, start, end)
                continue
            costs = _OPENING + file.size * (_PACKED if files_read.packed(file.path) else 1)
            if group and weight + costs > STRETCH:
                found.append(_grouped(group))
                group, weight = [], 0
            group.append(file)
            weight += costs
        return [*found, _grouped(group)] if group else found

    def read(
        self, split: Split, wanted: Sequence[Wanted], included: Sequence[Included]
    ) -> Iterator[tuple[int, Chunk]]:
        """The records of a split."""
        files = [File(*one) for one in split.details["files"]]
        if split.details["stretch"]:
            return files_read.stretch(self._place, files[0], (split.start, split.end), wanted, included)
        return files_read.whole(self._place, files, wanted, included, lines=self.lines)

    def acknowledge(self, upto: Position) -> None:
        """Files stay where they are."""

    def lag(self, at: Position) -> Lag:
        """Bytes that are not read, how long the oldest has been waiting, and what is strange."""
        unread = 0
        oldest = now = self.clock.now()
        changed: list[str] = []
        strange: list[str] = []
        for file in self._listed(strange):
            value = at.get(file.path)
            if value is not None and value[:2] != [file.size, file.written]:
                changed.append(file.path)
            elif file.size and (value is None or len(value) > 2):
                unread += file.size - _done(value)
                oldest = min(oldest, file.written // 1000)
        notes = (
            *_note(changed, "written again after having been read, and not read again"),
            *_note(strange, "not read, as a name must be UTF-8"),
        )
        return Lag(bytes=unread, milliseconds=now - oldest, notes=notes)

    def drop(self) -> None:
        """Nothing is held."""

    # ------------------------------------------------------------ what is there

    @property
    def _place(self) -> Place:
        given = dict(self.options) if self.connection is None else {**self.connection.options, **self.options}
        options = {name.replace(" ", "_"): resolved(str(value), name) for name, value in given.items()}
        return _at(self.pattern, tuple(sorted(options.items())))

    def _listed(self, strange: list[str] | None = None) -> Iterator[File]:
        """What is there now, but files whose names are no UTF-8: no position can name them."""
        for file in self._place.list():
            try:
                file.path.encode()
            except UnicodeEncodeError:
                if strange is not None:
                    strange.append(ascii(file.path))
                continue
            yield file

    def _unread(self, after: Position) -> Iterator[File]:
        """Files that are new, or read in part and not changed since; none that may still be written, or are empty."""
        settled = (self.clock.now() - self.settle_ms) * 1000
        for file in self._listed():
            value = after.get(file.path)
            if value is not None and (len(value) < 3 or value[:2] != [file.size, file.written]):
                continue
            if file.size and (not self.settle_ms or file.written <= settled):
                yield file

    def _cut(self, path: str) -> bool:
        """Whether a file may be read in stretches."""
        return self.lines and not self.numbered and not files_read.packed(path)


# ---------------------------------------------------------------- positions and splits


def _done(value: Sequence[int] | None) -> int:
    """Bytes of a file that were read, of one that was read in part."""
    return value[2] if value is not None and len(value) > 2 else 0


def _between(after: Position, upto: Position) -> list[tuple[File, int, int]]:
    """The files that a batch reads, and of each from where to where."""
    found = [
        (File(path, *value[:2]), _done(after.get(path)), value[2] if len(value) > 2 else value[0])
        for path, value in upto.items()
        if after.get(path) != value
    ]
    return sorted(found, key=lambda one: (one[0].written, one[0].path))


def _stretches(file: File, start: int, end: int) -> Iterator[Split]:
    count = max(1, -(-(end - start) // STRETCH))
    cuts = [start + (end - start) * i // count for i in range(count + 1)]
    for i in range(count):
        yield Split(file.path, cuts[i], cuts[i + 1], {"files": [list(file)], "stretch": True})


def _grouped(files: Sequence[File]) -> Split:
    details = {"files": [list(file) for file in files], "stretch": False}
    return Split(files[0].path, 0, sum(file.size for file in files), details)


def _note(paths: list[str], what: str) -> Iterator[str]:
    if paths:
        named = ", ".join(sorted(paths)[:_NOTES]) + (", …" if len(paths) > _NOTES else "")
        yield f"{'1 file was' if len(paths) == 1 else f'{len(paths)} files were'} {what}: {named}"


# ---------------------------------------------------------------- the words of CREATE SOURCE


@lru_cache(64)
def _at(pattern: str, options: tuple[tuple[str, str], ...]) -> Place:
    return files_place.at(pattern, dict(options))


def _taken_apart(text: str) -> tuple[str, dict[str, str]]:
    """A pattern as it is kept, and the options behind the `?` of a bucket's URL."""
    if not text or "\0" in text:
        raise BindError("FILES needs a pattern", hint="such as 'in/*.json' or 's3://bucket/in/*.json'")
    if text.startswith(SCHEMES):
        return split_options(text)
    scheme, is_url, path = text.partition("://")
    if is_url and scheme != "file":
        raise BindError(
            f"{scheme}:// is not a place that files are read from",
            hint=f"a path, file://, or one of {', '.join(SCHEMES)}",
        )
    path = unquote(path) if is_url else text
    below = path.endswith("/") or os.path.isdir(path)
    return os.path.abspath(path).rstrip("/") + ("/" if below else ""), {}


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """A pattern, and the options behind it where it is a URL of a bucket."""
    found = _URL_OPTIONS.search(text) if text.startswith(SCHEMES) else None
    if found is None:
        return text, {}
    return text[: found.start()], {k.replace("_", " ").lower(): v for k, v in parse_qsl(found.group(1))}


def _milliseconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BindError("SETTLE MS is a number of milliseconds", hint="SETTLE MS 2000")
    return value
