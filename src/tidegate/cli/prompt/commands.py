r"""The backslash commands of the prompt: each is one function and one row of `COMMANDS`.

run_command(session, divide("\\timing on"))
run_command(session, divide("SELECT 1 \\gx"))
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TextIO, cast

import tidegate
from tidegate.cli.output import Expanded
from tidegate.cli.prompt import describe, files
from tidegate.cli.prompt.scan import Typed
from tidegate.cli.prompt.session import PromptSession

ON = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}
SECONDS = 2.0
"""Between two runs of `\\watch`."""


@dataclass(frozen=True)
class Command:
    """A command: what is typed, what it does, and the function that does it."""

    usage: str
    meaning: str
    run: Callable[[PromptSession, Typed], None]


def run_command(session: PromptSession, typed: Typed) -> None:
    """Runs a command; an unknown one is an error that names those that are near."""
    command = COMMANDS.get(typed.command)
    if command is None and typed.command.endswith("+"):
        command = COMMANDS.get(typed.command.removesuffix("+"))
    if command is None:
        near = get_close_matches(typed.command, COMMANDS, 1)
        hint = rf"did you mean \{near[0]}? \? lists all commands" if near else r"\? lists all commands"
        raise tidegate.ParseError(rf"there is no command \{typed.command}", hint=hint)
    if typed.sql and typed.command not in WITH_SQL:
        session.last = typed.sql
        session.run(typed.sql)
    command.run(session, Typed(typed.sql, typed.command, typed.rest.rstrip(";").strip()))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _switched(given: str, now: bool) -> bool:  # the value that is switched
    if not given:
        return not now
    if given.lower() not in ON:
        raise tidegate.ParseError(f"expected on or off, found {given}")
    return ON[given.lower()]


def _quit(session: PromptSession, typed: Typed) -> None:
    del typed
    session.over = True


def _help(session: PromptSession, typed: Typed) -> None:
    del typed
    size = max(len(one.usage) for one in COMMANDS.values())
    lines = [f"  {one.usage:<{size}}  {one.meaning}" for one in dict.fromkeys(COMMANDS.values())]
    with session.paged() as out:
        out.write("A statement ends with a semicolon. Ctrl-C cancels, Ctrl-D on an empty line quits.\n")
        out.write("\n".join(lines) + "\n")


def _timing(session: PromptSession, typed: Typed) -> None:
    session.timing = _switched(typed.rest, session.timing)
    _say(f"Timing is {'on' if session.timing else 'off'}.")


def _expanded(session: PromptSession, typed: Typed) -> None:
    given = typed.rest.lower()
    if given == "auto":
        session.expanded = "auto"
    else:
        session.expanded = "on" if _switched(given, session.expanded == "on") else "off"
    shown = {"on": "on", "off": "off", "auto": "used where a table is too wide"}[session.expanded]
    _say(f"Expanded display is {shown}.")


def _pager(session: PromptSession, typed: Typed) -> None:
    session.pager = _switched(typed.rest, session.pager)
    _say(f"Pager is {'on' if session.pager else 'off'}.")


def _format(session: PromptSession, typed: Typed) -> None:
    match typed.rest.lower():
        case "table" | "aligned":
            session.form = "table"
        case "csv":
            session.form = "csv"
        case "json":
            session.form = "json"
        case other:
            raise tidegate.ParseError(
                f"there is no format {other}" if other else r"\format needs a name", hint="table, csv or json"
            )


def _pset(session: PromptSession, typed: Typed) -> None:
    name, _, value = typed.rest.partition(" ")
    inner = {"pager": _pager, "format": _format, "expanded": _expanded, "x": _expanded}.get(name)
    if inner is None:
        raise tidegate.ParseError(
            f"there is no setting {name} of the prompt", hint="pager, format or expanded"
        )
    inner(session, Typed("", name, value.strip()))


def _statement(session: PromptSession, typed: Typed) -> str:
    """The statements before a command, else those that ran last."""
    session.last = typed.sql or session.last
    if not session.last.strip():
        raise tidegate.ParseError(rf"\{typed.command} needs a statement, and none was run yet")
    return session.last


def _go(session: PromptSession, typed: Typed) -> None:
    sql = _statement(session, typed)
    expanded: Expanded | None = "on" if typed.command == "gx" else None
    if not typed.rest:
        session.run(sql, expanded=expanded)
    elif typed.rest.startswith("|"):
        with subprocess.Popen(
            typed.rest[1:], shell=True, stdin=subprocess.PIPE, text=True
        ) as program:  # the user's own command
            assert program.stdin is not None
            session.run(sql, cast("TextIO", program.stdin), expanded=expanded)
    else:
        with files.written(typed.rest) as out:
            session.run(sql, out, expanded=expanded)


def _watch(session: PromptSession, typed: Typed) -> None:
    sql = _statement(session, typed)
    try:
        seconds = float(typed.rest.removeprefix("i=") or SECONDS)
    except ValueError:
        raise tidegate.ParseError(f"expected seconds, found {typed.rest}", hint=r"\watch 2") from None
    if not 0 < seconds < 86_400:  # a day
        raise tidegate.ParseError(r"\watch waits more than 0 seconds and less than a day")
    pager, session.pager = session.pager, False
    try:
        while True:
            _say(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} (every {seconds:g} s, Ctrl-C ends it)\n")
            session.run(sql)
            _say("")
            time.sleep(seconds)
    except KeyboardInterrupt:
        _say("")  # below the ^C
    finally:
        session.pager = pager


def _explain(session: PromptSession, typed: Typed) -> None:
    session.run(f"EXPLAIN {typed.rest or _statement(session, typed)}")


def _output(session: PromptSession, typed: Typed) -> None:
    session.set_output(typed.rest)


def _echo(session: PromptSession, typed: Typed) -> None:
    del session
    _say(typed.rest)


def _shell(session: PromptSession, typed: Typed) -> None:
    del session
    subprocess.run(typed.rest or "${SHELL:-sh}", shell=True, check=False)  # the user's own command


WITH_SQL = frozenset({"g", "gx", "watch", "explain"})
"""Commands that take the statement before them; before others it is run."""
COMMANDS = {
    "?": Command("\\?, help", "list the commands", _help),
    "q": Command("\\q, exit, quit", "leave", _quit),
    "d": Command("\\d[+] [NAME]", "list what is in the lake, or show one; + with comments", describe.any_item),
    "dt": Command("\\dt[+] [PATTERN]", "list tables; + with rows, parts, sizes and comments", describe.tables),
    "dv": Command("\\dv [PATTERN]", "list views", describe.views),
    "ds": Command("\\ds [PATTERN]", "list sources and their state", describe.sources),
    "df": Command("\\df [PATTERN]", "list functions", describe.functions),
    "l": Command("\\l", "show the lake: where it is, and how large", describe.lake),
    "conninfo": Command("\\conninfo", "show which lake is open", describe.lake),
    "g": Command("\\g [FILE | |COMMAND]", "run the last statement again, to a file or a program", _go),
    "gx": Command("\\gx", "as \\g, a line for each value", _go),
    "watch": Command("\\watch [SECONDS]", "run the last statement again and again", _watch),
    "explain": Command("\\explain [SELECT …]", "show how a query would run", _explain),
    "e": Command("\\e [FILE]", "edit the last statement, or a file, in $EDITOR", files.edit),
    "i": Command("\\i FILE", "run the statements and commands of a file", files.include),
    "o": Command("\\o [FILE]", "send results to a file; without one, to the screen", _output),
    "copy": Command("\\copy NAME FROM|TO FILE", "rows between a table or (SELECT …) and a file", files.copy),
    "x": Command("\\x [on|off|auto]", "a line for each value; auto: where a table is too wide", _expanded),
    "timing": Command("\\timing [on|off]", "show how long statements take", _timing),
    "pager": Command("\\pager [on|off]", "show what is longer than the screen by $PAGER, else less", _pager),
    "format": Command("\\format table|csv|json", "how results are printed", _format),
    "pset": Command("\\pset pager|format|expanded [VALUE]", "the same, as psql spells it", _pset),
    "echo": Command("\\echo TEXT", "print a text", _echo),
    "!": Command("\\! [COMMAND]", "run a command of the shell", _shell),
}  # fmt: skip
