"""ENVELOPE NONE: rows, failures and counts of chunks; what INCLUDE adds; expiry before storing; retractions of an upstream."""

from datetime import UTC, datetime

import numpy as np
import pytest

from tests.ingest.envelopes import NOW, Filled, chunk, made
from tidegate.errors import BindError
from tidegate.expr.model.types import BYTEA, TEXT
from tidegate.ingest.envelopes import step as envelope
from tidegate.ingest.envelopes.inputs import key_type
from tidegate.ingest.envelopes.output import RecordCounts
from tidegate.ingest.formats.csv.format import CsvFormat
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.formats.plain import PlainFormat

SQL = """SELECT (data->>'n')::int8 AS n FROM s WHERE data->>'kind' = 'pay'"""
RECORDS = [
    (b"a", b'{"kind": "pay", "n": 1}'),
    (b"b", b'{"kind": "other", "n": "x"}'),
    (None, b'{"kind": "pay", "n": "x"}'),
    (b"c", b'{"kind": "pay"'),
    (b"d", b'{"kind": "pay", "n": 2}'),
]


def test_rows_failures_and_counts() -> None:
    filled = Filled(made("none", SQL))
    filled.split([RECORDS[:3], RECORDS[3:]])
    assert filled.rows() == [(1,), (2,)]
    assert [(one.raw, one.position) for one in filled.failures] == [
        (RECORDS[2][1], {"offset": 2}),
        (RECORDS[3][1], {"offset": 3}),
    ]
    size = sum(len(value) for _, value in RECORDS)
    assert size <= filled.counts.bytes <= size + 4 * len(RECORDS)
    assert filled.counts._replace(bytes=0) == RecordCounts(5, 0, 2, 1, 0, 2)


def test_what_include_adds_stands_in_its_order() -> None:
    case = made(
        "none",
        "SELECT (data->>'n')::int8 AS n, \"offset\" AS o, key, ingestion_timestamp AS at FROM s WHERE data->>'n' < '3'",
        included=("ingestion timestamp", "offset", "key"),
    )
    filled = Filled(case)
    filled.split([RECORDS[:1], RECORDS[4:]])
    at = datetime.fromtimestamp(NOW / 1000, UTC)
    assert filled.rows() == [(1, 0, b"a", at), (2, 1, b"d", at)]


def test_a_key_is_decoded_by_its_format() -> None:
    case = made(
        "none", "SELECT key FROM s WHERE data->>'n' > '0'", included=("key",), key_format=PlainFormat(True)
    )
    filled = Filled(case)
    filled.split([[(b"a", b'{"n": 1}'), (b"\xff", b'{"n": 1}'), (None, b'{"n": 1}'), (b"\xfe", b'{"n": 0}')]])
    assert filled.rows() == [("a",), (None,)]
    assert [(one.position, one.message[:8]) for one in filled.failures] == [
        ({"offset": 1}, "the key:"),
        ({"offset": 3}, "the key:"),
    ]
    several = CsvFormat.numbered(2, ",")
    case = made("none", "SELECT (key).column2 AS c FROM s", included=("key",), key_format=several)
    filled = Filled(case)
    filled.split([[(b"a,b", b"{}"), (b"a", b"{}"), (None, b"{}")]])
    assert filled.rows() == [("b",), (None,)]
    assert len(filled.failures) == 1
    assert (key_type(None), key_type(PlainFormat(True))) == (BYTEA, TEXT)


def test_what_has_ended_is_never_stored() -> None:
    case = made("none", "SELECT (data->>'n')::int8 AS n FROM s WHERE mz_now() < (data->>'n')::int8")
    assert case.output.hidden == 2
    filled = Filled(case)
    filled.split([[(None, b'{"n": %d}' % (NOW + i)) for i in (-1, 0, 1, 2)] + [(None, b"{}")]])
    assert filled.rows(2) == [(NOW + 1,), (NOW + 2,)]
    assert filled.counts[2:] == RecordCounts(kept=2, filtered=1, expired=2)[2:]


def test_a_retraction_that_fails_was_never_there() -> None:
    case = made("none", SQL)
    step = envelope.envelope_step(case.source, case.output, NOW, None)
    records = [RECORDS[0], RECORDS[2], RECORDS[0], RECORDS[2], RECORDS[3]]
    gave = step.chunk(chunk(step, case.source, records, diffs=np.array([1, 1, -1, -1, -1])))
    assert gave.columns[0].to_pylist() == [1, 1]
    assert gave.diffs is not None
    assert gave.diffs.tolist() == [1, -1]
    assert [one.position for one in gave.failures] == [{"offset": 1}]
    assert gave.counts[2:] == (2, 2, 0, 1)
    assert len(step.finish()) == 0


def test_a_transform_before_the_envelope_is_the_first_of_two() -> None:
    before = "SELECT data->'in' AS inner, \"offset\" AS o FROM s WHERE data ? 'in'"
    case = made(
        "none", "SELECT (inner->>'n')::int8 AS n, o FROM s WHERE o > 0", included=("offset",), before=before
    )
    filled = Filled(case)
    filled.split([[(None, b'{"in": {"n": %d}}' % i) for i in range(3)] + [(None, b'{"n": "x"}')]])
    assert filled.rows() == [(1, 1), (2, 2)]
    assert filled.failures == []


def test_formats_without_changes_are_refused_for_debezium() -> None:
    assert envelope.envelope_columns("debezium", JsonFormat()) == JsonFormat().columns
    with pytest.raises(BindError, match="before, after and op"):
        envelope.envelope_columns("debezium", PlainFormat(True))
    with pytest.raises(BindError, match="before, after and op"):
        envelope.envelope_columns(
            "debezium", CsvFormat(("before", "after", "op"), header=True, delimiter=",")
        )
