"""Reads what is typed: keys, history, completion; Enter runs what is complete.

Ctrl-C clears the input, or cancels what runs; Ctrl-D on an empty line quits.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession as Editor
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

import tidegate
from tidegate.cli.options import state_folder
from tidegate.cli.output import Format
from tidegate.cli.prompt.completion import SqlCompleter
from tidegate.cli.prompt.scan import is_complete
from tidegate.cli.prompt.session import PromptSession

if TYPE_CHECKING:
    from tidegate.database import Database


def repl(db: Database, form: Format = "table") -> None:
    """Reads and runs statements until the user quits."""
    editor: Editor[str] = Editor(
        history=FileHistory(str(state_folder() / "history")),
        completer=SqlCompleter(db),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_key_bindings(),
        prompt_continuation=lambda width, *_: " " * (width - 2) + "> ",
    )
    sys.stdout.write(f"tidegate {tidegate.__version__}: statements end with ;  \\? for help  \\q to quit\n")
    session = PromptSession(db, form)
    try:
        while not session.over:
            _turn(editor, session)
    except EOFError:
        pass
    finally:
        session.close()


def _turn(editor: Editor[str], session: PromptSession) -> None:
    """One prompt and its answer; Ctrl-C ends neither the talk nor, wherever it comes, in a traceback."""
    try:
        start, session.next = session.next, ""
        session.answer(editor.prompt("tidegate> ", default=start))
    except KeyboardInterrupt:
        sys.stdout.write("\n")


def _key_bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys
