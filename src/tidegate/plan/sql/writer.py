"""A query's logical tree (`plan/logical.py`) as one SQL text over a view for each scan.

    SELECT c6 AS o0, c9 AS o1 FROM (
      SELECT c6, sum(…) AS c9 FROM (SELECT … FROM (SELECT c1, c2 FROM tg_scan_0) JOIN (…) ON c1 = c5) GROUP BY c6
    ) ORDER BY c9 DESC NULLS FIRST LIMIT 3

Each node is a SELECT around those below; the engine's optimiser makes one plan of it. A column is `c` and its number everywhere,
and numbers are never reused, so a subquery just names the columns of the queries around it.

What differs between engines is the `Dialect`: how scalar expressions, aggregates, windows and orders are written. An expression
that the engine cannot express exactly becomes a call of our evaluator. Spark accepts these calls only in SELECT and WHERE, so
elsewhere (keys, aggregates, windows, ON) they are computed one SELECT below.

An engine may evaluate the conditions of a WHERE in any order, and a condition that fails must not fail a row that another one
drops. So where one of them can fail, conditions that cannot fail stand before it; if the engine reorders them, our evaluator
gets all of them as one AND, beside those that cannot fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Call, Column, Expr, Kind, Literal, Type, build, subexpressions, support
from tidegate.plan import logical
from tidegate.plan.sql.common_tables import check_step, common_rows_sql, common_sql
from tidegate.plan.sql.condition_columns import (
    column_readers,
    columns_in_where,
    direct_subqueries,
    pass_columns,
)
from tidegate.plan.sql.dialect import Dialect
from tidegate.plan.sql.subqueries import membership_sql, single_row_sql, subquery_sql


class SqlWriter:
    """Writes one query as SQL."""

    def __init__(self, query: logical.LogicalQuery, views: Mapping[int, str], dialect: Dialect) -> None:
        """`views` names the view of each scan and VALUES by id."""
        self.query, self.views, self.dialect = query, views, dialect
        self.columns = [f"c{i}" for i in range(query.count)]
        self._calls = 0
        self._fresh = (f"q{i}" for i in itertools.count())
        self._readers = column_readers(query)
        self._hidden = columns_in_where(query, self._readers)
        self._passing = pass_columns(query, self._readers)

    def whole(self) -> str:
        """Returns the query, whose columns are o0, o1, …."""
        rel, tail, tables = self.query.rel, "", []
        while isinstance(rel, logical.Common):
            tables.append(common_sql(self, rel))
            rel = rel.input
        before = f"WITH {', '.join(tables)} " if tables else ""
        if isinstance(rel, logical.Sort):
            below, order = self._prepared(rel.input, [one.value for one in rel.order])
            tail = self._tail(rel, order)
        else:
            below = self.text(rel)
        shown = ", ".join(f"{self.name(c)} AS o{i}" for i, c in enumerate(self.query.columns))
        return f"{before}SELECT {shown or '1 AS o0'} FROM {self.aliased(below)}{tail}"

    def name(self, column: Column) -> str:
        """Returns the name of a column."""
        return self.columns[column.index]

    def expression(self, expr: Expr) -> str:
        """Returns an expression in the engine's words, or as a call of our evaluator."""
        if isinstance(expr, Column):
            return self.name(expr)
        return self._plain(expr) or self._evaluated(expr)

    def _evaluated(self, expr: Expr) -> str:
        self._calls += 1
        return self.dialect.evaluated(expr, self.columns)

    def _value(self, expr: Expr) -> str:
        """Returns an expression over rows that have passed all conditions."""
        if isinstance(expr, Column):
            return self.name(expr)
        plain = self.dialect.scalar(expr, self.columns, may_fail=True)
        return plain or self._evaluated(expr)

    def _plain(self, expr: Expr) -> str | None:
        return self.dialect.scalar(expr, self.columns, may_fail=False)

    def aliased(self, text: str) -> str:
        """Returns a SELECT as a table with a name of its own."""
        return f"({text}) AS {next(self._fresh)}"

    def _select(self, columns: Iterable[Column], more: Iterable[str], below: str, rest: str = "") -> str:
        shown = [*map(self.name, self._visible(columns)), *more]
        return f"SELECT {', '.join(shown) or '1 AS one'} FROM {self.aliased(below)}{rest}"

    def _visible(self, columns: Iterable[Column]) -> list[Column]:
        return [column for column in dict.fromkeys(columns) if column.index not in self._hidden]

    # ---------------------------------------------------------------- nodes

    def text(self, rel: logical.Rel) -> str:
        """Returns a SELECT that gives the columns of a node."""
        match rel:
            case (
                logical.Scan()
                | logical.SingleRow()
                | logical.ConstantRows()
                | logical.RowNumbers()
                | logical.WorkingTable()
                | logical.CommonRows()
            ):
                return self._leaf(rel)
            case logical.TableFunctionApply():
                return self._table_function(rel)
            case logical.Recursive():
                return self._recursive(rel)
            case logical.Common():
                return f"WITH {common_sql(self, rel)} {self.text(rel.input)}"
            case logical.Filter():
                return self._filter(rel)
            case logical.Map():
                computed = [f"{self._value(value)} AS {self.name(column)}" for column, value in rel.computed]
                return self._select(logical.output_columns(rel.input), computed, self.text(rel.input))
            case logical.SubqueryApply():
                return self._apply(logical.output_columns(rel.input), rel.computed, self.text(rel.input))
            case logical.Join():
                return self._join(rel)
            case logical.Group():
                return self._group(rel)
            case logical.Window():
                return self._window(rel)
            case logical.SetOp():
                return self._combine(rel)
            case logical.Distinct():
                shown = ", ".join(self.name(column) for column in dict.fromkeys(rel.columns))
                return f"SELECT DISTINCT {shown} FROM {self.aliased(self.text(rel.input))}"
            case logical.Sort():
                below, order = self._prepared(rel.input, [one.value for one in rel.order])
                return self._select(logical.output_columns(rel.input), (), below, self._tail(rel, order))
            case _:
                assert_never(rel)

    def _leaf(
        self,
        rel: logical.Scan
        | logical.SingleRow
        | logical.ConstantRows
        | logical.RowNumbers
        | logical.WorkingTable
        | logical.CommonRows,
    ) -> str:
        match rel:
            case logical.SingleRow():
                return "SELECT one FROM (VALUES (1)) AS single_row (one)"  # Spark fails on some expressions over no table
            case logical.RowNumbers():
                return self.dialect.numbered_rows(rel.count, self.name(rel.column))
            case logical.WorkingTable():
                return self._recursive_columns(rel.number, rel.columns)
            case logical.CommonRows():
                return common_rows_sql(self, rel)
            case _:
                shown = ", ".join(map(self.name, logical.output_columns(rel)))
                return f"SELECT {shown or '1 AS one'} FROM {self.views[id(rel)]}"

    def _table_function(self, rel: logical.TableFunctionApply) -> str:
        """Returns the elements of arrays as rows; the arrays are computed one SELECT below."""
        arrays = [(self.name(column), f"x{next(self._fresh)}", value) for column, value in rel.computed]
        columns = logical.output_columns(rel.input)
        computed = [f"{self.expression(value)} AS {name}" for _, name, value in arrays]
        below = self._select(columns, computed, self.text(rel.input))
        shown = [self.name(column) for column in self._visible(columns)]
        position = None if rel.position is None else self.name(rel.position)
        names = [(name, array, value.type) for name, array, value in arrays]
        return self.dialect.elements(shown, names, position, self.aliased(below), outer=rel.outer)

    def _recursive(self, rel: logical.Recursive) -> str:
        """Returns WITH RECURSIVE, whose table is called by its number and has columns r0, r1, …."""
        check_step(self, rel.right)
        sides = []
        for side, columns in ((rel.left, rel.left_columns), (rel.right, rel.right_columns)):
            pairs = zip(columns, rel.columns, strict=True)
            shown = [self.dialect.cast(self.name(c), new.type) for c, new in pairs]
            sides.append(f"SELECT {', '.join(shown) or '1'} FROM {self.aliased(self.text(side))}")
        names = ", ".join(f"r{i}" for i in range(max(len(rel.columns), 1)))
        return self.dialect.recursive(
            f"tg_recursive_{rel.number}", names, sides[0], sides[1], every=rel.every
        ) + self._recursive_columns(rel.number, rel.columns)

    def _recursive_columns(self, number: int, columns: Sequence[Column]) -> str:
        shown = ", ".join(f"r{i} AS {self.name(column)}" for i, column in enumerate(columns))
        return f"SELECT {shown or '1 AS one'} FROM tg_recursive_{number}"

    def _filter(self, rel: logical.Filter) -> str:
        """Returns a WHERE; a subquery that is a whole condition stands in it, and becomes a semi-join.

        Such conditions come first, so that other subqueries are asked only for the rows that they leave.
        """
        below, columns = rel.input, list(logical.output_columns(rel.input))
        if not isinstance(below, logical.SubqueryApply):
            return self._where(columns, rel.conditions, {}, self.text(below))
        direct = direct_subqueries(rel, below, self._readers)
        rest = tuple(entry for entry in below.computed if entry[0].index not in direct)
        first = [c for c in rel.conditions if rest and support(c) & direct.keys()]
        text = self.text(below.input)
        if first:
            text = self._where(logical.output_columns(below.input), first, direct, text)
        if rest:
            text = self._apply(logical.output_columns(below.input), rest, text)
        others = [condition for condition in rel.conditions if condition not in first]
        return self._where(columns, others, direct, text) if others else text

    def _where(
        self,
        columns: Iterable[Column],
        conditions: Sequence[Expr],
        direct: Mapping[int, logical.Subquery],
        below: str,
    ) -> str:
        texts = [self._condition(condition, direct) for condition in self._ordered(conditions, direct)]
        return self._select(columns, (), below, f" WHERE {' AND '.join(texts)}")

    def _apply(
        self, columns: Iterable[Column], computed: Sequence[tuple[Column, logical.Subquery]], below: str
    ) -> str:
        """Adds the columns of subqueries."""
        added, joined = [], ""
        for column, subquery in computed:
            calls = self._calls
            text = subquery_sql(self, subquery, whole=column.index in self._passing)
            alone = subquery.kind == "scalar" and not logical.outer_columns(subquery.query)
            if alone and self._calls > calls and not self.dialect.calls_in_subqueries:
                single = self.aliased(single_row_sql(self, subquery, self.name(column)))
                joined += f" LEFT JOIN {single} ON true"
                text = self.name(column)
            added.append(f"{text} AS {self.name(column)}")
        return self._select(columns, added, below, joined)

    def _ordered(self, conditions: Sequence[Expr], direct: Mapping[int, logical.Subquery]) -> list[Expr]:
        """Returns conditions in an order in which none fails for a row that another one drops."""
        if not self.dialect.reorders_conditions or not subexpressions.may_fail(*conditions):
            return sorted(conditions, key=subexpressions.may_fail)
        mine = [condition for condition in conditions if not support(condition) & direct.keys()]
        safe = [condition for condition in conditions if not subexpressions.may_fail(condition)]
        return [*safe, build.conjunction(mine)]

    def _condition(self, condition: Expr, direct: Mapping[int, logical.Subquery]) -> str:
        node, negated = condition, False
        while isinstance(node, Call) and node.function.name == "not":
            node, negated = node.args[0], not negated
        if isinstance(node, Column) and node.index in direct:
            subquery = direct[node.index]
            text = None if negated else membership_sql(self, subquery)
            return f"{'NOT ' if negated else ''}({text or subquery_sql(self, subquery, whole=True)})"
        return f"({self.expression(condition)})"

    def _join(self, rel: logical.Join) -> str:
        left, right = self.aliased(self.text(rel.left)), self.aliased(self.text(rel.right))
        write = self.expression if self.dialect.calls_in_on else self._plain
        on = [(condition, write(condition)) for condition in self._ordered(rel.on, {})]
        in_on = [f"({text})" for _, text in on if text is not None]
        others = [condition for condition, text in on if text is None]
        rest = ""
        if others and rel.kind == "inner":
            rest = f" WHERE {' AND '.join(f'({self.expression(c)})' for c in others)}"
        elif others:
            return self._join(self._computed(rel, others))
        word = "CROSS" if rel.kind == "inner" and not in_on else rel.kind.upper()
        condition = "" if word == "CROSS" else f" ON {' AND '.join(in_on) or 'true'}"
        lateral = "LATERAL " if rel.lateral else ""
        shown = ", ".join(map(self.name, self._visible(logical.output_columns(rel)))) or "1 AS one"
        return f"SELECT {shown} FROM {left} {word} JOIN {lateral}{right}{condition}{rest}"

    def _computed(self, rel: logical.Join, others: Sequence[Expr]) -> logical.Join:
        """Moves what the engine cannot express in the ON of an outer join into the sides that it reads."""
        sides = {c.index: 0 for c in logical.output_columns(rel.left)} | {
            c.index: 1 for c in logical.output_columns(rel.right)
        }
        computed: tuple[list[tuple[Column, Expr]], list[tuple[Column, Expr]]] = ([], [])

        def below(expr: Expr) -> Expr:
            if not isinstance(expr, Call):
                return expr
            read = {sides.get(i, 2) for i in support(expr)}
            if len(read) == 1 and not read & {2} and self._plain(expr) is None:
                column = self._new(expr.type)
                computed[read.pop()].append((column, expr))
                return column
            return Call(expr.function, tuple(map(below, expr.args)), expr.type)

        on = tuple(below(condition) if condition in others else condition for condition in rel.on)
        if not any(computed) or any(self._plain(condition) is None for condition in on):
            raise UnsupportedError(
                f"the condition of a {rel.kind.upper()} JOIN cannot be expressed in {self.dialect.name}",
                hint="use an inner join, or join by columns that a subquery computes",
            )
        left, right = (
            logical.Map(side, tuple(columns)) if columns else side
            for side, columns in zip((rel.left, rel.right), computed, strict=True)
        )
        return logical.Join(rel.kind, left, right, on, rel.lateral)

    def _new(self, type_: Type) -> Column:
        self.columns.append(f"c{len(self.columns)}")
        return Column(len(self.columns) - 1, type_)

    def _prepared(self, rel: logical.Rel, exprs: Iterable[Expr]) -> tuple[str, dict[Expr, str]]:
        """Returns the node with expressions computed beside its columns, and the names of all of them.

        A column of an outer query is computed too: Spark accepts it in SELECT, but not as a key of GROUP BY.
        """
        names: dict[Expr, str] = {}
        computed = []
        own = {column.index for column in logical.output_columns(rel)}
        for expr in exprs:
            if expr in names:
                continue
            if isinstance(expr, Column) and expr.index in own:
                names[expr] = self.name(expr)
                continue
            names[expr] = f"x{next(self._fresh)}"
            computed.append(f"{self._value(expr)} AS {names[expr]}")
        below = self.text(rel)
        return (self._select(logical.output_columns(rel), computed, below) if computed else below), names

    def _group(self, rel: logical.Group) -> str:
        wanted = [value for _, value in rel.keys] + [e for _, one in rel.computed for e in _inputs(one)]
        below, names = self._prepared(rel.input, wanted)
        keys = [f"{names[value]} AS {self.name(column)}" for column, value in rel.keys]
        computed = [
            f"{self.dialect.aggregate(one, names)} AS {self.name(column)}" for column, one in rel.computed
        ]
        by = [names[value] for _, value in rel.keys]
        clause = f" GROUP BY {', '.join(by)}" if by else ""
        if rel.sets:
            sets = ", ".join(f"({', '.join(by[i] for i in some)})" for some in rel.sets)
            clause = f" GROUP BY GROUPING SETS ({sets})"
        shown = ", ".join([*keys, *computed]) or "count(*) AS one"
        text = f"SELECT {shown} FROM {self.aliased(below)}{clause}"
        missing = () in rel.sets and not self.dialect.totals_of_nothing
        return self._totals(rel, text, below, names) if missing else text

    def _totals(self, rel: logical.Group, text: str, below: str, names: Mapping[Expr, str]) -> str:
        """Adds the row of each grouping set without keys for an empty input, which some engines omit."""
        shown = [f"any_value({names[value]}) AS {self.name(column)}" for column, value in rel.keys]
        for column, one in rel.computed:
            ones = str((1 << len(one.args)) - 1) if one.kind == "grouping" else None
            shown.append(f"{ones or self.dialect.aggregate(one, names)} AS {self.name(column)}")
        nothing = self.aliased(f"SELECT {', '.join(shown)} FROM {self.aliased(below)} WHERE false")
        there = f"EXISTS (SELECT 1 FROM {self.aliased(below)})"
        total = f" UNION ALL (SELECT * FROM {nothing} WHERE NOT {there})"
        return f"({text}){total * rel.sets.count(())}"

    def _window(self, rel: logical.Window) -> str:
        wanted = [e for _, one, _ in rel.computed for e in _inputs(one)]
        for _, _, span in rel.computed:
            wanted += [*span.partition, *(order.value for order in span.order)]
        below, names = self._prepared(rel.input, wanted)
        computed = [
            f"{self.dialect.window(one, span, names)} AS {self.name(column)}"
            for column, one, span in rel.computed
        ]
        return self._select(logical.output_columns(rel.input), computed, below)

    def _combine(self, rel: logical.SetOp) -> str:
        sides = []
        for side, columns in ((rel.left, rel.left_columns), (rel.right, rel.right_columns)):
            shown = [
                f"{self.dialect.cast(self.name(c), new.type)} AS {self.name(new)}"
                if new.type.kind is Kind.NUMERIC
                else f"{self.name(c)} AS {self.name(new)}"
                for c, new in zip(columns, rel.columns, strict=True)
            ]
            sides.append(f"(SELECT {', '.join(shown) or '1 AS one'} FROM {self.aliased(self.text(side))})")
        return f"{sides[0]} {rel.name}{' ALL' if rel.every else ''} {sides[1]}"

    def _tail(self, rel: logical.Sort, names: Mapping[Expr, str]) -> str:
        order = ", ".join(self.dialect.order(one, names) for one in rel.order)
        text = f" ORDER BY {order}" if order else ""
        return text + self.dialect.limit(rel.limit, rel.offset)


def _inputs(one: logical.AggregateExpr) -> list[Expr]:
    """Returns what is computed below an aggregate: all but the constants behind the first argument."""
    constants = one.args if one.kind == "ntile" else one.args[1:]
    return [e for e in logical.aggregate_inputs(one) if not isinstance(e, Literal) or e not in constants]
