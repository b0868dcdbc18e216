"""MERGE: rows of the table and of the source side by side, and which clause is for them.

| there are clauses for | the rows are joined by |
|---|---|
| MATCHED alone | an inner join |
| NOT MATCHED [BY TARGET] too | source LEFT JOIN table: of the table only what has a partner is read |
| NOT MATCHED BY SOURCE too | table LEFT JOIN source |
| both | a full join |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Column, Expr, build, types
from tidegate.expr.model import tree as exprs
from tidegate.plan import logical
from tidegate.sql.bind.catalog import RelationCatalog
from tidegate.sql.bind.queries.names import ScopeColumn
from tidegate.sql.changes.assignments import assigned_values, inserted_values, visible_value
from tidegate.sql.changes.change_query import Action, ChangeColumns, ChangeQuery, ChangeTarget
from tidegate.sql.changes.tree import ChangeTree, TargetRows, number
from tidegate.sql.parse.modification import Assignments, Merge, MergeClause, MergeInsert

_WORDS: dict[Action, str] = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}


@dataclass(frozen=True)
class BoundClause:
    """A WHEN clause: when it is meant, what it does, and the new values of stored columns."""

    condition: Expr
    action: Action | None
    values: dict[int, Expr]


def bind_merge(
    given: Merge, target: ChangeTarget, catalog: RelationCatalog, now_ms: int | None
) -> ChangeQuery:
    """Binds MERGE."""
    tree = ChangeTree(given.sql, target, catalog, now_ms, given.common)
    name = given.alias or given.table
    rows = tree.rows(name)
    source, beside = tree.source(given.source, name)
    there = tree.numbers.new(types.BOOL, "source row")
    source = logical.Map(source, ((there, exprs.TRUE),))
    _join(tree, given, rows, source, beside)
    kinds = {
        "matched": ([*rows.entries, *beside], _matched(given, rows, there)),
        "not matched by target": (beside, build.call("is null", rows.rel.address[0])),
        "not matched by source": (list(rows.entries), build.call("is null", there)),
    }
    clauses = [_clause(tree, clause, *kinds[clause.kind], rows) for clause in given.clauses]
    action, after, places = chosen_values(tree, clauses, rows)
    tree.filter(build.call("not", build.call("is null", action)))
    shown = tree.computed(
        [
            (visible_value(column, rows.stored[place]), column.name)
            for column, place in zip(after, places, strict=True)
        ]
    )
    columns = ChangeColumns((action,), (), rows.rel.address, rows.stored, tuple(after))
    changed = rows.changed(dict(zip(places, shown, strict=True)))
    actions = tuple(clause.action or "skip" for clause in clauses)
    words = [
        (build.call("=", action, number(i)), build.text(_WORDS[clause.action]))
        for i, clause in enumerate(clauses)
        if clause.action is not None
    ]
    said = build.cast(build.case(words), types.TEXT) if words else build.null(types.TEXT)
    return tree.finished(columns, actions, places, given.returning, [*beside, *changed], said)


def chosen_values(
    tree: ChangeTree, clauses: Sequence[BoundClause], rows: TargetRows
) -> tuple[Column, list[Column], list[int]]:
    """The number of the clause that is for a row, and the new values of the columns that clauses set."""
    conditions = [
        (clause.condition, build.null(types.INT4) if clause.action is None else number(i))
        for i, clause in enumerate(clauses)
    ]
    (action,) = tree.computed([(build.case(conditions), "action")])
    places = sorted({place for clause in clauses for place in clause.values})
    values = []
    for place in places:
        column = rows.stored[place]
        cases = [
            (build.call("=", action, number(i)), clause.values[place])
            for i, clause in enumerate(clauses)
            if place in clause.values
        ]
        values.append((build.case(cases, column), column.name))
    return action, tree.computed(values), places


def _join(
    tree: ChangeTree, given: Merge, rows: TargetRows, source: logical.Rel, beside: list[ScopeColumn]
) -> None:
    """Joins the table and the source."""
    binder = tree.binder([*rows.entries, *beside])
    on = tuple(c for c in build.conjuncts(binder.condition(given.on, "ON")) if c != exprs.TRUE)
    kinds = {clause.kind for clause in given.clauses}
    kind: Literal["inner", "left", "full"] = "inner"
    if kinds >= {"not matched by target", "not matched by source"}:
        kind = "full"
    elif len(kinds - {"matched"}):
        kind = "left"
    if binder.gathered.looks:
        if kind != "inner":
            message = "a subquery in ON of a MERGE that has NOT MATCHED clauses is not supported"
            raise UnsupportedError(message, position=tree.position(given.on.at))
        tree.rel = logical.Join("inner", rows.rel, source, ())
        tree.settle(binder)
        tree.rel = logical.Filter(tree.rel, on)
    elif kind == "left" and "not matched by source" in kinds:
        tree.rel = logical.Join("left", rows.rel, source, on)
    else:
        tree.rel = logical.Join(kind, source, rows.rel, on)


def _matched(given: Merge, rows: TargetRows, there: Column) -> Expr:
    """Whether both sides are there: of each that the join may leave out, that it did not."""
    kinds = {clause.kind for clause in given.clauses}
    sides = [rows.rel.address[0]] if "not matched by target" in kinds else []
    sides += [there] if "not matched by source" in kinds else []
    return build.conjunction([build.call("not", build.call("is null", one)) for one in sides])


def _clause(
    tree: ChangeTree, clause: MergeClause, entries: list[ScopeColumn], kind: Expr, rows: TargetRows
) -> BoundClause:
    binder = tree.binder(entries)
    condition = kind
    if clause.condition is not None:
        condition = build.conjunction([kind, binder.condition(clause.condition, "MERGE WHEN")])
    action: Action | None = None
    values: dict[int, Expr] = {}
    match clause.action:
        case Assignments():
            action, values = "update", assigned_values(tree, binder, clause.action, rows)
        case MergeInsert(columns, nodes):
            action, values = "insert", inserted_values(tree, binder, columns, nodes, rows)
        case "delete":
            action = "delete"
        case "nothing":
            pass
    tree.settle(binder)
    return BoundClause(condition, action, values)
