"""What the tests of KAFKA read: records of a source, batch by batch, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tidegate.expr.functions  # noqa: F401  # fills the registry
from tests.ingest.broker import Broker
from tidegate.expr.types import BYTEA
from tidegate.ingest.connect import Connection, Given, made
from tidegate.ingest.decode.plain import Plain
from tidegate.ingest.kafka import Kafka
from tidegate.ingest.source import Chunk, Decode, Included, Limit, Position, Split, Wanted
from tidegate.plan.mfp import MapFilterProject


def source(
    broker: Broker | str, topic: str, connection: dict[str, Any] | None = None, **options: Any
) -> Kafka:
    """A source of a topic; options with _ for spaces."""
    address = broker if isinstance(broker, str) else broker.address
    given = {"broker": address, "timeout ms": 10_000, **(connection or {})}
    words = {name.replace("_", " "): value for name, value in options.items()}
    found = made("kafka", Given("s", {"topic": topic, **words}, connection=Connection("k", "kafka", given)))
    assert isinstance(found, Kafka)
    return found


def raw_decode() -> Decode:
    """The value as it is."""
    decode, left = Plain(is_text=False).take(MapFilterProject.identity([BYTEA]))
    assert left.is_identity
    return decode


def chunks(kafka: Kafka, split: Split, *included: str) -> Iterator[Chunk]:
    """What a split gives one who wants values."""
    asked = [_included(name) for name in included]
    for number, chunk in kafka.read(split, [Wanted(None, raw_decode())], asked):
        assert number == 0
        yield chunk


def _included(name: str) -> Included:
    what, _, argument = name.partition("=")
    return Included(what, name, argument or None)


def rows(kafka: Kafka, splits: Sequence[Split], *included: str) -> list[tuple[Any, ...]]:
    """All rows of some splits, in order: the value, and what is included."""
    found: list[tuple[Any, ...]] = []
    for split in splits:
        for chunk in chunks(kafka, split, *included):
            found += zip(*(column.to_pylist() for column in chunk.rows()), strict=True)
    return found


def values(kafka: Kafka, splits: Sequence[Split]) -> list[Any]:
    """The values alone."""
    return [value for (value,) in rows(kafka, splits)]


def batches(kafka: Kafka, after: Position, limit: Limit) -> Iterator[tuple[Position, list[Split]]]:
    """Batch after batch, until there is nothing new."""
    while (upto := kafka.latest(after, limit)) != after:
        yield upto, kafka.splits(after, upto)
        after = upto


def drained(kafka: Kafka, after: Position | None = None) -> list[Any]:
    """All values that are there."""
    after = kafka.start() if after is None else after
    return [value for _, splits in batches(kafka, after, Limit()) for value in values(kafka, splits)]
