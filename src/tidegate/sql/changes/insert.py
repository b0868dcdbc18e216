"""INSERT with ON CONFLICT or RETURNING.

    INSERT INTO t VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET name = excluded.name

The proposed rows are numbered, and joined with the rows of the table that have the same key. NULL is not equal to NULL: a row whose
key has one conflicts with nothing. Of proposed rows with one key the first is inserted; DO NOTHING leaves out the others, and DO
UPDATE fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.errors import BindError, ErrorCode, Position
from tidegate.expr.model import Column, Expr, Literal, build, types
from tidegate.plan import logical
from tidegate.sql.bind.catalog import RelationCatalog
from tidegate.sql.bind.expression import assignment_cast
from tidegate.sql.bind.queries.names import ScopeColumn, has_interval
from tidegate.sql.bind.unknown_literals import literal_places, with_literal_types
from tidegate.sql.bind.values import bind_values
from tidegate.sql.changes.assignments import (
    assigned_values,
    stored_value,
    target_place,
    visible_value,
    with_defaults,
)
from tidegate.sql.changes.change_query import (
    Action,
    ChangeColumns,
    ChangeQuery,
    ChangeTarget,
    computes_values,
)
from tidegate.sql.changes.merge import BoundClause, chosen_values
from tidegate.sql.changes.tree import ChangeTree, TargetRows
from tidegate.sql.parse.modification import OnConflict
from tidegate.sql.parse.statement import Insert
from tidegate.sql.parse.syntax import Query, Values


def bind_insert(
    given: Insert, target: ChangeTarget, catalog: RelationCatalog, now_ms: int | None
) -> ChangeQuery:
    """Binds INSERT."""
    tree = ChangeTree(given.sql, target, catalog, now_ms)
    rows = tree.rows(given.alias or given.table)
    proposed = _proposed(tree, given, rows, now_ms)
    everywhere = list(range(len(rows.stored)))
    if given.conflict is not None:
        return _with_conflicts(tree, given, given.conflict, rows, proposed)
    shown = _shown(tree, rows, proposed, everywhere)
    columns = ChangeColumns(after=tuple(proposed))
    return tree.finished(columns, ("insert",), everywhere, given.returning, shown)


def _shown(
    tree: ChangeTree, rows: TargetRows, after: Sequence[Column], places: Sequence[int]
) -> tuple[ScopeColumn, ...]:
    """What RETURNING sees."""
    pairs = list(zip(after, places, strict=True))
    shown = tree.computed([(visible_value(column, rows.stored[p]), column.name) for column, p in pairs])
    return rows.changed(dict(zip(places, shown, strict=True)))


# ---------------------------------------------------------------- the proposed rows


def _proposed(tree: ChangeTree, given: Insert, rows: TargetRows, now_ms: int | None) -> list[Column]:
    """The columns of the proposed rows: one for each that is stored."""
    named = [target_place(tree, rows, name) for name in given.columns]
    places, query = named or list(rows.places), given.query
    values: dict[int, Expr] = {}
    if query is not None and _is_plain_values(query):
        assert isinstance(query.body, Values)
        compute = _computed if computes_values(query) else _constants
        values = compute(tree, query.body, rows, places, now_ms, exact=bool(named))
    elif query is not None:
        goals = {
            i: rows.stored[places[i]].type.without_lengths for i in literal_places(query) if i < len(places)
        }
        body = with_literal_types(query.body, goals)
        found = tree.queries.query(replace(query, body=body), None)
        _check_width(tree, query, len(found.columns), len(places), exact=bool(named))
        tree.rel = found.rel
        pairs = zip(places, found.columns, strict=False)
        values = {place: assignment_cast(column, rows.stored[place].type) for place, column in pairs}
    values = with_defaults(tree, rows, values)
    # Each in a column of its own: the same column may fill several.
    made = [(tree.numbers.new(value.type, rows.stored[place].name), value) for place, value in values.items()]
    tree.rel = logical.Map(tree.rel, tuple(made))
    return [column for column, _ in made]


def _is_plain_values(query: Query) -> bool:
    return isinstance(query.body, Values) and not (
        query.order_by or query.limit or query.offset or query.tables
    )


def _check_width(tree: ChangeTree, query: Query, given: int, wanted: int, *, exact: bool) -> None:
    if given > wanted or (exact and given < wanted):
        raise BindError(
            f"{wanted} columns are to be filled, and the query gives {given}",
            position=tree.position(query.at),
        )


def _constants(
    tree: ChangeTree,
    values: Values,
    rows: TargetRows,
    places: list[int],
    now_ms: int | None,
    *,
    exact: bool,
) -> dict[int, Expr]:
    """VALUES, evaluated: one row as constants, several as arrays."""
    if not exact:
        places = places[: len(values.rows[0])]
    stored = [rows.stored[place] for place in places]
    defaults = [tree.target.default(place) for place in places]
    arrays = bind_values(values, tree.sql, [column.type for column in stored], defaults, now_ms)
    plain = [column.type.without_lengths for column in stored]
    columns = tuple(tree.numbers.new(t, c.name) for t, c in zip(plain, stored, strict=True))
    given = [array.cast(column.type.arrow) for array, column in zip(arrays, columns, strict=True)]
    if len(values.rows) == 1:
        constants = tuple(
            Literal(array[0], column.type) for array, column in zip(given, columns, strict=True)
        )
        tree.rel = logical.ConstantRows(columns, (constants,))
    else:
        tree.rel = logical.ConstantRows(columns, (), tuple(given))
    return dict(zip(places, columns, strict=True))


def _computed(
    tree: ChangeTree,
    values: Values,
    rows: TargetRows,
    places: list[int],
    now_ms: int | None,
    *,
    exact: bool,
) -> dict[int, Expr]:
    """VALUES with subqueries: a row each, joined by UNION ALL."""
    del now_ms
    width = len(values.rows[0])
    places = places if exact else places[:width]
    whole: logical.Rel | None = None
    columns: tuple[Column, ...] = ()
    for nodes in values.rows:
        if len(nodes) != len(places):
            message = f"{len(places)} values are expected in each row, and here are {len(nodes)}"
            raise BindError(message, position=tree.position(nodes[-1].at))
        binder = tree.binder(())
        tree.rel = logical.SingleRow()
        given = [stored_value(tree, binder, n, rows, p) for n, p in zip(nodes, places, strict=True)]
        tree.settle(binder)
        own = _typed_columns(tree, rows, places)
        one = logical.Map(tree.rel, tuple(zip(own, given, strict=True)))
        if whole is None:
            whole, columns = one, own
            continue
        both = _typed_columns(tree, rows, places)
        whole, columns = logical.SetOp("UNION", True, whole, one, both, columns, own), both
    assert whole is not None
    tree.rel = whole
    return dict(zip(places, columns, strict=True))


def _typed_columns(tree: ChangeTree, rows: TargetRows, places: list[int]) -> tuple[Column, ...]:
    stored = [rows.stored[place] for place in places]
    return tuple(tree.numbers.new(column.type.without_lengths, column.name) for column in stored)


# ---------------------------------------------------------------- ON CONFLICT


def _with_conflicts(
    tree: ChangeTree, given: Insert, conflict: OnConflict, rows: TargetRows, proposed: list[Column]
) -> ChangeQuery:
    keys = _key(tree, conflict, rows)
    ordinal, again = _numbered(tree, [proposed[place] for place in keys])
    on = tuple(build.call("=", rows.stored[place], proposed[place]) for place in keys)
    tree.rel = logical.Join("left", tree.rel, rows.rel, on)
    there = build.call("not", build.call("is null", rows.rel.address[0]))
    excluded = [
        ScopeColumn("excluded", entry.name, proposed[place])
        for entry, place in zip(rows.entries, rows.places, strict=True)
    ]
    binder = tree.binder([*rows.entries, *excluded])
    clauses: list[BoundClause] = []
    if conflict.assignments is None:
        clauses = [BoundClause(there, None, {}), BoundClause(again, None, {})]
    else:
        wanted = there
        if conflict.where is not None:
            wanted = build.conjunction([there, binder.condition(conflict.where, "WHERE")])
        values = assigned_values(tree, binder, conflict.assignments, rows)
        clauses = [BoundClause(wanted, "update", values), BoundClause(there, "skip", {})]
        clauses.append(BoundClause(again, "duplicate", {}))
    tree.settle(binder)
    everything = dict(enumerate(proposed))
    clauses.append(BoundClause(build.literal(True, types.BOOL), "insert", dict(everything)))
    action, after, places = chosen_values(tree, clauses, rows)
    tree.filter(build.call("not", build.call("is null", action)))
    columns = ChangeColumns((action,), (ordinal,), rows.rel.address, rows.stored, tuple(after))
    actions: tuple[Action, ...] = tuple(clause.action or "skip" for clause in clauses)
    return tree.finished(columns, actions, places, given.returning, _shown(tree, rows, after, places))


def _key(tree: ChangeTree, conflict: OnConflict, rows: TargetRows) -> list[int]:
    """The stored columns in which rows must differ: those that are written, else the declared key."""
    if conflict.columns:
        keys = [target_place(tree, rows, name) for name in conflict.columns]
    else:
        names = [entry.name for entry in rows.entries]
        keys = [rows.places[names.index(name)] for name in tree.target.key]
    at = Position(tree.sql, *conflict.at)
    if not keys:
        raise BindError(
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
            code=ErrorCode.NO_KEY,
            hint="write the columns in which rows must differ: ON CONFLICT (id)",
            position=at,
        )
    for place in keys:
        if has_interval(rows.stored[place].type):
            raise BindError("ON CONFLICT of intervals is not supported", position=at)
    return keys


def _numbered(tree: ChangeTree, keys: Sequence[Column]) -> tuple[Column, Expr]:
    """The number of each proposed row; and whether one before it has the same key, without NULLs."""
    ordinal, rank = (tree.numbers.new(types.INT8, name) for name in ("ordinal", "rank"))
    call = logical.AggregateExpr("row_number", types.INT8)
    tree.rel = logical.Window(tree.rel, ((ordinal, call, logical.WindowSpec((), ())),))
    order = (logical.SortKey(ordinal, False, False),)
    tree.rel = logical.Window(tree.rel, ((rank, call, logical.WindowSpec(tuple(keys), order)),))
    known = [build.call("not", build.call("is null", key)) for key in keys]
    return ordinal, build.conjunction([build.call(">", rank, build.literal(1, types.INT8)), *known])
