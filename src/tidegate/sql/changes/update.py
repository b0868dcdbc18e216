"""UPDATE … FROM and DELETE … USING: rows that have a partner, and what becomes of them.

    UPDATE t SET n = s.n FROM s WHERE t.id = s.id

A row with several partners is changed once, by one of them; which, nobody can say (as in PostgreSQL).
"""

from __future__ import annotations

from tidegate.plan import logical
from tidegate.sql.bind.catalog import RelationCatalog
from tidegate.sql.bind.queries.names import ScopeColumn
from tidegate.sql.changes.assignments import assigned_values, visible_value
from tidegate.sql.changes.change_query import ChangeColumns, ChangeQuery, ChangeTarget
from tidegate.sql.changes.tree import ChangeTree
from tidegate.sql.parse.statement import Delete, Update


def bind_update(
    given: Update | Delete, target: ChangeTarget, catalog: RelationCatalog, now_ms: int | None
) -> ChangeQuery:
    """Binds UPDATE or DELETE."""
    tree = ChangeTree(given.sql, target, catalog, now_ms, given.common)
    name = given.alias or given.table
    rows = tree.rows(name)
    tree.rel, beside = rows.rel, list[ScopeColumn]()
    if given.source is not None:
        rel, beside = tree.source(given.source, name)
        tree.rel = logical.Join("inner", rows.rel, rel, ())
    binder = tree.binder([*rows.entries, *beside])
    if given.where is not None:
        condition = binder.condition(given.where, "WHERE")
        tree.settle(binder)
        tree.filter(condition)
    if isinstance(given, Delete):
        columns = ChangeColumns(address=rows.rel.address, before=rows.stored)
        return tree.finished(columns, ("delete",), (), given.returning, [*rows.entries, *beside])
    values = assigned_values(tree, binder, given.changes, rows)
    tree.settle(binder)
    places = sorted(values)
    after = tree.computed([(values[place], rows.stored[place].name) for place in places])
    shown = tree.computed(
        [
            (visible_value(column, rows.stored[place]), column.name)
            for column, place in zip(after, places, strict=True)
        ]
    )
    columns = ChangeColumns(address=rows.rel.address, before=rows.stored, after=tuple(after))
    changed = rows.changed(dict(zip(places, shown, strict=True)))
    return tree.finished(columns, ("update",), places, given.returning, [*changed, *beside])
