"""Trees of table functions, recursion and whole rows: what is pushed where, and what needs no array."""

from __future__ import annotations

import pytest

from tests.unit.sql.test_general import split
from tidegate.errors import TypeMismatch, UnsupportedError
from tidegate.expr.model import show
from tidegate.plan import logical


def nodes(sql: str, kind: type[logical.Rel]) -> list[logical.Rel]:
    """The nodes of one kind in a query's tree."""
    return [rel for rel in logical.walk(split(sql).rel) if isinstance(rel, kind)]


def test_a_series_of_constants_is_numbered_rows() -> None:
    (numbers,) = nodes("SELECT * FROM generate_series(1, 10000000, 3)", logical.RowNumbers)
    assert isinstance(numbers, logical.RowNumbers)
    assert numbers.count == 3_333_334
    assert not nodes("SELECT * FROM generate_series(1, 10000000, 3)", logical.TableFunctionApply)


def test_a_step_of_months_and_columns_need_an_array() -> None:
    months = "SELECT * FROM generate_series(timestamp '2024-01-01', '2024-12-01', '1 month')"
    for sql in (months, "SELECT * FROM o, generate_series(1, o.id)"):
        assert nodes(sql, logical.TableFunctionApply), sql
        assert not nodes(sql, logical.RowNumbers), sql


def test_a_function_of_the_left_side_is_no_join() -> None:
    (inner,) = nodes("SELECT o.id, g FROM o, generate_series(1, o.id) g", logical.TableFunctionApply)
    (outer,) = nodes(
        "SELECT o.id, g FROM o LEFT JOIN generate_series(1, o.id) g ON true", logical.TableFunctionApply
    )
    assert isinstance(inner, logical.TableFunctionApply)
    assert isinstance(outer, logical.TableFunctionApply)
    assert (inner.outer, outer.outer) == (False, True)
    assert isinstance(inner.input, logical.Scan)
    other = "SELECT o.id, g FROM o LEFT JOIN generate_series(1, o.id) g ON g > 2"
    (join,) = nodes(other, logical.Join)
    assert isinstance(join, logical.Join)
    assert join.lateral


def test_conditions_on_the_input_go_below_a_table_function() -> None:
    query = split("SELECT o.id, g FROM o, generate_series(1, o.id) g WHERE o.price > 5 AND g > 2")
    (scan,) = query.scans()
    assert [show(condition) for condition in scan.conditions] == ["price > 5"]
    (condition,) = [rel for rel in logical.walk(query.rel) if isinstance(rel, logical.Filter)]
    assert isinstance(condition.input, logical.TableFunctionApply)


def test_only_columns_that_are_used_are_read_below_a_table_function() -> None:
    (scan,) = split("SELECT g FROM o, generate_series(1, o.id) WITH ORDINALITY AS t (g, i)").scans()
    assert [column.name for column in scan.leaving()] == ["id"]


def test_functions_of_a_select_list_run_side_by_side_by_depth() -> None:
    sql = "SELECT generate_series(1, id), generate_series(1, generate_series(1, id)) FROM o"
    first, second = nodes(sql, logical.TableFunctionApply)
    assert isinstance(first, logical.TableFunctionApply)
    assert isinstance(second, logical.TableFunctionApply)
    # The inner call equals the first one, and is taken apart once.
    assert (len(second.computed), len(first.computed)) == (1, 1)
    assert first.input is second


def test_a_recursion_reads_its_working_table_once() -> None:
    query = split(
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r JOIN o ON o.id = r.n) TABLE r"
    )
    (recursive,) = [rel for rel in logical.walk(query.rel) if isinstance(rel, logical.Recursive)]
    working = [rel for rel in logical.walk(recursive.right) if isinstance(rel, logical.WorkingTable)]
    assert [one.number for one in working] == [recursive.number]
    assert [scan.source for scan in logical.scans_in_steps(query.rel)] == ["o"]
    assert logical.outer_columns(query.rel) == frozenset()


def test_a_whole_row_that_nobody_reads_is_not_computed() -> None:
    assert not nodes("SELECT o.id FROM o, c WHERE o.c = c.id", logical.Map)
    (made,) = nodes("SELECT x FROM o JOIN c x ON o.c = x.id", logical.Map)
    assert isinstance(made, logical.Map)
    assert [show(value).startswith("ROW(") for _, value in made.computed] == [True]


def test_what_would_give_other_rows_than_postgresql_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="DISTINCT ON beside a table function"):
        split("SELECT DISTINCT ON (id) id, generate_series(1, 3) FROM o ORDER BY id")
    with pytest.raises(TypeMismatch, match="cannot cast"):
        split("SELECT CAST(ARRAY[ARRAY[id], ARRAY[2]] AS text[]) FROM o")
