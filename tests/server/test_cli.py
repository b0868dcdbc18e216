"""The command line as users type it: what is printed, where, and the exit code."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.cli.main import app, main
from tidegate.query import format_value
from tidegate.sql.parse.lexer import split_statements


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a table, which is the one that commands take."""
    where = tmp_path / "lake"
    monkeypatch.setenv("TIDEGATE_LAKE", str(where))
    with tidegate.open(where) as db:
        db.sql("CREATE TABLE t (id int8, s text, at timestamptz, j jsonb)")
        db.sql(
            "INSERT INTO t VALUES (1, 'a, \"b\"', '2026-01-02 03:04:05Z', '{\"x\": [1, null]}'), (2, NULL, NULL, NULL)"
        )
        db.sql("INSERT INTO t VALUES (3, '', '2026-01-03', '7')")
    return where


def test_rows_as_a_table_with_what_was_read(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "SELECT id, s FROM t WHERE id <= 2 ORDER BY id", "--timing"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "│", "s"]
    assert [line.rstrip() for line in lines[2:4]] == [' 1 │ a, "b"', " 2 │ ∅"]
    assert lines[4].startswith("(2 rows, from local: read 1 of 2 parts")
    assert lines[5].startswith("Time: ")


def test_json_and_csv_and_parquet(lake: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["sql", "SELECT * FROM t ORDER BY id", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == {"id": 1, "s": 'a, "b"', "at": "2026-01-02 03:04:05+00", "j": {"x": [1, None]}}
    assert rows[1] == {"id": 2, "s": None, "at": None, "j": None}
    assert main(["sql", "SELECT id, s FROM t ORDER BY id", "--format", "csv"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[2:] == ["2,", '3,""']
    assert list(csv.reader(io.StringIO(printed)))[1] == ["1", 'a, "b"']
    kept = tmp_path / "t.parquet"
    assert main(["sql", "SELECT * FROM t", "--format", "parquet", "-o", str(kept)]) == 0
    assert sorted(pq.read_table(kept).column("id").to_pylist()) == [1, 2, 3]
    assert main(["sql", "SELECT * FROM t", "--format", "parquet"]) == 1


def test_a_file_of_statements_and_stdin(
    lake: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "s.sql"
    script.write_text(
        "-- first\nCREATE TABLE u (x int8);\nINSERT INTO u VALUES (5);\nSELECT x FROM u;\n\nSELECT nope FROM u;"
    )
    assert main(["sql", "-f", str(script), "--format", "csv"]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[-2:] == ["x", "5"]
    assert "line 6, column 8" in told.err
    assert main(["sql", "SELECT 1; SELECT 2;\nSELECT 3; SELECT nope"]) == 1
    assert "line 2, column 18" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT max(x) FROM u"))
    assert main(["sql", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"max": 5}


def test_as_of_is_never_passed_over(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "/* before anything */ SELECT id FROM t", "--as-of", "1", "--json"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["sql", "DELETE FROM t", "--as-of", "1"]) == 1
    assert "as_of is for queries" in capsys.readouterr().err


def test_errors_say_what_and_where(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "SELECT nope FROM t"]) == 1
    assert capsys.readouterr().err.splitlines()[:4] == [
        'BindError: column "nope" does not exist',
        "line 1, column 8:",
        "    SELECT nope FROM t",
        "           ^^^^",
    ]
    assert main(["sql", "SELECT nope FROM t", "--json"]) == 1
    told = json.loads(capsys.readouterr().err)
    assert (told["error"], told["line"], told["column"]) == ("BindError", 1, 8)
    assert main(["bogus"]) == 2
    capsys.readouterr()
    for path, message in (
        (lake / "missing.sql", "No such file or directory"),
        (lake, "Is a directory"),
    ):
        assert main(["sql", "-f", str(path)]) == 2
        assert capsys.readouterr().err == f"ArgumentError: cannot read {path}: {message}\n"
    (lake / "binary.sql").write_bytes(b"SELECT '\xff'")
    assert main(["sql", "-f", str(lake / "binary.sql"), "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["message"].endswith("binary.sql is not a text in UTF-8")
    assert main(["status", "--lake", str(lake / "nowhere")]) == 1
    assert "there is no lake at" in capsys.readouterr().err
    assert not (lake / "nowhere").exists()


def test_the_other_commands(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["collections"]["t"]["rows"] == 3
    assert main(["status"]) == 0
    assert "2 │" in next(line for line in capsys.readouterr().out.splitlines() if line.startswith("t "))
    assert main(["explain", "SELECT id FROM t WHERE id > 2"]) == 0
    assert "parts: 1 of 2 kept" in capsys.readouterr().out
    assert main(["explain", "--pushdown", "SELECT id FROM t WHERE id > 2"]) == 0
    assert "id > 2" in capsys.readouterr().out
    assert main(["compact", "--full", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["added"] == 1
    assert main(["sweep", "--json"]) == 0
    assert main(["config", "--json"]) == 0
    known = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"meaning"' in line]
    assert {one["name"]: one["value"] for one in known}["audit"] == 0.01


def test_sources_are_run(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = (
        "CREATE SOURCE g FROM GENERATOR orders (ROWS 1000) TRANSFORM USING (SELECT id FROM g WHERE id <= 10)"
    )
    assert main(["sql", made]) == 0
    assert main(["ingest", "--once", "--no-spark"]) == 0
    printed = capsys.readouterr().out
    assert "g: done; 1,000 records in, 10 kept, 990 filtered" in printed
    assert "1 part in 1 batch\n" in printed
    assert main(["ingest", "g", "--once", "--no-spark", "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["source"], last["state"], last["records"]) == ("g", "done", 0)
    assert main(["status"]) == 0
    told = capsys.readouterr().out
    assert next(line.split() for line in told.splitlines() if line.startswith("g ") and "generator" in line)[4:7] == [
        "ready", "│", "1,000",
    ]  # fmt: skip
    assert main(["ingest", "nope", "--once", "--no-spark"]) == 1


def test_what_there_is_nothing_to_do_for(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest"]) == 0  # on Spark, which is not started for nothing
    assert "there are no sources" in capsys.readouterr().err
    assert main(["repair"]) == 2
    assert "repair needs the name of a table or source" in capsys.readouterr().err
    with tidegate.open(lake) as db:
        assert db.ingest(once=True).progress() == {}


def test_statements_of_a_text() -> None:
    assert split_statements("SELECT ';' ; -- a;\n\n SELECT 2;;") == ["SELECT ';' ", " -- a;\n\n SELECT 2"]
    assert split_statements("SELECT 1;\n\nSELECT 2") == ["SELECT 1", "\n\nSELECT 2"]
    assert split_statements("A;\nB;C") == ["A", "\nB", "\nC"]
    assert split_statements(" ; ; ") == []


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ((14, 3, 3_661_500_000), "1 year 2 mons 3 days 01:01:01.5"),
        ((-13, 0, -1_000_000), "-1 years -1 mons -00:00:01"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, 120_000, dt.UTC), "2026-01-02 03:04:05.12+00"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, 7, dt.UTC).replace(tzinfo=None), "2026-01-02 03:04:05.000007"),
        (dt.time(3, 4, 5, 500_000), "03:04:05.5"),
        ((0, 0, 0), "00:00:00"),
        (True, "t"),
        (b"\x01\xff", "\\x01ff"),
        ([1, None, "a"], '[1, null, "a"]'),
    ],
)
def test_values_in_words(value: object, spelled: str) -> None:
    assert format_value(value) == spelled


def test_a_file_holds_all_results(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    assert main(["sql", "SELECT 1 AS a; SELECT 2 AS b, 'x' AS c", "--format", "csv", "-o", str(out)]) == 0
    assert out.read_text() == "a\n1\nb,c\n2,x\n"
    assert main(["sql", "SELECT 1; SELECT 2", "--format", "parquet", "-o", str(tmp_path / "x.parquet")]) == 1
    assert "rows of one statement" in capsys.readouterr().err


def test_a_text_may_begin_with_a_comment(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--format", "csv", "--", "-- the answer\nSELECT 42 AS a"]) == 0
    assert capsys.readouterr().out == "a\n42\n"


def test_the_lake_before_or_after_the_command(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_LAKE")
    for arguments in (
        ["--lake", str(lake), "status"],
        [f"--lake={lake}", "status"],
        ["-l", str(lake), "status"],
    ):
        assert main(arguments) == 0
        assert "t          │    3" in capsys.readouterr().out
    assert main(["status", "--lake", str(lake)]) == 0


def test_maintenance_is_told_in_words(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, expected in (
        (["compact", "--full"], "t: merged 2 parts into 1"),
        (["compact", "t"], "t: nothing to merge or drop"),
        (["sweep"], "lake: "),
        (["repair", "t"], "t: no row is ahead of the clock"),
    ):
        assert main(arguments) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(expected)
        assert not re.search(r"\d{12}", printed), "no raw milliseconds"


@pytest.mark.parametrize(
    "command",
    [
        "sql",
        "explain",
        "ingest",
        "status",
        "config",
        "demo",
        "compact",
        "sweep",
        "repair",
        "adopt",
        "init",
        "doctor",
        "serve",
    ],
)
def test_every_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    printed = capsys.readouterr().out
    examples = [line for line in printed.split("\n")[1:] if line.lstrip(" $│").startswith("tidegate ")]
    assert any(f" {command}" in line for line in examples), printed
    options = app[command].assemble_argument_collection(parse_docstring=True)
    assert [option.name for option in options if not option.parameter.help] == [], "each says what it does"
