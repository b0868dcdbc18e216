"""KAFKA: a topic, each record once.

    CREATE CONNECTION k TO KAFKA (BROKER 'host:9092')
    CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 'orders') FORMAT JSON INCLUDE KEY, OFFSET, TIMESTAMP

**Positions** say of each partition, which offset is read next, and which topic it was:

    {"0": 1200, "1": 900, "topic id": "7TJXgBQbRLuPZZtk2Xgsqg"}          offsets 0 … 1199 of partition 0 were read

The broker keeps no position that counts: what a consumer group has committed is for those who watch it (`acknowledge`), and is
never read. Nobody joins a group, so there is nothing to rebalance; each task is assigned a stretch of offsets.

| what happens upstream | what follows |
|---|---|
| a partition is added | the next batch has its beginning in the position, the one after it its records |
| a transaction is open | its records and all behind them are not there yet; what was aborted never is |
| compaction | gaps between offsets |
| retention removed what was not read | an error that names partition and offsets |
| the topic was deleted, or made anew under its name | an error: its id is another one, even if its offsets would fit |
| the broker is down | an error after TIMEOUT MS; trying again helps |

| file | what it does |
|---|---|
| `kafka_options.py` | the words of CONNECTION and SOURCE |
| `kafka_client.py` | clients, and what they say when something is wrong |
| `kafka_topic.py` | what is there: partitions, their ends, how large records are |
| `kafka_read.py` | in a task: from a stretch of offsets to chunks |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tidegate.clock import SystemClock
from tidegate.errors import BindError, SourceError, TidegateError
from tidegate.expr.types import BYTEA, INT4, INT8, TEXT, TIMESTAMPTZ, Type, array, record
from tidegate.ingest import kafka_client as client
from tidegate.ingest import kafka_options, kafka_read, kafka_topic
from tidegate.ingest.connect import Connection, Given
from tidegate.ingest.kafka_options import Start
from tidegate.ingest.kafka_topic import TOPIC_ID, There
from tidegate.ingest.source import Chunk, Format, Included, Lag, Limit, Position, Split, Wanted

STRETCH = 1_000_000
"""Offsets of one partition that a task reads at least, so that one large partition is work for several."""
_INCLUDES = {
    "key": BYTEA,
    "partition": INT4,
    "offset": INT8,
    "timestamp": TIMESTAMPTZ,
    "headers": array(record(("key", TEXT), ("value", BYTEA))),
    "header": TEXT,
    "header bytes": BYTEA,
}
_FEW = 1_000
"""Records that are read at once, whatever the limit of bytes says: how large they are is not looked up for so few."""
_ACKNOWLEDGE_S = 5.0


@dataclass(frozen=True)
class Kafka:
    """A topic."""

    topic: str
    connection: Connection
    group: str
    begins: Start = field(default_factory=Start)
    keyed: bool = True
    """ENVELOPE UPSERT: each chunk has its keys, and a partition is read by one task, as the last record of a key counts."""

    # ------------------------------------------------------------ created and kept

    @staticmethod
    def create(given: Given) -> Kafka:
        """The topic that a statement names. Asks no broker: a source may be made before its topic is."""
        client.library()
        topic = kafka_options.topic(given)
        if given.connection is None:
            raise BindError(
                "KAFKA needs a connection", hint="CREATE CONNECTION k TO KAFKA (BROKER 'host:9092')"
            )
        kafka_options.check(given.connection.options)
        begins = kafka_options.start(given.options, SystemClock().now())
        group = str(given.options.get("group id", f"tidegate-{given.source}"))
        return Kafka(topic, given.connection, group, begins)

    def to_json(self) -> dict[str, Any]:
        """What the catalog keeps."""
        return {
            "connection": self.connection.name,
            "topic": self.topic,
            "group": self.group,
            "offsets": list(self.begins.offsets),
            "everywhere": self.begins.everywhere,
            "timestamp": self.begins.timestamp,
            "keyed": self.keyed,
        }

    @staticmethod
    def from_json(kept: Mapping[str, Any], connection: Connection | None) -> Kafka:
        """What `to_json` gave."""
        assert connection is not None
        begins = Start(tuple(kept["offsets"]), kept["everywhere"], kept["timestamp"])
        return Kafka(kept["topic"], connection, kept["group"], begins, kept.get("keyed", True))

    def for_envelope(self, envelope: str | None) -> Kafka:
        """The same topic, knowing whether keys will be asked for."""
        return replace(self, keyed=envelope == "upsert")

    # ------------------------------------------------------------ Upstream

    def tables(self) -> dict[str, Format]:
        """None: a format says what the columns are."""
        return {}

    def includes(self, included: Included) -> Type:
        """KEY, PARTITION, OFFSET, TIMESTAMP, HEADERS and HEADER 'x' (the last of that name, as text, or bytes)."""
        if included.what not in _INCLUDES:
            raise BindError(
                f"records of Kafka have no {included.what.upper()}",
                hint="INCLUDE KEY, PARTITION, OFFSET, TIMESTAMP, HEADERS or HEADER 'name'",
            )
        return _INCLUDES[included.what]

    def start(self) -> Position:
        """The beginning of every partition, or where START OFFSET or START TIMESTAMP say, if that is there."""
        there = self._look({})
        if self.begins.timestamp is not None:
            found = kafka_topic.offsets_at(
                self._place, self.topic, self._settings, self._timeout, there, self.begins.timestamp
            )
        else:
            found = {partition: self._begins(partition, there) for partition in there.low}
        return {**{str(partition): at for partition, at in found.items()}, **there.named}

    def latest(self, after: Position, limit: Limit) -> Position:
        """All that is committed, within the limit: partitions that have more get the more of it."""
        there = self._look(after)
        waiting: dict[int, int] = {}
        new: Position = {}
        for partition, high in there.high.items():
            at = after.get(str(partition))
            if at is None:
                new[str(partition)] = there.low[partition]
            else:
                self._check(partition, at, there)
                waiting[partition] = high - at
        granted = kafka_topic.shared(waiting, self._most(after, waiting, limit))
        moved = {str(partition): after[str(partition)] + count for partition, count in granted.items()}
        return {**after, **moved, **new, **there.named}

    def splits(self, after: Position, upto: Position) -> list[Split]:
        """One for each partition that has records, or several. One that is new has none yet: only its beginning is noted."""
        return [
            Split(key, *ends)
            for key, end in sorted(upto.items())
            if key != TOPIC_ID and key in after and after[key] != end
            for ends in pairwise(self._cuts(after[key], end))
        ]

    def _cuts(self, start: int, end: int) -> list[int]:
        count = 1 if self.keyed else max(1, (end - start) // STRETCH)
        return [start + (end - start) * i // count for i in range(count + 1)]

    def read(
        self, split: Split, wanted: Sequence[Wanted], included: Sequence[Included]
    ) -> Iterator[tuple[int, Chunk]]:
        """The records of a split."""
        stretch = kafka_read.Stretch(
            self.topic, int(split.key), split.start, split.end, self._settings, self._timeout
        )
        return kafka_read.read(stretch, wanted, included, keyed=self.keyed)

    def acknowledge(self, upto: Position) -> None:
        """Tells the broker how far we are, for those who watch consumer groups. Nothing depends on it, so it cannot fail."""
        at = {int(key): offset for key, offset in upto.items() if key != TOPIC_ID}
        try:
            client.commit(self._settings, self.group, self.topic, at, min(_ACKNOWLEDGE_S, self._timeout))
        except TidegateError as error:
            client.LOG.warning("offsets could not be told to group %s: %s", self.group, error.message)

    def lag(self, at: Position) -> Lag:
        """Records that are not read yet."""
        there = self._look(at)
        behind = sum(
            max(0, high - at.get(str(partition), there.low[partition]))
            for partition, high in there.high.items()
        )
        return Lag(records=behind, milliseconds=None if behind else 0)

    def drop(self) -> None:
        """Nothing is held: the broker forgets by itself what it was told of positions."""

    # ------------------------------------------------------------ what is there

    @property
    def _settings(self) -> dict[str, str]:
        return kafka_options.settings(self.connection)

    @property
    def _timeout(self) -> float:
        return kafka_options.timeout_ms(self.connection.options) / 1000

    @property
    def _place(self) -> str:
        return f"topic {self.topic} at {kafka_options.brokers(self.connection.options)}"

    def _look(self, after: Position) -> There:
        """The partitions and their ends. Raises if the topic is not the one that `after` was read from."""
        there = kafka_topic.look(self._place, self.topic, self._settings, self._timeout)
        before = after.get(TOPIC_ID)
        if there is None:
            raise SourceError(
                f"{self._place} is not there" + (" any more" if after else ""),
                again=not after,
                hint="it was deleted: its records cannot be read again"
                if after
                else "it may not be made yet",
            )
        if before is not None and there.id is not None and before != there.id:
            raise SourceError(
                f"{self._place} was deleted and made anew (its id was {before}, and is {there.id})",
                again=False,
                hint="its records are others: DROP SOURCE, and create it again to read them from the beginning",
            )
        return there

    def _check(self, partition: int, at: int, there: There) -> None:
        """Raises if a partition does not have what comes next."""
        low, high = there.low[partition], there.high[partition]
        if at < low:
            raise SourceError(
                f"partition {partition} of {self._place} begins at offset {low} now, and was read up to {at}:"
                f" {low - at} offsets, {at} to {low - 1}, are gone",
                again=False,
                hint="retention removed them before they were read; DROP SOURCE and create it again to go on with what is left,"
                " and let the topic keep its records for longer than ingestion may pause",
            )
        if at > high:
            raise SourceError(
                f"partition {partition} of {self._place} ends at offset {high}, and was read up to {at}",
                again=False,
                hint="the topic was made anew, or the cluster lost records that we have",
            )

    def _begins(self, partition: int, there: There) -> int:
        """What START OFFSET says; records that retention has removed already are not missed."""
        offsets, asked = self.begins.offsets, self.begins.everywhere or 0
        if partition < len(offsets):
            asked = offsets[partition]
        if asked > there.high[partition] or len(offsets) > len(there.high):
            raise SourceError(
                f"START OFFSET {asked} is behind the end of partition {partition} of {self._place}, {there.high[partition]}"
                if len(offsets) <= len(there.high)
                else f"START OFFSET has {len(offsets)} offsets, and {self._place} {len(there.high)} partitions",
                again=False,
            )
        return max(asked, there.low[partition])

    def _most(self, after: Position, waiting: Mapping[int, int], limit: Limit) -> int:
        """How many records a batch may have: the limit of bytes is kept by what records were found to have."""
        most = sum(waiting.values())
        if limit.rows is not None:
            most = min(most, max(limit.rows, 1))
        if limit.bytes is None or most <= _FEW:
            return most
        some = sorted(waiting, key=lambda partition: -waiting[partition])[:16]
        at = {partition: after[str(partition)] for partition in some}
        size = kafka_topic.mean_size(self.topic, at, self._settings, self._timeout)
        return most if size is None else min(most, max(limit.bytes // size, 1))
