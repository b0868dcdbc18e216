"""WITH (SPLIT): splits any transform into a plan for ingestion and a view over the stored rows.

    CREATE SOURCE s FROM KAFKA … FORMAT JSON WITH (SPLIT) TRANSFORM USING (
        SELECT kind, sum(n) FROM (SELECT data->>'kind' AS kind, (data->>'n')::int8 AS n FROM s WHERE data ? 'n') GROUP BY kind)

    stored as s_stored        SELECT data->>'kind' AS kind, (data->>'n')::int8 AS n FROM s WHERE data ? 'n'
    s, a view                 SELECT kind, sum(n) FROM (SELECT * FROM s_stored) GROUP BY kind

The result of the largest subquery that reads the source row by row is stored. If there is no such subquery, the rows of the source
are stored with the columns that the query names, and of a JSON document only the keys that the query reads, if it reads nothing
else of it. Conditions on the source alone are *copied* into the stored plan: the view still has them, so a condition that is not
copied stores too many rows but changes no result.

    SELECT data->>'kind', count(*) FROM s WHERE data->>'env' = 'prod' GROUP BY 1

    stored as s_stored        SELECT <data, of which kind and env> AS data FROM s WHERE data->>'env' = 'prod'
    s, a view                 SELECT data->>'kind', count(*) FROM s_stored AS s WHERE data->>'env' = 'prod' GROUP BY 1
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

from tidegate.errors import BindError, PlanError, UnsupportedError
from tidegate.expr.model import types
from tidegate.ingest.define.transform import TransformInput, TransformPlan, plan_transform
from tidegate.ingest.protocol import Columns
from tidegate.plan import MapFilterProject, check_stable, decompose
from tidegate.sql import prepare
from tidegate.sql.bind import CatalogEntry, Relation, RelationCatalog, bind_transform
from tidegate.sql.parse import from_clause, syntax
from tidegate.text import identifier

STORED_SUFFIX = "_stored"
"""The suffix of the collection that the view reads."""
_UNFIT = (BindError, PlanError, UnsupportedError)
"""What says that a piece of the query cannot be stored alone: it reads more than the source (a name of the outer query, another
table), is not row by row, or cannot be maintained. The whole query was bound before, so none of these is a mistake of the
user, and the piece stays in the view. Any other error (a limit, a cancelled statement, a store that fails) ends the statement."""


class SplitTransform(NamedTuple):
    """A transform in two parts: the stored plan and the view."""

    stored: TransformPlan
    view: str
    """The rest of the query, over the stored rows."""


@dataclass(frozen=True)
class CatalogOverlay:
    """The catalog together with collections that do not exist yet."""

    around: RelationCatalog
    more: tuple[Relation, ...]

    def relation(self, name: str) -> CatalogEntry | None:
        """Returns the collection or view with a name."""
        return next(
            (relation for relation in self.more if relation.name == name), None
        ) or self.around.relation(name)

    def relation_names(self) -> list[str]:
        """Returns the names of both."""
        return [*(relation.name for relation in self.more), *self.around.relation_names()]


def split_transform(
    query: syntax.Query, reading: TransformInput, around: RelationCatalog, now_ms: int, *, exact: bool
) -> SplitTransform:
    """Splits a transform; all names in `reading` mean the source."""
    name, columns = reading.names[0], reading.columns
    prepare(
        query, CatalogOverlay(around, (Relation(name, columns),)), now_ms
    )  # reports errors with positions in the original query
    if any(isinstance(node, syntax.CommonTable) and node.name.text == name for node in syntax_nodes(query)):
        raise BindError(f'a common table is called "{name}", as the source is', hint="call it otherwise")
    places = [
        node
        for node in syntax_nodes(query)
        if isinstance(node, from_clause.TableRef) and node.name[-1].text == name
    ]
    if not places:
        raise PlanError(
            "a transform reads its source", hint=f"SELECT … FROM {name}", position=query.position(query.at)
        )
    block = _row_subquery(query, places[0], reading, exact=exact) if len(places) == 1 else None
    if block is not None:
        inner, stored = block
        text = _replace_spans(
            query, [(inner.at.start, inner.at.end, f"SELECT * FROM {identifier(name + STORED_SUFFIX)}")]
        )
    else:
        stored = _stored_rows_plan(query, places, reading, exact=exact)
        text = _replace_spans(query, [(*place.at, _stored_name(place, name)) for place in places])
    prepare(text, CatalogOverlay(around, (Relation(name + STORED_SUFFIX, stored.columns),)), now_ms)
    return SplitTransform(stored, text)


def _stored_name(place: from_clause.TableRef, name: str) -> str:
    alias = "" if place.alias is not None else f" AS {identifier(name)}"
    return identifier(name + STORED_SUFFIX) + alias


def _replace_spans(query: syntax.Query, changes: list[tuple[int, int, str]]) -> str:
    """Returns the text of a query with some spans replaced."""
    text, first = query.text, query.at.start
    for start, end, new in sorted(changes, reverse=True):
        text = text[: start - first] + new + text[end - first :]
    return text


def syntax_nodes(root: Any) -> Iterator[Any]:
    """Yields every node of a syntax tree, in the order of the text where possible."""
    stack = [root]
    while stack:
        node = stack.pop()
        if is_dataclass(node):
            yield node
            stack.extend(reversed([getattr(node, field.name) for field in fields(node)]))
        elif isinstance(node, tuple):
            stack.extend(reversed(node))


# ---------------------------------------------------------------- a subquery


def _row_subquery(
    query: syntax.Query, place: from_clause.TableRef, reading: TransformInput, *, exact: bool
) -> tuple[syntax.Query, TransformPlan] | None:
    """Returns the largest subquery that reads the source row by row, and its plan; None if there is none."""
    for inner in syntax_nodes(query):
        holds = (
            isinstance(inner, syntax.Query)
            and inner is not query
            and any(node is place for node in syntax_nodes(inner))
        )
        if holds:
            with suppress(*_UNFIT):
                planned = plan_transform(inner, reading, exact=exact)
                if len(set(planned.names)) == len(planned.names):
                    return inner, planned
    return None


# ---------------------------------------------------------------- the rows of the source


def _stored_rows_plan(
    query: syntax.Query, places: list[from_clause.TableRef], reading: TransformInput, *, exact: bool
) -> TransformPlan:
    """Plans the rows of the source that are stored, as few and as narrow as possible."""
    columns = reading.columns
    plan = MapFilterProject.identity([type_ for _, type_ in columns])
    renamed = any(place.alias is not None and place.alias.columns for place in places)
    if len(places) == 1 and not renamed:
        for condition in _conditions(query, places[0]):
            with suppress(*_UNFIT):
                plan = plan.then(_filter(query, places[0], condition, reading, exact=exact))
    named = columns if renamed else _named_columns(query, columns)
    items = ", ".join(
        f"{_narrow(query, name, type_ == types.JSONB and not renamed)} AS {identifier(name)}"
        for name, type_ in named
    )
    narrow = bind_transform(f"SELECT {items} FROM {identifier(reading.names[0])}", reading)
    safe = decompose(plan.then(narrow.mfp).optimise()).safe
    return TransformPlan(narrow.names, safe)


def _filter(
    query: syntax.Query,
    place: from_clause.TableRef,
    condition: syntax.Node,
    reading: TransformInput,
    *,
    exact: bool,
) -> MapFilterProject:
    """Plans a condition on the source alone; raises if it reads more, or cannot be maintained over time."""
    select = syntax.Select((syntax.Item(syntax.Star((), place.at), None),), place, condition, (), place.at)
    bound = bind_transform(replace(query, tables=(), recursive=None, body=select, order_by=()), reading)
    plan = bound.mfp.optimise()
    check_stable(plan, exact=exact)
    decompose(plan)
    return plan


def _conditions(query: syntax.Query, place: from_clause.TableRef) -> Iterator[syntax.Node]:
    """Yields the conditions that every row of the source must pass to reach the result."""
    for node in syntax_nodes(query):
        if (
            isinstance(node, syntax.Select)
            and node.source is not None
            and node.where is not None
            and _is_preserved(node.source, place)
        ):
            yield from (
                node.where.args
                if isinstance(node.where, syntax.Junction) and node.where.name == "and"
                else (node.where,)
            )


def _is_preserved(source: from_clause.From, place: from_clause.TableRef) -> bool:
    """Whether WHERE sees the rows of a table unchanged: no join adds NULLs for them."""
    if isinstance(source, from_clause.JoinClause):
        left = source.side in ("inner", "cross", "left") and _is_preserved(source.left, place)
        return left or (source.side in ("inner", "cross", "right") and _is_preserved(source.right, place))
    return source is place


def _named_columns(query: syntax.Query, columns: Columns) -> Columns:
    """The columns that a query names; all if it has a star, a natural join or USING."""
    named = set()
    for node in syntax_nodes(query):
        if isinstance(node, syntax.Star):
            return columns
        if isinstance(node, syntax.Name):
            named |= {part.text for part in node.parts}
    natural = any(
        isinstance(node, from_clause.JoinClause) and (node.natural or node.using)
        for node in syntax_nodes(query)
    )
    if natural:
        return columns
    return tuple(column for column in columns if column[0] in named) or columns[:1]


def _narrow(query: syntax.Query, column: str, document: bool) -> str:
    """The SQL that stores a column; if possible, only the keys of a JSON document that the query reads."""
    keys: dict[str, None] = {}
    paths: set[int] = set()
    for node in syntax_nodes(query):
        match node:
            case syntax.Apply("->" | "->>", (syntax.Name() as root, syntax.Constant("string") as key)):
                paths.add(id(root))
                if root.parts[-1].text == column:
                    keys[key.text] = None
            case _:
                pass
    whole = any(
        isinstance(node, syntax.Name) and node.parts[-1].text == column and id(node) not in paths
        for node in syntax_nodes(query)
    )
    starred = any(isinstance(node, syntax.Star) for node in syntax_nodes(query))
    if not document or whole or starred or not keys:
        return identifier(column)
    return " || ".join(_single_key(identifier(column), key.replace("'", "''")) for key in keys)


def _single_key(column: str, key: str) -> str:
    """SQL for a document with one key, or an empty one if the key is missing: otherwise it would be null."""
    path = f"{column} -> '{key}'"
    return f"CASE WHEN {path} IS NULL THEN '{{}}'::jsonb ELSE jsonb_build_object('{key}', {path}) END"
