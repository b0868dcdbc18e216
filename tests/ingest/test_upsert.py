"""ENVELOPE UPSERT against a dictionary from keys to last values: random histories, cut anywhere into batches and chunks."""

import os
import pickle
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.ingest.envelopes import NOW, Filled, Record, chunk, made
from tidegate.errors import SourceError
from tidegate.ingest.batch.upsert_lookup import SnapshotRowLookup
from tidegate.ingest.envelopes import step as envelope
from tidegate.ingest.envelopes.upsert import hash_keys
from tidegate.storage.shard import open_snapshot

HISTORIES = int(os.environ.get("TIDEGATE_UPSERTS", "12"))
"""Of 200 records each. A mistake in what replaces what shows in the first one or two; more are for rarer kinds together."""
SQL = "SELECT (data->>'n')::int8 AS n, data->>'t' AS t FROM s WHERE data->>'t' <> 'drop'"
KEYS = [b"", b"a", b"a\0", b"\0a", b"\xff\xfe", b"key-3", b"key-30", "schlüssel".encode()]


@dataclass
class Model:
    """What the collection should hold: of each key the row of its last record."""

    rows: dict[bytes, tuple[int | None, str | None]] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    count: int = 0

    def see(self, record: "Drawn") -> None:
        number, self.count = self.count, self.count + 1
        if record.key is None or record.fails:
            self.failed.append(number)
        if record.key is not None:
            self.rows.pop(record.key, None)
            if record.row is not None:
                self.rows[record.key] = record.row


@dataclass
class Drawn:
    key: bytes | None
    value: bytes | None
    row: tuple[int | None, str | None] | None = None
    fails: bool = False


def drawn(random_: random.Random) -> Drawn:
    key = None if random_.random() < 0.03 else random_.choice(KEYS)
    n, t = random_.choice([None, 0, 1, 2]), random_.choice(["x", "y", "drop"])
    row = None if t == "drop" else (n, t)
    match random_.choice(["row", "row", "row", "null", "none", "no JSON", "no number"]):
        case "row":
            shown = "null" if n is None else n
            return Drawn(key, f'{{"n": {shown}, "t": "{t}", "more": [{random_.random()}]}}'.encode(), row)
        case "null":
            return Drawn(key, b"{}")  # NULL <> 'drop' is not true
        case "none":
            return Drawn(key, None)
        case "no JSON":
            return Drawn(key, b'{"n": 1', fails=True)
        case _:
            return Drawn(key, f'{{"n": "x", "t": "{t}"}}'.encode(), None, fails=t != "drop")


def cut(random_: random.Random, records: list[Drawn]) -> list[list[Record]]:
    places = sorted(random_.randrange(len(records) + 1) for _ in range(random_.randrange(4)))
    ends = zip([0, *places], [*places, len(records)], strict=True)
    return [[(one.key, one.value) for one in records[begin:end]] for begin, end in ends]


@pytest.mark.parametrize("by_position", [True, False])
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_random_history(seed: int, *, by_position: bool) -> None:
    random_ = random.Random(seed)
    filled, model = Filled(made("upsert", SQL), by_position=by_position), Model()
    while model.count < 200:
        batch = [drawn(random_) for _ in range(random_.choice([1, 2, 10, 40]))]
        for record in batch:
            model.see(record)
        gave = filled.split(cut(random_, batch))
        assert filled.rows() == sorted(((*row, key) for key, row in model.rows.items()), key=repr)
        keys = pa.array(sorted({one.key for one in batch if one.key is not None}), pa.binary())
        found = gave[-1].keys
        assert (found is None) == (len(keys) == 0)
        assert found is None or found.tolist() == sorted(hash_keys(keys).tolist())
        if random_.random() < 0.2:
            filled.world.clock.advance(10_000)
    assert filled.shard.machine.fetch().monotonic or not by_position, "no retraction is a row"
    assert [one.position["offset"] for one in filled.failures] == model.failed
    counts = filled.counts
    assert counts.records == model.count == counts.kept + counts.filtered + counts.expired + counts.bad
    assert counts.bad == len(model.failed)


@pytest.mark.parametrize("by_position", [True, False])
def test_what_does_not_change_gives_nothing(*, by_position: bool) -> None:
    filled = Filled(made("upsert", SQL), by_position=by_position)
    filled.split([[(b"a", b'{"n": 1, "t": "x", "u": 1}'), (b"b", b'{"n": 2, "t": "x"}')]])
    gave = filled.split([[(b"a", b'{"n": 1, "t": "x", "u": 2}'), (b"c", None)]])
    assert sum(map(len, gave)) == 0
    assert gave[-1].deletions is None
    gave = filled.split([[(b"a", b'{"n": 1, "t": "y"}')]])
    assert (gave[-1].diffs is None) == by_position
    assert filled.changes(gave[-1], 1) == [(-1, "x"), (1, "y")]


def test_what_is_dropped_before_the_envelope_replaces_nothing() -> None:
    before = "SELECT data->'in' AS v FROM s WHERE data->>'op' <> 'skip'"
    filled = Filled(made("upsert", "SELECT (v->>'n')::int8 AS n FROM s WHERE v->>'n' <> '9'", before=before))
    filled.split([[(b"a", b'{"op": "", "in": {"n": 1}}'), (b"b", b'{"op": "", "in": {"n": 2}}')]])
    filled.split([[(b"a", b'{"op": "skip", "in": {"n": 3}}'), (b"b", b'{"op": "", "in": {"n": 9}}')]])
    assert filled.rows(1) == [(1,)]
    filled.split([[(b"a", b'{"op": "'), (b"b", b'{"op": "", "in": {"n": 4}}')]])
    assert filled.rows(1) == [(4,)]
    filled.split([[(b"b", None)]])
    assert filled.rows(1) == []


@pytest.mark.parametrize("by_position", [True, False])
def test_rows_that_end_by_themselves(*, by_position: bool) -> None:
    sql = "SELECT data->>'v' AS v FROM s WHERE mz_now() < (data->>'until')::int8"
    filled = Filled(made("upsert", sql), by_position=by_position)
    assert filled.of.output.hidden == 3
    record = b'{"v": "%s", "until": %d}'
    filled.split(
        [[(b"a", record % (b"1", NOW + 10)), (b"b", record % (b"2", NOW + 99)), (b"c", record % (b"3", NOW))]]
    )
    assert filled.rows(3) == [("1",), ("2",)]
    assert filled.counts.expired == 1
    filled.world.clock.set(NOW + 50)
    gave = filled.split([[(b"a", record % (b"4", NOW + 60)), (b"b", record % (b"5", NOW + 1))]], NOW + 50)
    # That of a has ended, and is not retracted; that of b is, for what has ended already.
    assert (gave[-1].diffs is None) == by_position
    assert filled.changes(gave[-1], 0) == [(-1, "2"), (1, "4")]


def test_an_upstream_without_keys_is_an_error() -> None:
    case = made("upsert", SQL)
    step = envelope.envelope_step(case.source, case.output, NOW, object())  # type: ignore[arg-type]  # is not asked
    given = chunk(step, case.source, [(b"a", b"{}")])
    with pytest.raises(SourceError, match="keys"):
        step.chunk(replace(given, keys=None))


def test_hashes_tell_keys_apart() -> None:
    keys = [b"", b"\0", b"\0\0", b"a", b"ab", b"ba", *(b"key-%d" % i for i in range(100_000))]
    found = hash_keys(pa.array(keys, pa.binary()))
    assert len(np.unique(found)) == len(keys)
    assert (hash_keys(pa.array(keys, pa.binary())[50:60]) == found[50:60]).all()
    assert len(hash_keys(pa.array([], pa.binary()))) == 0


def test_stored_rows_travel_and_are_pruned(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        lake = db.context
        case = made("upsert", "SELECT (data->>'n')::int8 AS n FROM s")
        machine = lake.catalog.create_table("t", case.shape.schema, case.shape.options)
        shard = lake.shards.open(machine)
        for part in range(10):
            keys = [b"%03d" % (part * 100 + i) for i in range(100)]
            shard.append({"n": list(range(100)), "_key": keys})
        shard.append({"n": [7], "_key": [b"007"]}, diff=-1)
        with open_snapshot(shard) as found:
            here = SnapshotRowLookup(found, lake.root.place, NOW)
            there = pickle.loads(pickle.dumps(here))
            for stored in (here, there):
                old = stored.rows(pa.array([b"007", b"008", b"555", b"none"], pa.binary()))
                assert sorted(old.rows.columns[1].to_pylist()) == [b"008", b"555"]
                assert old.rows.diffs.tolist() == [1, 1]
                assert old.parts is not None, "the retraction has met its row"
                assert stored.deletions(old).records.column("rows").to_pylist() == [1, 1]
                assert stored.deletions(old).deleted.tolist() == [1, 0]
                assert stored.scan.parts_read <= 3
                assert len(stored.rows(pa.array([], pa.binary()))) == 0
