"""Audit: what statistics left out is read all the same, and a lie in them is found and named."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate
from tidegate.errors import AuditError
from tidegate.query import audit
from tidegate.query.audit import MAX_AUDITED_PARTS, sample
from tidegate.storage.part.schema import Schema
from tidegate.storage.stats.part_stats import PartStats


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as opened:
        opened.set("audit", 1.0)
        yield opened


def filled(db: tidegate.Database, parts: int = 10, rows: int = 10) -> None:
    db.sql("CREATE TABLE t (id int8, s text)")
    for i in range(parts):
        ids = list(range(i * rows, (i + 1) * rows))
        db.append("t", {"id": ids, "s": [f"row {id_}" for id_ in ids]}, at=i + 1)


def lie(db: tidegate.Database, by: int) -> str:
    """Appends a part whose statistics say that its ids, 0 and 1, are greater by some; its name."""
    shard = db.context.table("t")

    def describe(schema: Schema, columns: list[pa.Array]) -> PartStats:
        return shard.describe(schema, [pc.add(columns[0], by), *columns[1:]])

    done = replace(shard, describe=describe).append({"id": [0, 1], "s": ["a", "b"]})
    return done.parts[0].name


def test_pruned_parts_are_audited_and_not_counted_as_read(db: tidegate.Database) -> None:
    filled(db)
    r = db.sql("SELECT s FROM t WHERE id >= 93")
    assert len(r) == 7
    assert (r.scan.parts_total, r.scan.parts_read, r.scan.parts_audited) == (10, 1, 9)
    assert (r.scan.parts_pruned, r.scan.parts_proven) == (9, 0)
    assert 0 < r.scan.bytes_audited <= r.scan.bytes_pruned < r.scan.bytes_total
    assert r.scan.rows_read == 10
    nothing = db.sql("SELECT s FROM t WHERE id > 1000")
    assert (nothing.path, nothing.scan.parts_audited) == ("metadata", 10)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_how_many(db: tidegate.Database, share: float) -> None:
    filled(db)
    db.set("audit", share)
    assert db.sql("SELECT s FROM t WHERE id = 5").scan.parts_audited == (9 if share else 0)
    db.set("stats_filter", False)
    assert db.sql("SELECT s FROM t WHERE id = 5").scan.parts_audited == 0, "nothing was left out"


@pytest.mark.parametrize(
    "where", ["id < 2", "id = 1 AND s = 'b'", "id < 2 AND length(s) = 1", "1 / id < 0 OR id = 0"]
)
def test_a_lie_is_caught_and_named(
    db: tidegate.Database, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(db, parts=2)
    name = lie(db, by=500)
    db.set("audit", 0.0)
    assert len(db.sql("SELECT s FROM t WHERE id < 2")) == 2, "of four: the lie works"
    db.set("audit", 1.0)
    with caplog.at_level(logging.ERROR, "tidegate"), pytest.raises(tidegate.CorruptError) as caught:
        db.sql(f"SELECT s FROM t WHERE {where}")
    assert isinstance(caught.value, AuditError)
    assert caught.value.part == name
    assert f"the statistics of {name} are wrong" in str(caught.value)
    assert "id" in caught.value.message.partition("passes")[2]
    (record,) = caplog.records
    said = vars(record)["tidegate"]
    assert (said["event"], said["part"]) == ("audit_failed", name)
    db.set("stats_filter", False)
    assert len(db.sql("SELECT s FROM t WHERE id < 2")) == 4


def test_only_the_condition_that_lied_is_blamed(db: tidegate.Database) -> None:
    filled(db, parts=1)
    lie(db, by=500)
    with pytest.raises(AuditError, match=r"no row passes id < 5 or fails in it, and one does") as caught:
        db.sql("SELECT s FROM t WHERE s = 'b' AND id < 5")
    assert "s = 'b'" not in caught.value.message


def test_an_error_behind_a_lie_is_caught(db: tidegate.Database) -> None:
    """By its statistics id is never 0, so that 100 / id can neither fail nor be more than 100."""
    filled(db, parts=0)
    lie(db, by=500)
    with pytest.raises(AuditError):
        db.sql("SELECT s FROM t WHERE 100 / id > 200")


def test_retractions_are_asked_row_by_row(db: tidegate.Database) -> None:
    filled(db, parts=3)
    db.append("t", {"id": [5], "s": ["row 5"]}, diff=-1)
    r = db.sql("SELECT id FROM t WHERE id > 3 AND id < 8")
    assert sorted(r.rows()) == [(4,), (6,), (7,)]
    assert r.scan.parts_audited == 2


@pytest.mark.usefixtures("commits_make_files")
def test_a_part_that_cannot_be_read_is_logged_and_not_missed(
    db: tidegate.Database, caplog: pytest.LogCaptureFixture
) -> None:
    filled(db, parts=2)
    shard = db.context.table("t")
    gone = shard.machine.fetch().parts.all()[0].name
    shard.machine.blob.delete(gone)
    with caplog.at_level(logging.WARNING, "tidegate"):
        r = db.sql("SELECT id FROM t WHERE id = 15")
    assert (r.rows(), r.scan.parts_audited) == ([(15,)], 0)
    assert [vars(record)["tidegate"]["part"] for record in caplog.records] == [gone]


# ---------------------------------------------------------------- which


def test_a_share_is_rounded_at_random_and_bounded() -> None:
    """Of 200 parts 1 % is 2, of 250 it is 2 or 3 equally often: 2,000 throws fall within 9 deviations of that."""
    chance = random.Random(7)
    assert {len(sample(200, 100, 0.01, chance)) for _ in range(200)} == {2}
    seen = Counter(len(sample(250, 100, 0.01, chance)) for _ in range(2_000))
    assert set(seen) == {2, 3}
    assert 800 < seen[2] < 1_200
    assert len(sample(1_000_000, 1_000_000, 0.01, chance)) == MAX_AUDITED_PARTS
    assert len(sample(1_000_000, 1_000_000, 0.01, chance, most=1)) == 1
    assert len(sample(0, 5, 0.5, chance)) == 0
    assert sample(5, 0, 1.0, chance, most=1).tolist() == [0, 1, 2, 3, 4]


def test_who_reads_little_audits_little() -> None:
    """A look-up of one part in a million audits 0.11 parts on average: of 3,000 that is 330, with a deviation of 17."""
    chance = random.Random(7)
    seen = Counter(len(sample(1_000_000, 1, 0.01, chance)) for _ in range(3_000))
    assert set(seen) == {0, 1}
    assert 230 < seen[1] < 430
    nothing = Counter(len(sample(1_000_000, 0, 0.01, chance)) for _ in range(3_000))
    assert 0 < nothing[1] < 90


def test_any_part_may_be_chosen_and_they_rise() -> None:
    chance = random.Random(7)
    found = [sample(20, 5, 0.25, chance).tolist() for _ in range(200)]
    assert all(places == sorted(set(places)) and len(places) == 5 for places in found)
    assert {place for places in found for place in places} == set(range(20))
    again = random.Random(7)
    assert [sample(20, 5, 0.25, again).tolist() for _ in range(200)] == found


def test_bytes_are_bounded(db: tidegate.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(db)
    size = db.context.table("t").machine.fetch().parts.all()[0].size
    monkeypatch.setattr(audit, "MAX_AUDITED_BYTES", 2 * size)
    db.set("audit", 0.99)
    few = db.sql("SELECT s FROM t WHERE id = 5").scan
    assert 2 <= few.parts_audited <= 4, "of 8 or 9, until the bytes of two parts are reached"
    assert few.bytes_audited >= 2 * size
    db.set("audit", 1.0)
    assert db.sql("SELECT s FROM t WHERE id = 5").scan.parts_audited == 9


def test_changes_are_audited_too(db: tidegate.Database) -> None:
    """A row that statistics hide would not be deleted."""
    filled(db, parts=1)
    lie(db, by=500)
    for sql in ("DELETE FROM t WHERE id < 5", "UPDATE t SET s = 'z' WHERE id < 5"):
        with pytest.raises(AuditError):
            db.sql(sql)
    db.set("stats_filter", False)
    assert len(db.sql("SELECT s FROM t")) == 12, "nothing was changed"


def test_groups_are_audited_too(db: tidegate.Database) -> None:
    filled(db, parts=1)
    lie(db, by=500)
    with pytest.raises(AuditError):
        db.sql("SELECT count(*) FROM t WHERE id < 5")
