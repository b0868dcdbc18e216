r"""Runs what is typed at the prompt, with the settings that its commands change.

session = PromptSession(db, "table")
session.answer("SELECT 1;")
session.answer("\\x auto")
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import tidegate
from tidegate.cli.output import Expanded, Format, print_result
from tidegate.cli.positions import placed_in
from tidegate.cli.prompt.scan import divide
from tidegate.query.display import terminal_width
from tidegate.sql.parse import statement_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.database import Database


class PromptSession:
    """The state of one prompt."""

    def __init__(self, db: Database, form: Format = "table") -> None:
        self.db, self.form = db, form
        self.timing, self.over, self.pager = False, False, True
        self.expanded: Expanded = "off"
        self.last = ""
        r"""The statements that ran last: `\g`, `\e` and `\watch` use them."""
        self.next = ""
        """What the next prompt starts with."""
        self.depth = 0
        r"""How many files of `\i` include this one."""
        self.output: TextIO | None = None
        r"""Where `\o` sends results."""

    def answer(self, typed: str) -> None:
        """Runs the input; an error is printed and does not end the prompt."""
        try:
            self.perform(typed)
        except tidegate.TidegateError as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        except KeyboardInterrupt:
            sys.stderr.write("cancelled\n")
        except BrokenPipeError:
            pass  # the pager, or the program of \g, was left early

    def perform(self, typed: str) -> None:
        """Runs the input; what fails is raised."""
        from tidegate.cli.prompt.commands import run_command

        found = divide(typed)
        if found.command:
            run_command(self, found)
        elif found.sql.strip(";").strip():
            self.last = found.sql
            self.run(found.sql)

    def run(self, sql: str, out: TextIO | None = None, *, expanded: Expanded | None = None) -> None:
        """Runs statements and prints each result."""
        for piece in statement_texts(sql):
            began = time.perf_counter()
            with placed_in(sql, piece.start):
                result = self.db.sql(piece.text)
            with self.paged(out or self.output) as to:
                print_result(
                    result,
                    self.form,
                    to,
                    began=began if self.timing else None,
                    expanded=expanded or self.expanded,
                    width=terminal_width() if (out or self.output) is None else 0,
                )

    @contextmanager
    def paged(self, out: TextIO | None = None) -> Iterator[TextIO]:
        """Gathers output for the screen, and shows what is longer than it by a pager."""
        if out is not None:
            yield out
            out.flush()
            return
        if not (self.pager and sys.stdout.isatty()):
            yield sys.stdout
            return
        gathered = StringIO()
        try:
            yield gathered
        finally:
            self._show(gathered.getvalue())

    def _show(self, text: str) -> None:
        command = pager_command()
        if command is None or text.count("\n") < shutil.get_terminal_size().lines - 1:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        subprocess.run(command, input=text.encode(), check=False, env={"LESSCHARSET": "utf-8", **os.environ})

    def set_output(self, to: str) -> None:
        """Sends results to a file, or back to the screen."""
        if self.output is not None:
            self.output.close()
            self.output = None
        if to:
            try:
                self.output = Path(to).expanduser().open("w", encoding="utf-8")
            except OSError as error:
                raise tidegate.StoreError(f"cannot write {to}: {error.strerror}") from None

    def close(self) -> None:
        r"""Closes the file of `\o`."""
        self.set_output("")


def pager_command() -> list[str] | None:
    """The pager: TIDEGATE_PAGER, PAGER, or less; None: there is none."""
    named = os.environ.get("TIDEGATE_PAGER", os.environ.get("PAGER"))
    if named is not None:
        return shlex.split(named) or None
    found = shutil.which("less")
    return None if found is None else [found, "-FRSX"]
