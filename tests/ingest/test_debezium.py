"""ENVELOPE DEBEZIUM against the table that its changes are of: random histories as JSON, with and without payload, and as Avro."""

import io
import json
import os
import random
from pathlib import Path
from typing import Any

import fastavro
import pytest

import tidegate
from tests.ingest.envelopes import NOW, Case, Filled, Record, made
from tidegate.expr.model.types import INT8, TEXT
from tidegate.ingest.envelopes import step as envelope
from tidegate.ingest.envelopes.output import RecordCounts
from tidegate.ingest.formats.avro.format import AvroFormat

HISTORIES = int(os.environ.get("TIDEGATE_CHANGES", "4"))
"""For each of the four ways to write them, 150 changes each."""
ROW = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": ["null", "string"]}],
}
SCHEMA = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": {"type": "map", "values": "string"}},
        {"name": "op", "type": "string"},
    ],
}
AVRO = AvroFormat(json.dumps(SCHEMA))
PARSED = fastavro.parse_schema(SCHEMA)
OVER_JSON = "SELECT (data->>'id')::int8 AS id, (data->>'n')::int8 AS n FROM s WHERE data->>'n' <> '13'"
OVER_AVRO = "SELECT id, n::int8 AS n FROM s WHERE n <> '13'"


def written(change: dict[str, Any], how: str) -> bytes:
    match how:
        case "avro":
            out = io.BytesIO()
            fastavro.schemaless_writer(out, PARSED, {"source": {}, **change})
            return out.getvalue()
        case "payload":
            return json.dumps({"schema": {"after": 1}, "payload": change}).encode()
        case "mixed":
            return written(change, random.choice(["plain", "payload"]))
        case _:
            return json.dumps(change).encode()


def case_of(how: str) -> Case:
    return made("debezium", OVER_AVRO, AVRO) if how == "avro" else made("debezium", OVER_JSON)


def drawn(random_: random.Random, table: dict[int, str | None]) -> dict[str, Any]:
    """A change of the table, which is made."""
    key = random_.randrange(6)
    new = random_.choice(["1", "2", "13", "x", None])
    old = None if key not in table else {"id": key, "n": table[key]}
    after: dict[str, Any] | None = {"id": key, "n": new}
    op = random_.choice(["u", "d"]) if old is not None else random_.choice(["c", "r"])
    if op == "d":
        table.pop(key)
        after = None
    else:
        table[key] = new
    return {"before": old, "after": after, "op": op}


@pytest.mark.parametrize("how", ["plain", "payload", "mixed", "avro"])
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_random_history(how: str, seed: int) -> None:
    random_ = random.Random(seed)
    random.seed(seed)
    filled = Filled(case_of(how))
    table: dict[int, str | None] = {}
    bad = 0
    for _ in range(10):
        records: list[Record] = []
        for _ in range(random_.choice([1, 5, 30])):
            change = drawn(random_, table)
            bad += (change["after"] or {}).get("n") == "x"
            records.append((b"k", written(change, how)))
            if change["op"] == "d":
                records.append((b"k", None))
        middle = random_.randrange(len(records) + 1)
        filled.split([records[:middle], records[middle:]])
        kept = [(key, int(n)) for key, n in table.items() if n in ("1", "2")]
        assert filled.rows() == sorted(kept)
    assert len(filled.failures) == bad == filled.counts.bad
    counts = filled.counts
    assert counts.records == counts.kept + counts.filtered + counts.expired + counts.bad


@pytest.mark.parametrize("how", ["plain", "payload", "avro"])
def test_changes_that_cannot_be_followed(how: str) -> None:
    filled = Filled(case_of(how))
    row = {"id": 1, "n": "1"}
    changes = [
        {"before": None, "after": row, "op": "c"},
        {"before": None, "after": row, "op": "u"},
        {"before": None, "after": None, "op": "t"},
        {"before": None, "after": None, "op": "d"},
        {"before": row, "after": None, "op": "u"},
        {"before": None, "after": None, "op": "m"},
        {"before": None, "after": row, "op": "z"},
        {"before": None, "after": {"id": 2, "n": None}, "op": "r"},
    ]
    filled.split([[(None, written(change, how)) for change in changes]])
    assert filled.rows() == [(1, 1)]
    assert [(one.position["offset"], one.message) for one in filled.failures] == [
        (1, "the change does not say what the row was before: set REPLICA IDENTITY FULL upstream"),
        (2, "the table was truncated (op t), and the record does not say which rows it had"),
        (3, "the change does not say what the row was before: set REPLICA IDENTITY FULL upstream"),
        (4, "the change does not say what the row is now"),
        (6, 'op "z" is not known'),
    ]
    assert filled.counts[2:] == RecordCounts(kept=1, filtered=2, bad=5)[2:]


def test_documents_that_are_no_changes() -> None:
    filled = Filled(made("debezium", "SELECT data FROM s"))
    texts = [
        b'{"op": "c", "after": {"b": 1, "a": 1.50}}',
        b"{}",
        b"[",
        b"7",
        b'{"op": "u", "after": {}, "before": null}',
    ]
    filled.split([[(None, text) for text in texts]])
    assert filled.rows() == [('{"a":1.5,"b":1}',)]
    assert [one.position["offset"] for one in filled.failures] == [1, 2, 3, 4]


def test_a_change_that_the_transform_does_not_see_gives_nothing() -> None:
    filled = Filled(made("debezium", "SELECT (data->>'id')::int8 AS id FROM s"))
    change = {"before": {"id": 1, "n": "1"}, "after": {"id": 1, "n": "2"}, "op": "u"}
    assert sum(map(len, filled.split([[(None, written(change, "plain"))]]))) == 0


def test_what_a_row_is_when_nothing_of_it_is_read() -> None:
    filled = Filled(
        made("debezium", "SELECT \"offset\" AS o, data->>'absent' AS a FROM s", included=("offset",))
    )
    changes = [{"after": {"id": 1}, "op": "c"}, {"after": None, "op": "c"}, {"op": "c"}]
    filled.split([[(None, written(change, how)) for change in changes for how in ("plain", "payload")]])
    assert filled.rows() == [(0, None), (1, None)]
    assert [one.position["offset"] for one in filled.failures] == [2, 3, 4, 5]


def test_rows_that_end_by_themselves() -> None:
    sql = "SELECT (data->>'id')::int8 AS id FROM s WHERE mz_now() < (data->>'until')::int8"
    filled = Filled(made("debezium", sql))
    rows = [{"id": i, "until": NOW + 100 * i} for i in range(-1, 3)]
    filled.split([[(None, written({"after": row, "op": "c"}, "plain")) for row in rows]])
    assert filled.rows(2) == [(1,), (2,)]
    change = {"before": rows[3], "after": rows[0], "op": "u"}
    filled.split([[(None, written(change, "plain"))]])
    assert filled.rows(2) == [(1,)]
    assert filled.counts[2:] == RecordCounts(kept=3, expired=2)[2:]


def test_a_transform_before_the_envelope_gives_changes() -> None:
    before = "SELECT data->'change' AS change, \"offset\" AS o FROM s WHERE data->>'table' = 't'"
    case = made("debezium", "SELECT (data->>'n')::int8 AS n, o FROM s", before=before, included=("offset",))
    filled = Filled(case)
    change = {"before": None, "after": {"n": 5}, "op": "c"}
    records = [{"table": "t", "change": change}, {"table": "u", "change": change}, {"table": "t"}]
    filled.split([[(None, json.dumps(record).encode()) for record in records]])
    assert filled.rows() == [(5, 0)]
    assert [one.position["offset"] for one in filled.failures] == [2]


def test_avro_before_the_envelope() -> None:
    before = 'SELECT "before", "after", op, "offset" AS o FROM s WHERE "offset" > 0'
    case = made("debezium", "SELECT n, o FROM s", AVRO, included=("offset",), before=before)
    filled = Filled(case)
    change = {"before": None, "after": {"id": 1, "n": "5"}, "op": "c"}
    filled.split([[(None, written(change, "avro"))] * 2])
    assert filled.rows() == [("5", 1)]


def test_the_columns_of_a_row() -> None:
    assert envelope.envelope_columns("debezium", AVRO) == (("id", INT8), ("n", TEXT))


def test_files_of_changes_end_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    row, other = {"id": 1, "city": "Ulm"}, {"id": 1, "city": "Jena"}
    first = [{"before": None, "after": row, "op": "r"}, {"before": None, "after": {"id": 2}, "op": "c"}]
    then = [
        {"before": row, "after": other, "op": "u"},
        {"before": {"id": 2}, "after": None, "op": "d"},
        {"op": "t"},
    ]
    with tidegate.open(tmp_path / "lake") as db:
        db.sql(
            f"CREATE SOURCE people FROM FILES '{folder}/*.json' FORMAT JSON ENVELOPE DEBEZIUM TRANSFORM USING "
            "(SELECT (data->>'id')::int8 AS id, data->>'city' AS city FROM people)"
        )
        for number, changes in enumerate((first, then)):
            text = "".join(json.dumps(change) + "\n" for change in changes)
            (folder / f"{number}.json").write_text(text)
            db.ingest("people", once=True, spark=False)
            found = db.sql("SELECT id, city FROM people ORDER BY id").rows()
            assert found == ([(1, "Ulm"), (2, None)] if number == 0 else [(1, "Jena")])
        assert "truncated" in db.sql("SELECT message FROM people_errors").rows()[0][0]
        state = db.context.shard(db.context.catalog.find("people").shard).machine.fetch()
        assert state.monotonic, "no retraction is a row"
        assert state.parts.deletions.rows == 2
