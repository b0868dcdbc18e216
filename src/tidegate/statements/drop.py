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

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import BindError, TidegateError
from tidegate.query import Result
from tidegate.sql.parse import statement
from tidegate.statements.select import names_of
from tidegate.storage.catalog import CatalogItem, ConnectionItem, SourceItem, SubsourceItem, kind_of, view_of


def drop(context: Context, given: statement.DropStatement) -> Result:
    """DROP of tables, views, sources and connections."""
    items: dict[str, CatalogItem] = {}
    for ident in given.names:
        if context.catalog.find(ident.text) is None and given.if_exists:
            continue
        item = context.item(ident.text, position_of(given.sql, ident))
        kind = kind_of(item)
        if kind != given.kind:
            owner = item.source if isinstance(item, SubsourceItem) else ident.text
            raise BindError(
                f'"{ident.text}" is a {kind}',
                hint=f"DROP {'SOURCE' if isinstance(item, SubsourceItem) else kind.upper()} {owner}",
                position=position_of(given.sql, ident),
            )
        items[ident.text] = item
    _add_dependents(context, items, cascade=given.cascade)
    if not items:
        return Result.message(f"DROP {given.kind.upper()}")
    given_back = [
        _given_back(context, name, item) for name, item in items.items() if isinstance(item, SourceItem)
    ]
    context.catalog.drop(items, _check_unused(items))
    return Result.message(
        "; ".join([f"DROP {given.kind.upper()}", *filter(None, (back() for back in given_back))])
    )


def _add_dependents(context: Context, items: dict[str, CatalogItem], *, cascade: bool) -> None:
    """Adds what goes with these names; an error if something stands in the way."""
    waiting = list(items)
    while waiting:
        name = waiting.pop()
        for other, item, why in _dependents(context, name, items[name]):
            if other in items:
                continue
            if why and not cascade:
                raise BindError(f'{kind_of(item)} "{other}" {why} "{name}"', hint="CASCADE drops it too")
            items[other] = item
            waiting.append(other)


def _dependents(context: Context, name: str, item: CatalogItem) -> Iterator[tuple[str, CatalogItem, str]]:
    """What cannot be without this, and why; without a reason: it is a part of it."""
    if isinstance(item, ConnectionItem):
        yield from ((user, one, "uses") for user, one in users(context.catalog.items(), name).items())
        return
    if isinstance(item, SourceItem):
        for other, one in context.catalog.items().items():
            if isinstance(one, SubsourceItem) and one.source == name:
                yield other, one, ""
    for view in readers(context, name):
        yield view, context.item(view), "reads"


def readers(context: Context, name: str) -> list[str]:
    """The views that read `name`, directly or indirectly, and sources WITH (SPLIT)."""
    found = []
    for view, item in context.catalog.items().items():
        query = view_of(item)
        if query is not None:
            seen = CatalogSnapshot(context)
            try:
                names_of(query.sql, seen, context.clock.now())
            except TidegateError:
                continue  # it cannot be read anyway
            if name in seen.entries:
                found.append(view)
    return found


def users(items: Mapping[str, CatalogItem], connection: str) -> dict[str, SourceItem]:
    """The sources that use a connection."""
    from tidegate.ingest.define import connection_names

    return {
        name: item
        for name, item in items.items()
        if isinstance(item, SourceItem) and connection in connection_names(item.definition)
    }


def _check_unused(gone: Mapping[str, CatalogItem]) -> Callable[[Mapping[str, CatalogItem]], None]:
    """Refuses if a source came meanwhile that uses a connection which is about to go."""

    def check(left: Mapping[str, CatalogItem]) -> None:
        for name, item in gone.items():
            for user in users(left, name) if isinstance(item, ConnectionItem) else ():
                raise BindError(f'source "{user}" uses "{name}"', hint="CASCADE drops it too")

    return check


def _given_back(context: Context, name: str, item: SourceItem) -> Callable[[], str | None]:
    """A function that releases what a source holds upstream, and returns what went wrong."""
    from tidegate.ingest.define import load_source_item

    try:
        upstream = load_source_item(context, item).upstream
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
