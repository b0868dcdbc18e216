r"""The prompt of `tidegate sql`: statements, history, completion, psql's backslash commands.

    tidegate> SELECT id
            > FROM orders
            > LIMIT 10;
    tidegate> \d orders
    tidegate> SELECT count(*) FROM orders \watch 2

| module | |
|---|---|
| `editor.py` | reads what is typed: keys, history, when a statement is complete |
| `completion.py` | what may come at the cursor |
| `scan.py` | divides what is typed into statements and a backslash command |
| `session.py` | runs statements with the settings of the prompt: format, timing, pager, output |
| `commands.py` | the backslash commands |
| `describe.py` | `\d` and its kin |
| `files.py` | `\copy`, `\i`, `\o`, `\e` |
"""

from tidegate.cli.prompt.editor import repl

__all__ = ["repl"]
