"""Table functions: in FROM, and in a select list.

    FROM orders o, jsonb_each(o.note) WITH ORDINALITY AS n (key, value, i)      TableFunctionApply over orders
    SELECT id, unnest(tags), generate_series(1, 3) FROM t                        side by side, shorter ones with NULLs
    FROM generate_series(1, 10000000) AS n                                       RowNumbers: no array is made

A table function is a hidden scalar function that gives an array for each row (`expr/functions/nested`, `expr/functions/json`), and
a `TableFunctionApply` takes it apart. In FROM its arguments may use what stands to its left, as if LATERAL were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidegate.errors import BindError, TidegateError, TypeMismatch, UnsupportedError
from tidegate.expr.model import Column, Expr, Kind, Type, build, support, types
from tidegate.plan import logical
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.output_name import label
from tidegate.sql.bind.queries.names import NestedScope, RowBinder, ScopeColumn, surrounding
from tidegate.sql.bind.queries.series import constant_series, series_arguments
from tidegate.sql.parse.from_clause import TableCall, TableFunction
from tidegate.sql.parse.syntax import Apply, Case, Ident, Node, NonScalar, Span, walk

if TYPE_CHECKING:
    from tidegate.sql.bind.queries.query import QueryBinder

_ARRAYS = {"string_to_table": "string_to_array", "regexp_split_to_table": "regexp_split_to_array"}
"""Table functions whose rows are the elements of what another function gives."""
_DEFINED = {"jsonb_to_recordset": "jsonb records", "jsonb_to_record": "jsonb record"}
"""Table functions that need a list of column definitions, and what gives their JSON objects."""
_NAMED = ("jsonb_array_elements", "jsonb_array_elements_text")
"""Table functions of one column that is called `value`."""


def array_of(name: str, args: Sequence[Expr]) -> Expr:
    """The array whose elements are the rows of a table function."""
    name = name.replace("json_", "jsonb_", 1) if name.startswith("json_") else name
    if name in _DEFINED:
        raise BindError(
            f"{name} needs the names and types of its columns",
            hint=f"FROM {name}(…) AS t (a int4, b text)",
        )
    if name == "generate_series":
        return build.call(name, *series_arguments(args), hidden=True)
    if name == "unnest" and len(args) != 1:
        raise TypeMismatch(
            f"unnest takes one array here, and {len(args)} are given", hint="several may stand in FROM"
        )
    try:
        return build.call(_ARRAYS.get(name, name), *args, hidden=True)
    except TidegateError as error:
        error.hint = f"{name} takes other arguments" if isinstance(error, TypeMismatch) else None
        raise


# ---------------------------------------------------------------- FROM


class _Output(NamedTuple):
    """A column of a table function; without a name it is called as the alias or the function is."""

    name: str | None
    value: Expr
    function: str = ""


class _FromBinder:
    """Binds one table function of FROM."""

    def __init__(self, queries: QueryBinder, written: TableFunction, outer: NestedScope | None) -> None:
        self.queries, self.written = queries, written
        self.binder: RowBinder = queries.binder(surrounding(outer) or NestedScope.over(()))
        self.arrays: list[tuple[Column, Expr]] = []

    def bound(self) -> tuple[logical.Rel, list[ScopeColumn]]:
        written = self.written
        outputs = [output for call in written.calls for output in self._outputs(call)]
        series = self._series(outputs)
        position = self.queries.numbers.new(types.INT8, "ordinality") if written.ordinality else None
        if series is not None:
            rel, outputs = series
            if position is not None:
                assert isinstance(rel, logical.Map)
                assert isinstance(rel.input, logical.RowNumbers)
                number = build.call("+", rel.input.column, build.literal(1, types.INT8))
                rel = logical.Map(rel.input, (*rel.computed, (position, number)))
        else:
            below: logical.Rel = logical.SingleRow()
            if self.binder.gathered.looks:
                below = logical.SubqueryApply(below, tuple(self.binder.gathered.looks))
            rel = logical.TableFunctionApply(below, tuple(self.arrays), position)
        columns = [self._column(output) for output in outputs]
        computed = tuple(
            (c, o.value) for c, o in zip(columns, outputs, strict=True) if not isinstance(o.value, Column)
        )
        rel = logical.Map(rel, computed) if computed else rel
        last = [] if position is None else [position]
        return rel, self._entries(outputs, [*columns, *last])

    def _column(self, output: _Output) -> Column:
        if isinstance(output.value, Column):
            return output.value
        return self.queries.numbers.new(output.value.type, output.name or "")

    def _element(self, array: Expr) -> Column:
        """The column of the elements of an array."""
        element = array.type.element
        assert element is not None
        self.arrays.append((self.queries.numbers.new(element), array))
        return self.arrays[-1][0]

    def _outputs(self, call: TableCall) -> list[_Output]:
        node = call.call
        try:
            return [output._replace(function=label(node)) for output in self._called(call)]
        except TidegateError as error:
            error.position = error.position or self.binder.position(node.at)
            raise

    def _called(self, call: TableCall) -> list[_Output]:
        node = call.call
        if not isinstance(node, NonScalar) or node.table is None:
            value = build.call("array", self.binder.bind(node, "FROM"))
            return [_Output(None, self._element(value))]
        args = [self.binder.bind(arg, "FROM") for arg in node.args]
        name = node.table.replace("json_", "jsonb_", 1) if node.table.startswith("json_") else node.table
        if name == "unnest":
            if len(args) == 1:
                return [_Output(None, self._element(array_of(name, args)))]
            return [_Output("unnest", self._element(array_of(name, [arg]))) for arg in args]
        if call.columns:
            return self._defined(name, args, call.columns)
        element = self._element(array_of(name, args))
        if element.type.kind is Kind.RECORD:
            return [_Output(field, build.field(element, field)) for field, _ in element.type.fields]
        return [_Output("value" if name in _NAMED else None, element)]

    def _defined(
        self, name: str, args: Sequence[Expr], columns: Sequence[tuple[Ident, Type]]
    ) -> list[_Output]:
        """The columns that a list of definitions takes from JSON objects."""
        if name not in _DEFINED:
            raise BindError(
                f"{name} has columns of its own", hint="a list of column definitions is for records"
            )
        element = self._element(build.call(_DEFINED[name], *args, hidden=True))
        return [_Output(ident.text, self._member(element, ident, type_)) for ident, type_ in columns]

    def _member(self, element: Column, ident: Ident, type_: Type) -> Expr:
        if type_.is_nested:
            raise UnsupportedError(
                f"a column of type {type_} in a list of column definitions is not supported",
                hint="define it as jsonb",
                position=self.binder.position(ident.at),
            )
        text = build.call("->>", element, build.text(ident.text))
        if type_.kind is not Kind.JSONB:
            return build.cast(text, type_)
        null = build.call("is null", text)
        return build.case([(build.call("not", null), build.call("->", element, build.text(ident.text)))])

    def _series(self, outputs: Sequence[_Output]) -> tuple[logical.Rel, list[_Output]] | None:
        """A series of constants, which needs no array."""
        node = self.written.calls[0].call
        one = len(self.arrays) == 1 and isinstance(node, NonScalar) and node.table == "generate_series"
        if not one or support(self.arrays[0][1]) or self.binder.gathered.looks:
            return None
        found = constant_series(self.arrays[0][1], self.queries.numbers)
        return None if found is None else (found[0], [outputs[0]._replace(value=found[1])])

    def _entries(self, outputs: Sequence[_Output], columns: Sequence[Column]) -> list[ScopeColumn]:
        """The names of the columns, and of the table."""
        written = self.written
        alias = written.alias
        table = outputs[0].function if alias is None else alias.name.text
        single = alias.name.text if alias is not None and len(written.calls) == 1 else None
        names = [output.name or single or output.function for output in outputs]
        names += ["ordinality"] * (len(columns) - len(names))
        if alias is not None:
            if len(alias.columns) > len(names):
                raise BindError(
                    f'"{table}" has {len(names)} columns, and {len(alias.columns)} names are given',
                    position=self.binder.position(alias.columns[len(names)].at),
                )
            names[: len(alias.columns)] = [column.text for column in alias.columns]
        entries = [ScopeColumn(table, name, column) for name, column in zip(names, columns, strict=True)]
        if len(self.arrays) == 1 and not written.ordinality and not written.calls[0].columns:
            element = self.arrays[0][0]
            whole = element if element.type.kind is Kind.RECORD else columns[0]
            entries.append(ScopeColumn(table, "", whole, bare=False, whole=True))
        return entries


def table_function(
    queries: QueryBinder, written: TableFunction, outer: NestedScope | None
) -> tuple[logical.Rel, list[ScopeColumn]]:
    """A table function in FROM, and the names that it brings."""
    return _FromBinder(queries, written, outer).bound()


# ---------------------------------------------------------------- LATERAL


def over_left(kind: str, left: logical.Rel, right: logical.Rel, on: Sequence[Expr]) -> logical.Rel | None:
    """A lateral join with table functions as these over the left side; None if it is another one.

    `t LEFT JOIN unnest(t.tags) AS tag ON true` keeps rows without elements; with another condition it stays a join.
    """
    if kind not in ("inner", "left") or (kind == "left" and on) or not _is_row_chain(right):
        return None
    rel = _placed(right, left, outer=kind == "left")
    return logical.Filter(rel, tuple(on)) if on else rel


def _is_row_chain(rel: logical.Rel) -> bool:
    """Whether only table functions and columns are added to one row."""
    while isinstance(rel, logical.Map | logical.TableFunctionApply | logical.SubqueryApply):
        rel = rel.input
    return isinstance(rel, logical.SingleRow)


def _placed(rel: logical.Rel, left: logical.Rel, *, outer: bool) -> logical.Rel:
    match rel:
        case logical.TableFunctionApply(below, computed, position):
            return logical.TableFunctionApply(_placed(below, left, outer=outer), computed, position, outer)
        case logical.Map(below):
            return replace(rel, input=_placed(below, left, outer=outer))
        case logical.SubqueryApply(below, computed):
            return logical.SubqueryApply(_placed(below, left, outer=outer), computed)
        case _:
            return left


# ---------------------------------------------------------------- the select list


def levels(calls: Sequence[tuple[Column, Expr]]) -> list[tuple[tuple[Column, Expr], ...]]:
    """The table functions of a select list by how deep they are nested: each level runs side by side."""
    depth: dict[int, int] = {}
    for column, value in calls:  # an argument is bound before what uses it
        depth[column.index] = 1 + max((depth.get(i, 0) for i in support(value)), default=0)
    return [
        tuple(call for call in calls if depth[call[0].index] == level)
        for level in range(1, max(depth.values(), default=0) + 1)
    ]


def check_node(binder: Binder, node: Node) -> None:
    """Refuses a table function in CASE and COALESCE, where it might not be evaluated."""
    if isinstance(node, Case):
        construct = "CASE"
    elif isinstance(node, Apply) and node.name == "coalesce":
        construct = "COALESCE"
    else:
        return
    for inner in walk(node):
        if isinstance(inner, NonScalar) and inner.table is not None:
            raise BindError(
                f"table functions are not allowed in {construct}",
                hint="move it into FROM",
                position=binder.position(inner.at),
            )


def check_clause(binder: Binder, clause: str | None, at: Span) -> None:
    """Refuses a table function where a row must stay one row."""
    if clause not in (None, "GROUP BY"):
        raise BindError(
            f"table functions are not allowed in {clause}",
            hint="move it into FROM",
            position=binder.position(at),
        )
