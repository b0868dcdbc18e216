"""WITH (SPLIT): a transform of any shape becomes what runs at ingestion, and a view over what that stored.

    CREATE SOURCE s FROM KAFKA … FORMAT JSON WITH (SPLIT) TRANSFORM USING (
        SELECT kind, sum(n) FROM (SELECT data->>'kind' AS kind, (data->>'n')::int8 AS n FROM s WHERE data ? 'n') GROUP BY kind)

    stored as s_stored        SELECT data->>'kind' AS kind, (data->>'n')::int8 AS n FROM s WHERE data ? 'n'
    s, a view                 SELECT kind, sum(n) FROM (SELECT * FROM s_stored) GROUP BY kind

The largest query inside that reads the source row by row is what is stored. Where the source is read by something that is more than
that, its rows are stored with the columns that are named anywhere, and of a JSON document with the keys that are asked for, if
nothing else is asked of it; and conditions over the source alone are *copied* into what is stored: the view has them still, so
a condition too few stores too much and changes no result.

    SELECT data->>'kind', count(*) FROM s WHERE data->>'env' = 'prod' GROUP BY 1

    stored as s_stored        SELECT <data, of which kind and env> AS data FROM s WHERE data->>'env' = 'prod'
    s, a view                 SELECT data->>'kind', count(*) FROM s_stored AS s WHERE data->>'env' = 'prod' GROUP BY 1
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

from tidegate.errors import BindError, PlanError, TidegateError
from tidegate.expr.types import JSONB
from tidegate.ingest.source import Columns
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.temporal import decompose, only_stable
from tidegate.session.source_plan import Planned, Reading, planned
from tidegate.sql import bind
from tidegate.sql.catalog import Catalog, Entry, Relation
from tidegate.sql.split_query import general
from tidegate.sql.syntax import (
    Apply,
    CommonTable,
    Constant,
    From,
    Item,
    Join,
    Junction,
    Name,
    Node,
    Query,
    Select,
    Star,
    Table,
)
from tidegate.text import identifier

STORED = "_stored"
"""What the name of the collection ends with that the view reads."""


class Split(NamedTuple):
    """A query in two."""

    stored: Planned
    view: str
    """The rest, over what is stored."""


@dataclass(frozen=True)
class World:
    """The catalog, and beside it collections that are not there yet."""

    around: Catalog
    more: tuple[Relation, ...]

    def relation(self, name: str) -> Entry | None:
        """The collection or view of that name."""
        return next((one for one in self.more if one.name == name), None) or self.around.relation(name)


def split(query: Query, reading: Reading, around: Catalog, now_ms: int, *, exact: bool) -> Split:
    """What is stored of a source, and the view over that; the names in `reading` all mean the source."""
    name, columns = reading.names[0], reading.columns
    general(
        query, World(around, (Relation(name, columns),)), now_ms
    )  # what is wrong with it is said with its places
    if any(isinstance(one, CommonTable) and one.name.text == name for one in everything(query)):
        raise BindError(f'a common table is called "{name}", as the source is', hint="call it otherwise")
    places = [one for one in everything(query) if isinstance(one, Table) and one.name[-1].text == name]
    if not places:
        raise PlanError(
            "a transform reads its source", hint=f"SELECT … FROM {name}", position=query.position(query.at)
        )
    block = _block(query, places[0], reading, exact=exact) if len(places) == 1 else None
    if block is not None:
        inner, done = block
        text = _replaced(
            query, [(inner.at.start, inner.at.end, f"SELECT * FROM {identifier(name + STORED)}")]
        )
    else:
        done = _thinned(query, places, reading, exact=exact)
        text = _replaced(query, [(*place.at, _called(place, name)) for place in places])
    general(text, World(around, (Relation(name + STORED, done.columns),)), now_ms)
    return Split(done, text)


def _called(place: Table, name: str) -> str:
    alias = "" if place.alias is not None else f" AS {identifier(name)}"
    return identifier(name + STORED) + alias


def _replaced(query: Query, changes: list[tuple[int, int, str]]) -> str:
    """The text of a query with stretches of it replaced."""
    text, first = query.text, query.at.start
    for start, end, new in sorted(changes, reverse=True):
        text = text[: start - first] + new + text[end - first :]
    return text


def everything(root: Any) -> Iterator[Any]:
    """Every piece of a syntax tree, in the order of its text as far as it has one."""
    stack = [root]
    while stack:
        one = stack.pop()
        if is_dataclass(one):
            yield one
            stack.extend(reversed([getattr(one, field.name) for field in fields(one)]))
        elif isinstance(one, tuple):
            stack.extend(reversed(one))


# ---------------------------------------------------------------- a whole query inside


def _block(query: Query, place: Table, reading: Reading, *, exact: bool) -> tuple[Query, Planned] | None:
    """The largest query inside that reads the source row by row."""
    for inner in everything(query):
        holds = (
            isinstance(inner, Query) and inner is not query and any(one is place for one in everything(inner))
        )
        if holds:
            with suppress(TidegateError):
                found = planned(inner, reading, exact=exact)
                if len(set(found.names)) == len(found.names):
                    return inner, found
    return None


# ---------------------------------------------------------------- the rows themselves


def _thinned(query: Query, places: list[Table], reading: Reading, *, exact: bool) -> Planned:
    """The rows of the source, as few and as narrow as can be."""
    columns = reading.columns
    plan = MapFilterProject.identity([type_ for _, type_ in columns])
    renamed = any(place.alias is not None and place.alias.columns for place in places)
    if len(places) == 1 and not renamed:
        for condition in _conditions(query, places[0]):
            with suppress(TidegateError):
                plan = plan.then(_filter(query, places[0], condition, reading, exact=exact))
    wanted = columns if renamed else _demanded(query, columns)
    items = ", ".join(
        f"{_narrow(query, name, type_ == JSONB and not renamed)} AS {identifier(name)}"
        for name, type_ in wanted
    )
    narrow = bind.transform(f"SELECT {items} FROM {identifier(reading.names[0])}", reading)
    safe = decompose(plan.then(narrow.mfp).optimise()).safe
    return Planned(narrow.names, safe)


def _filter(
    query: Query, place: Table, condition: Node, reading: Reading, *, exact: bool
) -> MapFilterProject:
    """A condition over the source alone; an error if it is not, or could not be kept up as time passes."""
    select = Select((Item(Star((), place.at), None),), place, condition, (), place.at)
    bound = bind.transform(replace(query, tables=(), recursive=None, body=select, order_by=()), reading)
    plan = bound.mfp.optimise()
    only_stable(plan, exact=exact)
    decompose(plan)
    return plan


def _conditions(query: Query, place: Table) -> Iterator[Node]:
    """The conditions that every row of the source must pass, wherever else it goes."""
    for one in everything(query):
        if (
            isinstance(one, Select)
            and one.source is not None
            and one.where is not None
            and _kept(one.source, place)
        ):
            yield from (
                one.where.args
                if isinstance(one.where, Junction) and one.where.name == "and"
                else (one.where,)
            )


def _kept(source: From, place: Table) -> bool:
    """Whether WHERE sees the rows of a table as they are: no join fills in NULLs for them."""
    if isinstance(source, Join):
        left = source.side in ("inner", "cross", "left") and _kept(source.left, place)
        return left or (source.side in ("inner", "cross", "right") and _kept(source.right, place))
    return source is place


def _demanded(query: Query, columns: Columns) -> Columns:
    """The columns that are named anywhere; all, where a star or a natural join may mean any of them."""
    named = set()
    for one in everything(query):
        if isinstance(one, Star):
            return columns
        if isinstance(one, Name):
            named |= {part.text for part in one.parts}
    natural = any(isinstance(one, Join) and (one.natural or one.using) for one in everything(query))
    if natural:
        return columns
    return tuple(column for column in columns if column[0] in named) or columns[:1]


def _narrow(query: Query, column: str, document: bool) -> str:
    """What is kept of a column: of a JSON document the keys that are asked for, if nothing else is asked of it."""
    keys: dict[str, None] = {}
    paths: set[int] = set()
    for one in everything(query):
        match one:
            case Apply("->" | "->>", (Name() as root, Constant("string") as key)):
                paths.add(id(root))
                if root.parts[-1].text == column:
                    keys[key.text] = None
            case _:
                pass
    whole = any(
        isinstance(one, Name) and one.parts[-1].text == column and id(one) not in paths
        for one in everything(query)
    )
    starred = any(isinstance(one, Star) for one in everything(query))
    if not document or whole or starred or not keys:
        return identifier(column)
    return " || ".join(_key(identifier(column), key.replace("'", "''")) for key in keys)


def _key(column: str, key: str) -> str:
    """A document of one key; of none, where it is not there: else it would be there as null."""
    path = f"{column} -> '{key}'"
    return f"CASE WHEN {path} IS NULL THEN '{{}}'::jsonb ELSE jsonb_build_object('{key}', {path}) END"
