"""DROP TABLE, VIEW, SOURCE and CONNECTION: all of the names, or none.

| dropped | goes with it | stands in its way, unless CASCADE |
|---|---|---|
| a table, a view | | views that read it, and sources whose rest is such a view (WITH (SPLIT)) |
| a source | its subsources and its bad rows | views that read any of these |
| a connection | | sources that use it |

Names and shards go in one entry of the catalog. What a source holds upstream, such as a replication slot, is given back after that:
if it cannot be reached now, the result says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tidegate.errors import BindError, TidegateError
from tidegate.scan.result import Result
from tidegate.session.lake import Lake, Seen, at
from tidegate.session.query import names_of
from tidegate.shard.catalog import Connection, Item, Source, Subsource, kind_of, view_of
from tidegate.sql import statement


def drop(lake: Lake, given: statement.Drop) -> Result:
    """DROP …"""
    items: dict[str, Item] = {}
    for ident in given.names:
        if lake.catalog.find(ident.text) is None and given.if_exists:
            continue
        item = lake.item(ident.text, at(given.sql, ident))
        kind = kind_of(item)
        if kind != given.kind:
            owner = item.source if isinstance(item, Subsource) else ident.text
            raise BindError(
                f'"{ident.text}" is a {kind}',
                hint=f"DROP {'SOURCE' if isinstance(item, Subsource) else kind.upper()} {owner}",
                position=at(given.sql, ident),
            )
        items[ident.text] = item
    _add_dependents(lake, items, cascade=given.cascade)
    if not items:
        return Result.done(f"DROP {given.kind.upper()}")
    given_back = [_given_back(lake, name, item) for name, item in items.items() if isinstance(item, Source)]
    lake.catalog.drop(items, _check_unused(items))
    return Result.done(
        "; ".join([f"DROP {given.kind.upper()}", *filter(None, (back() for back in given_back))])
    )


def _add_dependents(lake: Lake, items: dict[str, Item], *, cascade: bool) -> None:
    """Adds what goes with these names; an error if something stands in the way."""
    waiting = list(items)
    while waiting:
        name = waiting.pop()
        for other, item, why in _dependents(lake, name, items[name]):
            if other in items:
                continue
            if why and not cascade:
                raise BindError(f'{kind_of(item)} "{other}" {why} "{name}"', hint="CASCADE drops it too")
            items[other] = item
            waiting.append(other)


def _dependents(lake: Lake, name: str, item: Item) -> Iterator[tuple[str, Item, str]]:
    """What cannot be without this, and why; without a reason: it is a part of it."""
    if isinstance(item, Connection):
        yield from ((user, one, "uses") for user, one in users(lake.catalog.items(), name).items())
        return
    if isinstance(item, Source):
        for other, one in lake.catalog.items().items():
            if isinstance(one, Subsource) and one.source == name:
                yield other, one, ""
    for view in readers(lake, name):
        yield view, lake.item(view), "reads"


def readers(lake: Lake, name: str) -> list[str]:
    """The views that read `name`, directly or through others; and sources WITH (SPLIT), which are views too."""
    found = []
    for view, item in lake.catalog.items().items():
        query = view_of(item)
        if query is not None:
            seen = Seen(lake)
            try:
                names_of(query.sql, seen, lake.clock.now())
            except TidegateError:
                continue  # it cannot be read anyway
            if name in seen.entries:
                found.append(view)
    return found


def users(items: Mapping[str, Item], connection: str) -> dict[str, Source]:
    """The sources that use a connection."""
    from tidegate.ingest.stored import connections_of

    return {
        name: item
        for name, item in items.items()
        if isinstance(item, Source) and connection in connections_of(item.definition)
    }


def _check_unused(gone: Mapping[str, Item]) -> Callable[[Mapping[str, Item]], None]:
    """Refuses if a source came meanwhile that uses a connection which is about to go."""

    def check(left: Mapping[str, Item]) -> None:
        for name, item in gone.items():
            for user in users(left, name) if isinstance(item, Connection) else ():
                raise BindError(f'source "{user}" uses "{name}"', hint="CASCADE drops it too")

    return check


def _given_back(lake: Lake, name: str, item: Source) -> Callable[[], str | None]:
    """What gives back what a source holds upstream, made while its connection is still there; it says what went wrong."""
    from tidegate.session.source import loaded

    try:
        upstream = loaded(lake, item).upstream
    except TidegateError as error:
        reason = f'what "{name}" may hold upstream was left: {error.message}'
        return lambda: reason

    def back() -> str | None:
        try:
            upstream.drop()
        except TidegateError as error:
            return f'what "{name}" holds upstream was left: {error.message}'
        return None

    return back
