"""The prompt, in a real terminal (tmux): several lines, completion, commands, Ctrl-C."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidegate
from tidegate.cli.prompt.scan import is_complete

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not here (Debian: tmux)")


class Terminal:
    """A tmux session of its own server."""

    def __init__(self, socket: Path, command: list[str], env: dict[str, str]) -> None:
        self.base = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        words = " ".join(f"'{word}'" for word in command)
        subprocess.run([*self.base, "new-session", "-d", "-x", "100", "-y", "40", words], env=env, check=True)

    def type(self, *keys: str) -> None:
        for key in keys:
            word = key[:-1] + "\\;" if key.endswith(";") else key  # tmux takes a last semicolon for its own
            subprocess.run([*self.base, "send-keys", word], check=True)

    def screen(self) -> str:
        done = subprocess.run(
            [*self.base, "capture-pane", "-p", "-S", "-200"], capture_output=True, text=True, check=False
        )
        return done.stdout

    def wait(self, there: Callable[[str], bool], seconds: float = 60) -> str:
        end = time.monotonic() + seconds
        while not there(screen := self.screen()):
            assert time.monotonic() < end, f"not seen:\n{screen}"
            time.sleep(0.1)
        return screen

    def run(self, line: str, shown: str) -> None:
        """Types a line, and waits until its answer shows a text."""
        before = self.screen().count(shown)
        self.type(line, "Enter")
        self.wait(lambda screen: screen.count(shown) > before)

    def close(self) -> None:
        subprocess.run([*self.base, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE orders (id int8, price int8)")
        db.append("orders", {"id": [*range(5)], "price": [*range(5)]})
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "xterm", "PAGER": "less"}
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'SELECT 77;' > $1\n")
    editor.chmod(0o700)
    env["EDITOR"] = env["VISUAL"] = str(editor)
    command = [sys.executable, "-m", "tidegate.cli", "sql", "--lake", str(tmp_path / "lake")]
    made = Terminal(tmp_path / "tmux", command, env)
    made.wait(lambda screen: "tidegate>" in screen)
    yield made
    made.close()


def test_a_talk(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("SELECT sum(price)", "Enter")
    terminal.type("FROM orders;", "Enter")
    terminal.wait(lambda screen: "\n 10\n" in screen.replace(" \n", "\n") and "(1 row" in screen)
    terminal.type("SELECT id FROM orders WHERE pric", "Tab")
    terminal.wait(lambda screen: screen.rstrip().endswith("WHERE price"))
    terminal.type(" > ord", "Tab")
    terminal.wait(lambda screen: "collection" in screen and "key word" in screen)
    terminal.type("C-c")
    terminal.type("C-c")
    terminal.type("\\d orders", "Enter")
    terminal.wait(lambda screen: "price" in screen.split("\\d orders")[-1])
    terminal.type("SELECT nope FROM orders;", "Enter")
    terminal.wait(lambda screen: 'column "nope" does not exist' in screen and "^^^^" in screen)
    terminal.type("\\q", "Enter")
    terminal.wait(lambda screen: not screen.strip())
    assert "SELECT sum(price)" in (tmp_path / "state" / "tidegate" / "history").read_text()


def test_ctrl_c_ends_the_query_and_not_the_talk(terminal: Terminal) -> None:
    slow = "SELECT count(*) FROM orders WHERE repeat('a', 30000000) LIKE '%a%b%c%d%';"
    terminal.type(slow, "Enter")
    time.sleep(1)
    terminal.type("C-c")
    terminal.wait(lambda screen: "cancelled" in screen or "(1 row" in screen)
    terminal.type("SELECT 41 + 1 AS answer;", "Enter")
    terminal.wait(lambda screen: "42" in screen.split("AS answer")[-1])


def test_commands_in_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run("\\pager off", "Pager is off.")
    terminal.run(
        "SELECT id, repeat('long ', 40) AS a, repeat('b', 50) AS b, id AS c FROM orders LIMIT 1 \\x auto",
        "used where",
    )
    terminal.run("\\g", "a  │ long long")
    terminal.run("\\x off", "Expanded display is off.")
    terminal.run("SELECT 5 \\watch 0.2", "every 0.2 s")
    terminal.type("C-c")
    terminal.run("\\foo", "ParseError: there is no command \\foo")
    terminal.run("help", "run a command of the shell")
    terminal.type("SELECT 'x fro", "Tab")
    terminal.type("C-c")
    terminal.run("\\e", "SELECT 77;")
    terminal.type("Enter")
    terminal.wait(lambda screen: "\n      77\n" in screen)
    terminal.run("\\pager on", "Pager is on.")
    terminal.type("SELECT * FROM generate_series(1, 300);", "Enter")
    terminal.wait(lambda screen: screen.rstrip().endswith(":"))
    terminal.type("q")
    terminal.wait(lambda screen: screen.rstrip().endswith("tidegate>"))
    terminal.type("exit", "Enter")
    terminal.wait(lambda screen: not screen.strip())


def test_when_what_is_typed_is_finished() -> None:
    assert [is_complete(text) for text in ("SELECT 1;", "SELECT ';'", "SELECT ';' ; ", "\\d", "", "SELECT 1", "-- ;")] == [
        True, False, True, True, True, False, False,
    ]  # fmt: skip
