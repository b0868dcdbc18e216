"""CREATE SOURCE: everything that a source is, bound and entered into the catalog at once; and loaded again.

    CREATE SOURCE clicks FROM FILES 'in/*.json' FORMAT JSON TRANSFORM USING (SELECT data->>'user' AS u FROM clicks)

    clicks           a source, with the rows
    clicks_errors    a subsource: records that could not be decoded or transformed

    load(lake, "clicks")      Source(…), as `ingest/definition.py` describes it: what `db.ingest` runs

| done by | |
|---|---|
| `source_options.py` | WITH (…) |
| `source_format.py` | FORMAT …: looks at a first file, or asks a schema registry |
| `source_collections.py` | FOR TABLES …: which collections there will be |
| `source_plan.py` | TRANSFORM USING: from a query to a plan and the columns of a shard |

All names and shards come into being in one entry of the catalog: there is no source half made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.errors import BindError, PlanError, Position, TidegateError
from tidegate.expr.types import JSONB, TIMESTAMPTZ, Type
from tidegate.ingest import connect, envelope, stored
from tidegate.ingest.connect import Given
from tidegate.ingest.debezium import FIELDS, fields_of_row
from tidegate.ingest.definition import ERRORS, ERRORS_COLUMNS, UPSERT_KEY, Output, Source
from tidegate.ingest.files import Files, split_options
from tidegate.ingest.kafka import Kafka
from tidegate.ingest.made import INGESTED
from tidegate.ingest.source import Columns, Format, Included, Upstream
from tidegate.scan.result import Result
from tidegate.session import connection as connections
from tidegate.session.lake import Lake, Seen, at
from tidegate.session.source_collections import Wanted, collections
from tidegate.session.source_format import chosen_format
from tidegate.session.source_making import Making, check_envelope
from tidegate.session.source_options import asked
from tidegate.session.source_plan import Planned, Reading, Shape, planned, shape
from tidegate.session.source_split import STORED, split
from tidegate.shard import catalog
from tidegate.shard.catalog import Item, exists, fresh_shard
from tidegate.shard.schema import Schema
from tidegate.shard.statistics import KEEP
from tidegate.shard.validity import HIDDEN
from tidegate.shard.writer import CLUSTER
from tidegate.sql import statement, syntax


def create_source(lake: Lake, given: statement.CreateSource) -> Result:
    """CREATE SOURCE."""
    name = given.name.text
    found = lake.catalog.find(name)
    if found is not None:
        if given.if_not_exists:
            return Result.done(f'"{name}" already exists, and was left as it is')
        error = exists(name, found)
        error.position = at(given.sql, given.name)
        raise error
    try:
        making, source, shards = planned_source(lake, given)
        lake.catalog.create(_items(making, source), shards, making.needs)
    except TidegateError as error:
        if given.if_not_exists and lake.catalog.find(name) is not None:
            return Result.done(f'"{name}" already exists, and was left as it is')  # another one was faster
        error.position = error.position or _blamed(given, error.message)
        raise
    return Result.done("CREATE SOURCE")


def _blamed(given: statement.CreateSource, message: str) -> Position:
    """Where in a statement an error is about: the option that it names, or else the source."""
    for option in (*given.options, *given.with_options):
        if option.name.upper() in message:
            return Position(given.sql, *option.at)
    return at(given.sql, given.name)


Shards = dict[str, tuple[Schema, dict[str, Any]]]


def planned_source(lake: Lake, given: statement.CreateSource) -> tuple[Making, Source, Shards]:
    """The source that a statement asks for, and its shards; nothing is made yet."""
    making = Making(lake, given, asked(given.with_options, given.sql))
    try:
        return making, *_made(making)
    except TidegateError as error:
        error.position = error.position or _blamed(given, error.message)
        raise


def _made(making: Making) -> tuple[Source, Shards]:
    given = making.given
    check_envelope(making)
    upstream = connect.made(given.kind, _upstream(making))
    making.append_only = bool(getattr(upstream, "append_only", False))
    format_ = None if given.format is None else chosen_format(making, given.format, upstream)
    key_format = None if given.key_format is None else chosen_format(making, given.key_format, None)
    included = included_types(making, upstream, key_format)
    names = tuple(one for one, _ in included)
    if format_ is not None and isinstance(upstream, Files):
        upstream = upstream.for_format(format_, names)
    if isinstance(upstream, Kafka):
        upstream = upstream.for_envelope(given.envelope)
    outputs: list[Output] = []
    shards: Shards = {}
    for wanted in collections(making, upstream, format_):
        output, done = output_of(making, wanted, included)
        outputs.append(output)
        shards[output.shard] = done.schema, done.options
    _sort(making, outputs, shards)
    errors = fresh_shard()
    schema = Schema.of([(name, type_, True) for name, type_ in ERRORS_COLUMNS])
    # What only a replay needs is shown to nobody.
    shards[errors] = schema, {**making.asked.shard, HIDDEN: [schema.find("included").id]}
    source = Source(
        making.name,
        given.kind,
        upstream,
        tuple(outputs),
        errors,
        names,
        given.envelope or "none",
        key_format,
        making.asked.limit,
        making.asked.max_errors,
    )
    return source, shards


def _items(making: Making, source: Source) -> dict[str, Item]:
    """What is entered into the catalog."""
    own = [output for output in source.outputs if output.name == source.name]
    named: list[tuple[str, Item]] = [
        (
            source.name,
            catalog.Source(
                own[0].shard if own else None,
                making.given.text,
                stored.to_json(source),
                view=None if making.view is None else catalog.View(making.view),
            ),
        ),
        (source.name + ERRORS, catalog.Subsource(source.errors, source.name)),
    ]
    named += [
        (output.name, catalog.Subsource(output.shard, source.name))
        for output in source.outputs
        if output.name != source.name
    ]
    items = dict(named)
    if len(items) < len(named):
        names = [name for name, _ in named]
        twice = next(name for name in names if names.count(name) > 1)
        raise BindError(f'there would be two collections "{twice}"', hint="AS gives one of them another name")
    return items


def _upstream(making: Making) -> Given:
    given, of = making.given, making.given.of
    options, connection = connections.checked(given.options, given.sql), None
    _check_reach(making, options)
    if given.kind in ("kafka", "postgres"):
        assert of is not None
        connection = making.connection(of.text, at(given.sql, of))
    elif given.kind == "files" and "aws connection" in options:
        connection = making.connection(str(options.pop("aws connection")))
    tables = tuple(".".join(part.text for part in one.table) for one in given.tables) or None
    return Given(
        making.name,
        options,
        given.path if given.kind == "files" else None if of is None else of.text,
        connection,
        tables,
        making.asked.more,
    )


def _check_reach(making: Making, options: Mapping[str, Any]) -> None:
    """Refuses what this session may not reach."""
    for name, value in (*options.items(), *making.asked.more.items()):
        making.lake.reach.option(name, value)
    if making.given.kind == "files":
        path, of_url = split_options(str(making.given.path))
        making.lake.reach.file(path)
        making.lake.reach.bucket({**of_url, **options})


# ---------------------------------------------------------------- columns


def included_types(making: Making, upstream: Upstream, key: Format | None) -> list[tuple[Included, Type]]:
    """The columns that INCLUDE adds, and their types."""
    found = []
    for one in making.given.include:
        name = one.alias.text if one.alias else (one.argument or one.what.replace(" ", "_"))
        made = Included(one.what, name, one.argument)
        try:
            type_ = TIMESTAMPTZ if one.what == INGESTED else upstream.includes(made)
            if one.what == "key":
                type_ = envelope.key_type(key)
            elif making.changes:
                raise BindError(
                    f"{one.what.upper()} of a record is not that of the record that takes its row away again",
                    hint="a row and its retraction must be the same, so this cannot be included here",
                )
        except TidegateError as error:
            error.position = error.position or making.position(one.at)
            raise
        found.append((made, type_))
    return found


def output_of(making: Making, wanted: Wanted, included: list[tuple[Included, Type]]) -> tuple[Output, Shape]:
    """A collection: how it is made, and its shard."""
    kind = making.given.envelope or "none"
    behind = tuple((one.name, type_) for one, type_ in included)
    exact = making.retracts
    before: Planned | None = None
    if making.given.before is not None:
        raw = Reading(wanted.called, _distinct(making, (*wanted.format.columns, *behind)))
        before = _before(making.given.before, raw, exact=exact)
        if kind == "debezium":
            before = changes_first(before)
        columns = before.columns if kind != "debezium" else changed(before.columns)
    else:
        columns = (*envelope.given(kind, wanted.format), *behind)
    name, done = _planned(making, wanted, Reading(wanted.called, _distinct(making, columns)))
    try:
        made = shape(done, keyed=kind == "upsert")
    except BindError as error:
        if wanted.transform is not None:
            error.position = wanted.transform.position(wanted.transform.at)
        raise
    made.options.update(making.asked.shard)
    if kind == "upsert":
        made.options[CLUSTER] = [
            made.options[UPSERT_KEY]
        ]  # so the old row of a key is found by pruning, unless told otherwise
    first = None if before is None else before.plan
    return (
        Output(name, fresh_shard(), wanted.format, done.plan, wanted.table, first, made.hidden),
        made,
    )


def _planned(making: Making, wanted: Wanted, reading: Reading) -> tuple[str, Planned]:
    """The name and the plan of a collection; of a query that is more than one row by row, what WITH (SPLIT) stores."""
    query = wanted.transform
    try:
        return wanted.name, planned(query, reading, exact=making.retracts)
    except PlanError as error:
        alone = wanted.name == making.name
        if query is None or not making.asked.split or not alone:
            if alone and "row by row" in error.message:
                error.hint = "WITH (SPLIT) stores rows, and makes of the rest a view over them"
            raise
    found = split(query, reading, Seen(making.lake), making.lake.clock.now(), exact=making.retracts)
    making.view = found.view
    return wanted.name + STORED, found.stored


def _before(query: syntax.Query, raw: Reading, *, exact: bool) -> Planned:
    done = planned(query, raw, exact=exact)
    if done.temporal:
        raise BindError(
            "mz_now() cannot stand in TRANSFORM BEFORE ENVELOPE",
            hint="use it in TRANSFORM USING, behind the envelope",
            position=query.position(query.at),
        )
    return done


def changes_first(before: Planned) -> Planned:
    """A plan before ENVELOPE DEBEZIUM: a document in front, or else what a change is made of."""
    if before.plan.types[0] == JSONB:
        return before
    front = [before.names.index(name) for name in FIELDS if name in before.names]
    if len(front) < len(FIELDS):
        raise BindError(
            "what is given to ENVELOPE DEBEZIUM is a jsonb document in the first column, or columns before, after and op"
        )
    order = [*front, *(i for i in range(len(before.names)) if i not in front)]
    return Planned(tuple(before.names[i] for i in order), before.plan.project(order))


def changed(columns: Columns) -> Columns:
    """The columns of a row, from those of Debezium's changes."""
    if columns[0][1] == JSONB:
        return columns
    return (*fields_of_row(columns), *columns[len(FIELDS) :])


def _distinct(making: Making, columns: Columns) -> Columns:
    """The columns; an error if two have one name."""
    names = [name for name, _ in columns]
    for one in making.given.include:
        name = one.alias.text if one.alias else (one.argument or one.what.replace(" ", "_"))
        if names.count(name) > 1:
            raise BindError(
                f'column "{name}" is there twice',
                hint=f"INCLUDE {one.what.upper()} AS …",
                position=making.position(one.at),
            )
    return columns


def _sort(making: Making, outputs: list[Output], shards: Shards) -> None:
    """CLUSTER BY and KEEP STATISTICS, of every collection that has these columns; one must."""
    given, used = making.given, set[str]()
    for output in outputs:
        schema, options = shards[output.shard]
        ids = {column.name: column.id for column in schema.columns[: len(schema.columns) - output.hidden]}
        by = [ids[ident.text] for ident in given.cluster_by if ident.text in ids]
        keep = [
            [ids[path[0].text], *(step.text for step in path[1:])]
            for path in given.keep_statistics
            if path[0].text in ids
        ]
        options.update({key: value for key, value in ((CLUSTER, by), (KEEP, keep)) if value})
        used |= ids.keys()
    for ident in (*given.cluster_by, *(path[0] for path in given.keep_statistics)):
        if ident.text not in used:
            raise BindError(
                f'column "{ident.text}" does not exist',
                hint=f"there are: {', '.join(sorted(used))}",
                position=at(given.sql, ident),
            )


# ---------------------------------------------------------------- in the catalog


def load(lake: Lake, name: str, position: Position | None = None) -> Source:
    """The source of a name, as the catalog has it; a BindError if it is none."""
    return loaded(lake, item_of(lake, name, position))


def loaded(lake: Lake, item: catalog.Source) -> Source:
    """A source of the catalog."""
    return stored.from_json(item.definition, lambda name: connections.connection_of(lake, name))


def item_of(lake: Lake, name: str, position: Position | None = None) -> catalog.Source:
    """The entry of a source; a BindError if the name means something else."""
    item = lake.item(name, position)
    if isinstance(item, catalog.Source):
        return item
    hint = (
        f'its source is "{item.source}"' if isinstance(item, catalog.Subsource) else "SHOW SOURCES lists them"
    )
    raise BindError(f'"{name}" is a {catalog.kind_of(item)}, not a source', hint=hint, position=position)


def paused(lake: Lake, name: str) -> bool:
    """Whether a source is paused."""
    return item_of(lake, name).paused


def pause(lake: Lake, name: str, position: Position | None = None, *, on: bool = True) -> None:
    """Pauses or resumes a source: who runs it looks before each batch."""
    item = item_of(lake, name, position)
    if item.paused != on:
        lake.catalog.change(name, item, replace(item, paused=on))


def sources(lake: Lake) -> list[str]:
    """The names of all sources."""
    return [name for name, item in lake.catalog.items().items() if isinstance(item, catalog.Source)]
