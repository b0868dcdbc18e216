"""DELETE and UPDATE: which rows, what becomes of them, what is refused. Who does it at once: `test_modify_race.py`."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import tidegate
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.database import Database
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.statement import Update
from tidegate.statements import modify
from tidegate.storage.maintain import compact
from tidegate.storage.part.deletions import Deletions

CONFIG = Config(
    audit=1.0,
    compact_fanout=2,
    max_ahead_ms=0,  # others write by the clock of the machine, far ahead of the one here
    retraction_lookup_bytes=0,  # retractions that are appended wait for compaction, so that both ways can be tested
)


@pytest.fixture
def place() -> str:
    return f"memory://{secrets.token_hex(6)}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def db(place: str, clock: ManualClock) -> Iterator[Database]:
    with Database.open(place, clock=clock, config=CONFIG) as made:
        made.sql("CREATE TABLE t (id int8 NOT NULL, n int4 DEFAULT 7, s text)")
        yield made


def rows(db: Database, sql: str = "SELECT * FROM t ORDER BY id, n, s", **more: int) -> list[tuple[Any, ...]]:
    return db.sql(sql, **more).rows()


def upper(db: Database) -> int:
    return db.status().collections["t"].upper


def done(db: Database, sql: str) -> str:
    return db.sql(sql).text()


# ---------------------------------------------------------------- what they do


def test_rows_go_and_change_and_the_past_stays(db: Database, clock: ManualClock) -> None:
    db.append("t", {"id": [1, 2, 3], "n": [10, 20, None], "s": ["a", "b", None]}, at=1000)
    clock.set(2000)
    assert done(db, "DELETE FROM t WHERE id = 2") == "DELETE 1"
    clock.set(3000)
    assert done(db, "UPDATE t SET n = n + 1, s = s || '!' WHERE n IS NOT NULL") == "UPDATE 1"
    clock.set(4000)
    assert done(db, "UPDATE t SET n = DEFAULT WHERE n IS NULL") == "UPDATE 1"
    first = [(1, 10, "a"), (2, 20, "b"), (3, None, None)]
    for at, there in [
        (1000, first),
        (1999, first),
        (2000, [(1, 10, "a"), (3, None, None)]),
        (3000, [(1, 11, "a!"), (3, None, None)]),
        (4000, [(1, 11, "a!"), (3, 7, None)]),
    ]:
        assert rows(db, as_of=at) == there
        assert rows(db, f"SELECT * FROM t ORDER BY id AS OF {at}") == there
    db.compact("t", full=True)
    assert rows(db, as_of=1999) == first
    assert rows(db) == [(1, 11, "a!"), (3, 7, None)]
    assert done(db, "DELETE FROM t") == "DELETE 2"
    assert rows(db) == []
    assert done(db, "DELETE FROM t") == "DELETE 0"


def test_a_row_that_is_there_three_times_goes_three_times(db: Database) -> None:
    db.append("t", {"id": [1, 2], "n": [1, 2], "s": ["a", "a"]}, diff=[3, 1])
    assert done(db, "UPDATE t SET id = id + 1 WHERE s = 'a'") == "UPDATE 4"
    assert rows(db) == [(2, 1, "a")] * 3 + [(3, 2, "a")]
    assert done(db, "UPDATE t SET id = 2, n = 1") == "UPDATE 4"
    assert rows(db) == [(2, 1, "a")] * 4
    assert done(db, "DELETE FROM t WHERE id = 2") == "DELETE 4"
    assert rows(db) == []


def test_values_see_the_row_as_it_was_and_are_narrowed(db: Database) -> None:
    db.sql("INSERT INTO t VALUES (1, 2, 'x')")
    done(db, "UPDATE t SET id = n, n = id")
    assert rows(db) == [(2, 1, "x")]
    done(db, "UPDATE t AS u SET n = u.id * 1.75, s = u.id WHERE u.s = 'x'")
    assert rows(db) == [(2, 4, "2")]
    done(db, "UPDATE t SET s = NULL")
    assert rows(db) == [(2, 4, None)]


def test_what_becomes_itself_is_counted_and_not_written(db: Database) -> None:
    db.sql("INSERT INTO t VALUES (1, 2, 'x'), (2, 3, NULL)")
    before = upper(db)
    assert done(db, "UPDATE t SET n = n, s = s") == "UPDATE 2"
    assert done(db, "DELETE FROM t WHERE id > 5") == "DELETE 0"
    assert done(db, "DELETE FROM t WHERE s = NULL") == "DELETE 0"
    assert done(db, "UPDATE t SET n = 1 WHERE false") == "UPDATE 0"
    assert (upper(db), db.status().collections["t"].monotonic) == (before, True)
    assert done(db, "UPDATE t SET n = 3") == "UPDATE 2"
    (status,) = db.status().collections.values()
    assert (status.monotonic, status.parts) == (True, 2), "only the row that differs is deleted and written"
    state = db.context.table("t").machine.fetch()
    assert [part.rows for part in state.parts.all()] == [2, 1]
    assert state.parts.deletions.records.column("rows").to_pylist() == [1]
    assert rows(db) == [(1, 3, "x"), (2, 3, None)]


def test_every_type_can_be_taken_out_again(place: str) -> None:
    with tidegate.open(place) as db:
        db.sql(
            "CREATE TABLE t (id int4, a numeric(10,2), b float8, c jsonb, d uuid, e timestamptz, f interval, g bytea,"
            " h text[], i date, j bool, k float4)"
        )
        uuid = "'00000000-0000-0000-0000-00000000000a'"
        full = f"1.50, 'NaN', '{{\"b\": [1.0], \"a\": null}}', {uuid}, '2024-01-01', '1 mon 2 days', '\\x00ff', '{{a,NULL}}'"
        db.sql(
            f"INSERT INTO t VALUES (1, {full}, '2024-02-29', true, 1.1), (2, {full}, '2024-02-29', true, 1.1)"
        )
        db.sql("INSERT INTO t (id) VALUES (3)")
        db.sql("INSERT INTO t (id, b) VALUES (4, '-0')")
        before = rows(db, "SELECT * FROM t ORDER BY id")
        assert done(db, "UPDATE t SET id = id + 10") == "UPDATE 4"
        after = rows(db, "SELECT * FROM t ORDER BY id")
        assert repr([row[1:] for row in after]) == repr([row[1:] for row in before])
        assert [row[0] for row in after] == [11, 12, 13, 14]
        db.compact("t", full=True)
        assert done(db, "DELETE FROM t WHERE id <> 12") == "DELETE 3"
        assert len(rows(db, "SELECT * FROM t")) == 1


def test_only_parts_that_may_hold_such_rows_are_read(db: Database) -> None:
    for i in range(5):
        db.sql(f"INSERT INTO t VALUES ({i}, {i}, 'x')")
    first = db.sql("DELETE FROM t WHERE id = 3")
    assert (first.scan.parts_read, first.scan.parts_total, first.scan.parts_audited) == (1, 5, 4)
    second = db.sql(
        "UPDATE t SET n = 0 WHERE id = 3"
    )  # the part of the row has no other, and is not there any more
    assert (second.text(), second.scan.parts_read, second.scan.parts_total) == ("UPDATE 0", 0, 5)
    db.set("stats_filter", False)
    assert db.sql("UPDATE t SET n = 0 WHERE id = 2").scan.parts_read == 4
    assert rows(db) == [(0, 0, "x"), (1, 1, "x"), (2, 0, "x"), (4, 4, "x")]


def test_new_rows_of_many_parts_are_one_part(db: Database) -> None:
    for i in range(5):
        db.sql(f"INSERT INTO t VALUES ({i}, {i}, 'x'), ({i + 10}, {i}, 'x')")
    assert done(db, "UPDATE t SET n = -1 WHERE id < 10") == "UPDATE 5"
    assert [part.rows for part in db.context.table("t").machine.fetch().parts.all()] == [2] * 5 + [5]
    assert rows(db, "SELECT id, n FROM t WHERE n = -1 ORDER BY id") == [(i, -1) for i in range(5)]


def test_by_value_a_row_and_its_retraction_meet_in_the_parts_that_may_hold_them(db: Database) -> None:
    for i in range(5):
        db.sql(f"INSERT INTO t VALUES ({i}, {i}, 'x')")
    db.set("retraction_lookup_bytes", 0)  # the retraction stays a row
    db.append("t", {"id": [3], "n": [3], "s": ["x"]}, diff=-1)
    second = db.sql("UPDATE t SET n = 0 WHERE id = 3")
    assert (second.text(), second.scan.parts_read, second.scan.parts_total) == ("UPDATE 0", 2, 6)
    db.set("stats_filter", False)
    assert db.sql("UPDATE t SET n = 0 WHERE id = 2").scan.parts_read == 6
    assert rows(db) == [(0, 0, "x"), (1, 1, "x"), (2, 0, "x"), (4, 4, "x")]


def test_mz_now_is_the_time_of_the_statement(db: Database, clock: ManualClock) -> None:
    db.append("t", {"id": [1_999, 2_001], "n": [1, 1], "s": ["", ""]}, at=1000)
    clock.set(2000)
    assert done(db, "DELETE FROM t WHERE mz_now() > id::mz_timestamp") == "DELETE 1"
    assert done(db, "UPDATE t SET s = mz_now()::text") == "UPDATE 1"
    assert rows(db) == [(2_001, 1, "2000")]


# ---------------------------------------------------------------- what they refuse


@pytest.mark.parametrize(
    ("sql", "error", "says"),
    [
        ("UPDATE t SET id = NULL WHERE id = 2", tidegate.EvaluationError,
         "SET id = NULL WHERE id = 2\n                 ^^\nin the row id = 2, n = 0, s = 'b'"),
        ("UPDATE t SET id = NULL", tidegate.EvaluationError, 'null value in column "id" violates not-null constraint\n'),
        ("UPDATE t SET nn = 1", tidegate.BindError, "did you mean n?"),
        ("UPDATE t SET n = 1, n = 2", tidegate.ParseError, "^"),
        ("UPDATE t SET n = 'x'", tidegate.BindError, "    UPDATE t SET n = 'x'\n                     ^^^"),
        ("UPDATE t SET n = true", tidegate.TypeMismatch, 'column "n": expected int4, got bool'),
        ("UPDATE t SET n = 4000000000", tidegate.EvaluationError, "integer out of range"),
        ("UPDATE t SET n = 10 / n", tidegate.EvaluationError, "in the row id = 2, n = 0, s = 'b'"),
        ("DELETE FROM t WHERE 10 / n > 1", tidegate.EvaluationError, "division by zero"),
        ("DELETE FROM t WHERE n", tidegate.TypeMismatch, "WHERE wants a condition"),
        ("DELETE FROM t WHERE m = 1", tidegate.BindError, 'column "m" does not exist'),
        ("DELETE FROM u", tidegate.BindError, 'no table or view "u"'),
        ("DELETE FROM v", tidegate.BindError, '"v" is a view'),
        ("UPDATE t AS a SET n = t.n", tidegate.BindError, 'no table "t"'),
        ("UPDATE t SET n = max(n)", tidegate.BindError, "aggregates are not allowed in UPDATE"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_changes_nothing(
    db: Database, sql: str, error: type[tidegate.TidegateError], says: str
) -> None:
    db.sql("INSERT INTO t VALUES (1, 5, 'a'), (2, 0, 'b'); CREATE VIEW v AS SELECT * FROM t")
    before = upper(db), rows(db)
    with pytest.raises(error) as raised:
        db.sql(sql)
    assert says in str(raised.value)
    assert (upper(db), rows(db)) == before
    assert db.status().collections["t"].parts == 1


def test_a_row_that_does_not_pass_may_fail_in_its_values(db: Database) -> None:
    db.sql("INSERT INTO t VALUES (1, 5, 'a'), (2, 0, 'b')")
    assert done(db, "UPDATE t SET n = 10 / n WHERE n <> 0") == "UPDATE 1"
    assert rows(db) == [(1, 2, "a"), (2, 0, "b")]


def test_as_of_is_for_queries(db: Database) -> None:
    with pytest.raises(tidegate.BindError, match="as_of is for queries"):
        db.sql("DELETE FROM t", as_of=5)


def test_too_many_bytes_are_refused(db: Database) -> None:
    db.sql(f"INSERT INTO t VALUES (1, 1, '{'x' * 5000}'), (2, 1, 'y')")
    db.set("max_result_bytes", 1000)
    with pytest.raises(tidegate.LimitError, match="more than 1000 bytes"):
        db.sql("UPDATE t SET n = 2")
    assert done(db, "UPDATE t SET n = 2 WHERE id = 2") == "UPDATE 1"
    db.set("max_result_bytes", None)
    assert rows(db, "SELECT id, n FROM t ORDER BY id") == [(1, 1), (2, 2)]


def test_binding_alone_tells_the_columns_of_returning(db: Database) -> None:
    (plain, returning) = grammar.parse_statements(
        "UPDATE t SET n = n + 1 WHERE id > 5; UPDATE t SET n = n + 1 RETURNING id, n::text AS m"
    )
    assert isinstance(plain, Update)
    assert isinstance(returning, Update)
    assert modify.bind_returning(db.context, plain) is None
    found = modify.bind_returning(db.context, returning)
    assert found is not None
    assert (found[0], [str(type_) for type_ in found[1]]) == (("id", "m"), ["int8", "text"])


# ---------------------------------------------------------------- against a plain list

FLOATS = ["0", "-0", "nan", "1.5", None]
CASES = 6
"""Runs of 25 statements each: enough that pruned reads over retractions, compaction and -0 meet; some 3 s."""
Model = Counter[tuple[int, str | None]]
PICKS: list[tuple[str, Callable[[int, int, str | None], bool]]] = [
    ("id = {k}", lambda k, i, x: i == k),
    ("id > {k}", lambda k, i, x: i > k),
    ("x IS NULL", lambda k, i, x: x is None),
    ("x = 0", lambda k, i, x: x is not None and float(x) == 0),
    ("x::text = '-0'", lambda k, i, x: x == "-0"),
    ("true", lambda k, i, x: True),
    ("x > 1 AND id < {k}", lambda k, i, x: x in ("1.5", "nan") and i < k),
]


def step(db: Database, rng: random.Random, model: Model) -> Model:
    """One random statement; what the table must hold after it."""
    k, (where, holds) = rng.randrange(6), rng.choice(PICKS)
    hit = Counter({row: many for row, many in model.items() if holds(k, *row)})
    match rng.choice(["insert", "insert", "delete", "update", "compact"]):
        case "insert":
            new = [(rng.randrange(6), rng.choice(FLOATS)) for _ in range(rng.randrange(1, 5))]
            spelled = ", ".join(f"({i}, {'NULL' if x is None else repr(x)})" for i, x in new)
            db.sql(f"INSERT INTO t VALUES {spelled}")
            return model + Counter(new)
        case "delete":
            assert done(db, f"DELETE FROM t WHERE {where.format(k=k)}") == f"DELETE {hit.total()}"
            return model - hit
        case "update":
            sql = f"UPDATE t SET id = (id + 1) % 6, x = {k} * 0.0 WHERE {where.format(k=k)}"
            assert done(db, sql) == f"UPDATE {hit.total()}"
            moved: Model = Counter()
            for (i, _), many in hit.items():
                moved[(i + 1) % 6, "0"] += many
            return model - hit + moved
        case _:
            db.compact("t", full=rng.random() < 0.5)
            return model


@pytest.mark.parametrize("seed", range(CASES))
def test_random_statements_agree_with_a_list(place: str, seed: int) -> None:
    rng, model = random.Random(seed), Model()
    with Database.open(place, config=CONFIG) as db:
        db.sql("CREATE TABLE t (id int8, x float8)")
        for _ in range(25):
            db.set("stats_filter", rng.random() < 0.8)
            model = step(db, rng, model)
            shown = {(i, "NaN" if x == "nan" else x): many for (i, x), many in model.items()}
            assert Counter(rows(db, "SELECT id, x::text FROM t")) == Counter(shown)


def test_many_small_deletes_of_a_part_are_kept_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads joins no bitmap twice; a compaction rewrites the part however few rows are deleted."""
    monkeypatch.setattr(compact, "MAX_RECORDS", 20)
    joined: list[int] = []
    original = Deletions._joined

    def join(self: Deletions, records: Sequence[int], *more: Any) -> bytes:
        joined.append(len(records))
        return original(self, records, *more)

    monkeypatch.setattr(Deletions, "_joined", join)
    clock = ManualClock(1_000)
    with tidegate.open("memory://", clock=clock) as db:
        db.sql("CREATE TABLE t (id int8)")
        db.append("t", {"id": list(range(1000))})
        before = db.sql("SELECT count(*) FROM t").rows()
        for id_ in range(0, 400, 10):
            clock.advance(1)
            db.sql(f"DELETE FROM t WHERE id = {id_}")
        left = [i for i in range(1000) if i % 10 or i >= 400]
        for _ in range(3):
            assert [row[0] for row in db.sql("SELECT id FROM t ORDER BY id").rows()] == left
            assert db.sql("SELECT count(*) FROM t", as_of=1_020).rows() == [(980,)]
            assert len(db.sql("SELECT id FROM t", as_of=1_020).rows()) == 980
        assert sum(many for many in joined if many > 8) <= 20  # AS OF 1,020, once
        assert db.compact("t").removed == 1
        assert db.sql("SELECT id FROM t").scan.parts_read == 1
        assert db.sql("SELECT count(*) FROM t", as_of=1_000).rows() == before
        assert len(db.sql("SELECT id FROM t", as_of=1_020).rows()) == 980


def test_history_may_be_kept_for_no_time_at_all() -> None:
    clock = ManualClock(1_000)
    with tidegate.open("memory://", clock=clock) as db:
        db.sql("CREATE TABLE t (id int8) WITH (RETENTION '0 s')")
        assert "RETENTION = 0" in db.sql("SHOW CREATE TABLE t").text()
        db.append("t", {"id": [1, 2]})
        clock.advance(10)
        db.sql("DELETE FROM t WHERE id = 1")
        assert db.compact("t", full=True).since == 1_010
        assert db.sql("SELECT id FROM t").rows() == [(2,)]
