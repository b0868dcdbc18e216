"""An upstream that is written outside of Tidegate: one class, one registration, and CREATE SOURCE knows it.

This is the worked example of the recipe "add an upstream" in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.expr.model import Type, types
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.options import OptionSpec, whole_number
from tidegate.ingest.protocol import (
    BatchLimit,
    IncludedColumn,
    InputSplit,
    Lag,
    ReadRequest,
    RecordChunk,
    Upstream,
    UpstreamPosition,
)
from tidegate.ingest.upstreams import registry
from tidegate.ingest.upstreams.registry import UpstreamSpec, UpstreamType, register_upstream

WORDS = [b'{"word": "ebb"}', b'{"word": "flow"}', b'{"word": "tide"}', b'{"word": 7']


@dataclass(frozen=True)
class WordsUpstream(Upstream):
    """A few documents, each once; a position is how many were read."""

    topic: str
    count: int

    @staticmethod
    def create(spec: UpstreamSpec) -> WordsUpstream:
        return WordsUpstream(str(spec.target), spec.options["count"])

    def to_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "count": self.count}

    @staticmethod
    def from_json(stored: Mapping[str, Any], connection: ExternalConnection | None) -> WordsUpstream:
        assert connection is None
        return WordsUpstream(stored["topic"], stored["count"])

    def includes(self, included: IncludedColumn) -> Type:
        if included.what != "offset":
            raise tidegate.BindError(f"words have no {included.what.upper()}")
        return types.INT8

    def start(self) -> UpstreamPosition:
        return {"word": 0}

    def latest(self, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:
        return {"word": min(self.count, after["word"] + (limit.rows or self.count))}

    def splits(self, after: UpstreamPosition, upto: UpstreamPosition) -> list[InputSplit]:
        return [InputSplit("word", after["word"], upto["word"])]

    def read(
        self, split: InputSplit, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        values = pa.array([WORDS[i % len(WORDS)] for i in range(split.start, split.end)], pa.binary())
        offsets = pa.array(np.arange(split.start, split.end))
        for number, request in enumerate(wanted):
            chunk = RecordChunk(
                request.decode.records(values),
                [offsets for _ in included],
                lambda record: {"word": split.start + record},
            )
            yield number, chunk

    def lag(self, at: UpstreamPosition) -> Lag:
        return Lag(records=self.count - at.get("word", 0))


COUNT = OptionSpec("count", whole_number(1), "how many words there are", default=3, example="COUNT 10")
WORDS_TYPE = UpstreamType("words", WordsUpstream.create, WordsUpstream.from_json, options=(COUNT,))


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    """A database that knows WORDS; afterwards nobody does, because other tests ask which upstreams there are."""
    register_upstream(WORDS_TYPE)
    try:
        with tidegate.open("memory://") as opened:
            yield opened
    finally:
        del registry._UPSTREAMS[WORDS_TYPE.name]


def test_it_is_created_ingested_and_continues(db: tidegate.Database) -> None:
    db.sql(
        "CREATE SOURCE w FROM WORDS english (COUNT 4) FORMAT JSON INCLUDE OFFSET AS at "
        "TRANSFORM USING (SELECT data->>'word' AS word, at FROM w WHERE data->>'word' <> 'flow') WITH (BATCH ROWS 2)"
    )
    done = db.ingest("w", once=True, spark=False, progress=lambda _: None)
    assert sorted(db.sql("SELECT word, at FROM w").rows()) == [("ebb", 0), ("tide", 2)]
    assert [row[0] for row in db.sql("SELECT position FROM w_errors").rows()] == ['{"word":3}']
    assert (done.progress().batches, done.progress().records, done.progress().share) == (2, 4, 1.0)
    db.ingest("w", once=True, spark=False, progress=lambda _: None)
    assert db.sql("SELECT count(*) FROM w").rows() == [(2,)], "what was read is not read again"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "FROM WORDS x (COUNTS 4) FORMAT JSON",
            r"FROM WORDS has no option COUNTS(.|\n)*\^{6}(.|\n)*did you mean COUNT",
        ),
        ("FROM WORDS x (COUNT 0) FORMAT JSON", "COUNT is a whole number of at least 1, not 0"),
        ("FROM WORDS x FORMAT JSON INCLUDE KEY", "words have no KEY"),
        ("FROM WORDS x FORMAT JSON ENVELOPE UPSERT", "ENVELOPE UPSERT is not for records of WORDS"),
        ("FROM WORDS x", "WORDS needs a FORMAT"),
        ("FROM WARDS x FORMAT JSON", "there is no upstream WARDS"),
    ],
)
def test_what_it_does_not_have_is_refused(db: tidegate.Database, source: str, message: str) -> None:
    with pytest.raises(tidegate.BindError, match=message):
        db.sql(f"CREATE SOURCE w {source}")
