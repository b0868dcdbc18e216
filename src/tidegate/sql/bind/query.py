"""Binds a query to its logical tree, a transform to a plan, and single expressions.

    bind_query("SELECT * FROM a JOIN b USING (id)", catalog, now_ms)      LogicalQuery(rel, names, columns)
    bind_transform("SELECT id FROM s WHERE n > 5", catalog)               BoundQuery: a MapFilterProject over s

The tree is as the query is written: `sql/lower` says whether it is a plan over one collection, and prepares it for engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from tidegate.errors import BindError, LimitError, Position
from tidegate.expr.model import Expr, Kind, Type, types
from tidegate.plan import BoundQuery, logical
from tidegate.sql.bind.catalog import RelationCatalog
from tidegate.sql.bind.constants import bind_constant
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.queries.query import QueryBinder, World
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.select_list import resolve_unknown
from tidegate.sql.lower.single_collection import single_collection
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.syntax import Node, Query


def bind_expression(sql: str, columns: Sequence[tuple[str, Type]], now_ms: int | None = None) -> Expr:
    """One scalar expression over columns: `expression("price * 2", [("price", INT8)])`."""
    bound = Binder(sql, Scope.of(columns), now_ms).bind(grammar.parse_expression(sql))
    return resolve_unknown(bound)


def bind_query(
    parsed: Query | str, catalog: RelationCatalog, now_ms: int | None = None
) -> logical.LogicalQuery:
    """What a query that is asked once means; `now_ms` is the value of now()."""
    parsed = grammar.parse_query(parsed) if isinstance(parsed, str) else parsed
    with limited_nesting(parsed):
        return QueryBinder(parsed.sql, World(catalog, now_ms)).whole(parsed)


def bind_transform(parsed: Query | str, catalog: RelationCatalog) -> BoundQuery:
    """A query that is kept: map, filter and project, no now(), and only functions that are stable.

    Anything else is a PlanError that names the construct and points at it.
    """
    parsed = grammar.parse_query(parsed) if isinstance(parsed, str) else parsed
    for construct, node in (("LIMIT", parsed.limit), ("OFFSET", parsed.offset)):
        if node is not None:
            raise logical.Obstacle(construct, parsed.position(node.at)).error()
    if parsed.order_by:
        raise logical.Obstacle("ORDER BY", parsed.position(parsed.order_by[0].value.at)).error()
    with limited_nesting(parsed):
        tree = QueryBinder(parsed.sql, World(catalog, None, lasting=True)).whole(parsed)
        bound = single_collection(tree)
    if bound is None or bound.aggregation is not None or bound.order_by or bound.limit is not None:
        raise obstacle_of(tree, parsed.position(parsed.at)).error()
    return bound


def obstacle_of(query: logical.LogicalQuery, whole: Position) -> logical.Obstacle:
    """What keeps a query from being a plan over one collection."""
    return query.obstacle or logical.Obstacle("this query", whole)


@contextmanager
def limited_nesting(parsed: Query) -> Iterator[None]:
    """Says of a query that exhausts the stack that it is nested too deep."""
    try:
        yield
    except RecursionError:
        hint = "views and subqueries can be nested some hundred levels deep"
        raise LimitError(
            "the query is nested too deep", hint=hint, position=parsed.position(parsed.at)
        ) from None


def bind_as_of(node: Node, sql: str, now_ms: int | None = None) -> int:
    """The time that AS OF names, in milliseconds: a number, or a timestamp."""
    binder = Binder(sql, Scope(()), now_ms)
    bound = binder.bind(node)
    timed = bound.type == types.UNKNOWN or bound.type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    if not timed and not bound.type.is_number:
        raise BindError(f"AS OF wants a time, not {bound.type}", position=binder.position(node.at))
    found = bind_constant(bound, types.TIMESTAMPTZ if timed else types.INT8, binder, node, "AS OF")
    if not found.is_valid:
        raise BindError("AS OF wants a time, not NULL", position=binder.position(node.at))
    return int(found.cast(pa.int64()).as_py()) // (1000 if timed else 1)
