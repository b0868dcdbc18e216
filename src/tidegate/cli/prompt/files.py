r"""Commands of the prompt about files: `\copy`, `\i`, `\e`, and files that results are written to.

    tidegate> \copy orders FROM 'orders.csv' (FORMAT csv, HEADER)
    tidegate> \copy (SELECT * FROM orders) TO 'orders.parquet'

What the name of a file ends with is its format, unless the options name one: .csv with a header, .json or .jsonl, .parquet.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import tidegate
from tidegate.cli.positions import placed_in
from tidegate.cli.prompt.scan import is_complete
from tidegate.text import first_line, plural

if TYPE_CHECKING:
    from tidegate.cli.prompt.scan import Typed
    from tidegate.cli.prompt.session import PromptSession

_COPY = re.compile(
    r"(?is)(?P<what>\(.+\)|[^()]+?(?:\([^)]*\))?)\s+(?P<way>from|to)\s+(?P<file>'(?:[^']|'')+'|[^\s(]+)\s*(?P<options>.*)"
)
_USAGE = r"\copy orders FROM 'orders.csv' (FORMAT csv, HEADER), or \copy (SELECT …) TO 'result.parquet'"
_DEPTH = 16
"""How deep files may include each other."""


def copy(session: PromptSession, typed: Typed) -> None:
    r"""`\copy`: rows between a table, or a query, and a file of this machine."""
    found = _COPY.fullmatch(typed.rest)
    if found is None:
        raise tidegate.ParseError(
            r"\copy names a table or a query in parentheses, FROM or TO, and a file", hint=_USAGE
        )
    name = found["file"]
    path = Path(name[1:-1].replace("''", "'") if name.startswith("'") else name).expanduser()
    what, options = found["what"].strip(), found["options"].strip()
    read = found["way"].lower() == "from"
    rows = (_read if read else _write)(session, what, path, options)
    sys.stdout.write(f"COPY {plural(rows, 'row')}\n")


def _read(session: PromptSession, what: str, path: Path, options: str) -> int:
    from tidegate.server import copy_from_file

    ending = path.suffix.lower()
    if not options and ending in (".parquet", ".json", ".jsonl"):
        return _append(session, what, path, ending)
    options = options or ("(FORMAT csv, HEADER)" if ending == ".csv" else "")
    return copy_from_file(session.db, f"COPY {what} FROM STDIN {options}", path)


def _append(session: PromptSession, what: str, path: Path, ending: str) -> int:
    """Appends a file whose columns have names and types of their own."""
    import pyarrow as pa

    try:
        if ending == ".parquet":
            from pyarrow import parquet

            table = parquet.ParquetFile(path).read()
        else:
            from pyarrow import json

            table = json.read_json(path)
    except (OSError, pa.ArrowException) as error:
        raise tidegate.StoreError(f"cannot read {path}", hint=first_line(error)) from None
    name = what.strip('"') if what.startswith('"') else what.lower()
    session.db.append(name, table)
    return int(table.num_rows)


def _write(session: PromptSession, what: str, path: Path, options: str) -> int:
    from tidegate.server import atomic_write, copy_to_file, json_lines, write_parquet

    ending = path.suffix.lower()
    if options or ending not in (".parquet", ".json", ".jsonl"):
        options = options or ("(FORMAT csv, HEADER)" if ending == ".csv" else "")
        return copy_to_file(session.db, f"COPY {what} TO STDOUT {options}", path)
    query = what[1:-1] if what.startswith("(") and what.endswith(")") else f"SELECT * FROM {what}"
    result = session.db.sql(query)
    with atomic_write(path) as temporary:
        if ending == ".parquet":
            write_parquet(result, temporary)
        else:
            with temporary.open("wb") as file:
                file.writelines(json_lines(result))
    return result.count or len(result)


@contextmanager
def written(name: str) -> Iterator[TextIO]:
    """A text file for results."""
    try:
        file = Path(name).expanduser().open("w", encoding="utf-8")
    except OSError as error:
        raise tidegate.StoreError(f"cannot write {name}: {error.strerror}") from None
    with file:
        yield file


def include(session: PromptSession, typed: Typed) -> None:
    r"""`\i`: runs a file as if it were typed; the first error ends it."""
    text = _text_of(Path(typed.rest).expanduser())
    depth = session.depth
    if depth >= _DEPTH:
        raise tidegate.LimitError(
            rf"files of \i are nested more than {_DEPTH} deep", hint="does a file include itself?"
        )
    session.depth = depth + 1
    try:
        for start, piece in _pieces(text):
            try:
                with placed_in(text, start):
                    session.perform(piece)
            except tidegate.TidegateError as error:
                at = error.position
                line = at.line if at is not None and at.sql == text else text.count("\n", 0, start) + 1
                sys.stderr.write(f"{typed.rest}, line {line}:\n")
                raise
    finally:
        session.depth = depth


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Statements and commands of a file, with where they begin; a command ends with its line."""
    start, typed = 0, ""
    for line in text.splitlines(keepends=True):
        typed += line
        if typed.strip() and is_complete(typed):
            yield start + len(typed) - len(typed.lstrip()), typed
            start, typed = start + len(typed), ""
    if typed.strip():
        yield start + len(typed) - len(typed.lstrip()), typed


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise tidegate.StoreError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise tidegate.StoreError(f"{path} is not a text in UTF-8") from None


def edit(session: PromptSession, typed: Typed) -> None:
    r"""`\e`: opens an editor; what it leaves is typed at the next prompt, for Enter to run."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    if typed.rest:
        path = Path(typed.rest).expanduser()
        _edited(editor, path)
        session.next = _text_of(path).rstrip("\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "statement.sql"
        path.write_text((typed.sql or session.last) + "\n", "utf-8")
        _edited(editor, path)
        session.next = _text_of(path).rstrip("\n")


def _edited(editor: str, path: Path) -> None:
    try:
        done = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except OSError as error:
        raise tidegate.StoreError(
            f"cannot run {editor}: {error.strerror}", hint="EDITOR names an editor"
        ) from None
    if done.returncode:
        raise tidegate.StoreError(f"{editor} ended with {done.returncode}")
