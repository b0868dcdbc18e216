"""ALTER SOURCE: PAUSE, RESUME, REPLAY ERRORS and SET TRANSFORM USING.

    ALTER SOURCE orders_30d SET TRANSFORM USING (SELECT id, item FROM orders_30d WHERE mz_now() <= created_at + '60 days')

Another transform must give the same columns. It is for what arrives from then on: positions go on where they are, and rows that
are stored stay as they were made. A source that retracts is refused, as the row of the old transform would be retracted with the
new one.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.errors import BindError, PlanError
from tidegate.ingest import stored
from tidegate.ingest.definition import Output, Source
from tidegate.scan.result import Result
from tidegate.session.lake import Lake, at
from tidegate.session.source import included_types, item_of, load, loaded, output_of, pause
from tidegate.session.source_collections import Wanted
from tidegate.session.source_making import Making
from tidegate.session.source_options import asked
from tidegate.session.source_plan import Shape, same_shape
from tidegate.shard.validity import shown
from tidegate.shard.writer import schema_of
from tidegate.sql import grammar, statement, syntax


def alter(lake: Lake, given: statement.AlterSource) -> Result:
    """ALTER SOURCE."""
    name, position = given.name.text, at(given.sql, given.name)
    if given.if_exists and lake.catalog.find(name) is None:
        return Result.done(f'"{name}" does not exist, and was left so')
    match given.action:
        case "pause" | "resume":
            pause(lake, name, position, on=given.action == "pause")
        case "replay":
            return _replay(lake, load(lake, name, position))
        case "transform":
            _transform(lake, given)
    return Result.done("ALTER SOURCE")


def _replay(lake: Lake, source: Source) -> Result:
    from tidegate.ingest.replay import replay

    done = replay(source, lake.shard)
    return Result.done(
        f"REPLAY: {done.succeeded} of {done.tried} bad rows are good now, {done.left} are left"
    )


# ---------------------------------------------------------------- another transform


def _transform(lake: Lake, given: statement.AlterSource) -> None:
    assert given.transform is not None
    position = at(given.sql, given.name)
    item = item_of(lake, given.name.text, position)
    if item.view is not None:
        raise BindError(
            f'"{given.name.text}" was made WITH (SPLIT)',
            hint="its transform cannot be changed: create another source",
            position=position,
        )
    created = grammar.statement(item.sql)
    assert isinstance(created, statement.CreateSource)
    source = loaded(lake, item)
    append_only = bool(getattr(source.upstream, "append_only", False))
    making = Making(lake, created, asked(created.with_options, created.sql), append_only=append_only)
    if making.retracts:
        raise BindError(
            f'"{making.name}" takes rows away again, and would do so with another transform than they were made with',
            hint="create another source",
            position=position,
        )
    old = _chosen(source, given)
    output, shape = output_of(
        making,
        _wanted(source, old, given.transform),
        included_types(making, source.upstream, source.key_format),
    )
    _check_shape(lake, old, shape, given.transform)
    new = replace(output, shard=old.shard)
    outputs = tuple(new if one is old else one for one in source.outputs)
    sql = respelled(created, old.name, given.transform.text)
    definition = stored.to_json(replace(source, outputs=outputs))
    lake.catalog.change(source.name, item, replace(item, sql=sql, definition=definition))


def _chosen(source: Source, given: statement.AlterSource) -> Output:
    """The collection whose transform is changed."""
    names = [output.name for output in source.outputs]
    wanted = names[0] if given.table is None and len(names) == 1 else given.table and given.table.text
    for output in source.outputs:
        if output.name == wanted:
            return output
    where = given.name if given.table is None else given.table
    raise BindError(
        f'source "{source.name}" has the collections {", ".join(names)}',
        hint="SET TRANSFORM USING (…) FOR one of them",
        position=at(given.sql, where),
    )


def _wanted(source: Source, output: Output, transform: syntax.Query) -> Wanted:
    table, name = output.table, output.name
    if table is None:
        called: tuple[str, ...] = (source.name, name)
    else:
        last = table.rpartition(".")[2]
        called = (source.name, last) if name == source.name else (last,)
    return Wanted(name, table, output.format, transform, called)


def _check_shape(lake: Lake, old: Output, new: Shape, transform: syntax.Query) -> None:
    """Refuses other columns than those that the shard has."""
    state = lake.shard(old.shard).machine.fetch()
    schema = schema_of(state)
    if same_shape(new, schema, state.options):
        return
    columns = ", ".join(f"{column.name} {column.type}" for column in shown(schema, state.options))
    ends = "rows that end by themselves" if old.hidden else "rows that stay"
    raise PlanError(
        f'the columns of "{old.name}" are {columns}, with {ends}, and this transform gives others',
        hint="create another source for other columns",
        position=transform.position(transform.at),
    )


def respelled(created: statement.CreateSource, collection: str, query: str) -> str:
    """The text of CREATE SOURCE with another transform for a collection."""
    sql = created.sql
    entries = [one for one in created.tables if (one.alias or one.table[-1]).text == collection]
    old = entries[0].transform if entries else created.transform
    if old is not None:
        return f"{sql[: old.at.start]}{query}{sql[old.at.end :]}"
    place = len(sql.rstrip().rstrip(";")) if not entries else _behind(entries[0])
    return f"{sql[:place]} TRANSFORM USING ({query}){sql[place:]}"


def _behind(entry: statement.Subsource) -> int:
    last = entry.alias or entry.table[-1]
    return last.at.end
