"""GROUP BY, HAVING and aggregates over any rows: `grouping.py` for trees (`logical.py`).

Keys and aggregates become columns with numbers of their own, but for a key that is a column, which keeps its number: so a
subquery over groups that speaks of a key needs no change. Beside the aggregates of `plan/aggregate.py` there are those of
`aggregates/`, and `grouping(a, b)`: an int4 with a bit for each key that is not one of this set of GROUPING SETS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.errors import BindError, UnsupportedError
from tidegate.expr.model import Call, Column, Expr, Literal, Now, Type, support, tree, types, walk
from tidegate.plan import AggregateKind, logical
from tidegate.sql.bind.general.aggregates import AggregateBinders, bind_aggregate, computed_sum
from tidegate.sql.bind.general.names import (
    PendingColumns,
    RowBinder,
    aside,
    beyond,
    has_interval,
    starred_row,
)
from tidegate.sql.bind.general.tables import array_of, check_clause
from tidegate.sql.bind.grouping import GroupBinder, GroupKey, given_of, key_of
from tidegate.sql.bind.select_list import resolve_unknown
from tidegate.sql.parse import syntax
from tidegate.sql.parse.syntax import (
    AggregateCall,
    Apply,
    Constant,
    Items,
    Name,
    Node,
    NonScalar,
    Ordering,
    Select,
    Star,
)

GROUPING = "grouping"


def groups_of(select: Select, order_by: Sequence[Ordering], rows: RowBinder) -> Grouped | None:
    """Binds what a query says over groups; None if it says nothing of the kind."""
    roots = [*(item.value for item in select.items), *(ordering.value for ordering in order_by)]
    if select.group_by is None and select.having is None and not any(_aggregates(roots)):
        return None
    written = () if select.group_by is None else select.group_by.keys
    keys = [key_of(node, select, rows) for node in written]
    grouped = Grouped(rows, keys, select)
    for node, key in zip(written, keys, strict=True):
        if (output := _output_of(node, select, rows)) is not None:
            grouped.outputs[id(output)] = key.value
    return grouped


def _output_of(node: Node, select: Select, rows: RowBinder) -> Node | None:
    """The entry of the select list that an entry of GROUP BY names, or numbers before any `*`."""
    if isinstance(node, Constant) and node.kind == "number":
        values = [item.value for item in select.items[: int(node.text)]]
        return None if any(isinstance(value, Star) for value in values) else values[-1]
    if not isinstance(node, Name) or len(node.parts) > 1:
        return None
    name = node.parts[0].text
    if any(name == column for _, column, _ in rows.scope.columns):
        return None
    return next((item.value for item in select.items if item.alias and item.alias.text == name), None)


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
        self.outputs: dict[int, Expr] = {}
        """By the node of an output that GROUP BY names: its key. A subquery in it is asked once, over rows."""
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

    def bind(self, root: Node, clause: str | None = None) -> Expr:
        """The typed expression over keys and aggregates."""
        key = self.outputs.get(id(root))
        return super().bind(root, clause) if key is None else self.keys[key]

    def _bind_node(self, node: Node, args: tuple[Expr, ...]) -> Expr:
        if isinstance(node, NonScalar) and node.call is not None and node.over is None:
            return self._other(node)
        if isinstance(node, NonScalar) and node.table is not None:
            return self._table(node, node.table, args)
        if isinstance(node, NonScalar):
            if node.query is not None:
                args = self._compared(node, args)
            made = beyond(self, self.around, self.names, self.gathered, node, args)
            self._check_free()
            return made
        if isinstance(node, Apply) and node.name == GROUPING and node.is_function and self._sets:
            return self._grouping(args)
        row = starred_row(self, node, args, self.names)
        return super()._bind_node(node, args) if row is None else row

    def _table(self, node: NonScalar, name: str, args: tuple[Expr, ...]) -> Expr:
        """A table function: a key of GROUP BY, else one over groups."""
        check_clause(self.rows, self._clause, node.at)
        array = array_of(name, args)
        for column, known in self.rows.gathered.tables:
            if known == array and column in self.keys:
                return column
        return self.gathered.table(self._over_groups(array, node), self.around.numbers)

    def _compared(self, node: NonScalar, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """What is compared with a subquery, over groups."""
        for given in node.args:
            inside = given.args if isinstance(given, Items) and given.kind == "row" else ()
            for value in inside:
                self._known[id(value)] = self._over_groups(self._known[id(value)], value)
        rows = [isinstance(given, Items) and given.kind == "row" for given in node.args]
        return tuple(
            arg if row else self._over_groups(arg, given)
            for arg, given, row in zip(args, node.args, rows, strict=True)
        )

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
        def compute(one: logical.AggregateExpr) -> Column:
            return self._summary(checked(one), node.name)

        return computed_sum(kind, type_, value, compute, distinct=node.distinct)

    def _summary(self, summary: logical.AggregateExpr, name: str) -> Column:
        reads = support(*logical.aggregate_inputs(summary))
        if reads and reads <= self.names.outer_numbers():
            raise UnsupportedError(
                f"{name} of columns of an outer query alone is an aggregate of that query, and is not supported here",
                hint="aggregate in the outer query, or over a column of this one",
            )
        if summary not in self.summaries:
            self.summaries[summary] = self._new(summary.type, name)
        return self.summaries[summary]

    def _other(self, node: NonScalar) -> Expr:
        """An aggregate that only engines for queries of any shape compute."""
        assert node.call is not None
        name = node.call.name

        def row(one: Node) -> Expr:
            return resolve_unknown(self.rows.bind(one, "an aggregate"))

        binders = AggregateBinders(
            row,
            self._direct,
            lambda one: self.rows.condition(one, "FILTER"),
            lambda call: given_of(call, self.rows),
        )
        return bind_aggregate(node, binders, lambda one: self._summary(checked(one), name))

    def _direct(self, node: Node) -> Expr:
        """An argument before WITHIN GROUP: over groups, and of a type that the aggregate decides."""
        with aside(self):
            return self.bind(node)

    def _grouping(self, args: tuple[Expr, ...]) -> Expr:
        """grouping(a, b): which keys are not part of this row's set."""
        for arg in args:
            if arg not in self.keys:
                raise BindError("grouping() takes keys of GROUP BY")
        given = tuple(args)
        return self._summary(logical.AggregateExpr(GROUPING, types.INT4, given), GROUPING)


def checked(summary: logical.AggregateExpr) -> logical.AggregateExpr:
    """Refuses what engines would do in another way than we do."""
    for key in summary.order:
        if key.value.type.is_nested:
            raise UnsupportedError(f"ORDER BY of {key.value.type} is not supported here")
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
    sets = [tuple(dict.fromkeys(place[written[i]] for i in one)) for one in found]
    return tuple({frozenset(one): one for one in sets}.values() if select.group_by.distinct else sets)
