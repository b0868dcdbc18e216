"""Prints docs/sql.md: the registry of functions, the aggregates, and every difference that the tests against PostgreSQL know of.

A difference on purpose is a function in tests/differential/differences.py whose docstring says what it is; a row that no
such function explains fails the test. So the list below the table is complete, as far as the tests look.
"""

import inspect
import sys

from tests.differential.differences import DIFFERENCES
from tidegate.expr.document import document
from tidegate.plan import aggregate


def page() -> str:
    """The whole page."""
    told = [" ".join((inspect.getdoc(explains) or "").split()) for explains in DIFFERENCES]
    scalars, differences = document().split("## Differences", 1)
    page = f"{scalars}{aggregate.document()}\n## Differences{differences}"
    return page + "\nSeen by the tests, and meant:\n\n" + "".join(f"- {one}\n" for one in told)


if __name__ == "__main__":
    sys.stdout.write(page())
