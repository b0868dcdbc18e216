"""The prompt without a terminal: what its commands print, what completes where, what counts as typed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from prompt_toolkit.document import Document

import tidegate
from tidegate.cli.prompt.commands import COMMANDS
from tidegate.cli.prompt.completion import SqlCompleter
from tidegate.cli.prompt.scan import Typed, divide, in_string, is_complete
from tidegate.cli.prompt.session import PromptSession


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> Iterator[PromptSession]:
    monkeypatch.delenv("COLUMNS", raising=False)
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE orders (id int8 NOT NULL, price int8)")
        db.append("orders", {"id": [*range(5)], "price": [*range(5)]})
        db.sql("CREATE VIEW cheap AS SELECT id FROM orders WHERE price < 3")
        yield PromptSession(db)


def said(prompt: PromptSession, capsys: pytest.CaptureFixture[str], *typed: str) -> str:
    """What the prompt prints for some lines."""
    for line in typed:
        prompt.answer(line)
    out = capsys.readouterr()
    return out.out + out.err


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("\\d", ["cheap  │ view", "orders │ table"]),
        ("\\d orders", ["Table orders", "id     │ int8 │ no", "5 rows in 1 part"]),
        ("\\d cheap", ["View cheap", "CREATE VIEW cheap AS SELECT"]),
        ("\\d o*", ["orders │ table"]),
        ("\\d nope", ["BindError", "nope"]),
        ('\\d "x\'; DROP TABLE orders; --"', ["there is no table or view"]),
        ("\\dt", ["orders"]),
        ("\\dt+", ["rows", "just now"]),
        ("\\dv", ["cheap │ CREATE VIEW"]),
        ("\\ds", ["no sources"]),
        ("\\df date_tr*", ["date_trunc", "truncated"]),
        ("\\df nope", ["no function is called nope"]),
        ("\\l", ["memory", "1 collection"]),
        ("\\timing", ["Timing is on."]),
        ("\\x auto", ["used where a table is too wide"]),
        ("\\pset format csv", []),
        ("\\pset nope 1", ["no setting nope"]),
        ("\\pager maybe", ["expected on or off, found maybe"]),
        ("\\g", ["\\g needs a statement, and none was run yet"]),
        ("\\timng", ["there is no command \\timng", "did you mean \\timing?"]),
        ("\\explain SELECT id FROM orders", ["Scan orders"]),
        ("SELECT id FROM orders LIMIT 1 \\gx", ["─[ row 1 ]", "id │ 0"]),
        ("SELECT id FROM orders LIMIT 1 \\g |tr 0-9 x", []),
        ("\\copy", ["names a table or a query"]),
        ("\\copy orders FROM '/nope.csv'", ["cannot read /nope.csv"]),
        ("\\i /nope.sql", ["cannot read /nope.sql"]),
        ("\\watch soon", ["needs a statement"]),
        ("SELECT 1 \\watch soon", ["expected seconds, found soon"]),
        ("\\echo hello", ["hello"]),
        ("help;", ["list the commands"]),
        ("SELECT 1; SELECT nope;", ["?column?", "BindError"]),
    ],
)
def test_commands(
    prompt: PromptSession, capsys: pytest.CaptureFixture[str], typed: str, parts: list[str]
) -> None:
    found = said(prompt, capsys, typed)
    for part in parts:
        assert part in found
    assert "Traceback" not in found


def test_names_keys_defaults_and_comments(prompt: PromptSession, capsys: pytest.CaptureFixture[str]) -> None:
    prompt.db.sql(
        """CREATE TABLE "odd""one" (id int8 DEFAULT 5, CONSTRAINT odd PRIMARY KEY (id) NOT ENFORCED);
        COMMENT ON TABLE "odd""one" IS 'it''s odd'; COMMENT ON COLUMN "odd""one".id IS 'a number';
        COMMENT ON VIEW cheap IS 'little'"""
    )
    plain = said(prompt, capsys, '\\d "odd""one"')
    for part in ('Table odd"one', "│ 5", "key odd: PRIMARY KEY (id) NOT ENFORCED", "0 rows"):
        assert part in plain
    assert "a number" not in plain
    more = said(prompt, capsys, '\\d+ public."odd""one"', "\\d+ cheap", "\\dt+ odd*")
    for part in ("│ a number", "comment: it's odd", "comment: little", "newest │ comment"):
        assert part in more
    assert "there is no table" in said(prompt, capsys, '\\d "x\'; DROP TABLE orders; --"')


def test_deleted_rows_are_counted_apart(prompt: PromptSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert "deleted" not in prompt.db.status().text()
    prompt.answer("DELETE FROM orders WHERE id < 2;")
    assert "5 rows (2 of them deleted) in 1 part" in said(prompt, capsys, "\\d orders")
    lines = prompt.db.status().text().splitlines()
    names, values = lines[1].split("│"), lines[3].split("│")
    assert [name.strip() for name in names][:4] == ["collection", "rows", "deleted", "parts"]
    assert [value.strip() for value in values][:4] == ["orders", "5", "2", "1"]


def test_a_plan_fits_a_narrow_terminal(
    prompt: PromptSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explain = "EXPLAIN SELECT id FROM orders WHERE price > 1;"
    wide = said(prompt, capsys, explain)
    monkeypatch.setenv("COLUMNS", "60")
    narrow = said(prompt, capsys, explain)
    scan = next(line for line in narrow.splitlines() if "Scan orders" in line)
    assert max(map(len, wide.splitlines())) == 100
    assert scan.endswith("rows")
    assert len(scan) < 100
    assert narrow.split() == wide.split()
    indents = [[len(line) - len(line.lstrip()) for line in text.splitlines()] for text in (narrow, wide)]
    assert indents[0] == indents[1]


def test_help_has_every_command(prompt: PromptSession, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(prompt, capsys, "\\?")
    for command in COMMANDS.values():
        assert command.usage in found
        assert command.meaning in found


def test_leaving(prompt: PromptSession) -> None:
    for word in ("exit", "QUIT;", "\\q", " quit "):
        prompt.over = False
        prompt.answer(word)
        assert prompt.over, word


def test_time_is_in_words(prompt: PromptSession, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(prompt, capsys, "\\timing on", "SELECT 1;").splitlines()
    assert lines[-1].startswith("Time: ")
    assert lines[-1].split()[-1] in ("µs", "ms", "s")


def test_files(prompt: PromptSession, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for ending, first in (("csv", "id,price"), ("json", '{"id": 0'), ("tsv", "0\t0")):
        path = tmp_path / f"orders.{ending}"
        assert said(prompt, capsys, f"\\copy orders TO '{path}'") == "COPY 5 rows\n"
        assert path.read_text().startswith(first)
    said(prompt, capsys, f"\\copy (SELECT id FROM orders WHERE id > 2) TO {tmp_path / 'o.parquet'}")
    assert pq.read_table(tmp_path / "o.parquet").to_pydict() == {"id": [3, 4]}
    for ending in ("csv", "tsv", "json"):
        assert (
            said(prompt, capsys, f"\\copy orders FROM '{tmp_path / f'orders.{ending}'}'") == "COPY 5 rows\n"
        )
    assert prompt.db.sql("SELECT count(*) FROM orders").rows() == [(20,)]
    (tmp_path / "bad.csv").write_text("id,price\n1,2\n2,x\n")
    found = said(prompt, capsys, f"\\copy orders FROM '{tmp_path / 'bad.csv'}'")
    assert "line 3, column price" in found
    assert prompt.db.sql("SELECT count(*) FROM orders").rows() == [(20,)]


def test_scripts_and_output(
    prompt: PromptSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script, out = tmp_path / "script.sql", tmp_path / "out.json"
    script.write_text("SELECT 1\n AS one;\n\\echo between\nSELECT 2 AS two;")
    assert [line for line in said(prompt, capsys, f"\\i {script}").split("\n") if line.isalpha()] == [
        "one", "between", "two",
    ]  # fmt: skip
    script.write_text("SELECT 1;\n\nSELECT 2; SELECT\n  nope;\nSELECT 3;")
    found = said(prompt, capsys, f"\\i {script}")
    assert f"{script}, line 4:\nBindError" in found
    assert "line 4, column 3:\n      nope" in found
    script.write_text("SELECT 1;\n\\nope\n")
    assert f"{script}, line 2:\nParseError" in said(prompt, capsys, f"\\i {script}")
    outer = tmp_path / "outer.sql"
    outer.write_text(f"SELECT 0;\n\n\\i {script}\n")
    assert f"{script}, line 2:\n{outer}, line 3:\nParseError" in said(prompt, capsys, f"\\i {outer}")
    assert "line 2, column 18" in said(prompt, capsys, "SELECT 1;\nSELECT 2; SELECT nope;")
    script.write_text(f"\\i {script}\n")
    assert "nested more than 16 deep" in said(prompt, capsys, f"\\i {script}")
    assert said(prompt, capsys, "\\format json", f"\\o {out}", "SELECT 5 AS x;", "\\o") == ""
    assert json.loads(out.read_text()) == {"x": 5}
    assert '"x": 6' in said(prompt, capsys, "SELECT 6 AS x;")


def test_an_editor(prompt: PromptSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\ncp "$1" "$0.seen"; echo "SELECT 7;" > "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    prompt.answer("SELECT 1;")
    prompt.answer("\\e")
    assert (tmp_path / "editor.seen").read_text() == "SELECT 1;\n"
    assert prompt.next == "SELECT 7;"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1;", Typed("SELECT 1;")),
        ("SELECT 1 \\watch 2", Typed("SELECT 1", "watch", "2")),
        ("SELECT '\\d', \"a\\b\" -- \\x", Typed("SELECT '\\d', \"a\\b\" -- \\x")),
        ("exit", Typed("", "q")),
        ("help;", Typed("", "?")),
        ("\\dt+ o*;", Typed("", "dt+", "o*;")),
    ],
)
def test_what_was_typed(text: str, expected: Typed) -> None:
    assert divide(text) == expected


def test_what_is_complete_and_what_is_open() -> None:
    complete = {
        "SELECT 1;": True,
        "SELECT ';'": False,
        "SELECT 1": False,
        "\\d": True,
        "quit": True,
        "'a;": False,
    }
    complete |= {"": True, "-- ;": False, "SELECT 1; -- said": True, "/* ; */": False, "SELECT 'open;;": True}
    assert {text: is_complete(text) for text in complete} == complete
    is_open = {
        "'a": True,
        "'a'": False,
        "'a''": True,
        '"x': True,
        "-- c": True,
        "-- c\n": False,
        "/* x": True,
    }
    is_open |= {"/* x */": False, "$$a": True, "$$a$$": False, "SELECT 'a', 'b": True, "": False, "''": False}
    assert {text: in_string(text) for text in is_open} == is_open


@pytest.mark.parametrize(
    ("text", "first", "absent"),
    [
        ("SELECT * FROM ", ["orders", "cheap"], "price"),
        ("SELECT id FROM orders WHERE ", ["id", "price"], "orders"),
        ("SELECT id FROM orders WHERE pr", ["price"], "orders"),
        ("SELECT o. FROM orders AS o", [], "id"),
        ("SELECT 1 FROM orders o WHERE o.", ["id", "price"], "SELECT"),
        ("SELECT 'or", [], "orders"),
        ("SELECT 1 -- or", [], "orders"),
        ("SEL", ["SELECT"], "orders"),
        ("SET audi", ["audit"], "AND"),
        ("\\tim", ["timing"], "time"),
        ("SELECT date_tr", ["date_trunc"], "orders"),
        ("MERGE INTO orders o USING ", ["orders", "cheap"], "price"),
        ("MERGE INTO orders o USING cheap s ON o.", ["id", "price"], "SELECT"),
        ("TRUNCATE ", ["orders"], "price"),
        ("ALTER TABLE orders ALTER price SET DE", ["DELETE", "DEFAULT", "DEALLOCATE"], "delete_by_position"),
    ],
)
def test_completion_knows_where_it_is(
    prompt: PromptSession, text: str, first: list[str], absent: str
) -> None:
    found = [one.text for one in SqlCompleter(prompt.db).get_completions(Document(text), None)]
    assert found[: len(first)] == first
    assert absent not in found


def test_the_page_has_every_command() -> None:
    page = (Path(__file__).parents[3] / "docs" / "prompt.md").read_text("utf-8").replace("\\|", "|")
    for command in COMMANDS.values():
        assert f"| `{command.usage}` | {command.meaning} |" in page
