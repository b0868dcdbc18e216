"""Logs: ids connect what belongs together, and no record holds a row, a parameter or a secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate import logs
from tidegate.cli.main import main


class Lines:
    """What was logged, as the JSON form prints it."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def of(self, logger: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.text.splitlines()]
        return [line for line in lines if line["logger"] == f"tidegate.{logger}"]


@pytest.fixture
def lines() -> Iterator[Lines]:
    found, before = Lines(), logs.LOG.level
    handler = logging.StreamHandler(found.stream)
    handler.setFormatter(logs.Json())
    logs.LOG.addHandler(handler)
    logs.LOG.setLevel(logging.INFO)
    yield found
    logs.LOG.removeHandler(handler)
    logs.LOG.setLevel(before)


def test_a_commit_has_the_ids_of_its_statement(lines: Lines) -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8)")
        db.sql("INSERT INTO t VALUES (1), (2)")
        db.sql("DELETE FROM t WHERE id = 1")
        part = db.context.collection("t").machine.fetch().parts.all()[0].name
    insert, delete = (line for line in lines.of("statement") if line["kind"] in ("insert", "delete"))
    first, second = lines.of("commit")
    assert [first["statement_id"], second["statement_id"]] == [insert["statement_id"], delete["statement_id"]]
    assert insert["statement_id"] != delete["statement_id"]
    assert len({line["session"] for line in (insert, delete, first, second)}) == 1
    assert (first["parts"], first["rows"], first["change"]) == ([part], 2, "append")
    assert second["deleted"] == 1
    assert second["entry"] > first["entry"]  # a lease lies between


def test_an_error_has_the_id_of_its_statement(lines: Lines) -> None:
    with tidegate.open("memory://") as db, pytest.raises(tidegate.BindError) as failed:
        db.sql("SELECT nothing FROM nowhere")
    (line,) = lines.of("statement")
    assert failed.value.statement_id == line["statement_id"]


def test_sessions_are_told_apart(lines: Lines) -> None:
    with tidegate.open("memory://") as db, db.session() as one, db.session() as another:
        for session in (db, one, another, one):
            session.sql("SELECT 1")
    ids = [line["session"] for line in lines.of("statement")]
    assert len(set(ids)) == 3
    assert ids[1] == ids[3]


def test_a_result_that_is_read_later_keeps_its_ids(lines: Lines) -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
        with logs.ids(request="r1"):
            result = db.sql("SELECT id FROM t WHERE id > 0")
        with logs.ids(request="r2"):
            assert len(result.rows()) == 2
    query = lines.of("statement")[-1]
    assert (query["kind"], query["rows"]) == ("select", 2)
    assert query["request"] == "r1"


def test_maintenance(lines: Lines) -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8)")
        for i in range(3):
            db.append("t", {"id": [i]})
        db.compact("t", full=True)
        db.sweep()
        with pytest.raises(tidegate.BindError):
            db.compact("nothing")
    compact, sweep, failed = lines.of("maintenance")
    assert (compact["operation"], compact["collection"], compact["removed"]) == ("compact", "t", 3)
    assert (sweep["operation"], sweep["outcome"]) == ("sweep", "ok")
    assert (failed["outcome"], failed["level"]) == ("BindError", "warning")
    replace = lines.of("commit")[-1]
    assert (replace["change"], replace["operation_id"]) == ("replace", compact["operation_id"])


def test_batches_of_a_source(lines: Lines, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "secret": "xyzzy"}\n{"id": "xyzzy"}\n')
    with tidegate.open(tmp_path / "lake") as db:
        db.sql(
            f"CREATE SOURCE s FROM FILES '{tmp_path}/*.json' FORMAT JSON TRANSFORM USING (SELECT (data->>'id')::int8 AS id FROM s)"
        )
        db.ingest("s", once=True, spark=False)
    (batch,) = lines.of("ingest")
    assert (batch["source"], batch["records"], batch["kept"], batch["bad"]) == ("s", 2, 1, 1)
    commits = [line for line in lines.of("commit") if "batch_id" in line]
    assert {line["batch_id"] for line in commits} == {batch["batch_id"]}
    assert {line["source"] for line in commits} == {"s"}
    assert "xyzzy" not in lines.text


def test_no_secret_and_no_parameter_is_logged(lines: Lines, tmp_path: Path) -> None:
    logs.LOG.setLevel(logging.DEBUG)
    secret = "xyzzy-plugh"
    with tidegate.open(tmp_path / "lake") as db:
        db.sql(f"CREATE CONNECTION pg TO POSTGRES (HOST 'h', DATABASE 'd', USER 'u', PASSWORD '{secret}')")
        db.sql("CREATE TABLE t (s text)")
        db.sql("INSERT INTO t VALUES ($1)", [secret])
        db.append("t", {"s": [secret]}, token=secret)
        assert len(db.sql("SELECT s FROM t WHERE s = $1", [secret])) == 2
        with pytest.raises(tidegate.EvaluationError):
            db.sql("SELECT s::int8 FROM t WHERE s = $1", [secret])
    with pytest.raises(tidegate.TidegateError):
        tidegate.open(f"{tmp_path}/other?metadata=postgresql://u:{secret}@127.0.0.1:9/d")
    assert len(lines.of("commit")) >= 2
    assert secret not in lines.text


def test_levels_and_forms_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    lake = str(tmp_path / "lake")
    assert main(["sql", "--lake", lake, f"CREATE SOURCE s FROM FILES '{tmp_path}/*.json' FORMAT JSON"]) == 0
    assert main(["ingest", "--lake", lake, "--once", "--no-spark", "--log-format", "json"]) == 0
    printed = capsys.readouterr().err.splitlines()
    assert {json.loads(line)["logger"] for line in printed} >= {"tidegate.ingest", "tidegate.commit"}
    assert main(["ingest", "--lake", lake, "--once", "--no-spark", "--log-format", "text"]) == 0
    assert "source=s" in capsys.readouterr().err
    quiet = ["--log-format", "json", "--log-level", "error"]
    assert main(["ingest", "--lake", lake, "--once", "--no-spark", *quiet]) == 0
    assert capsys.readouterr().err == ""
    assert main(["ingest", "--lake", lake, "--once", "--no-spark", "--log-level", "loud"]) == 2
