"""Runs the blocks of pages, in a folder of its own: `python -m tests.docs.run FOLDER REPORT PAGE …`.

A process runs several pages one after the other, each in an empty folder, so that those with Spark share its one session. What
came of every block is written to REPORT as JSON: page, line, language, what was wrong or why it was not run.

    <page> 12: python   compiled; each statement run, and what it prints compared with its `# →`
    <page> 30: text     compared with what block 12 printed
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import Block, blocks, fits
from tests.docs.served import Servers

ROOT = Path(__file__).parents[2]
SAYS = re.compile(r"#\s*→\s*(.*?)\s*$")


NOT_HERE = "not here: "


class Absent(Exception):  # noqa: N818  # reads as what it is
    """A program that the page uses is not on this machine."""


class Wrong(Exception):  # noqa: N818  # reads as what it is
    """The page says something that is not so."""


@dataclass
class Page:
    """A page that is being run."""

    path: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str | None = None
    """By the last block that ran; None if the one before was not run."""
    servers: Servers = field(default_factory=Servers)

    def run(self) -> Iterator[dict[str, Any]]:
        """What came of each block."""
        failed = False
        for block in blocks(self.path, _short(self.path)):
            told: dict[str, Any] = {"at": block.at, "language": block.language, "why_not": block.why_not}
            if failed:
                yield {**told, "wrong": None, "why_not": "a block above failed"}
                continue
            try:
                self._block(block)
            except (Absent, pytest.skip.Exception) as absent:
                failed = True
                yield {**told, "wrong": None, "why_not": f"{NOT_HERE}{absent}"}
            except BaseException as error:  # noqa: BLE001  # whatever a page does wrong is told, with its place
                failed = True
                shown = str(error) if isinstance(error, Wrong) else traceback.format_exc()
                yield {**told, "wrong": shown}
            else:
                yield {**told, "wrong": None}
        self.close()

    def _block(self, block: Block) -> None:
        if block.why_not is not None:
            _look(block)
            self.printed = None
            return
        match block.language, block.word:
            case "text", "drawing":
                return
            case "text", _:
                self._compare(block)
            case "python", _:
                self.printed = self._python(block)
            case "sql", "postgres":
                self.servers.postgres(block.text)
                self.printed = None
            case "sql", _:
                self.printed = _captured(lambda: self._sql(block.text))
            case _:
                self.printed = self._commands(block)

    def _compare(self, block: Block) -> None:
        if self.printed is None:
            raise Wrong("no block that runs is above it: is it a `text drawing`?")
        if not fits(block.text, self.printed):
            raise Wrong(f"this is shown:\n{block.text}\nand this is printed:\n{self.printed}")

    # ------------------------------------------------------------ Python

    def _python(self, block: Block) -> str:
        """Statement by statement; what all of them printed."""
        if "spark" in block.text:
            started()
        lines = block.text.split("\n")
        tree = ast.parse(block.text)
        said = {n for n, line in enumerate(lines, 1) if SAYS.search(line)}
        all_printed = ""
        for statement in tree.body:
            code = compile(ast.Module([statement], []), f"{block.page} block {block.line}", "exec")
            printed = _captured(partial(exec, code, self.names))
            all_printed += printed
            last = statement.end_lineno or 0
            if last in said:
                said.discard(last)
                shown = SAYS.search(lines[last - 1])
                assert shown is not None
                if not fits(" ".join(shown[1].split()), " ".join(printed.split())):
                    raise Wrong(f"{lines[last - 1].strip()}\nprinted: {printed.strip()}")
        if said:
            raise Wrong(f"`# →` in line {min(said)} of the block is not at the end of a statement of it")
        return all_printed

    # ------------------------------------------------------------ SQL

    def _sql(self, text: str) -> None:
        from tidegate.cli.output import print_result
        from tidegate.sql.parse.lexer import split_statements

        db = self._database()
        for one in split_statements(self.servers.filled(text)):
            result = db.sql(one)
            if one.strip().upper().startswith("EXPLAIN") and "FILTER PUSHDOWN" not in one.upper():
                print(result.text())
            else:
                print_result(result, "table")

    def _database(self) -> Any:
        if "db" not in self.names:
            import tidegate

            self.names["db"] = tidegate.open("lake")
        return self.names["db"]

    # ------------------------------------------------------------ commands

    def _commands(self, block: Block) -> str:
        if block.language == "sh":
            lines = block.text.replace("\\\n", " ").split("\n")
            commands = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
            return "".join(self._command(one) for one in commands)
        printed = ""
        for given in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = given.partition("\n")
            while command.endswith("\\"):
                more, _, shown = shown.partition("\n")
                command = f"{command[:-1]} {more}"
            printed = self._command(command)
            if not fits(shown, printed):
                raise Wrong(f"$ {command}\nshown:\n{shown}\nprinted:\n{printed}")
        return printed

    def _command(self, line: str) -> str:
        """What a command prints, stderr behind stdout."""
        words = shlex.split(line, comments=True)
        if words[-1] == "&":
            self.servers.start(words[:-1])
            return ""
        if words[0] == "tidegate" and not {"|", "<", ">"} & set(words):
            return _tidegate(words[1:])
        if words[:2] == ["curl", "-s"] and len(words) == 3:
            with urllib.request.urlopen(
                self.servers.ports(words[2]), timeout=30
            ) as answer:  # not every machine has curl
                return str(answer.read().decode())
        return _shell(self.servers.ports(line))

    def close(self) -> None:
        """Ends what the page left running."""
        db = self.names.pop("db", None)
        if hasattr(db, "close"):
            db.close()
        self.servers.close()


@cache
def started() -> Any:
    """The one session of all pages; what they call `session()` finds it. Its settings are those of the other tests."""
    from pyspark.sql import SparkSession

    from tests.spark.conftest import JAVA
    from tidegate.spark.session import prepare

    prepare()
    builder = SparkSession.builder.master("local[2]").appName("pages")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JAVA,
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def _look(block: Block) -> None:
    """A block that is not run still has to be what it says."""
    from tidegate.sql.parse.grammar import statements as grammar

    if block.why_not in ("a sketch", "another database"):
        return
    if block.language == "python":
        compile(block.text, block.at, "exec")
    elif block.language == "sql" and block.word == "":
        grammar.parse_statements(block.text)


def _captured(work: Callable[[], object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        work()
    return out.getvalue()


def _tidegate(arguments: list[str]) -> str:
    """The command line, in this process: starting one for each costs a second."""
    from tidegate.cli.main import main

    errors = io.StringIO()
    codes: list[int] = []
    with contextlib.redirect_stderr(errors):
        printed = _captured(lambda: codes.append(main(arguments)))
    if codes[0] == 2:
        raise Wrong(f"tidegate {shlex.join(arguments)}: no such command:\n{printed}{errors.getvalue()}")
    return printed + errors.getvalue()


def _shell(line: str) -> str:
    program = shlex.split(line)[0]
    if shutil.which(program) is None:
        raise Absent(program)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise Wrong(f"$ {line}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def emptied(folder: Path) -> None:
    """Nothing in it; it stays the same folder, as Spark's processes live in it."""
    for one in folder.iterdir():
        shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()


def main(folder: Path, report: Path, pages: list[Path]) -> None:
    """Runs them."""
    os.chdir(folder)
    os.environ["COLUMNS"] = "100"
    found: list[dict[str, Any]] = []
    for page in pages:
        emptied(folder)
        found += Page(page).run()
    report.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(page) for page in sys.argv[3:]])
