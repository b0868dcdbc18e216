"""The command line `tidegate`: every command is a few lines over the API that programs use.

    $ tidegate sql "SELECT * FROM orders LIMIT 10"
    $ python -m tidegate.cli status --json          the same program, without the script

| module | |
|---|---|
| `entry.py` | checks that the extra `cli` is installed, and starts `main.py` |
| `main.py` | the commands, errors and exit codes; `options.py` has what they share |
| `maintenance.py` | compact, sweep, repair, adopt |
| `serve.py` | from command-line options to `tidegate.server` |
| `prompt/` | the prompt of `tidegate sql` |
| `output.py` | results as tables, CSV and JSON |
| `positions.py` | errors with their line in a text of several statements |
| `demo/` | `tidegate demo` |

It rests on every other room, and no other room imports it.
"""

from tidegate.cli.entry import run

__all__ = ["run"]
