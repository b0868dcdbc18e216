"""Faults that are planted in the rules of push-down give wrong rows, and queries of the tests find each of them.

A number is the seed of a random query, which `test_relational.py` compares with PostgreSQL; `python -m
tests.differential.test_push_down_faults 400` looks for the first such seed of each fault.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest

import tidegate
from tests.differential.push_down_faults import FAULTS, planted
from tests.differential.random_queries import random_query
from tests.differential.relational import set_up
from tidegate.errors import TidegateError

FOUND_BY: dict[str, int | str] = {
    "a condition below the side of a left join that is filled with NULLs": 50,
    "a condition of ON that drops rows of the kept side": 8,
    "an outer join that becomes an inner one too often": 13,
    "a condition through LIMIT": 36,
    "a condition through a window and DISTINCT ON": 155,
    "a condition on the order of a window through it": 310,
    "a condition through ROLLUP": 17,
    "a condition into one side of a UNION alone": 145,
    "one half of an OR": (
        "SELECT n.id, e.cost FROM nodes n JOIN edges e ON n.id = e.src "
        "WHERE (n.id < 6 AND e.cost > 3) OR (n.id > 8 AND e.cost < 6)"
    ),
    "a condition that is copied to another column": 185,
    "too few columns of a DISTINCT": 13,
    "too few columns of a set operation": 181,
    "a column of a condition that is not read": (
        "SELECT n.label FROM nodes n LEFT JOIN edges e ON n.id = e.src WHERE coalesce(n.parent, 0) + coalesce(e.cost, 0) > 4"
    ),
    "the order of a window that is not read": 9,
    "an expression that is lifted across an outer join": 310,
    "a reduction with one key too few": 32,
    "a reduction of the kept side of a left join": 173,
    "a reduction below LIMIT, a window or EXCEPT": (
        "SELECT n.id, n.c FROM (SELECT id, count(*) OVER () AS c FROM nodes) n JOIN edges e ON n.id = e.src WHERE e.cost > 6"
    ),
    "a reduction by NOT IN": 66,
}


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tables() as opened:
        yield opened


def tables() -> tidegate.Database:
    """The tables of `relational.py`, in a database of ours."""
    opened = tidegate.open("memory://")
    for statement in set_up():
        opened.sql(statement)
    opened.set("engine", "embedded")
    return opened


def answer(db: tidegate.Database, sql: str, comment: str) -> list[str] | str:
    """The rows, in any order, or the kind of error; by the comment the text differs from all that were bound before."""
    try:
        return sorted(map(repr, db.sql(f"{sql} /* {comment} */").rows()))
    except TidegateError as error:
        return type(error).__name__


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(db: tidegate.Database, fault: str) -> None:
    found = FOUND_BY[fault]
    sql = found if isinstance(found, str) else random_query(random.Random(found))
    right = answer(db, sql, "right")
    assert isinstance(right, list)
    with planted(fault):
        assert answer(db, sql, fault) != right
    assert answer(db, sql, "right again") == right


def search(most: int) -> None:
    """Prints the first seeds whose queries find each fault by wrong rows."""
    db = tables()
    for fault in FAULTS:
        for seed in range(most):
            sql = random_query(random.Random(seed))
            right = answer(db, sql, "right")
            with planted(fault):
                wrong = answer(db, sql, fault)
            if isinstance(wrong, list) and wrong != right:
                print(f"{fault}: {seed}", flush=True)
                break
        else:
            print(f"{fault}: not found")


if __name__ == "__main__":
    search(int(sys.argv[1]))
