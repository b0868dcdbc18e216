"""A query's logical tree (`plan/logical.py`) as one Spark SQL text over a view for each scan.

    SELECT `c6` AS `o0`, `c9` AS `o1` FROM (
      SELECT c6, sum(…) AS c9 FROM (SELECT … FROM (SELECT c1, c2 FROM tg_scan_0) JOIN (…) ON c1 = c5) GROUP BY c6
    ) ORDER BY c9 DESC NULLS FIRST LIMIT 3

Each node is a SELECT around those below; Spark's optimiser makes one plan of it. A column is `c` and its number everywhere, and
numbers are never reused, so a subquery just names the columns of the queries around it. Scalar expressions are written by
`to_spark_sql.py`, or become calls of our evaluator (`evaluator_udf.py`). Spark accepts these calls only in SELECT and WHERE, so
elsewhere (keys, aggregates, windows, ON) they are computed one SELECT below. Conditions that cannot fail stand before those that
can.

Where Spark's *equal* or *first* differs from ours, the text is explicit: orders name the place of NULLs, intervals are compared by
their length, sums have the types of `plan/aggregate.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Call, Column, Expr, Kind, Type, subexpressions, support
from tidegate.plan import logical
from tidegate.spark.engine.aggregate_sql import aggregate_sql, order_sql, window_sql
from tidegate.spark.translate.to_spark_sql import spark_sql


class SparkSqlWriter:
    """Writes one query as Spark SQL."""

    def __init__(
        self,
        query: logical.LogicalQuery,
        views: Mapping[int, str],
        evaluated: Callable[[Expr, Sequence[str]], str],
    ) -> None:
        """`views` names the view of each scan and VALUES by id; `evaluated` writes a call of our evaluator."""
        self.query, self.views, self.evaluated = query, views, evaluated
        self.columns = [f"`c{i}`" for i in range(query.count)]
        self._fresh = (f"q{i}" for i in itertools.count())
        self._readers = _readers(query)
        self._hidden = _columns_in_where(query, self._readers)
        self._passing = _pass_columns(query, self._readers)

    def whole(self) -> str:
        """Returns the query, whose columns are o0, o1, …."""
        rel, tail = self.query.rel, ""
        if isinstance(rel, logical.Sort):
            below, order = self._prepared(rel.input, [one.value for one in rel.order])
            tail = self._tail(rel, order)
        else:
            below = self.text(rel)
        shown = ", ".join(f"{self.name(c)} AS `o{i}`" for i, c in enumerate(self.query.columns))
        return f"SELECT {shown or '1 AS `o0`'} FROM {self._aliased(below)}{tail}"

    def name(self, column: Column) -> str:
        """Returns the name of a column."""
        return self.columns[column.index]

    def expression(self, expr: Expr) -> str:
        """Returns an expression as Spark SQL, or as a call of our evaluator."""
        if isinstance(expr, Column):
            return self.name(expr)
        return self._plain(expr) or self.evaluated(expr, self.columns)

    def _plain(self, expr: Expr) -> str | None:
        return spark_sql(expr, self.columns)

    def _aliased(self, text: str) -> str:
        return f"({text}) AS {next(self._fresh)}"

    def _select(self, columns: Iterable[Column], more: Iterable[str], below: str, rest: str = "") -> str:
        shown = [*map(self.name, self._visible(columns)), *more]
        return f"SELECT {', '.join(shown) or '1 AS `one`'} FROM {self._aliased(below)}{rest}"

    def _visible(self, columns: Iterable[Column]) -> list[Column]:
        return [column for column in dict.fromkeys(columns) if column.index not in self._hidden]

    # ---------------------------------------------------------------- nodes

    def text(self, rel: logical.Rel) -> str:
        """Returns a SELECT that gives the columns of a node."""
        match rel:
            case logical.Scan():
                shown = ", ".join(self.name(column) for column in rel.leaving())
                return f"SELECT {shown or '1 AS `one`'} FROM {self.views[id(rel)]}"
            case logical.SingleRow():
                return "SELECT 1 AS `one`"
            case logical.ConstantRows():
                shown = ", ".join(map(self.name, rel.columns))
                return f"SELECT {shown or '1 AS `one`'} FROM {self.views[id(rel)]}"
            case logical.Filter():
                return self._filter(rel)
            case logical.Map():
                computed = [
                    f"{self.expression(value)} AS {self.name(column)}" for column, value in rel.computed
                ]
                return self._select(logical.output_columns(rel.input), computed, self.text(rel.input))
            case logical.SubqueryApply():
                looks = [
                    f"{self._subquery(subquery, whole=column.index in self._passing)} AS {self.name(column)}"
                    for column, subquery in rel.computed
                ]
                return self._select(logical.output_columns(rel.input), looks, self.text(rel.input))
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
                return f"SELECT DISTINCT {shown} FROM {self._aliased(self.text(rel.input))}"
            case logical.Sort():
                below, order = self._prepared(rel.input, [one.value for one in rel.order])
                return self._select(logical.output_columns(rel.input), (), below, self._tail(rel, order))
            case _:
                assert_never(rel)

    def _filter(self, rel: logical.Filter) -> str:
        """Returns a WHERE; a subquery that is a whole condition stands in it, and becomes a semi-join."""
        below, columns = rel.input, list(logical.output_columns(rel.input))
        direct: dict[int, logical.Subquery] = {}
        if isinstance(below, logical.SubqueryApply):
            direct = _direct_subqueries(rel, below, self._readers)
            rest = tuple(
                (column, subquery) for column, subquery in below.computed if column.index not in direct
            )
            below = logical.SubqueryApply(below.input, rest) if rest else below.input
        texts = [self._condition(condition, direct) for condition in _failing_last(rel.conditions)]
        return self._select(columns, (), self.text(below), f" WHERE {' AND '.join(texts)}")

    def _condition(self, condition: Expr, direct: Mapping[int, logical.Subquery]) -> str:
        node, negated = condition, False
        while isinstance(node, Call) and node.function.name == "not":
            node, negated = node.args[0], not negated
        if isinstance(node, Column) and node.index in direct:
            return f"{'NOT ' if negated else ''}({self._subquery(direct[node.index], whole=True)})"
        return f"({self.expression(condition)})"

    def _join(self, rel: logical.Join) -> str:
        left, right = self._aliased(self.text(rel.left)), self._aliased(self.text(rel.right))
        on = [(condition, self._plain(condition)) for condition in _failing_last(rel.on)]
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
        shown = ", ".join(map(self.name, self._visible(logical.output_columns(rel)))) or "1 AS `one`"
        return f"SELECT {shown} FROM {left} {word} JOIN {lateral}{right}{condition}{rest}"

    def _computed(self, rel: logical.Join, others: Sequence[Expr]) -> logical.Join:
        """Moves what Spark cannot express in the ON of an outer join into the sides that it reads."""
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
                f"the condition of a {rel.kind.upper()} JOIN cannot be expressed in Spark SQL",
                hint="use an inner join, or join by columns that a subquery computes",
            )
        left, right = (
            logical.Map(side, tuple(columns)) if columns else side
            for side, columns in zip((rel.left, rel.right), computed, strict=True)
        )
        return logical.Join(rel.kind, left, right, on, rel.lateral)

    def _new(self, type_: Type) -> Column:
        self.columns.append(f"`c{len(self.columns)}`")
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
            names[expr] = f"`x{next(self._fresh)}`"
            computed.append(f"{self.expression(expr)} AS {names[expr]}")
        below = self.text(rel)
        return (self._select(logical.output_columns(rel), computed, below) if computed else below), names

    def _group(self, rel: logical.Group) -> str:
        wanted = [value for _, value in rel.keys] + [
            e for _, one in rel.computed for e in aggregate_inputs(one)
        ]
        below, names = self._prepared(rel.input, wanted)
        keys = [f"{names[value]} AS {self.name(column)}" for column, value in rel.keys]
        computed = [f"{aggregate_sql(one, names)} AS {self.name(column)}" for column, one in rel.computed]
        by = [names[value] for _, value in rel.keys]
        clause = f" GROUP BY {', '.join(by)}" if by else ""
        if rel.sets:
            sets = ", ".join(f"({', '.join(by[i] for i in some)})" for some in rel.sets)
            clause = f" GROUP BY GROUPING SETS ({sets})"
        shown = ", ".join([*keys, *computed]) or "count(*) AS `one`"
        text = f"SELECT {shown} FROM {self._aliased(below)}{clause}"
        return self._totals(rel, text, below, names) if () in rel.sets else text

    def _totals(self, rel: logical.Group, text: str, below: str, names: Mapping[Expr, str]) -> str:
        """Adds the row of each grouping set without keys for an empty input, which Spark omits."""
        shown = [f"any_value({names[value]}) AS {self.name(column)}" for column, value in rel.keys]
        for column, one in rel.computed:
            ones = f"CAST({(1 << len(one.args)) - 1} AS INT)" if one.kind == "grouping" else None
            shown.append(f"{ones or aggregate_sql(one, names)} AS {self.name(column)}")
        nothing = self._aliased(f"SELECT {', '.join(shown)} FROM {self._aliased(below)} WHERE false")
        there = f"EXISTS (SELECT 1 FROM {self._aliased(below)})"
        total = f" UNION ALL (SELECT * FROM {nothing} WHERE NOT {there})"
        return f"({text}){total * rel.sets.count(())}"

    def _window(self, rel: logical.Window) -> str:
        wanted = [e for _, one, _ in rel.computed for e in aggregate_inputs(one)]
        for _, _, span in rel.computed:
            wanted += [*span.partition, *(order.value for order in span.order)]
        below, names = self._prepared(rel.input, wanted)
        computed = [
            f"{window_sql(one, span, names)} AS {self.name(column)}" for column, one, span in rel.computed
        ]
        return self._select(logical.output_columns(rel.input), computed, below)

    def _combine(self, rel: logical.SetOp) -> str:
        sides = []
        for side, columns in ((rel.left, rel.left_columns), (rel.right, rel.right_columns)):
            shown = [
                f"CAST({self.name(c)} AS {new.type.spark}) AS {self.name(new)}"
                if new.type.kind is Kind.NUMERIC
                else f"{self.name(c)} AS {self.name(new)}"
                for c, new in zip(columns, rel.columns, strict=True)
            ]
            sides.append(f"(SELECT {', '.join(shown) or '1 AS `one`'} FROM {self._aliased(self.text(side))})")
        return f"{sides[0]} {rel.name}{' ALL' if rel.every else ''} {sides[1]}"

    def _tail(self, rel: logical.Sort, names: Mapping[Expr, str]) -> str:
        order = ", ".join(order_sql(one, names) for one in rel.order)
        text = f" ORDER BY {order}" if order else ""
        if rel.limit is not None and rel.limit < 1 << 31:
            text += f" LIMIT {rel.limit}"
        return text + (f" OFFSET {rel.offset}" if rel.offset else "")

    # ---------------------------------------------------------------- subqueries

    def _subquery(self, subquery: logical.Subquery, *, whole: bool = False) -> str:
        """Returns a subquery; `whole`: a condition of WHERE. As a value, Spark's IN is false instead of NULL."""
        inner = self._aliased(self.text(subquery.query))
        match subquery.kind:
            case "exists":
                return f"EXISTS (SELECT 1 FROM {inner})"
            case "scalar":
                return f"(SELECT {self.name(subquery.columns[0])} FROM {inner})"
            case "any" if subquery.operator == "=":
                pairs = [test.args for test in subquery.tests if isinstance(test, Call)]
                left = ", ".join(self.expression(a) for a, _ in pairs)
                right = ", ".join(self.expression(b) for _, b in pairs)
                membership = f"({left}) IN (SELECT {right} FROM {inner})"
                return membership if whole else self._in_as_value(subquery, membership, inner)
            case "any" | "all":
                return self._every(subquery, inner)
            case _:
                raise UnsupportedError("ARRAY(subquery) is not supported")

    def _in_as_value(self, subquery: logical.Subquery, membership: str, inner: str) -> str:
        """Returns IN as a value: NULL, not false, if either side has a NULL."""
        if len(subquery.tests) != 1 or not isinstance(subquery.tests[0], Call):
            return self._every(subquery, inner)
        left, right = map(self.expression, subquery.tests[0].args)
        null = f"({left}) IS NULL AND EXISTS (SELECT 1 FROM {inner})"
        other = f"EXISTS (SELECT 1 FROM {inner} WHERE ({right}) IS NULL)"
        return f"CASE WHEN {membership} THEN true WHEN {null} THEN NULL WHEN {other} THEN NULL ELSE false END"

    def _every(self, subquery: logical.Subquery, inner: str) -> str:
        """Returns `x < ANY (…)`: true if any is, else NULL if any is NULL, else false; ALL conversely."""
        test = " AND ".join(f"({self.expression(test)})" for test in subquery.tests)
        tests = self._aliased(f"SELECT ({test}) AS `t` FROM {inner}")
        if subquery.kind == "any":
            cases = "WHEN max(`t`) THEN true WHEN count(*) > count(`t`) THEN NULL ELSE false"
        else:
            cases = "WHEN NOT min(`t`) THEN false WHEN count(*) > count(`t`) THEN NULL ELSE true"
        return f"(SELECT CASE {cases} END FROM {tests})"


def aggregate_inputs(one: logical.AggregateExpr) -> list[Expr]:
    """Returns the arguments and sort keys of an aggregate that are not constants of its text."""
    values = () if one.kind == "ntile" else one.args if one.kind == "grouping" else one.args[:1]
    return [*values, *(order.value for order in one.order)]


def _plain_columns(conditions: Sequence[Expr]) -> set[int]:
    """Returns the columns that stand only below AND and OR in these conditions."""
    waiting, plain, others = list(conditions), set[int](), set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function.name in ("and", "or"):
            waiting.extend(node.args)
        elif isinstance(node, Column):
            plain.add(node.index)
        else:
            others |= support(node)
    return plain - others


def _readers(query: logical.LogicalQuery) -> Counter[int]:
    """Counts the nodes that read each column; the result is one of them."""
    readers = Counter(column.index for column in set(query.columns))
    for rel in logical.walk(query.rel):
        readers.update(logical.columns_read(rel))
        if isinstance(rel, logical.SubqueryApply):
            for _, subquery in rel.computed:
                readers.update(support(*subquery.tests, *subquery.columns))
    return readers


def _columns_in_where(query: logical.LogicalQuery, readers: Counter[int]) -> set[int]:
    """Returns the columns of subqueries that are written directly into a WHERE: no other node reads them."""
    return {
        index
        for rel in logical.walk(query.rel)
        if isinstance(rel, logical.Filter) and isinstance(rel.input, logical.SubqueryApply)
        for index in _direct_subqueries(rel, rel.input, readers)
    }


def _pass_columns(query: logical.LogicalQuery, readers: Counter[int]) -> set[int]:
    """Returns the columns that only let rows pass, for which NULL and false are the same."""
    return {
        index
        for rel in logical.walk(query.rel)
        if isinstance(rel, logical.Filter)
        for index in _plain_columns(rel.conditions)
        if readers[index] == 1
    }


def _direct_subqueries(
    rel: logical.Filter, below: logical.SubqueryApply, readers: Counter[int]
) -> dict[int, logical.Subquery]:
    return {i: subquery for i, subquery in whole_condition_subqueries(rel, below).items() if readers[i] == 1}


def whole_condition_subqueries(
    rel: logical.Filter, below: logical.SubqueryApply
) -> dict[int, logical.Subquery]:
    """Returns the EXISTS and IN subqueries that are, or whose negation is, a whole condition of a WHERE."""
    subqueries = {}
    for column, subquery in below.computed:
        users = [c for c in rel.conditions if column.index in support(c)]
        if len(users) != 1 or subquery.kind not in ("exists", "any") or subquery.operator != "=":
            continue
        node = users[0]
        while isinstance(node, Call) and node.function.name == "not":
            node = node.args[0]
        if node == column:
            subqueries[column.index] = subquery
    return subqueries


def _failing_last(conditions: Sequence[Expr]) -> list[Expr]:
    return sorted(conditions, key=subexpressions.may_fail)
