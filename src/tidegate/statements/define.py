"""CREATE VIEW, and what DEFAULT stands for.

A view lasts as the user's own text. It is bound when it is made, so that what is wrong with it is said then; and what it reads
cannot be dropped while it is there, unless with CASCADE. The default of a column lasts as its text too: `tables/` writes it.
"""

from __future__ import annotations

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import BindError
from tidegate.expr.model import Expr, Type
from tidegate.query import Result
from tidegate.sql.bind import Binder, Scope, assignment_cast
from tidegate.sql.parse import parse_expression, statement
from tidegate.statements.select import names_of
from tidegate.storage.catalog import CatalogItem, ViewItem, already_exists

DEFAULTS = "defaults"


def message_if_exists(found: CatalogItem, name: str, *, skip: bool) -> Result:
    """What CREATE … IF NOT EXISTS says of a name that is taken; without it, an error."""
    if not skip:
        raise already_exists(name, found)
    return Result.message(f'"{name}" already exists, and was left as it is')


def default(context: Context, text: str, type_: Type) -> Expr:
    """What DEFAULT stands for, now."""
    binder = Binder(text, Scope(()), context.clock.now())
    return assignment_cast(binder.bind(parse_expression(text)), type_)


def create_view(context: Context, given: statement.CreateView) -> Result:
    """CREATE [OR REPLACE] VIEW."""
    name = given.name.text
    found = context.catalog.find(name)
    if found is not None and (given.if_not_exists or not (given.or_replace and isinstance(found, ViewItem))):
        return message_if_exists(found, name, skip=given.if_not_exists)
    seen = CatalogSnapshot(context)
    names = names_of(given.query, seen, context.clock.now())
    if name in seen.entries:
        raise BindError(f'view "{name}" reads itself', position=position_of(given.query.sql, given.name))
    if len(given.columns) > len(names):
        message = f'"{name}" has {len(names)} columns, and {len(given.columns)} names are given'
        raise BindError(message, position=position_of(given.query.sql, given.columns[len(names)]))
    columns = tuple(column.text for column in given.columns)
    comments = found.comments if isinstance(found, ViewItem) else {}
    view = ViewItem(given.query.text, columns, comments)
    context.catalog.create_view(name, view, replace=given.or_replace)
    return Result.message("CREATE VIEW")
