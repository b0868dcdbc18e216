"""In a task: offsets `start` to `end` of one partition, from messages to chunks.

    consumer ──500 messages──▶ values, offsets, keys … as arrays ──64k records──▶ decoded, once for each who wants them

A consumer's message is a Python object, and making it is most of what reading costs. So a few hundred are taken at once and turned
into arrays before the next ones come: the same memory is used again and again, and stays in the processor's cache. Python's garbage
collector looks away meanwhile. What is not asked for (headers, timestamps) is not looked at. Decoding is cheap by the record
only if it is given many, so it waits for a chunk of tens of thousands.

**The end.** Offsets have gaps: compaction removes records, transactions put marks between them, and what was aborted is
never seen. So a split is read when a record at `end` or behind it is met, or when the broker says that there are no more and its
end is not before ours. A partition that ends before us, or says nothing for the connection's TIMEOUT MS, is an error: a split is
read whole or not at all.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.expr.outcome import Errors
from tidegate.expr.spelling import from_utf8
from tidegate.expr.types import TIMESTAMPTZ
from tidegate.ingest import kafka_client as client
from tidegate.ingest.kafka_client import Message, library
from tidegate.ingest.source import Bad, Chunk, Decoded, Included, Position, Wanted

FETCH = {"fetch.message.max.bytes": 1 << 20, "fetch.queue.backoff.ms": 5, "queued.min.messages": 5_000}
"""Little waits in librdkafka's queue, so that a task does not fetch much more than its stretch. A full queue is looked at again
after 5 ms and not, as by default, after a second, in which nothing would come."""
_AT_ONCE = 500
_AT_ONCE_BYTES = 4 << 20
CHUNK_ROWS, CHUNK_BYTES = 1 << 16, 32 << 20
_KEY = Included("key", "key")
_WAIT = 0.1
"""Seconds that a consumer waits until it has as many as were asked for: at the end of a partition it never has."""


@dataclass(frozen=True)
class Stretch:
    """What is read: records of a partition from `start` up to, not with, `end`."""

    topic: str
    partition: int
    start: int
    end: int
    settings: Mapping[str, Any]
    timeout: float
    """Seconds."""

    def __str__(self) -> str:
        return f"partition {self.partition} of topic {self.topic}"


def read(
    stretch: Stretch, wanted: Sequence[Wanted], included: Sequence[Included], *, keyed: bool
) -> Iterator[tuple[int, Chunk]]:
    """The records, for each of `wanted`; with `keyed` chunks have their keys."""
    columns = [_Column(one) for one in (*included, *((_KEY,) if keyed else ()))]
    for part in _chunks(stretch, columns):
        if keyed:
            part = replace(part, columns=part.columns[:-1], keys=part.columns[-1])
        for number, want in enumerate(wanted):
            yield number, part.chunk(stretch.partition, want)


# ---------------------------------------------------------------- from messages to arrays


class _Column:
    """One column of INCLUDE: how it is made of messages."""

    def __init__(self, included: Included) -> None:
        self.what = included.what
        self.header = included.argument

    def of(self, some: _Some) -> pa.Array:
        """Its values."""
        match self.what:
            case "key":
                return pa.array(list(map(library().Message.key, some.messages)), pa.binary())
            case "partition":
                return pa.array(np.full(len(some.messages), some.messages[0].partition(), np.int32))
            case "offset":
                return pa.array(some.offsets)
            case "timestamp":
                return _timestamps(some.messages)
            case "headers":
                return _headers(some.messages)
            case _:
                return pa.array([_last(found, self.header) for found in _pairs(some.messages)], pa.binary())


class _Some:
    """Messages that came together, none of them an error."""

    def __init__(self, messages: Sequence[Message], columns: Sequence[_Column]) -> None:
        kind = library().Message
        self.messages = messages
        self.values = pa.array(list(map(kind.value, messages)), pa.binary())
        first, last = messages[0].offset(), messages[-1].offset()
        # Offsets rise, so if there are as many as they span there is no gap.
        self.offsets: np.ndarray = (
            np.arange(first, last + 1)
            if last - first + 1 == len(messages)
            else np.fromiter(map(kind.offset, messages), np.int64, len(messages))
        )
        self.columns = [column.of(self) for column in columns]

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(array.nbytes for array in (self.values, *self.columns))


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    """When each was made, or came to the broker: as the topic is set up. NULL where the broker does not say."""
    stamps = np.array([message.timestamp() for message in messages], np.int64)
    return pa.array(stamps[:, 1] * 1000, pa.int64(), mask=stamps[:, 0] == 0).cast(TIMESTAMPTZ.arrow)


Pairs = Sequence[tuple[str, bytes | None]]


def _pairs(messages: Sequence[Message]) -> Iterator[Pairs]:
    for message in messages:
        found: Any = message.headers()
        yield found or ()


def _last(pairs: Pairs, name: str | None) -> bytes | None:
    return next((value for key, value in reversed(pairs) if key == name), None)


def _headers(messages: Sequence[Message]) -> pa.Array:
    """Arrays of name and value; empty where there are none."""
    found = list(_pairs(messages))
    offsets = np.zeros(len(found) + 1, np.int32)
    np.cumsum([len(pairs) for pairs in found], out=offsets[1:])
    names = pa.array([name for pairs in found for name, _ in pairs], pa.string())
    values = pa.array([value for pairs in found for _, value in pairs], pa.binary())
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.StructArray.from_arrays([names, values], ["key", "value"])
    )


def _arrays(messages: Sequence[Message], columns: Sequence[_Column]) -> Iterator[_Some]:
    """The messages as arrays; in two if they are too long for one."""
    some = _Some(messages, columns)
    if all(isinstance(array, pa.Array) for array in (some.values, *some.columns)):
        yield some
        return
    half = len(messages) // 2  # 2 GB of values: an array cannot hold them, and pyarrow gives several
    yield from _arrays(messages[:half], columns)
    yield from _arrays(messages[half:], columns)


# ---------------------------------------------------------------- from arrays to chunks


@dataclass(frozen=True)
class _Part:
    """What becomes a chunk, before it is decoded."""

    values: pa.Array
    offsets: np.ndarray
    columns: list[pa.Array]
    bad: list[Bad]
    keys: pa.Array | None = None

    def chunk(self, partition: int, wanted: Wanted) -> Chunk:
        """Decoded as one of them wants it."""
        values, offsets = self.values, self.offsets

        def position(record: int) -> Position:
            return {"partition": partition, "offset": int(offsets[record])}

        def raw(record: int) -> bytes:
            return values[record].as_py() or b""

        return Chunk(
            _without(replace(wanted.decode.records(values), raw=raw), self.bad),
            self.columns,
            position,
            keys=self.keys,
            gone=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None,
        )


def _without(decoded: Decoded, bad: list[Bad]) -> Decoded:
    """The records but those that are bad for another reason: a header that is no text."""
    if not bad:
        return decoded
    known = {record for record, _ in decoded.failures}
    more = [one for one in bad if one[0] not in known]
    keep = np.isin(decoded.selection, [record for record, _ in more], invert=True)
    rows = pa.array(np.flatnonzero(keep))
    return replace(
        decoded,
        columns=[column.take(rows) for column in decoded.columns],
        selection=decoded.selection[keep],
        failures=sorted([*decoded.failures, *more]),
    )


def _chunks(stretch: Stretch, columns: Sequence[_Column]) -> Iterator[_Part]:
    messages = _messages(stretch)
    try:
        while held := _filled(messages, columns):
            yield _joined(held, columns)
    finally:
        messages.close()


def _filled(messages: Iterator[Sequence[Message]], columns: Sequence[_Column]) -> list[_Some]:
    """As much as makes a chunk; empty at the end."""
    held: list[_Some] = []
    rows = size = 0
    with _uncollected():
        while rows < CHUNK_ROWS and size < CHUNK_BYTES and (found := next(messages, None)):
            for some in _arrays(found, columns):
                some.messages = ()
                held.append(some)
                rows, size = rows + len(some.values), size + some.size
            del found  # their memory is used for the next ones
    return held


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which would look at every message: none of them is part of a cycle."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _joined(held: Sequence[_Some], columns: Sequence[_Column]) -> _Part:
    joined = [pa.concat_arrays([some.columns[i] for some in held]) for i in range(len(columns))]
    bad: list[Bad] = []
    for i, column in enumerate(columns):
        if column.what == "header":
            text, errors = from_utf8(joined[i])
            bad += _said(errors, column.header)
            joined[i] = text
    return _Part(
        pa.concat_arrays([some.values for some in held]),
        np.concatenate([some.offsets for some in held]),
        joined,
        [(record, message) for record, message in sorted(dict(reversed(bad)).items())],
    )


def _said(errors: Errors, header: str | None) -> Iterator[Bad]:
    if errors is not None:
        for record in np.flatnonzero(errors.is_valid().to_numpy(zero_copy_only=False)).tolist():
            yield record, f"header '{header}': {errors[record].as_py()}"


# ---------------------------------------------------------------- messages of a stretch


def _messages(stretch: Stretch) -> Generator[Sequence[Message], None, None]:
    """All records of the stretch, some at once, never none."""
    kafka, heard = library(), client.Heard()
    consumer = client.consumer({**FETCH, **stretch.settings}, heard)
    try:
        consumer.assign([kafka.TopicPartition(stretch.topic, stretch.partition, stretch.start)])
        waiting = _Waiting(stretch, heard)
        at, size = stretch.start, 64
        while at < stretch.end:
            found: Sequence[Message] = consumer.consume(min(size, stretch.end - at), _WAIT)
            # Whether any of them is an error, without a step of Python for each.
            if any(map(kafka.Message.error, found)):
                found, ended = waiting.events(found)
                if ended:
                    at = stretch.end
            if not found:
                waiting.look()
                continue
            waiting.rest()
            at = max(at, found[-1].offset() + 1)
            if at > stretch.end:
                found = found[: bisect_left(found, stretch.end, key=kafka.Message.offset)]
            if found:
                size = _next_size(found)
                yield found
    finally:
        consumer.close()


def _next_size(found: Sequence[Message]) -> int:
    """How many to ask for: some hundred, fewer if they are large; at most four times as many as now."""
    some = found[:: max(1, len(found) // 16)]
    mean = sum(len(message.value() or b"") for message in some) // len(some) + 1
    return max(1, min(_AT_ONCE, _AT_ONCE_BYTES // mean, 4 * len(found) + 64))


class _Waiting:
    """What a consumer says beside records, and how long it says nothing."""

    def __init__(self, stretch: Stretch, heard: client.Heard) -> None:
        self.stretch = stretch
        self.heard = heard
        self.until = time.monotonic() + stretch.timeout
        self.ends: int | None = None

    def rest(self) -> None:
        """Records came: there is no hurry."""
        self.until = time.monotonic() + self.stretch.timeout
        self.ends = None

    def events(self, found: Sequence[Message]) -> tuple[list[Message], bool]:
        """The records among what came, and whether the partition was said to end where ours does, or behind."""
        records: list[Message] = []
        ended = False
        for message in found:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.name() == "_PARTITION_EOF":
                self.ends = message.offset()
                ended = ended or self.ends >= self.stretch.end
            elif error.name() in client.GONE:
                raise gone(self.stretch, said=client.said(error))
            elif error.name() in client.UNKNOWN or not error.retriable():
                raise client.wrong(error, f"{self.stretch} cannot be read", self.heard)
            else:
                self.heard(error)
        return records, ended

    def look(self) -> None:
        """Nothing came: raises once that has been so for too long, or makes no sense."""
        hopeless = self.heard.hopeless
        if hopeless is not None:
            raise client.wrong(hopeless, f"{self.stretch} cannot be read")
        if time.monotonic() < self.until:
            return
        if self.ends is not None:
            raise SourceError(
                f"{self.stretch} ends at offset {self.ends}, and was to be read up to {self.stretch.end}",
                again=True,
                hint="has the broker lost records, or was the topic made anew?",
            )
        error = client.silence(f"nothing came for {self.stretch.timeout:g} s")
        raise client.wrong(error, f"{self.stretch} cannot be read", self.heard)


def gone(stretch: Stretch, said: str) -> SourceError:
    """Records that the broker has no more."""
    return SourceError(
        f"{stretch}: records from offset {stretch.start} on, up to {stretch.end}, are not there any more: {said}",
        again=False,
        hint="retention removed them before they were read, or the topic was made anew",
    )


# ---------------------------------------------------------------- how large records are


def mean_size(
    topic: str, at: Mapping[int, int], settings: Mapping[str, Any], timeout: float, count: int = 500
) -> int | None:
    """About how many bytes a record has, by the next few of some partitions; None if none came in time."""
    consumer = client.consumer(
        {**FETCH, **settings, "queued.min.messages": 100, "fetch.message.max.bytes": 256 << 10},
        client.Heard(),
    )
    try:
        consumer.assign(
            [library().TopicPartition(topic, partition, offset) for partition, offset in at.items()]
        )
        until = time.monotonic() + timeout
        sizes: list[int] = []
        while len(sizes) < count and time.monotonic() < until:
            found = [m for m in consumer.consume(count - len(sizes), 0.05) if m.error() is None]
            if sizes and not found:
                break
            sizes += [len(m.value() or b"") + len(m.key() or b"") for m in found]
    finally:
        consumer.close()
    return int(np.mean(sizes)) + 1 if sizes else None
