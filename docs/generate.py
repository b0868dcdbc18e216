"""Prints docs/sql.md: the registry of functions, the aggregates, the settings, and what is known to differ from PostgreSQL.

A difference on purpose is a function in tests/differential/differences.py whose docstring says what it is; a row that no
such function explains fails the test. So the list below the table is complete, as far as the tests look.
"""

import inspect
import sys

from tests.differential.differences import DIFFERENCES
from tidegate.config import Config
from tidegate.expr.document import document
from tidegate.plan import aggregate
from tidegate.session.settings import spelled


def page() -> str:
    """The whole page."""
    told = [" ".join((inspect.getdoc(explains) or "").split()) for explains in DIFFERENCES]
    scalars, differences = document().split("## Differences", 1)
    page = f"{scalars}{aggregate.document()}\n{settings()}\n## Differences{differences}"
    return page + "\nSeen by the tests, and meant:\n\n" + "".join(f"- {one}\n" for one in told)


def settings() -> str:
    """Every knob of `config.py`."""
    known, scopes = Config(), Config.scopes()
    rows = (
        f"| `{name}` | {spelled(getattr(known, name))} | {scopes[name].value} | {said} |\n"
        for name, said in Config.meanings().items()
    )
    return (
        "## Settings\n\nChanged by `SET name = value`, `db.set(name, value)`, for one query by `OPTIONS (name = value)`,"
        " and for a process by `tidegate.open(url, config=Config(…))`. None of them changes what the right rows are.\n\n"
        "| scope | who may change it | for whom it counts |\n|---|---|---|\n"
        "| database | whoever opened the database: `tidegate.open`, `db.set`, `tidegate sql`. A session (`db.session()`), a client"
        " of a server and `OPTIONS` are refused, with a SettingError | everybody who works with this open database |\n"
        "| session | everybody | the statements of that session, or that query |\n"
        "| limit | everybody; but a session or a client of a server can only go below the database's value | the same |\n\n"
        "RESET in a session goes back to the database's value.\n\n"
        "| setting | default | scope | meaning |\n|---|---|---|---|\n" + "".join(rows)
    )


if __name__ == "__main__":
    sys.stdout.write(page())
