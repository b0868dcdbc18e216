"""Reads a range of offsets of one partition in a task: turns messages into chunks.

    consumer ──500 messages──▶ values, offsets, keys … as arrays ──64k records──▶ decoded, once for each request

A message is a Python object, and creating these objects is most of the cost of reading. So a few hundred are fetched at a time and
turned into arrays before the next ones: the same memory is reused, and stays in the processor's cache. Headers and timestamps are
read only on demand. Decoding is cheap per record only in large batches, so it waits for a chunk of tens of thousands.

**The end.** Offsets have gaps: compaction removes records, transactions put markers between them, and aborted records are never
delivered. So a range is complete when a record at or after `end` arrives, or when the broker reports the end of the partition at or
after `end`. A partition that ends earlier, or is silent for the connection's TIMEOUT MS, is an error: a range is read completely or
not at all.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.expr.model import outcome, types
from tidegate.expr.primitives import byte_encoding
from tidegate.ingest.protocol import (
    DecodedBatch,
    IncludedColumn,
    ReadRequest,
    RecordChunk,
    RecordError,
    UpstreamPosition,
)
from tidegate.ingest.upstreams.kafka import client
from tidegate.ingest.upstreams.kafka.client import Message, library

FETCH_SETTINGS = {
    "fetch.message.max.bytes": 1 << 20,
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 5_000,
}
"""librdkafka's queue is short, so that a task does not fetch much more than its range. A full queue is checked again after 5 ms
and not after the default of one second, during which nothing would arrive."""
_MAX_MESSAGES = 500
"""Messages that exist at once: fewer than the 700 allocations after which Python's garbage collector visits them all."""
_MAX_MESSAGE_BYTES = 4 << 20
CHUNK_ROWS, CHUNK_BYTES = 1 << 16, 32 << 20
_KEY = IncludedColumn("key", "key")
_CONSUME_S = 0.1
"""Seconds that a consumer waits for the requested number of messages, which never arrives at the end of a partition."""


@dataclass(frozen=True)
class OffsetRange:
    """The records of a partition from offset `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int
    settings: Mapping[str, Any]
    timeout: float
    """Seconds of silence after which reading fails."""

    def __str__(self) -> str:
        return f"partition {self.partition} of topic {self.topic}"


def read(
    stretch: OffsetRange, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn], *, keyed: bool
) -> Iterator[tuple[int, RecordChunk]]:
    """Reads the records once, decoded for each of `wanted`; with `keyed`, chunks have keys."""
    columns = [_Column(column) for column in (*included, *((_KEY,) if keyed else ()))]
    for part in _chunks(stretch, columns):
        if keyed:
            part = replace(part, columns=part.columns[:-1], keys=part.columns[-1])
        for number, want in enumerate(wanted):
            yield number, part.chunk(stretch.partition, want)


# ---------------------------------------------------------------- from messages to arrays


class _Column:
    """A column of INCLUDE, extracted from messages."""

    def __init__(self, included: IncludedColumn) -> None:
        self.what = included.what
        self.header = included.argument

    def of(self, arrays: _MessageArrays) -> pa.Array:
        """The column's values of messages."""
        match self.what:
            case "key":
                return pa.array(list(map(library().Message.key, arrays.messages)), pa.binary())
            case "partition":
                return pa.array(np.full(len(arrays.messages), arrays.messages[0].partition(), np.int32))
            case "offset":
                return pa.array(arrays.offsets)
            case "timestamp":
                return _timestamps(arrays.messages)
            case "headers":
                return _headers(arrays.messages)
            case _:
                return pa.array(
                    [_last_header(pairs, self.header) for pairs in _pairs(arrays.messages)], pa.binary()
                )


class _MessageArrays:
    """Messages that were fetched together, none of them an error, as arrays."""

    def __init__(self, messages: Sequence[Message], columns: Sequence[_Column]) -> None:
        kind = library().Message
        self.messages = messages
        self.values = pa.array(list(map(kind.value, messages)), pa.binary())
        first, last = messages[0].offset(), messages[-1].offset()
        # Offsets increase, so there is no gap if the number of messages equals the range of offsets.
        self.offsets: np.ndarray = (
            np.arange(first, last + 1)
            if last - first + 1 == len(messages)
            else np.fromiter(map(kind.offset, messages), np.int64, len(messages))
        )
        self.columns = [column.of(self) for column in columns]

    @property
    def size(self) -> int:
        """The size of the arrays in bytes."""
        return sum(array.nbytes for array in (self.values, *self.columns))


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    """The timestamps of messages, set by producer or broker as the topic says; NULL if missing."""
    stamps = np.array([message.timestamp() for message in messages], np.int64)
    return pa.array(stamps[:, 1] * 1000, pa.int64(), mask=stamps[:, 0] == 0).cast(types.TIMESTAMPTZ.arrow)


Pairs = Sequence[tuple[str, bytes | None]]


def _pairs(messages: Sequence[Message]) -> Iterator[Pairs]:
    for message in messages:
        headers: Any = message.headers()
        yield headers or ()


def _last_header(pairs: Pairs, name: str | None) -> bytes | None:
    return next((value for key, value in reversed(pairs) if key == name), None)


def _headers(messages: Sequence[Message]) -> pa.Array:
    """The headers of messages as arrays of key and value; empty if a message has none."""
    headers = list(_pairs(messages))
    offsets = np.zeros(len(headers) + 1, np.int32)
    np.cumsum([len(pairs) for pairs in headers], out=offsets[1:])
    names = pa.array([name for pairs in headers for name, _ in pairs], pa.string())
    values = pa.array([value for pairs in headers for _, value in pairs], pa.binary())
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.StructArray.from_arrays([names, values], ["key", "value"])
    )


def _arrays(messages: Sequence[Message], columns: Sequence[_Column]) -> Iterator[_MessageArrays]:
    """The messages as arrays; divided if their values do not fit into one array."""
    arrays = _MessageArrays(messages, columns)
    if all(isinstance(array, pa.Array) for array in (arrays.values, *arrays.columns)):
        yield arrays
        return
    half = len(messages) // 2  # an array holds 2 GB of values at most; pyarrow returned a chunked one
    yield from _arrays(messages[:half], columns)
    yield from _arrays(messages[half:], columns)


# ---------------------------------------------------------------- from arrays to chunks


@dataclass(frozen=True)
class _UndecodedChunk:
    """The records of a chunk before decoding."""

    values: pa.Array
    offsets: np.ndarray
    columns: list[pa.Array]
    bad: list[RecordError]
    keys: pa.Array | None = None

    def chunk(self, partition: int, wanted: ReadRequest) -> RecordChunk:
        """Decodes the records for one request."""
        values, offsets = self.values, self.offsets

        def position(record: int) -> UpstreamPosition:
            return {"partition": partition, "offset": int(offsets[record])}

        def raw(record: int) -> bytes:
            return values[record].as_py() or b""

        return RecordChunk(
            _exclude_bad_records(replace(wanted.decode.records(values), raw=raw), self.bad),
            self.columns,
            position,
            keys=self.keys,
            gone=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None,
        )


def _exclude_bad_records(decoded: DecodedBatch, bad: list[RecordError]) -> DecodedBatch:
    """Turns further records into failures, those with a header that is not text."""
    if not bad:
        return decoded
    known = {record for record, _ in decoded.failures}
    more = [error for error in bad if error[0] not in known]
    keep = np.isin(decoded.selection, [record for record, _ in more], invert=True)
    rows = pa.array(np.flatnonzero(keep))
    return replace(
        decoded,
        columns=[column.take(rows) for column in decoded.columns],
        selection=decoded.selection[keep],
        failures=sorted([*decoded.failures, *more]),
    )


def _chunks(stretch: OffsetRange, columns: Sequence[_Column]) -> Iterator[_UndecodedChunk]:
    messages = _messages(stretch)
    try:
        while held := _fill_chunk(messages, columns):
            yield _join_arrays(held, columns)
    finally:
        messages.close()


def _fill_chunk(messages: Iterator[Sequence[Message]], columns: Sequence[_Column]) -> list[_MessageArrays]:
    """Fetches enough messages for a chunk; empty at the end."""
    held: list[_MessageArrays] = []
    rows = size = 0
    while rows < CHUNK_ROWS and size < CHUNK_BYTES and (fetched := next(messages, None)):
        for arrays in _arrays(fetched, columns):
            arrays.messages = ()
            held.append(arrays)
            rows, size = rows + len(arrays.values), size + arrays.size
        del fetched  # frees the memory for the next messages
    return held


def _join_arrays(held: Sequence[_MessageArrays], columns: Sequence[_Column]) -> _UndecodedChunk:
    joined = [pa.concat_arrays([arrays.columns[i] for arrays in held]) for i in range(len(columns))]
    bad: list[RecordError] = []
    for i, column in enumerate(columns):
        if column.what == "header":
            text, errors = byte_encoding.from_utf8(joined[i])
            bad += _header_errors(errors, column.header)
            joined[i] = text
    return _UndecodedChunk(
        pa.concat_arrays([arrays.values for arrays in held]),
        np.concatenate([arrays.offsets for arrays in held]),
        joined,
        [(record, message) for record, message in sorted(dict(reversed(bad)).items())],
    )


def _header_errors(errors: outcome.Errors, header: str | None) -> Iterator[RecordError]:
    if errors is not None:
        for record in np.flatnonzero(errors.is_valid().to_numpy(zero_copy_only=False)).tolist():
            yield record, f"header '{header}': {errors[record].as_py()}"


# ---------------------------------------------------------------- messages of a range


def _messages(stretch: OffsetRange) -> Generator[Sequence[Message], None, None]:
    """Yields all records of the range, in non-empty groups."""
    kafka, heard = library(), client.ErrorLog()
    consumer = client.consumer({**FETCH_SETTINGS, **stretch.settings}, heard)
    try:
        consumer.assign([kafka.TopicPartition(stretch.topic, stretch.partition, stretch.start)])
        waiting = _Waiting(stretch, heard)
        at, size = stretch.start, 64
        while at < stretch.end:
            messages: Sequence[Message] = consumer.consume(min(size, stretch.end - at), _CONSUME_S)
            # `map` checks for errors without a Python-level loop.
            if any(map(kafka.Message.error, messages)):
                messages, ended = waiting.events(messages)
                if ended:
                    at = stretch.end
            if not messages:
                waiting.look()
                continue
            waiting.rest()
            at = max(at, messages[-1].offset() + 1)
            if at > stretch.end:
                messages = messages[: bisect_left(messages, stretch.end, key=kafka.Message.offset)]
            if messages:
                size = _next_size(messages)
                yield messages
    finally:
        consumer.close()


def _next_size(messages: Sequence[Message]) -> int:
    """How many messages to fetch next: fewer if they are large; at most about four times as many as now."""
    sampled = messages[:: max(1, len(messages) // 16)]
    mean = sum(len(message.value() or b"") for message in sampled) // len(sampled) + 1
    return max(1, min(_MAX_MESSAGES, _MAX_MESSAGE_BYTES // mean, 4 * len(messages) + 64))


class _Waiting:
    """Handles the errors and events of a consumer, and the time without records."""

    def __init__(self, stretch: OffsetRange, heard: client.ErrorLog) -> None:
        self.stretch = stretch
        self.heard = heard
        self.until = time.monotonic() + stretch.timeout
        self.ends: int | None = None

    def rest(self) -> None:
        """Restarts the time-out, after records arrived."""
        self.until = time.monotonic() + self.stretch.timeout
        self.ends = None

    def events(self, messages: Sequence[Message]) -> tuple[list[Message], bool]:
        """The records among messages, and whether the partition ends at or after the end of the range."""
        records: list[Message] = []
        ended = False
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.name() == "_PARTITION_EOF":
                self.ends = message.offset()
                ended = ended or self.ends >= self.stretch.end
            elif error.name() in client.RECORDS_GONE_ERRORS:
                raise records_gone(self.stretch, said=client.error_text(error))
            elif error.name() in client.UNKNOWN_TOPIC_ERRORS or not error.retriable():
                raise client.source_error(error, f"{self.stretch} cannot be read", self.heard)
            else:
                self.heard(error)
        return records, ended

    def look(self) -> None:
        """Called when no records arrived: raises after a permanent error or the time-out."""
        permanent = self.heard.permanent
        if permanent is not None:
            raise client.source_error(permanent, f"{self.stretch} cannot be read")
        if time.monotonic() < self.until:
            return
        if self.ends is not None:
            raise SourceError(
                f"{self.stretch} ends at offset {self.ends}, and was to be read up to {self.stretch.end}",
                again=True,
                hint="has the broker lost records, or was the topic made anew?",
            )
        error = client.timeout_error(f"nothing came for {self.stretch.timeout:g} s")
        raise client.source_error(error, f"{self.stretch} cannot be read", self.heard)


def records_gone(stretch: OffsetRange, said: str) -> SourceError:
    """The error for records that the broker no longer has."""
    return SourceError(
        f"{stretch}: records from offset {stretch.start} on, up to {stretch.end}, are not there any more: {said}",
        again=False,
        hint="retention removed them before they were read, or the topic was made anew",
    )


# ---------------------------------------------------------------- size of records


def sample_record_size(
    topic: str, at: Mapping[int, int], settings: Mapping[str, Any], timeout: float, count: int = 500
) -> int | None:
    """Estimates the bytes of a record from the next few of some partitions; None if none arrived in time."""
    consumer = client.consumer(
        {**FETCH_SETTINGS, **settings, "queued.min.messages": 100, "fetch.message.max.bytes": 256 << 10},
        client.ErrorLog(),
    )
    try:
        consumer.assign(
            [library().TopicPartition(topic, partition, offset) for partition, offset in at.items()]
        )
        until = time.monotonic() + timeout
        sizes: list[int] = []
        while len(sizes) < count and time.monotonic() < until:
            messages = [m for m in consumer.consume(count - len(sizes), 0.05) if m.error() is None]
            if sizes and not messages:
                break
            sizes += [len(m.value() or b"") + len(m.key() or b"") for m in messages]
    finally:
        consumer.close()
    return int(np.mean(sizes)) + 1 if sizes else None
