"""String literals beside values of a type with a length or with digits: the same text in a real PostgreSQL."""

from __future__ import annotations

import pytest

from tests.differential.postgres import Postgres
from tests.differential.test_first_day import db as db  # noqa: PLC0414  # a fixture of this module too
from tests.differential.test_first_day import ours, theirs
from tidegate.database import Database

pytestmark = pytest.mark.postgres
EXPRESSIONS = (
    "'abcd'::varchar(4) = 'abcdef'",
    "'abcd'::varchar(4) IN ('abcdef', 'abcde')",
    "coalesce('abcd'::varchar(4), 'abcdef') || coalesce(null::varchar(4), 'abcdef')",
    "'{ab}'::varchar(2)[] = '{abc}'",
    "1.56::numeric(10,2) = '1.5555'",
    "greatest(1.56::numeric(10,2), '1.56001')",
    "1.56::numeric(10,2) IN ('1.555', '1.561')",
    "CASE WHEN 1 > 2 THEN 1.56::numeric(10,2) ELSE '1.23456' END",
    "'1.51' = ANY ('{1.5}'::numeric(4,1)[])",
    "99999999999999999999999999::numeric(38,0) > 0.000000000000001",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(postgres: Postgres, db: Database, expression: str) -> None:
    assert ours(db, expression) == theirs(postgres, expression)
