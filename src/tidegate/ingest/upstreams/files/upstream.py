"""FILES: reads every file that matches a pattern, once.

    CREATE SOURCE s FROM FILES '/in/**/*.json.gz' FORMAT JSON INCLUDE FILE, LINE WITH (SETTLE MS 2000)
    CREATE SOURCE s FROM FILES 's3://bucket/in/*.csv' (REGION 'eu-west-1') FORMAT CSV WITH HEADER

**Positions** have a key for each file that was read: `{"/in/a.json": [size, written]}`. So a file that arrives late is read like
any other, whatever its modification time is. A very large file of lines may be read over several batches; its position
then has a third number, the bytes that were read.

**Files that change.** If a file changes before it is read, the plan no longer fits, and the batch is planned again. If it changes
afterwards, it is never read again, and `lag` reports it in its notes. SETTLE MS delays a file until it has not been written for
that long; files that are renamed into place, and objects, do not need it. An empty file is read once it has content.

**Splits** have about 64 MiB: many small files, or a range of a large one if the format is line-based and the file is not
compressed. With INCLUDE LINE files are not divided, as lines are counted from the beginning of the file.

| file | what it does |
|---|---|
| `pattern.py` | decides which names match |
| `location.py` | lists and opens files of folders and buckets |
| `read.py` | turns files into chunks, in a task |
| `sample.py` | estimates the size of records, for a limit by rows |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast
from urllib.parse import parse_qsl, unquote

from tidegate.access import Reach
from tidegate.cache import LruCache
from tidegate.clock import Clock, SystemClock
from tidegate.errors import BindError, SourceError
from tidegate.expr.model import Type, types
from tidegate.ingest.connection import ConnectionType, ExternalConnection, resolve_secret
from tidegate.ingest.options import ANY, OptionSpec, whole_number
from tidegate.ingest.protocol import (
    BatchLimit,
    IncludedColumn,
    InputSplit,
    Lag,
    ReadRequest,
    RecordChunk,
    RecordFormat,
    Upstream,
    UpstreamPosition,
)
from tidegate.ingest.upstreams.files import read as files_read
from tidegate.ingest.upstreams.files.location import FileLocation, ListedFile, open_location
from tidegate.ingest.upstreams.files.sample import record_size
from tidegate.ingest.upstreams.registry import UpstreamSpec, UpstreamType
from tidegate.storage.blob import OBJECT_SCHEMES

SPLIT_BYTES = 64 << 20
"""The approximate number of bytes that one task reads."""
_OPEN_COST_BYTES = 128 << 10
"""The cost of opening a file, in bytes that could be read in that time: 512 empty files make a split."""
_COMPRESSION_RATIO = 4
"""The assumed ratio of a file's decompressed size to its stored size."""
_MAX_NAMED_FILES = 5
"""The number of files that a note lists by name."""
_URL_OPTIONS = re.compile(r"\?((?:[a-z_0-9]+=[^&?*]*&?)+)$")
_SETTLE_OPTIONS = (
    OptionSpec(
        "settle ms",
        whole_number(0, of=" of milliseconds"),
        "read a file only once nobody has written it for so long",
        example="SETTLE MS 2000",
        alias="settle",
    ),
)
_AWS_CONNECTION = OptionSpec("aws connection", ANY, "a connection TO AWS with more options of the bucket")
_DECLARED_OPTIONS = {"settle ms", "aws connection"}
_INCLUDED_TYPES = {"file": types.TEXT, "line": types.INT8, "timestamp": types.TIMESTAMPTZ}


@dataclass(frozen=True)
class FilesUpstream(Upstream):
    """The files that match a pattern."""

    pattern: str
    """An absolute path, or a URL without options."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the bucket, by name in lower case (`access key id`)."""
    connection: ExternalConnection | None = None
    """A connection TO AWS with further options of the bucket."""
    settle_ms: int = 0
    lines: bool = False
    """Whether the format has one independent record in each line."""
    numbered: bool = False
    """Whether INCLUDE LINE asks for line numbers."""
    clock: Clock = field(default_factory=SystemClock, compare=False, repr=False)
    _locations: LruCache[tuple[tuple[str, str], ...], FileLocation] = field(
        default_factory=lambda: LruCache(1), compare=False, repr=False
    )
    """The location for the options with secrets resolved: a bucket keeps its connections there."""

    # ------------------------------------------------------------ created and stored

    @staticmethod
    def create(spec: UpstreamSpec) -> FilesUpstream:
        """The upstream of a CREATE SOURCE statement; a relative path becomes absolute here."""
        pattern, url_options = _parse_pattern(spec.target or "")
        settle = spec.options["settle ms"] or spec.with_options["settle ms"] or 0
        options = {**url_options, **{k: v for k, v in spec.options.items() if k not in _DECLARED_OPTIONS}}
        texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}
        files = FilesUpstream(pattern, texts, spec.connection, settle)
        try:
            files._location.connect()
        except SourceError as error:
            raise BindError(error.message, hint=error.hint) from None
        return files

    def to_json(self) -> dict[str, Any]:
        """Its form in the catalog."""
        return {
            "pattern": self.pattern,
            "options": dict(self.options),
            "connection": None if self.connection is None else self.connection.name,
            "settle_ms": self.settle_ms,
            "lines": self.lines,
            "numbered": self.numbered,
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any], connection: ExternalConnection | None) -> FilesUpstream:
        """Loads the result of `to_json`."""
        return FilesUpstream(
            stored["pattern"],
            stored["options"],
            connection,
            stored["settle_ms"],
            stored["lines"],
            stored["numbered"],
        )

    # ------------------------------------------------------------ Upstream

    def open_sample(self) -> tuple[BinaryIO, str]:
        """Opens the oldest file that is not empty."""
        for file in sorted(self._list(), key=lambda file: (not file.size, file.written, file.path)):
            return cast("BinaryIO", self._location.open(file)), file.path
        raise BindError(
            f"there is no file {self.pattern} yet to take the columns from",
            hint="create the source once there is one; or name the columns, as in FORMAT CSV WITH HEADER (a, b)",
        )

    def bind(
        self,
        format_: RecordFormat | None,
        envelope: str,  # noqa: ARG002  # every envelope reads files in the same way
        included: Sequence[IncludedColumn],
    ) -> FilesUpstream:
        """The same files, with the facts that decide whether a file may be divided."""
        lines = format_ is not None and format_.splittable
        return replace(self, lines=lines, numbered=any(column.what == "line" for column in included))

    def includes(self, included: IncludedColumn) -> Type:
        """The types of FILE, LINE (from 1; in Avro and Parquet the record number) and the file's TIMESTAMP."""
        if included.what not in _INCLUDED_TYPES:
            raise BindError(f"files have no {included.what.upper()}", hint="INCLUDE FILE, LINE or TIMESTAMP")
        return _INCLUDED_TYPES[included.what]

    def start(self) -> UpstreamPosition:
        """The position before any file is read."""
        return {}

    def latest(self, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:
        """Adds unread files to the position, oldest first; at least one, regardless of the limit."""
        upto, taken, count = dict(after), 0, 0
        files = sorted(self._unread(after), key=lambda file: (file.written, file.path))
        most = self._max_bytes(files, limit)
        for file in files:
            done = _bytes_read(after.get(file.path))
            left = file.size - done
            if count and (count == limit.files or (most is not None and taken + left > most)):
                break
            value = [file.size, file.written]
            if most is not None and left > most and self._cut(file.path):
                value.append(done + most)
            upto[file.path] = value
            taken, count = taken + left, count + 1
        return upto

    def _max_bytes(self, files: Sequence[ListedFile], limit: BatchLimit) -> int | None:
        """The maximum bytes of a batch; assumes that all rows are as large as those of the first file."""
        most = [] if limit.bytes is None else [limit.bytes]
        if limit.rows is not None and files:
            most.append(int(limit.rows * record_size(self._location, files[0])))
        return max(1, min(most)) if most else None

    def splits(self, after: UpstreamPosition, upto: UpstreamPosition) -> list[InputSplit]:
        """Groups of small files and ranges of large ones, in the order in which the files were written."""
        splits: list[InputSplit] = []
        group: list[ListedFile] = []
        weight = 0
        for file, start, end in _files_to_read(after, upto):
            if self._cut(file.path) and (end - start > SPLIT_BYTES or (start, end) != (0, file.size)):
                splits += _range_splits(file, start, end)
                continue
            costs = _OPEN_COST_BYTES + file.size * (
                _COMPRESSION_RATIO if files_read.is_compressed(file.path) else 1
            )
            if group and weight + costs > SPLIT_BYTES:
                splits.append(_group_split(group))
                group, weight = [], 0
            group.append(file)
            weight += costs
        return [*splits, _group_split(group)] if group else splits

    def read(
        self, split: InputSplit, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        """Reads the records of a split."""
        files = [ListedFile(*file) for file in split.details["files"]]
        if split.details["stretch"]:
            return files_read.read_range(self._location, files[0], (split.start, split.end), wanted, included)
        return files_read.read_files(self._location, files, wanted, included, lines=self.lines)

    def lag(self, at: UpstreamPosition) -> Lag:
        """The unread bytes, the age of the oldest unread file, and notes on files that are not read."""
        unread = 0
        oldest = now = self.clock.now()
        changed: list[str] = []
        unnamable: list[str] = []
        for file in self._list(unnamable):
            value = at.get(file.path)
            if value is not None and value[:2] != [file.size, file.written]:
                changed.append(file.path)
            elif file.size and (value is None or len(value) > 2):
                unread += file.size - _bytes_read(value)
                oldest = min(oldest, file.written // 1000)
        notes = (
            *_file_notes(changed, "written again after having been read, and not read again"),
            *_file_notes(unnamable, "not read, as a name must be UTF-8"),
        )
        return Lag(bytes=unread, milliseconds=now - oldest, notes=notes)

    # ------------------------------------------------------------ existing files

    @property
    def _location(self) -> FileLocation:
        options = (
            dict(self.options) if self.connection is None else {**self.connection.options, **self.options}
        )
        resolved = {
            name.replace(" ", "_"): resolve_secret(str(value), name) for name, value in options.items()
        }
        key = tuple(sorted(resolved.items()))
        return self._locations.get_or_compute(key, lambda: open_location(self.pattern, resolved))

    def _list(self, unnamable: list[str] | None = None) -> Iterator[ListedFile]:
        """The files that exist now, except those with names that are not UTF-8: positions cannot hold these."""
        for file in self._location.list():
            try:
                file.path.encode()
            except UnicodeEncodeError:
                if unnamable is not None:
                    unnamable.append(ascii(file.path))
                continue
            yield file

    def _unread(self, after: UpstreamPosition) -> Iterator[ListedFile]:
        """New files, and partly read ones that are unchanged; skips empty files and those not settled yet."""
        written_before = (self.clock.now() - self.settle_ms) * 1000
        for file in self._list():
            value = after.get(file.path)
            if value is not None and (len(value) < 3 or value[:2] != [file.size, file.written]):
                continue
            if file.size and (not self.settle_ms or file.written <= written_before):
                yield file

    def _cut(self, path: str) -> bool:
        """Whether a file may be read in ranges."""
        return self.lines and not self.numbered and not files_read.is_compressed(path)


# ---------------------------------------------------------------- positions and splits


def _bytes_read(value: Sequence[int] | None) -> int:
    """The number of bytes that were read of a partly read file; 0 for others."""
    return value[2] if value is not None and len(value) > 2 else 0


def _files_to_read(after: UpstreamPosition, upto: UpstreamPosition) -> list[tuple[ListedFile, int, int]]:
    """The files that a batch reads, and the range of bytes of each."""
    ranges = [
        (ListedFile(path, *value[:2]), _bytes_read(after.get(path)), value[2] if len(value) > 2 else value[0])
        for path, value in upto.items()
        if after.get(path) != value
    ]
    return sorted(ranges, key=lambda item: (item[0].written, item[0].path))


def _range_splits(file: ListedFile, start: int, end: int) -> Iterator[InputSplit]:
    count = max(1, -(-(end - start) // SPLIT_BYTES))
    cuts = [start + (end - start) * i // count for i in range(count + 1)]
    for i in range(count):
        yield InputSplit(file.path, cuts[i], cuts[i + 1], {"files": [list(file)], "stretch": True})


def _group_split(files: Sequence[ListedFile]) -> InputSplit:
    details = {"files": [list(file) for file in files], "stretch": False}
    return InputSplit(files[0].path, 0, sum(file.size for file in files), details)


def _file_notes(paths: list[str], what: str) -> Iterator[str]:
    if paths:
        named = ", ".join(sorted(paths)[:_MAX_NAMED_FILES]) + (", …" if len(paths) > _MAX_NAMED_FILES else "")
        yield f"{'1 file was' if len(paths) == 1 else f'{len(paths)} files were'} {what}: {named}"


# ---------------------------------------------------------------- CREATE SOURCE


def _parse_pattern(text: str) -> tuple[str, dict[str, str]]:
    """The pattern to store, and the options behind the `?` of a bucket's URL."""
    if not text or "\0" in text:
        raise BindError("FILES needs a pattern", hint="such as 'in/*.json' or 's3://bucket/in/*.json'")
    if text.startswith(OBJECT_SCHEMES):
        return split_options(text)
    scheme, is_url, path = text.partition("://")
    if is_url and scheme != "file":
        raise BindError(
            f"files cannot be read from {scheme}://",
            hint=f"a path, file://, or one of {', '.join(OBJECT_SCHEMES)}",
        )
    path = unquote(path) if is_url else text
    below = path.endswith("/") or os.path.isdir(path)
    return os.path.abspath(path).rstrip("/") + ("/" if below else ""), {}


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """Splits the URL of a bucket into pattern and options; other patterns have no options."""
    options = _URL_OPTIONS.search(text) if text.startswith(OBJECT_SCHEMES) else None
    if options is None:
        return text, {}
    return text[: options.start()], {k.replace("_", " ").lower(): v for k, v in parse_qsl(options.group(1))}


def _check_access(spec: UpstreamSpec, reach: Reach) -> None:
    path, url_options = split_options(str(spec.target))
    reach.file(path)
    reach.bucket({**url_options, **spec.options})


AWS = ConnectionType(
    "aws",
    tuple(
        OptionSpec(name, ANY, meaning)
        for name, meaning in (
            ("endpoint", "the URL of an S3 that is not Amazon's"),
            ("region", "the bucket's region"),
            ("access key id", "who asks"),
            ("secret access key", "the secret of the access key; may be env:NAME or file:PATH"),
            ("session token", "of temporary credentials"),
            ("virtual hosted style", "whether the bucket is part of the host's name"),
            ("allow http", "whether the endpoint may be http://"),
        )
    ),
)
FILES = UpstreamType(
    "files",
    FilesUpstream.create,
    FilesUpstream.from_json,
    options=(*_SETTLE_OPTIONS, _AWS_CONNECTION),
    with_options=_SETTLE_OPTIONS,
    connection_option="aws connection",
    envelopes=("none", "debezium"),
    allows_other_options=lambda spec: (spec.target or "").startswith(OBJECT_SCHEMES),
    check_access=_check_access,
)
