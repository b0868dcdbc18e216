"""Expressions over groups: GROUP BY, HAVING, and a select list with aggregates.

    SELECT lower(customer), sum(price) / 2 FROM orders GROUP BY lower(customer) HAVING count(*) > 1

    keys         lower(#1) as #7               bound over rows
    aggregates   sum(#2) as #8, count(*)       what they are given is bound over rows
    select list  #7, #8 / 2                    over groups

An expression is first bound as if it were over rows, each aggregate being one more column. Then whatever is equal to a key becomes
that key, from the outside in; a column of rows that is left over is in no key, and has no one value for a group:

    column "price" must stand in GROUP BY or in an aggregate
    line 1, column 18:
        SELECT customer, price FROM orders GROUP BY customer
                         ^^^^^

A key that is a column keeps its number, so a subquery over groups that speaks of a key needs no change. Beside the aggregates of
`plan/aggregate.py` there are those of `aggregates/`, and `grouping(a, b)`: an int4 with a bit for each key that is not one of this
set of GROUPING SETS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate.errors import BindError, UnsupportedError
from tidegate.expr.model import Call, Column, Expr, Literal, Now, Type, support, tree, types, walk
from tidegate.plan import aggregate, logical
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.queries.aggregates import AggregateBinders, bind_aggregate, computed, given_of
from tidegate.sql.bind.queries.group_keys import GroupKey, key_of
from tidegate.sql.bind.queries.names import (
    PendingColumns,
    RowBinder,
    aside,
    beyond,
    has_interval,
    outer_groups,
    starred_row,
)
from tidegate.sql.bind.queries.tables import array_of, check_clause
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
    Span,
    Star,
)

GROUPING = "grouping"


def first_grouping(select: Select) -> tuple[str, Span] | None:
    """The first construct of a query that makes groups, and where it stands."""
    clauses = (
        ("DISTINCT", select.distinct),
        ("GROUP BY", select.group_by and select.group_by.at),
        ("HAVING", select.having and select.having.at),
        *(
            (f"the aggregate {node.name}", node.at)
            for item in select.items
            for node in syntax.walk(item.value)
            if isinstance(node, AggregateCall)
        ),
    )
    return next(((construct, at) for construct, at in clauses if at is not None), None)


def groups_of(select: Select, order_by: Sequence[Ordering], rows: RowBinder) -> GroupBinder | None:
    """Binds what a query says over groups; None if it says nothing of the kind."""
    if select.group_by is None and select.having is None:
        roots = [*(item.value for item in select.items), *(ordering.value for ordering in order_by)]
        if not any(outer_groups(node, rows.names) is None for node in _aggregates(roots)):
            return None
    written = () if select.group_by is None else select.group_by.keys
    keys = [key_of(node, select, rows) for node in written]
    grouped = GroupBinder(rows, keys, select)
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


def _in_order(call: logical.AggregateExpr, order: tuple[logical.SortKey, ...]) -> logical.AggregateExpr:
    """A list of values with the order that the rows have, unless it has one of its own."""
    if call.kind not in ("array_agg", "string_agg") or call.order or call.distinct:
        return call
    return replace(call, order=order)


class GroupBinder(Binder):
    """Binds expressions over groups; gathers the aggregates that stand in them."""

    def __init__(self, rows: RowBinder, keys: Sequence[GroupKey], select: Select) -> None:
        """`rows` binds what stands inside of aggregates."""
        super().__init__(rows.sql, rows.scope, rows.now_ms)
        self.rows, self.around, self.names = rows, rows.around, replace(rows.names, groups=self)
        self.gathered = PendingColumns()
        self.summaries: dict[logical.AggregateExpr, Column] = {}
        self.keys: dict[Expr, Column] = {}
        self.outputs: dict[int, Expr] = {}
        """By the node of an output that GROUP BY names: its key. A subquery in it is asked once, over rows."""
        for key in keys:
            if has_interval(key.value.type):
                self.around.refuse(
                    "GROUP BY of intervals is not supported here",
                    select.at,
                    "1 month is equal to 30 days: group by extract(epoch from …) or a text",
                )
            if key.value not in self.keys:
                self.keys[key.value] = self._key_column(key)
        self._sets = _sets(select, [key.value for key in keys], list(self.keys))

    def _key_column(self, key: GroupKey) -> Column:
        """A column of a query around this one gets a number of its own, as in `SelectBinder._mapped`."""
        if isinstance(key.value, Column) and key.value.index in self.names.numbers():
            return Column(key.value.index, key.value.type, key.label)
        return self._new(key.value.type, key.label)

    def bind(self, root: Node, clause: str | None = None) -> Expr:
        """The typed expression over keys and aggregates."""
        key = self.outputs.get(id(root))
        return self._over_groups(super().bind(root, clause), root) if key is None else self.keys[key]

    def column(self, place: int, at: Span) -> Expr:
        """A column that `*` stands for, which must be a key."""
        return self._over_groups(self.scope.column(place), Star((), at))

    def group(self, below: logical.Rel, order: tuple[logical.SortKey, ...] = ()) -> logical.Group:
        """The node: call it when everything is bound; lists of values keep the order of the rows."""
        keys = tuple((column, value) for value, column in self.keys.items())
        computed = tuple((c, _in_order(one, order)) for one, c in self.summaries.items())
        return logical.Group(below, keys, computed, self._sets)

    def _new(self, type_: Type, name: str) -> Column:
        return self.around.numbers.new(type_, name)

    def aggregate_of_subquery(self, node: Node) -> Expr:
        """An aggregate of these rows that stands in a subquery over the groups."""
        return self._bind_node(node, ())

    def _bind_node(self, node: Node, args: tuple[Expr, ...]) -> Expr:
        if (groups := outer_groups(node, self.names)) is not None:
            return groups.aggregate_of_subquery(node)
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
        self.around.note(node.construct, node.at)
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

    def _ungrouped(self, column: Column, root: Node) -> BindError:
        at = next((n.at for n in syntax.walk(root) if self._known.get(id(n)) == column), root.at)
        return BindError(
            f'column "{column.name}" must stand in GROUP BY or in an aggregate',
            hint=None if self.keys else "without GROUP BY all rows are one group",
            position=self.position(at),
        )

    # ---------------------------------------------------------------- aggregates

    def _aggregate(self, node: AggregateCall) -> Expr:
        def column(kind: aggregate.AggregateKind, type_: Type, value: Expr | None) -> Expr:
            args, distinct = () if value is None else (value,), node.distinct and kind in ("count", "sum")
            one = logical.AggregateExpr(kind, type_, args, distinct)
            wrong = None if value is not None and _is_composed(one) else objection(one)
            if wrong is not None:
                self.around.refuse(wrong, node.at)
            return self._summary(one, node.name)

        return computed(node, given_of(node, self.rows), column)

    def _read_outside(self, columns: frozenset[int]) -> frozenset[int]:
        """Columns, and for those of subqueries what these read of the queries around them."""
        found: frozenset[int] = frozenset()
        looks = {column.index: look for column, look in self.rows.gathered.looks}
        for column in columns:
            look = looks.get(column)
            if look is None:
                found |= {column}
            else:
                found |= self._read_outside(support(*look.left)) | logical.outer_columns(look.query)
        return found

    def _summary(self, summary: logical.AggregateExpr, name: str) -> Column:
        reads = self._read_outside(support(*logical.aggregate_inputs(summary)))
        if reads and reads <= self.names.outer_numbers():
            raise UnsupportedError(
                f"{name} of columns of an outer query alone is an aggregate of that query, and is not supported here",
                hint="aggregate in the outer query, or over a column of this one",
            )
        if summary not in self.summaries:
            self.summaries[summary] = self._new(summary.type, name)
        return self.summaries[summary]

    def _other(self, node: NonScalar) -> Expr:
        """An aggregate that is written with others, or that only engines compute."""
        assert node.call is not None
        self.around.note(node.construct, node.at)
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


def _is_composed(one: logical.AggregateExpr) -> bool:
    """Whether engines are given other aggregates in its place (`sql/lower/composite_aggregates.py`)."""
    return one.kind in ("min", "max") and one.args[0].type.element is not None


def checked(summary: logical.AggregateExpr) -> logical.AggregateExpr:
    """Refuses what engines would do in another way than we do."""
    wrong = objection(summary)
    if wrong is not None:
        raise UnsupportedError(wrong)
    return summary


def objection(summary: logical.AggregateExpr) -> str | None:
    """What engines would do in another way than we do; None if nothing."""
    if not summary.args:
        return None
    type_ = summary.args[0].type
    if summary.distinct and has_interval(type_):
        return f"{summary.kind}(DISTINCT …) of intervals is not supported here"
    if summary.kind in ("min", "max") and type_.is_nested:
        return f"{summary.kind} of {type_} is not supported here"
    return None


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
