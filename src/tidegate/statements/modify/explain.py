"""EXPLAIN of a statement whose rows a query finds: what it does with them, and the query.

Merge: deletes rows by position, inserts rows
Embedded engine: 47 kB left after pruning
Join left  t.id = s.id
"""

from __future__ import annotations

from functools import partial

from tidegate.context import Context
from tidegate.errors import UnsupportedError
from tidegate.query import CancelToken, Result
from tidegate.sql import PreparedQuery
from tidegate.sql.changes import Action
from tidegate.sql.parse import statement
from tidegate.statements.general import explain_general
from tidegate.statements.modify.change import Modification
from tidegate.statements.modify.concurrency import Attempts
from tidegate.statements.modify.general import Attempt, BoundModificationQuery, bind_modification
from tidegate.statements.pinned import PinnedSelect, pinned

_SAID: dict[Action, str] = {
    "insert": "inserts rows",
    "update": "deletes rows by position, and inserts them with new values",
    "delete": "deletes rows by position",
}
_BY_VALUE = ("deletes rows by position", "retracts rows")


def explain_modification(context: Context, given: Modification, asked: statement.Explain) -> Result:
    """Describes how a statement finds its rows, and changes nothing."""
    verb = type(given).__name__.upper()
    if asked.filter_pushdown:
        raise UnsupportedError(
            f"EXPLAIN FILTER PUSHDOWN of this {verb} is not supported", hint="EXPLAIN tells what it reads"
        )
    if asked.analyze:
        raise UnsupportedError(
            f"EXPLAIN ANALYZE would run the {verb}",
            hint="EXPLAIN without ANALYZE tells what it reads; EXPLAIN ANALYZE of a SELECT with the same joins, what it costs",
        )
    with pinned(context, partial(bind_modification, context, given), BoundModificationQuery.sources) as found:
        changes = found.query.changes
        now = Attempt(context, found, Attempts(given, CancelToken())).now
        tree, _ = changes.query(with_before="update" in changes.actions)
        words = [_SAID[action] for action in dict.fromkeys(changes.actions) if action in _SAID]
        if not context.config.delete_by_position:
            words = [one.replace(*_BY_VALUE) for one in words]
        head = f"{verb.capitalize()}: {', '.join(words) or 'changes nothing'}"
        query = PinnedSelect(PreparedQuery(tree, None), found.snapshots, now)
        return explain_general(context, query, analyze=False, as_json=asked.as_json, head=head)
