"""GROUP BY, HAVING and aggregates over any rows: `grouping.py` for trees (`logical.py`).

Keys and aggregates become columns with numbers of their own, but for a key that is a column, which keeps its number: so a
subquery over groups that speaks of a key needs no change. Beside the aggregates of `plan/aggregate.py` there are

| aggregate | gives |
|---|---|
| `string_agg(x, 'separator' ORDER BY …)` | text |
| `array_agg(x)` | an array, NULLs included; NULL of no rows |
| `grouping(a, b)` | int4: a bit for each key that is not one of this set of GROUPING SETS |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.errors import BindError, UnsupportedError
from tidegate.expr.model import Call, Column, Expr, Literal, Now, Type, build, tree, types, walk
from tidegate.plan import AggregateKind, logical
from tidegate.sql.bind.general.names import PendingColumns, RowBinder, beyond, has_interval
from tidegate.sql.bind.grouping import GroupBinder, GroupKey, key_of
from tidegate.sql.bind.select_list import resolve_unknown
from tidegate.sql.parse import syntax
from tidegate.sql.parse.syntax import AggregateCall, Apply, Node, NonScalar, Ordering, Select

GROUPING = "grouping"


def groups_of(select: Select, order_by: Sequence[Ordering], rows: RowBinder) -> Grouped | None:
    """Binds what a query says over groups; None if it says nothing of the kind."""
    roots = [*(item.value for item in select.items), *(ordering.value for ordering in order_by)]
    if select.group_by is None and select.having is None and not any(_aggregates(roots)):
        return None
    keys = () if select.group_by is None else select.group_by.keys
    return Grouped(rows, [key_of(node, select, rows) for node in keys], select)


def _aggregates(roots: Sequence[Node]) -> Iterator[Node]:
    """The aggregates over rows in expressions, those in a window function's arguments included."""
    for root in roots:
        for node in syntax.walk(root):
            if isinstance(node, AggregateCall) or (
                isinstance(node, NonScalar) and node.call and node.over is None
            ):
                yield node
            elif isinstance(node, NonScalar) and node.call and node.over is not None:
                inner = [*node.call.given, *node.over.partition_by, *(o.value for o in node.over.order_by)]
                yield from _aggregates(inner)


class Grouped(GroupBinder):
    """Binds expressions over groups of rows of several relations."""

    def __init__(self, rows: RowBinder, keys: Sequence[GroupKey], select: Select) -> None:
        super().__init__(rows, keys)
        self.rows, self.around, self.names = rows, rows.around, rows.names
        self.gathered = PendingColumns()
        self.summaries: dict[logical.AggregateExpr, Column] = {}
        self.keys: dict[Expr, Column] = {}
        for key in keys:
            if has_interval(key.value.type):
                raise UnsupportedError(
                    "GROUP BY of intervals is not supported here",
                    hint="1 month is equal to 30 days: group by extract(epoch from …) or a text",
                    position=rows.position(select.at),
                )
            # A column of a query around this one gets a number of its own, as in `SelectBinder._mapped`.
            own = isinstance(key.value, Column) and key.value.index in rows.names.numbers()
            self.keys[key.value] = (
                key.value if isinstance(key.value, Column) and own else self._new(key.value.type, key.label)
            )
        self._sets = _sets(select, [key.value for key in keys], list(self.keys))

    def group(self, below: logical.Rel) -> logical.Group:
        """The node: call it when everything is bound."""
        keys = tuple((column, value) for value, column in self.keys.items())
        return logical.Group(below, keys, tuple((c, one) for one, c in self.summaries.items()), self._sets)

    def _new(self, type_: Type, name: str) -> Column:
        return self.around.numbers.new(type_, name)

    def _bind_node(self, node: Node, args: tuple[Expr, ...]) -> Expr:
        if isinstance(node, NonScalar) and node.call is not None and node.over is None:
            return self._other(node, node.call)
        if isinstance(node, NonScalar):
            made = beyond(self, self.around, self.names, self.gathered, node, args)
            self._check_free()
            return made
        if isinstance(node, Apply) and node.name == GROUPING and node.is_function and self._sets:
            return self._grouping(args)
        return super()._bind_node(node, args)

    def _check_free(self) -> None:
        """A subquery over groups may speak of keys, and of no other column of the rows."""
        if not self.gathered.looks:
            return
        kept = {column.index for column in self.keys.values()}
        loose = (logical.outer_columns(self.gathered.looks[-1][1].query) & self.names.numbers()) - kept
        if loose:
            name = next(e.name for e in self.names.entries if e.column.index in loose)
            raise BindError(f'column "{name}" must stand in GROUP BY to be used in this subquery')

    def _over_groups(self, expr: Expr, root: Node) -> Expr:
        """An expression over rows and aggregates as one over keys and aggregates."""
        done: dict[Expr, Expr] = {}
        rows = self.names.numbers()
        for node in walk(expr, below=lambda node: () if node in self.keys else tree.children(node)):
            match node:
                case _ if node in self.keys:
                    done[node] = self.keys[node]
                case Column(index) if index in rows:
                    raise self._ungrouped(node, root)
                case Call(function, args, type_):
                    done[node] = Call(function, tuple(done[arg] for arg in args), type_)
                case Column() | Literal() | Now():
                    done[node] = node
        return done[expr]

    # ---------------------------------------------------------------- aggregates

    def _column(self, node: AggregateCall, kind: AggregateKind, type_: Type, value: Expr | None) -> Expr:
        given = () if value is None else (value,)
        distinct = node.distinct and kind in ("count", "sum")
        return self._summary(checked(logical.AggregateExpr(kind, type_, given, distinct)), node.name)

    def _summary(self, summary: logical.AggregateExpr, name: str) -> Column:
        if summary not in self.summaries:
            self.summaries[summary] = self._new(summary.type, name)
        return self.summaries[summary]

    def _other(self, node: NonScalar, call: AggregateCall) -> Expr:
        """An aggregate that only Spark does."""
        given = [resolve_unknown(self.rows.bind(one, "an aggregate")) for one in call.given]
        order = tuple(
            logical.SortKey(
                resolve_unknown(self.rows.bind(o.value, "an aggregate")), o.descending, o.nulls_first
            )
            for o in call.order_by
        )
        if call.within or call.star:
            raise UnsupportedError(f"{node.construct} is not supported in this form")
        if call.name == "string_agg" and len(given) == 2:
            return self._summary(_string_agg(call, given, order, self.rows), call.name)
        if (
            call.name == "array_agg"
            and len(given) == 1
            and not order
            and not call.distinct
            and not call.where
        ):
            return self._summary(
                logical.AggregateExpr("array_agg", types.array(given[0].type), tuple(given)), call.name
            )
        raise UnsupportedError(
            f"{node.construct} is not supported"
            + (" with ORDER BY, DISTINCT or FILTER" if call.name == "array_agg" else ""),
            hint="there are count, sum, avg, min, max, bool_and, bool_or, every, string_agg, array_agg",
        )

    def _grouping(self, args: tuple[Expr, ...]) -> Expr:
        """grouping(a, b): which keys are not part of this row's set."""
        for arg in args:
            if arg not in self.keys:
                raise BindError("grouping() takes keys of GROUP BY")
        given = tuple(args)
        return self._summary(logical.AggregateExpr(GROUPING, types.INT4, given), GROUPING)


def _string_agg(
    call: AggregateCall, given: list[Expr], order: tuple[logical.SortKey, ...], rows: RowBinder
) -> logical.AggregateExpr:
    value, separator = build.coerce(given[0], types.TEXT), build.coerce(given[1], types.TEXT)
    if not isinstance(separator, Literal) or separator.is_null:
        raise UnsupportedError("the separator of string_agg must be a constant")
    if call.distinct and any(one.value != value for one in order):
        raise BindError("string_agg(DISTINCT …) can be ordered only by what it joins")
    if call.where is not None:
        value = build.case([(rows.condition(call.where, "FILTER"), value)])
    return logical.AggregateExpr("string_agg", types.TEXT, (value, separator), call.distinct, order)


def checked(summary: logical.AggregateExpr) -> logical.AggregateExpr:
    """Refuses what Spark would do in another way than we do."""
    if not summary.args:
        return summary
    type_ = summary.args[0].type
    if summary.distinct and has_interval(type_):
        raise UnsupportedError(f"{summary.kind}(DISTINCT …) of intervals is not supported here")
    if summary.kind in ("min", "max") and type_.is_nested:
        raise UnsupportedError(f"{summary.kind} of {type_} is not supported here")
    return summary


def _sets(select: Select, written: list[Expr], keys: list[Expr]) -> tuple[tuple[int, ...], ...]:
    """The grouping sets of GROUPING SETS, ROLLUP and CUBE: the product of all entries of GROUP BY."""
    if select.group_by is None or not select.group_by.sets:
        return ()
    found: list[tuple[int, ...]] = [()]
    for entry in select.group_by.sets:
        found = [(*one, *choice) for one in found for choice in entry]
    place = {key: i for i, key in enumerate(keys)}
    return tuple(tuple(dict.fromkeys(place[written[i]] for i in one)) for one in found)
