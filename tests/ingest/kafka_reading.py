"""What the tests of KAFKA read: records of a source, batch by batch, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.ingest.broker import Broker
from tidegate.expr.model.types import BYTEA
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.formats.plain import PlainFormat
from tidegate.ingest.protocol import (
    BatchLimit,
    Decoder,
    IncludedColumn,
    InputSplit,
    ReadRequest,
    RecordChunk,
    UpstreamPosition,
)
from tidegate.ingest.upstreams.kafka.upstream import KafkaUpstream
from tidegate.ingest.upstreams.registry import UpstreamSpec, create_upstream
from tidegate.plan.mfp import MapFilterProject


def source(
    broker: Broker | str, topic: str, connection: dict[str, Any] | None = None, **options: Any
) -> KafkaUpstream:
    """A source of a topic; options with _ for spaces."""
    address = broker if isinstance(broker, str) else broker.address
    given = {"broker": address, "timeout ms": 10_000, **(connection or {})}
    words = {name.replace("_", " "): value for name, value in options.items()}
    found = create_upstream(
        "kafka",
        UpstreamSpec("s", {"topic": topic, **words}, connection=ExternalConnection("k", "kafka", given)),
    )
    assert isinstance(found, KafkaUpstream)
    return found


def raw_decode() -> Decoder:
    """The value as it is."""
    decode, left = PlainFormat(is_text=False).take(MapFilterProject.identity([BYTEA]))
    assert left.is_identity
    return decode


def chunks(kafka: KafkaUpstream, split: InputSplit, *included: str) -> Iterator[RecordChunk]:
    """What a split gives one who wants values."""
    asked = [_included(name) for name in included]
    for number, chunk in kafka.read(split, [ReadRequest(None, raw_decode())], asked):
        assert number == 0
        yield chunk


def _included(name: str) -> IncludedColumn:
    what, _, argument = name.partition("=")
    return IncludedColumn(what, name, argument or None)


def rows(kafka: KafkaUpstream, splits: Sequence[InputSplit], *included: str) -> list[tuple[Any, ...]]:
    """All rows of some splits, in order: the value, and what is included."""
    found: list[tuple[Any, ...]] = []
    for split in splits:
        for chunk in chunks(kafka, split, *included):
            found += zip(*(column.to_pylist() for column in chunk.rows()), strict=True)
    return found


def values(kafka: KafkaUpstream, splits: Sequence[InputSplit]) -> list[Any]:
    """The values alone."""
    return [value for (value,) in rows(kafka, splits)]


def batches(
    kafka: KafkaUpstream, after: UpstreamPosition, limit: BatchLimit
) -> Iterator[tuple[UpstreamPosition, list[InputSplit]]]:
    """Batch after batch, until there is nothing new."""
    while (upto := kafka.latest(after, limit)) != after:
        yield upto, kafka.splits(after, upto)
        after = upto


def drained(kafka: KafkaUpstream, after: UpstreamPosition | None = None) -> list[Any]:
    """All values that are there."""
    after = kafka.start() if after is None else after
    return [value for _, splits in batches(kafka, after, BatchLimit()) for value in values(kafka, splits)]
