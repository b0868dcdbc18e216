"""A query's tree (`sql/split.py`) as one text of Spark SQL, over a view for each scan.

    SELECT `c6` AS `o0`, `c9` AS `o1` FROM (
      SELECT c6, sum(…) AS c9 FROM (SELECT … FROM (SELECT c1, c2 FROM tg_scan_0) JOIN (…) ON c1 = c5) GROUP BY c6
    ) ORDER BY c9 DESC NULLS FIRST LIMIT 3

Each node is a SELECT around those below; Spark's optimiser makes one plan of it. A column is `c` and its number everywhere, and
numbers are never used twice, so a subquery just names the columns of the queries around it. Scalar expressions are written by
`expression.py`, or become calls of our evaluator (`evaluate.py`) where Spark has no words for them; Spark takes those calls in
SELECT and WHERE alone, so elsewhere (keys, aggregates, windows, ON) they are computed one SELECT below. Conditions that cannot fail
stand before those that can.

Where the two differ in what is *equal* or *first*, the text says it: orders name the place of NULLs, intervals are compared by
their length, sums have the types of `plan/aggregate.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from tidegate.errors import UnsupportedError
from tidegate.expr.tree import Call, Column, Expr, support
from tidegate.expr.types import Kind, Type
from tidegate.plan.optimise import may_fail
from tidegate.spark.expression import spark_sql
from tidegate.spark.query_aggregate import aggregate, order_text, windowed
from tidegate.sql.split import (
    Ask,
    Combine,
    Distinct,
    Filter,
    General,
    Group,
    Join,
    Look,
    Map,
    Rel,
    Row,
    Rows,
    Scan,
    Sorted,
    Summary,
    Window,
    columns_of,
    every,
    read_by,
)  # fmt: skip


class Writer:
    """Writes one query."""

    def __init__(
        self,
        query: General,
        views: Mapping[int, str],
        evaluated: Callable[[Expr, Sequence[str]], str],
    ) -> None:
        """`views`: of each scan, and of VALUES, by its first column or identity; `evaluated` makes a call of our evaluator."""
        self.query, self.views, self.evaluated = query, views, evaluated
        self.columns = [f"`c{i}`" for i in range(query.count)]
        self._fresh = (f"q{i}" for i in itertools.count())
        self._readers = _readers(query)
        self._hidden = {
            index
            for rel in every(query.rel)
            if isinstance(rel, Filter) and isinstance(rel.input, Ask)
            for index in self._direct(rel, rel.input)
        }
        """Columns of subqueries that stand in a WHERE themselves: nobody else reads them."""
        self._passing = {
            index
            for rel in every(query.rel)
            if isinstance(rel, Filter)
            for index in _plainly(rel.conditions)
            if self._readers[index] == 1
        }
        """Columns that only let rows pass: NULL or false is the same for these."""

    def whole(self) -> str:
        """The query: its columns are o0, o1, …."""
        rel, tail = self.query.rel, ""
        if isinstance(rel, Sorted):
            below, order = self._prepared(rel.input, [one.value for one in rel.order])
            tail = self._tail(rel, order)
        else:
            below = self.text(rel)
        shown = ", ".join(f"{self.name(c)} AS `o{i}`" for i, c in enumerate(self.query.columns))
        return f"SELECT {shown or '1 AS `o0`'} FROM {self._aliased(below)}{tail}"

    def name(self, column: Column) -> str:
        """A column's text."""
        return self.columns[column.index]

    def expression(self, expr: Expr) -> str:
        """An expression's text: Spark's own words, else a call of our evaluator."""
        if isinstance(expr, Column):
            return self.name(expr)
        return self._plain(expr) or self.evaluated(expr, self.columns)

    def _plain(self, expr: Expr) -> str | None:
        return spark_sql(expr, self.columns)

    def _aliased(self, text: str) -> str:
        return f"({text}) AS {next(self._fresh)}"

    def _select(self, columns: Iterable[Column], more: Iterable[str], below: str, rest: str = "") -> str:
        shown = [*map(self.name, self._seen(columns)), *more]
        return f"SELECT {', '.join(shown) or '1 AS `one`'} FROM {self._aliased(below)}{rest}"

    def _seen(self, columns: Iterable[Column]) -> list[Column]:
        return [column for column in dict.fromkeys(columns) if column.index not in self._hidden]

    # ---------------------------------------------------------------- nodes

    def text(self, rel: Rel) -> str:
        """A SELECT that gives the columns of a node."""
        match rel:
            case Scan():
                shown = ", ".join(self.name(column) for column in rel.leaving())
                return f"SELECT {shown or '1 AS `one`'} FROM {self.views[id(rel)]}"
            case Row():
                return "SELECT 1 AS `one`"
            case Rows():
                shown = ", ".join(map(self.name, rel.columns))
                return f"SELECT {shown or '1 AS `one`'} FROM {self.views[id(rel)]}"
            case Filter():
                return self._filter(rel)
            case Map():
                made = [f"{self.expression(value)} AS {self.name(column)}" for column, value in rel.made]
                return self._select(columns_of(rel.input), made, self.text(rel.input))
            case Ask():
                looks = [
                    f"{self._look(look, whole=column.index in self._passing)} AS {self.name(column)}"
                    for column, look in rel.made
                ]
                return self._select(columns_of(rel.input), looks, self.text(rel.input))
            case Join():
                return self._join(rel)
            case Group():
                return self._group(rel)
            case Window():
                return self._window(rel)
            case Combine():
                return self._combine(rel)
            case Distinct():
                shown = ", ".join(self.name(column) for column in dict.fromkeys(rel.columns))
                return f"SELECT DISTINCT {shown} FROM {self._aliased(self.text(rel.input))}"
            case Sorted():
                below, order = self._prepared(rel.input, [one.value for one in rel.order])
                return self._select(columns_of(rel.input), (), below, self._tail(rel, order))
            case _:
                assert_never(rel)

    def _filter(self, rel: Filter) -> str:
        """WHERE; a subquery that is a whole condition stands in it, and Spark makes a semi-join of it."""
        below, columns = rel.input, list(columns_of(rel.input))
        direct: dict[int, Look] = {}
        if isinstance(below, Ask):
            direct = self._direct(rel, below)
            rest = tuple((column, look) for column, look in below.made if column.index not in direct)
            below = Ask(below.input, rest) if rest else below.input
        texts = [self._condition(condition, direct) for condition in _careful(rel.conditions)]
        return self._select(columns, (), self.text(below), f" WHERE {' AND '.join(texts)}")

    def _direct(self, rel: Filter, below: Ask) -> dict[int, Look]:
        return {i: look for i, look in direct_looks(rel, below).items() if self._readers[i] == 1}

    def _condition(self, condition: Expr, direct: Mapping[int, Look]) -> str:
        node, negated = condition, False
        while isinstance(node, Call) and node.function.name == "not":
            node, negated = node.args[0], not negated
        if isinstance(node, Column) and node.index in direct:
            return f"{'NOT ' if negated else ''}({self._look(direct[node.index], whole=True)})"
        return f"({self.expression(condition)})"

    def _join(self, rel: Join) -> str:
        left, right = self._aliased(self.text(rel.left)), self._aliased(self.text(rel.right))
        on = [(condition, self._plain(condition)) for condition in _careful(rel.on)]
        spoken = [f"({text})" for _, text in on if text is not None]
        others = [condition for condition, text in on if text is None]
        rest = ""
        if others and rel.kind == "inner":
            rest = f" WHERE {' AND '.join(f'({self.expression(c)})' for c in others)}"
        elif others:
            return self._join(self._computed(rel, others))
        word = "CROSS" if rel.kind == "inner" and not spoken else rel.kind.upper()
        condition = "" if word == "CROSS" else f" ON {' AND '.join(spoken) or 'true'}"
        lateral = "LATERAL " if rel.lateral else ""
        shown = ", ".join(map(self.name, self._seen(columns_of(rel)))) or "1 AS `one`"
        return f"SELECT {shown} FROM {left} {word} JOIN {lateral}{right}{condition}{rest}"

    def _computed(self, rel: Join, others: Sequence[Expr]) -> Join:
        """An outer join with what Spark cannot say in its ON computed in the sides that it reads."""
        sides = {c.index: 0 for c in columns_of(rel.left)} | {c.index: 1 for c in columns_of(rel.right)}
        made: tuple[list[tuple[Column, Expr]], list[tuple[Column, Expr]]] = ([], [])

        def below(expr: Expr) -> Expr:
            if not isinstance(expr, Call):
                return expr
            read = {sides.get(i, 2) for i in support(expr)}
            if len(read) == 1 and not read & {2} and self._plain(expr) is None:
                column = self._new(expr.type)
                made[read.pop()].append((column, expr))
                return column
            return Call(expr.function, tuple(map(below, expr.args)), expr.type)

        on = tuple(below(condition) if condition in others else condition for condition in rel.on)
        if not any(made) or any(self._plain(condition) is None for condition in on):
            raise UnsupportedError(
                f"the condition of a {rel.kind.upper()} JOIN cannot be said in Spark",
                hint="an inner join takes any condition; so does one by columns that a subquery computes",
            )
        left, right = (
            Map(side, tuple(some)) if some else side
            for side, some in zip((rel.left, rel.right), made, strict=True)
        )
        return Join(rel.kind, left, right, on, rel.lateral)

    def _new(self, type_: Type) -> Column:
        self.columns.append(f"`c{len(self.columns)}`")
        return Column(len(self.columns) - 1, type_)

    def _prepared(self, rel: Rel, exprs: Iterable[Expr]) -> tuple[str, dict[Expr, str]]:
        """The node with expressions computed beside its columns, and what these are called; its columns are called as they are.

        A column of a query around is computed too: Spark takes such a one in SELECT, and not as a key of GROUP BY.
        """
        names: dict[Expr, str] = {}
        made = []
        own = {column.index for column in columns_of(rel)}
        for expr in exprs:
            if expr in names:
                continue
            if isinstance(expr, Column) and expr.index in own:
                names[expr] = self.name(expr)
                continue
            names[expr] = f"`x{next(self._fresh)}`"
            made.append(f"{self.expression(expr)} AS {names[expr]}")
        below = self.text(rel)
        return (self._select(columns_of(rel), made, below) if made else below), names

    def _group(self, rel: Group) -> str:
        wanted = [value for _, value in rel.keys] + [e for _, one in rel.made for e in given(one)]
        below, names = self._prepared(rel.input, wanted)
        keys = [f"{names[value]} AS {self.name(column)}" for column, value in rel.keys]
        made = [f"{aggregate(one, names)} AS {self.name(column)}" for column, one in rel.made]
        by = [names[value] for _, value in rel.keys]
        clause = f" GROUP BY {', '.join(by)}" if by else ""
        if rel.sets:
            sets = ", ".join(f"({', '.join(by[i] for i in some)})" for some in rel.sets)
            clause = f" GROUP BY GROUPING SETS ({sets})"
        shown = ", ".join([*keys, *made]) or "count(*) AS `one`"
        text = f"SELECT {shown} FROM {self._aliased(below)}{clause}"
        return self._totals(rel, text, below, names) if () in rel.sets else text

    def _totals(self, rel: Group, text: str, below: str, names: Mapping[Expr, str]) -> str:
        """With a row for each set without keys also where there are no rows at all, of which Spark makes none."""
        shown = [f"any_value({names[value]}) AS {self.name(column)}" for column, value in rel.keys]
        for column, one in rel.made:
            ones = f"CAST({(1 << len(one.given)) - 1} AS INT)" if one.kind == "grouping" else None
            shown.append(f"{ones or aggregate(one, names)} AS {self.name(column)}")
        nothing = self._aliased(f"SELECT {', '.join(shown)} FROM {self._aliased(below)} WHERE false")
        there = f"EXISTS (SELECT 1 FROM {self._aliased(below)})"
        total = f" UNION ALL (SELECT * FROM {nothing} WHERE NOT {there})"
        return f"({text}){total * rel.sets.count(())}"

    def _window(self, rel: Window) -> str:
        wanted = [e for _, one, _ in rel.made for e in given(one)]
        for _, _, span in rel.made:
            wanted += [*span.partition, *(order.value for order in span.order)]
        below, names = self._prepared(rel.input, wanted)
        made = [f"{windowed(one, span, names)} AS {self.name(column)}" for column, one, span in rel.made]
        return self._select(columns_of(rel.input), made, below)

    def _combine(self, rel: Combine) -> str:
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

    def _tail(self, rel: Sorted, names: Mapping[Expr, str]) -> str:
        order = ", ".join(order_text(one, names) for one in rel.order)
        text = f" ORDER BY {order}" if order else ""
        if rel.limit is not None and rel.limit < 1 << 31:
            text += f" LIMIT {rel.limit}"
        return text + (f" OFFSET {rel.offset}" if rel.offset else "")

    # ---------------------------------------------------------------- subqueries

    def _look(self, look: Look, *, whole: bool = False) -> str:
        """A subquery; `whole`: as a condition of WHERE. As a value, Spark's IN is false where it ought to be NULL."""
        inner = self._aliased(self.text(look.query))
        match look.kind:
            case "exists":
                return f"EXISTS (SELECT 1 FROM {inner})"
            case "scalar":
                return f"(SELECT {self.name(look.columns[0])} FROM {inner})"
            case "any" if look.operator == "=":
                pairs = [test.args for test in look.tests if isinstance(test, Call)]
                left = ", ".join(self.expression(a) for a, _ in pairs)
                right = ", ".join(self.expression(b) for _, b in pairs)
                found = f"({left}) IN (SELECT {right} FROM {inner})"
                return found if whole else self._among(look, found, inner)
            case "any" | "all":
                return self._every(look, inner)
            case _:
                raise UnsupportedError("ARRAY(subquery) is not supported")

    def _among(self, look: Look, found: str, inner: str) -> str:
        """IN as a value: NULL, not false, beside a NULL on either side."""
        if len(look.tests) != 1 or not isinstance(look.tests[0], Call):
            return self._every(look, inner)
        left, right = map(self.expression, look.tests[0].args)
        null = f"({left}) IS NULL AND EXISTS (SELECT 1 FROM {inner})"
        other = f"EXISTS (SELECT 1 FROM {inner} WHERE ({right}) IS NULL)"
        return f"CASE WHEN {found} THEN true WHEN {null} THEN NULL WHEN {other} THEN NULL ELSE false END"

    def _every(self, look: Look, inner: str) -> str:
        """`x < ANY (…)`: true if it once is, else NULL if it once is, else false; of ALL the other way round."""
        test = " AND ".join(f"({self.expression(test)})" for test in look.tests)
        found = self._aliased(f"SELECT ({test}) AS `t` FROM {inner}")
        if look.kind == "any":
            cases = "WHEN max(`t`) THEN true WHEN count(*) > count(`t`) THEN NULL ELSE false"
        else:
            cases = "WHEN NOT min(`t`) THEN false WHEN count(*) > count(`t`) THEN NULL ELSE true"
        return f"(SELECT CASE {cases} END FROM {found})"


def given(one: Summary) -> list[Expr]:
    """What an aggregate reads that is not a constant of its text."""
    values = () if one.kind == "ntile" else one.given if one.kind == "grouping" else one.given[:1]
    return [*values, *(order.value for order in one.order)]


def _plainly(conditions: Sequence[Expr]) -> set[int]:
    """The columns of conditions that stand under AND and OR alone."""
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


def _readers(query: General) -> Counter[int]:
    """Of each column, how many nodes read it; the result is one of them."""
    found = Counter(column.index for column in set(query.columns))
    for rel in every(query.rel):
        found.update(read_by(rel))
        if isinstance(rel, Ask):
            for _, look in rel.made:
                found.update(support(*look.tests, *look.columns))
    return found


def direct_looks(rel: Filter, below: Ask) -> dict[int, Look]:
    """The subqueries that are whole conditions of a WHERE, or their negation: EXISTS and IN."""
    found = {}
    for column, look in below.made:
        users = [c for c in rel.conditions if column.index in support(c)]
        if len(users) != 1 or look.kind not in ("exists", "any") or look.operator != "=":
            continue
        node = users[0]
        while isinstance(node, Call) and node.function.name == "not":
            node = node.args[0]
        if node == column:
            found[column.index] = look
    return found


def _careful(conditions: Sequence[Expr]) -> list[Expr]:
    return sorted(conditions, key=may_fail)
