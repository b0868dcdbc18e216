"""Expressions over groups: GROUP BY, HAVING, and a select list with aggregates.

    SELECT lower(customer), sum(price) / 2 FROM orders GROUP BY lower(customer) HAVING count(*) > 1

    keys         lower(#1)                     bound over rows
    aggregates   sum(#2), count(*)             what they are given is bound over rows
    select list  #0, #1 / 2                    over groups: the keys, then the aggregates

An expression is first bound as if it were over rows, each aggregate being one more column. Then whatever is equal to a key becomes
that key, from the outside in; a column of rows that is left over is in no key, and has no one value for a group:

    column "price" must stand in GROUP BY or in an aggregate
    line 1, column 18:
        SELECT customer, price FROM orders GROUP BY customer
                         ^^^^^

A name in GROUP BY is a column of FROM, else an output; a number is an output; as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tidegate.errors import BindError, ErrorCode, PlanError, TypeMismatch
from tidegate.expr.model import Call, Column, Expr, Literal, Now, Type, build, tree, types, walk
from tidegate.plan import Aggregate, AggregateKind, Aggregation, MapFilterProject, exact_sum_type, sum_type
from tidegate.sql.bind.expression import Binder, not_row_by_row
from tidegate.sql.bind.output_name import label
from tidegate.sql.bind.select_list import number, places, resolve_unknown
from tidegate.sql.parse import syntax
from tidegate.sql.parse.syntax import Constant, Item, Name, Node, Ordering, Select, Span, Star


def aggregates(select: Select, order_by: Sequence[Ordering] = ()) -> Iterator[syntax.AggregateCall]:
    """The aggregates in a select list and in ORDER BY, as they are written."""
    for root in (*(item.value for item in select.items), *(ordering.value for ordering in order_by)):
        yield from (node for node in syntax.walk(root) if isinstance(node, syntax.AggregateCall))


def refusal(select: Select, binder: Binder) -> PlanError | None:
    """Why a query that is maintained cannot be this one; None if nothing is aggregated in it."""
    clauses = (
        ("DISTINCT", select.distinct),
        ("GROUP BY", select.group_by and select.group_by.at),
        ("HAVING", select.having and select.having.at),
        *((f"the aggregate {node.name}", node.at) for node in aggregates(select)),
    )
    for construct, at in clauses:
        if at is not None:
            error = not_row_by_row(construct)
            error.position = binder.position(at)
            return error
    return None


def group_binder(select: Select, order_by: Sequence[Ordering], rows: Binder) -> GroupBinder | None:
    """Binds what a query says over groups; None if it says nothing of the kind."""
    if select.group_by is None and select.having is None and not any(aggregates(select, order_by)):
        return None
    keys = () if select.group_by is None else select.group_by.keys
    return GroupBinder(rows, [key_of(node, select, rows) for node in keys])


class GroupKey(NamedTuple):
    """An entry of GROUP BY."""

    label: str
    value: Expr


def key_of(node: Node, select: Select, rows: Binder) -> GroupKey:
    """An entry of GROUP BY, over rows."""
    if isinstance(node, Constant) and node.kind == "number":
        entries = [entry for item in select.items for entry in _entries(item, rows)]
        name, value = entries[number(node, rows, "GROUP BY", len(entries))]
        return GroupKey(
            name, value if isinstance(value, Expr) else resolve_unknown(rows.bind(value, "GROUP BY"))
        )
    if isinstance(node, Constant):
        raise BindError(
            "GROUP BY a constant makes one group", hint="leave it out", position=rows.position(node.at)
        )
    named = _named(node, select, rows)
    return GroupKey(label(node), resolve_unknown(rows.bind(node if named is None else named, "GROUP BY")))


def _entries(item: Item, rows: Binder) -> list[tuple[str, Node | Expr]]:
    """The outputs of an entry of the select list, `*` taken apart."""
    value = item.value
    if not isinstance(value, Star):
        return [(item.alias.text if item.alias else label(value), value)]
    if value.args:
        raise BindError("GROUP BY wants a name here, not a number", position=rows.position(value.at))
    return [(rows.scope.columns[i][1], rows.scope.column(i)) for i in places(value, rows)]


def _named(node: Node, select: Select, rows: Binder) -> Node | None:
    """The output that a name means which no column has."""
    if not isinstance(node, Name) or len(node.parts) > 1:
        return None
    name = node.parts[0].text
    if any(name == column for _, column, _ in rows.scope.columns):
        return None
    found = [item.value for item in select.items if item.alias is not None and item.alias.text == name]
    if len(found) > 1:
        raise BindError(
            f'GROUP BY "{name}" is ambiguous',
            code=ErrorCode.AMBIGUOUS_COLUMN,
            position=rows.position(node.at),
        )
    return found[0] if found else None


class _GroupOutput(NamedTuple):
    """An aggregate over an expression of rows."""

    kind: AggregateKind
    type: Type
    value: Expr | None
    distinct: bool


class GroupBinder(Binder):
    """Binds expressions over groups; gathers the aggregates that stand in them."""

    def __init__(self, rows: Binder, keys: Sequence[GroupKey]) -> None:
        """`rows` binds what stands inside of aggregates."""
        super().__init__(rows.sql, rows.scope, rows.now_ms)
        self._rows, self._keys = rows, keys
        self._width = len(rows.scope.columns)
        self._place = {key.value: i for i, key in reversed(list(enumerate(keys)))}
        self._made: dict[_GroupOutput, str] = {}

    def bind(self, root: Node, clause: str | None = None) -> Expr:
        """The typed expression over keys and aggregates."""
        return self._over_groups(super().bind(root, clause), root)

    def column(self, place: int, at: Span) -> Expr:
        """A column that `*` stands for, which must be a key."""
        return self._over_groups(self.scope.column(place), Star((), at))

    def aggregation(
        self, plan: MapFilterProject, having: Expr | None, leaving: Sequence[Expr], *, grouped: bool
    ) -> tuple[MapFilterProject, Aggregation]:
        """The plan below, over the rows that leave `plan`, and what is done with what leaves it."""
        below = [key.value for key in self._keys]
        made = []
        for kind, type_, value, distinct in self._made:
            if value is not None and value not in below[len(self._keys) :]:
                below.append(value)
            column = None if value is None else below.index(value, len(self._keys))
            made.append(Aggregate(kind, type_, column, distinct))
        above = MapFilterProject.identity([key.value.type for key in self._keys] + [one.type for one in made])
        above = above if having is None else above.filter(having)
        labels = (*(key.label for key in self._keys), *self._made.values())
        whole = Aggregation(len(self._keys), tuple(made), above.select(leaving), grouped, labels)
        return plan.select(below), whole

    def _over_groups(self, expr: Expr, root: Node) -> Expr:
        """An expression over rows, and aggregates behind them, as one over keys and aggregates."""
        done: dict[Expr, Expr] = {}
        for node in walk(expr, below=lambda node: () if node in self._place else tree.children(node)):
            if node in self._place:
                done[node] = Column(self._place[node], node.type, self._keys[self._place[node]].label)
                continue
            match node:
                case Column(index, type_, name) if index >= self._width:
                    done[node] = Column(len(self._keys) + index - self._width, type_, name)
                case Column():
                    raise self._ungrouped(node, root)
                case Call(function, args, type_):
                    done[node] = Call(function, tuple(done[arg] for arg in args), type_)
                case Literal() | Now():
                    done[node] = node
        return done[expr]

    def _ungrouped(self, column: Column, root: Node) -> BindError:
        at = next((n.at for n in syntax.walk(root) if self._known.get(id(n)) == column), root.at)
        return BindError(
            f'column "{column.name}" must stand in GROUP BY or in an aggregate',
            hint=None if self._keys else "without GROUP BY all rows are one group",
            position=self.position(at),
        )

    # ---------------------------------------------------------------- aggregates

    def _aggregate(self, node: syntax.AggregateCall) -> Expr:
        return computed(node, given_of(node, self._rows), self._column)

    def _column(
        self, node: syntax.AggregateCall, kind: AggregateKind, type_: Type, value: Expr | None
    ) -> Expr:
        """The column of an aggregate; equal ones are computed once."""
        distinct = node.distinct and kind in ("count", "sum")
        made = _GroupOutput(kind, type_, value, distinct)
        self._made.setdefault(made, node.name)
        return Column(self._width + list(self._made).index(made), type_, node.name)


def computed(
    node: syntax.AggregateCall,
    given: Expr | None,
    column: Callable[[syntax.AggregateCall, AggregateKind, Type, Expr | None], Expr],
) -> Expr:
    """An aggregate, written with the four that are computed: `column` makes those."""
    match node.name:
        case "count":
            return column(node, "count", types.INT8, given)
        case "sum":
            return column(node, "sum", _summed(node, given, sum_type), given)
        case "avg":
            total = column(node, "sum", _summed(node, given, exact_sum_type), given)
            return build.call("/", total, column(node, "count", types.INT8, given))
        case "min" | "max" as kind:
            assert given is not None
            key = build.sort_key(given)
            return build.from_sort_key(column(node, kind, key.type, key), given.type)
        case name:
            assert given is not None
            return column(node, "max" if name == "bool_or" else "min", types.BOOL, given)


def given_of(node: syntax.AggregateCall, rows: Binder) -> Expr | None:
    """What an aggregate is given, over rows; None: all rows."""
    name = node.name
    if node.star and (name != "count" or node.distinct):
        raise BindError("* stands only in count(*)", hint=f"{name} takes one argument")
    if not node.star and len(node.given) != 1:
        several = "count(DISTINCT (a, b)) counts distinct rows" if node.distinct else "count(*) counts rows"
        raise BindError(f"{name} takes one argument", hint=several if name == "count" else None)
    value = None if node.star else resolve_unknown(rows.bind(node.given[0], "an aggregate"))
    if value is not None and name in ("bool_and", "bool_or", "every"):
        value = build.coerce(value, types.BOOL)
    if name == "count" and isinstance(value, Literal) and not value.is_null:
        value = None if not node.distinct else value
    if node.where is None:
        return value
    return build.case([(rows.condition(node.where, "FILTER"), tree.TRUE if value is None else value)])


def _summed(node: syntax.AggregateCall, given: Expr | None, type_of: Callable[[Type], Type | None]) -> Type:
    assert given is not None
    found = type_of(given.type)
    if found is None:
        raise TypeMismatch(f"{node.name} does not take {given.type}", hint="it takes numbers and intervals")
    return found
