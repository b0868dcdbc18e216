"""psql 15 as a person uses it: statements, errors with their places, several in a text, Ctrl-C."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from tests.server.pg_server import SLOW, Serving, psql, shop


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with shop() as found:
        yield found


def test_psql_selects(at: Serving) -> None:
    done = psql(at, "SELECT id, name, price FROM orders ORDER BY id")
    assert done.stderr == ""
    assert done.stdout.splitlines()[2:] == [
        "  1 | ham     |  1.50", "  2 | eggs    |  2.25", "  3 | O'Neill |      ", "(3 rows)", "",
    ]  # fmt: skip


def test_psql_says_where_it_is_wrong(at: Serving) -> None:
    done = psql(at, "SELECT id,\n prise FROM orders")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'ERROR:  column "prise" does not exist',
        "LINE 2:  prise FROM orders",
        "         ^",
        "HINT:  did you mean price?",
    ]


def test_psql_several_statements_in_one_text(at: Serving) -> None:
    """The second fails: the first has answered, the third is not run; and the place is that in the whole text."""
    done = psql(at, "SELECT 'ä;' AS a; SELECT nothing; CREATE TABLE never (a int8)")
    assert "ä;" in done.stdout
    assert "LINE 1: SELECT 'ä;' AS a; SELECT nothing; CREATE" in done.stderr
    assert done.stderr.splitlines()[2].index("^") == len("LINE 1: SELECT 'ä;' AS a; SELECT ")
    assert at.db.sql("SHOW TABLES LIKE 'never'").rows() == []


def test_psql_as_a_prompt(at: Serving) -> None:
    """Statements from stdin, with psql's own variables, conditions and timing."""
    script = """\\set x 2
SELECT name FROM orders WHERE id = :x;
\\timing on
BEGIN;
SET application_name = 'me'; SHOW application_name;
EXPLAIN SELECT * FROM public.orders WHERE id > 1;
ROLLBACK;
;
SELECT 1 AS one \\gset
\\echo got :one
\\set FETCH_COUNT 2
SELECT 'row ' || id FROM orders ORDER BY id;
"""
    done = psql(at, stdin=script)
    assert done.stderr == ""
    assert "eggs" in done.stdout
    assert "Scan orders" in done.stdout
    assert "got 1" in done.stdout
    assert "row 1\n row 2\n row 3\n(3 rows)" in done.stdout
    assert " me" in done.stdout


def test_psql_ctrl_c_ends_the_query_and_not_psql(at: Serving) -> None:
    """On a terminal, as a person has it."""
    ours, theirs = pty.openpty()
    words = ["psql", "-X", "-n", at.conninfo()]

    def until(text: str, again: Callable[[], None] = lambda: None) -> str:
        """What is shown up to a text; every ten seconds without it something is done again."""
        found, since = b"", time.monotonic()
        while text.encode() not in found:
            if select.select([ours], [], [], 1)[0]:
                found += os.read(ours, 65_536)
            elif time.monotonic() - since > 10:
                print(found.decode(errors="replace"))
                again()
                since = time.monotonic()
        return found.decode()

    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "PAGER": ""}
    ) as psql_:
        until("lake=>")
        os.write(ours, SLOW.encode() + b";\n")
        at.wait_until(busy=True)
        psql_.send_signal(signal.SIGINT)

        def ask_again() -> (
            None
        ):  # a query that ended by itself, as the signal came too late, is asked once more
            os.write(ours, SLOW.encode() + b";\n")
            at.wait_until(busy=True)
            psql_.send_signal(signal.SIGINT)

        assert "ERROR:  the query was cancelled" in until("cancelled\r\nlake=>", ask_again)
        os.write(ours, b"SELECT 'still ' || 'here';\n")
        assert "still here" in until("(1 row)")
        os.write(ours, b"\\q\n")
        assert psql_.wait(30) == 0
    os.close(ours)
    os.close(theirs)
