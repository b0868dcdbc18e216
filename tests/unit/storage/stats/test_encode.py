"""The encoding of statistics: everything comes back, and what cannot be read is unknown."""

import logging

import numpy as np
import pyarrow as pa
import pytest

from tidegate.storage.stats import encode as codec
from tidegate.storage.stats.counters import StatsCounters
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.json.model import JsonStats
from tidegate.storage.stats.model import ColumnStats, Form

JSON = JsonStats(
    (1, 2, 3, 4, 5, 6, 700), -5, 10**37, True, "low", "lower",
    {"": JsonStats(None), "k,\U0010ffff": JsonStats((0,) * 7, closed=True)},
)  # fmt: skip
ALL = {
    0: ColumnStats(Form.BOOL, 10, 0, False, True, distinct=2),
    1: ColumnStats(Form.INTEGER, 2**40, 2**39, -(2**63), 2**63 - 1, histogram=b"h" * 30),
    2: ColumnStats(Form.DECIMAL, 1, 0, -(10**38) + 1, 10**38 - 1),
    3: ColumnStats(Form.FLOAT, 1, 0, float("-inf"), 5e-324, nan=False),
    4: ColumnStats(Form.TEXT, 1, 0, "préfix a", "préfix b", distinct=0),
    5: ColumnStats(Form.BYTES, 1, 0, b"", None),
    6: ColumnStats(Form.INTERVAL, 1, 0, (-1, 2, -3), (0, 0, 2**62), months=False),
    7: ColumnStats(Form.JSON, 1, 0, json=JSON),
    8: ColumnStats(
        Form.RECORD, 1, 0, fields=(None, ColumnStats(Form.TEXT, 1, 1), ColumnStats(Form.JSON, 3, 3))
    ),
    9: ColumnStats(
        Form.ARRAY, 1, 0, element=ColumnStats(Form.ARRAY, 5, 0, element=ColumnStats(Form.INTEGER, 0, 0))
    ),
    300: ColumnStats(Form.INTEGER, 0, 0, None, 7),
}


def test_everything_comes_back() -> None:
    assert codec.decode(codec.encode(ALL)) == ALL
    for id_, one in ALL.items():
        assert codec.decode(codec.encode({id_: one})) == {id_: one}
    assert codec.encode({}) == b""
    assert codec.decode(b"") is None


def test_it_is_short() -> None:
    stamp = ColumnStats(Form.INTEGER, 10**6, 0, 1_700_000_000_000_000, 1_700_003_600_000_000)
    assert len(codec.encode_column(3, stamp)) <= 20


def test_every_flipped_bit_means_unknown() -> None:
    data = codec.encode(ALL)
    for i in range(len(data)):
        for bit in (1, 64):
            assert codec.decode(data[:i] + bytes([data[i] ^ bit]) + data[i + 1 :]) is None
    for i in range(1, len(data)):
        assert codec.decode(data[:i]) is None


def test_a_newer_version_is_unknown_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    import zlib

    counters = StatsCounters()
    body = b"\x63" + codec.encode(ALL)[1:-4]
    newer = body + zlib.crc32(body).to_bytes(4, "little")
    malformed = b"\x01\x00?"
    malformed += zlib.crc32(malformed).to_bytes(4, "little")
    with caplog.at_level(logging.WARNING):
        frame = Frame.of_parts(np.array([1, 1, 1]), [newer, newer, malformed])
        counters.count_frames([frame, frame])
    assert counters.unreadable == {"of version 99": 2, "malformed": 1}
    assert len(caplog.records) == 2
    assert frame.names == ()
    assert frame.nulls(0).equals(pa.nulls(3, pa.int64()))
