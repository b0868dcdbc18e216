"""Prints docs/sql.md: functions, aggregates, settings, and the known differences from PostgreSQL.

Each intended difference is a function in tests/differential/differences.py, and its docstring describes it. The differential
tests fail for a row that differs and that none of these functions explains. The list on the page is therefore as complete as
the tests.
"""

import inspect
import sys

from docs.reference import document
from tests.differential.differences import DIFFERENCES
from tidegate.config import MAX_NESTING, Config, spelled
from tidegate.plan.aggregate import aggregate_reference
from tidegate.plan.general_aggregates import general_aggregate_reference


def page() -> str:
    """Returns the whole page."""
    told = [" ".join((inspect.getdoc(explains) or "").split()) for explains in DIFFERENCES]
    scalars, differences = document().split("## Differences", 1)
    aggregates = f"{aggregate_reference()}\n{general_aggregate_reference()}"
    page = f"{scalars}{aggregates}\n{settings()}\n## Differences{differences}"
    return (
        page
        + "\nIntended differences that the differential tests cover:\n\n"
        + "".join(f"- {one}\n" for one in told)
    )


def settings() -> str:
    """Returns the section with every setting of `config.py`."""
    known, scopes = Config(), Config.scopes()
    rows = (
        f"| `{name}` | {spelled(getattr(known, name))} | {scopes[name].value} | {said} |\n"
        for name, said in Config.meanings().items()
    )
    return (
        "## Settings\n\nChange a setting by `SET name = value` or `db.set(name, value)`, for one query by `OPTIONS (name = value)`,"
        " and for a process by `tidegate.open(url, config=Config(…))`. No setting changes which rows are the right answer.\n\n"
        "| scope | who may change it | where it applies |\n|---|---|---|\n"
        "| database | the owner of the database: `tidegate.open`, `db.set`, `tidegate sql`. A session (`db.session()`), a client"
        " of a server and `OPTIONS` get a SettingError | to everyone who uses this open database |\n"
        "| session | everyone | to the statements of that session, or to that query |\n"
        "| limit | everyone, but a session or a client of a server can only lower the database's value | as for session |\n\n"
        "RESET in a session restores the database's value. One limit is no setting: SQL and JSON are nested at most "
        f"{MAX_NESTING} levels deep.\n\n"
        "| setting | default | scope | meaning |\n|---|---|---|---|\n" + "".join(rows)
    )


if __name__ == "__main__":
    sys.stdout.write(page())
