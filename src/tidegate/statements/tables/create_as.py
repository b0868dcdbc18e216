"""CREATE TABLE … AS query, and SELECT … INTO: all of the rows under the new name, or no table.

The rows are written into a shard that has no name yet, in parts of the usual size, so that memory is bounded. They become visible
by one entry, and the name is given last: a query that fails, or a process that is killed, leaves no table. Any path may answer the
query, also Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import BindError, ParseError
from tidegate.expr.model import Kind, Type, types
from tidegate.query import CancelToken, Result
from tidegate.sql.bind import bind_as_of
from tidegate.sql.parse import table_statement
from tidegate.statements.define import message_if_exists
from tidegate.statements.select import columns_of, select
from tidegate.statements.tables.create import schema_of
from tidegate.statements.tables.table_definition import clause_options
from tidegate.storage.catalog import TableItem, new_shard_name
from tidegate.storage.part import Block, Schema, conform
from tidegate.storage.shard import Machine, Shard, commit


def create_table_as(
    context: Context, given: table_statement.CreateTableAs, watch: CancelToken | None
) -> Result:
    """Creates a table of the rows of a query; the result says how many."""
    name = given.name.text
    found = context.catalog.find(name)
    if found is not None:
        return message_if_exists(found, name, skip=given.if_not_exists)
    query = given.query
    schema = _schema(context, given)
    options = clause_options(given.clauses, schema, given.sql)
    for option in query.options:
        context = context.with_setting(option.name.text, option.value)
    as_of = None if query.as_of is None else bind_as_of(query.as_of, given.sql, context.clock.now())
    rows = 0

    def fill(machine: Machine) -> None:
        nonlocal rows
        if given.with_data:
            with select(context, query.query, as_of, watch) as result:
                rows = _write(context.shards.open(machine), schema, result)

    shard = new_shard_name()
    try:
        context.catalog.create({name: TableItem(shard)}, {shard: (schema, options)}, fill=fill)
    except BindError:
        item = context.catalog.find(name)
        if item is None or not given.if_not_exists:
            raise
        return message_if_exists(item, name, skip=True)
    return Result.message(f"SELECT {rows}" if given.with_data else "CREATE TABLE AS")


def _schema(context: Context, given: table_statement.CreateTableAs) -> Schema:
    own, found = columns_of(given.query.query, CatalogSnapshot(context), context.clock.now())
    if len(given.columns) > len(own):
        raise ParseError(
            "too many column names were specified", position=position_of(given.sql, given.columns[len(own)])
        )
    names = [*(ident.text for ident in given.columns), *own[len(given.columns) :]]
    position = position_of(given.sql, given.name)
    return schema_of(
        [(name, _stored(type_), True, position) for name, type_ in zip(names, found, strict=True)]
    )


def _stored(type_: Type) -> Type:
    """The type of a column for values of a type: a string without a type is text."""
    return types.TEXT if type_.kind is Kind.UNKNOWN else type_


def _write(shard: Shard, schema: Schema, result: Result) -> int:
    """Writes the rows of a result as parts, and makes all of them visible at once."""
    rows = 0

    def blocks() -> Iterator[Block]:
        nonlocal rows
        for batch in result.batches():
            rows += batch.num_rows
            ones = np.ones(batch.num_rows, np.int64)
            yield Block(conform(schema, batch.columns), 0 * ones, ones)

    commit.append_blocks(shard, schema, blocks())
    return rows
