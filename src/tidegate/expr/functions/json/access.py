"""Reading JSON: `-> ->> #> #>> ? ?| ?&`, jsonb_typeof, jsonb_array_length, jsonb_extract_path.

`->` returns JSON and `->>` text. A missing key is NULL; JSON null is a value for `->` and NULL for `->>`:

| payload | `-> 'a'` | `->> 'a'` |
|---|---|---|
| `{"a": "x"}` | `"x"` | x |
| `{"a": null}` | `null` | NULL |
| `{"b": 1}`, `[1]`, `7` | NULL | NULL |

A text key reads objects only and an integer arrays only; a step of a `#>` path reads both. As in PostgreSQL, a scalar is its own
element 0 and -1 for `->` and `->>`, but not for `#>`. All constant paths into one column form a family: they are traced to the
column and read together (`primitives/json/path.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import json_transfer as json_specs
from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.specs import Specs
from tidegate.expr.functions.boolean.logic import and_transfer, or_transfer
from tidegate.expr.model import subexpressions
from tidegate.expr.model.function import HEAVY, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome, failing, length, spread, to_bools, with_errors
from tidegate.expr.model.tree import Call, Column, Expr, Literal
from tidegate.expr.model.types import BOOL, INT4, JSONB, TEXT, Type, array
from tidegate.expr.primitives.cancel import check, checked
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import Json
from tidegate.expr.primitives.json.path import (
    ElementStep,
    IndexStep,
    JsonPath,
    KeyOrIndexStep,
    KeyStep,
    PathRequest,
    PathStep,
    extract,
    first_bytes,
    is_small_batch,
    readings,
    take_step,
    to_pointers,
    to_text,
    type_names,
)  # fmt: skip

_GIVE_JSON = ("->", "#>", "jsonb_extract_path")
_GIVE_TEXT = ("->>", "#>>", "jsonb_extract_path_text")
_TEXTS = array(TEXT)
_READS_SCALARS = 2
"""The version of `->` and `->>` since which the elements 0 and -1 of a scalar are the scalar."""


class JsonPathFamily:
    """All constant paths into one document: `payload -> 'a' ->> 'b'` reads payload."""

    def root(self, call: Call) -> Expr | None:
        """The column, or the expression that the first step reads."""
        return self._followed(call)[0] if _constant_path(call) is not None else None

    def evaluate(self, root: pa.Array, calls: Sequence[Call]) -> list[Outcome]:
        """The values of all paths; each document is parsed once."""
        return [Outcome(values) for values in extract(root, [self.path_request(call) for call in calls])]

    def path_request(self, call: Call) -> PathRequest:
        """What a call of this family reads from its root."""
        return PathRequest(self._followed(call)[1], call.function.name in _GIVE_TEXT)

    def divide(
        self, exprs: Sequence[Expr], inputs: Sequence[Type]
    ) -> tuple[list[PathRequest], list[Type], list[Expr]]:
        """Splits expressions into paths read of column 0, their input types, and expressions over these.

            data->>'a' = 'x' AND #1 > 5    →    paths (a), types (text, int8)    #0 = 'x' AND #1 > 5

        A column 0 that is read itself is the empty path. A last `-> 0`, which reads scalars too, stays in the expressions.
        """
        calls = subexpressions.largest(exprs, self._reads_document)
        requests = [
            self.path_request(call) if isinstance(call, Call) else PathRequest((), as_text=False)
            for call in calls
        ]
        distinct = list(dict.fromkeys(requests))
        place: dict[Expr, Expr] = {
            Column(i, type_): Column(len(distinct) + i - 1, type_) for i, type_ in enumerate(inputs) if i > 0
        }
        for call, request in zip(calls, requests, strict=True):
            place[call] = Column(distinct.index(request), call.type)
        types = [*(TEXT if request.as_text else JSONB for request in distinct), *inputs[1:]]
        return distinct, types, subexpressions.replace_subexpressions(exprs, place)

    def _reads_document(self, expr: Expr) -> bool:
        """Whether an expression is a whole path into column 0, or the column itself."""
        root = expr
        if isinstance(expr, Call):
            if expr.function.family is not self or len(readings(self._followed(expr)[1])) > 1:
                return False
            root = self.root(expr) or expr
        return isinstance(root, Column) and root.index == 0

    def _followed(self, call: Call) -> tuple[Expr, JsonPath]:
        path = _constant_path(call) or ()
        base = call.args[0]
        while isinstance(base, Call) and base.function.name in _GIVE_JSON:
            before = _constant_path(base)
            if before is None:
                break
            path, base = before + path, base.args[0]
        return base, path


def _constant_path(call: Call) -> JsonPath | None:
    """The steps of one call, if all are constants and none is NULL."""
    values = [arg.value.as_py() for arg in call.args[1:] if isinstance(arg, Literal)]
    if len(values) != len(call.args) - 1:
        return None
    return _steps(call.function.name, values, scalars=call.function.version >= _READS_SCALARS)


def _steps(name: str, values: Sequence[Any], *, scalars: bool = True) -> JsonPath | None:
    flat = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if any(value is None for value in flat):
        return None
    if name in ("->", "->>"):
        index = ElementStep if scalars else IndexStep
        return tuple(index(value) if isinstance(value, int) else KeyStep(value) for value in flat)
    return tuple(KeyOrIndexStep(value) for value in flat)


PATHS = JsonPathFamily()


def _path_transfer(out: Type, json: Specs, *keys: Specs) -> Specs:
    """A step or a path over containers: by the JSON statistics if it is a constant."""
    values = [constant(key) for key in keys]
    nested = any(key.type == _TEXTS for key in keys)
    steps = _steps("#>" if nested or len(keys) > 1 else "->", [v.as_py() for v in values if v is not None])
    if any(value is None for value in values) or steps is None:
        result = json_specs.unknown_path(json, *keys)
    else:
        result = json_specs.get_path(json, steps)
    return json_specs.text_of(result) if out == TEXT else json_specs.with_text_bounds(result)


def _variadic_transfer(out: Type, json: Specs, *keys: Specs) -> Specs:
    """`_path_transfer` for functions where even a single key is a step of a path."""
    values = [constant(key) for key in keys]
    if any(value is None for value in values):
        result = json_specs.unknown_path(json, *keys)
    else:
        result = json_specs.get_path(
            json, [KeyOrIndexStep(value.as_py()) for value in values if value is not None]
        )
    return json_specs.text_of(result) if out == TEXT else json_specs.with_text_bounds(result)


_follows = partial(
    scalar, errors=NEVER, makes_null=True, transfer=_path_transfer, cost=HEAVY, stable=True, family=PATHS
)


def _read(json: Datum, key: Datum, out: Type, *, either: bool = False, scalars: bool = False) -> pa.Array:
    """One step, either the same for all rows or different in each."""
    n = length(json, key)
    documents = spread(json, n)
    if isinstance(key, pa.Scalar):
        if not key.is_valid:
            return pa.nulls(n, pa.string())
        value = key.as_py()
        step: PathStep = KeyOrIndexStep(value) if either else KeyStep(value)
        if isinstance(value, int):
            step = ElementStep(value) if scalars else IndexStep(value)
        return extract(documents, [PathRequest((step,), out == TEXT)])[0]
    values = take_step(documents, key, either=either, scalars=scalars)
    return to_text(values) if out == TEXT else values


# The row with TEXT comes first: an unknown literal is a key.
@_follows("->", (JSONB, TEXT), JSONB)
@_follows("->>", (JSONB, TEXT), TEXT)
def get_key(json: Datum, key: Datum, *, out: Type) -> pa.Array:
    """The value of a key of an object, as JSON with `->` and as text with `->>`."""
    return _read(json, key, out)


@_follows("->", (JSONB, INT4), JSONB, version=_READS_SCALARS)
@_follows("->>", (JSONB, INT4), TEXT, version=_READS_SCALARS)
def get_element(json: Datum, index: Datum, *, out: Type) -> pa.Array:
    """An element of an array by its index, from the end if negative: JSON with `->`, text with `->>`."""
    return _read(json, index, out, scalars=True)


@_follows("->", (JSONB, INT4), JSONB, hidden=True)
@_follows("->>", (JSONB, INT4), TEXT, hidden=True)
def get_list_element(json: Datum, index: Datum, *, out: Type) -> pa.Array:
    """An element of an array, NULL for a scalar: what transforms that were stored with version 1 read."""
    return _read(json, index, out)


def _read_path(json: Datum, path: Datum, out: Type) -> pa.Array:
    """A path that differs between rows: one step of all rows at a time."""
    n = length(json, path)
    if isinstance(path, pa.Scalar):
        steps = _steps("#>", [path.as_py()])
        if steps is None:
            return pa.nulls(n, pa.string())
        return extract(spread(json, n), [PathRequest(steps, out == TEXT)])[0]
    sizes = pc.fill_null(pc.list_value_length(path), 0).to_numpy(zero_copy_only=False)
    values = pc.if_else(path.is_valid(), spread(json, n), pa.scalar(None, pa.string()))
    for i in range(int(sizes.max(initial=0))):
        check()
        if values.null_count == len(values):  # a path may be of any length, but documents are not that deep
            break
        within = pa.array(sizes > i)
        step = pc.list_element(pc.if_else(within, path, pa.scalar([None] * (i + 1), path.type)), i)
        values = pc.if_else(within, take_step(values, step, either=True), values)
    return to_text(values) if out == TEXT else values


@_follows("#>", (JSONB, _TEXTS), JSONB)
def get_path(json: Datum, path: Datum, *, out: Type) -> pa.Array:
    """The value at a path of keys and indexes, as JSON."""
    return _read_path(json, path, out)


@_follows("#>>", (JSONB, _TEXTS), TEXT)
def get_path_text(json: Datum, path: Datum, *, out: Type) -> pa.Array:
    """The value at a path of keys and indexes, as text."""
    return _read_path(json, path, out)


_extracts = partial(_follows, params=(JSONB, TEXT), variadic=True, transfer=_variadic_transfer)


@_extracts("jsonb_extract_path", result=JSONB)
@_extracts("jsonb_extract_path_text", result=TEXT)
def extract_path(json: Datum, *keys: Datum, out: Type) -> pa.Array:
    """The value at a path of keys and indexes, one argument each."""
    n = length(json, *keys)
    values = spread(json, n)
    for key in keys:
        values = _read(values, key, JSONB, either=True)
    return to_text(values) if out == TEXT else values


def _has_transfer(out: Type, json: Specs, key: Specs) -> Specs:
    """`?` over containers: by the keys of objects if the key is a constant."""
    name = constant(key)
    if name is not None:
        return json_specs.has_key(json, name.as_py())
    has_rows = ~(json.empty | key.empty)
    return Specs.boolean(has_rows, has_rows, json.null | key.null, json.error | key.error)


_has_keys = partial(scalar, result=BOOL, errors=NEVER, cost=HEAVY, stable=True)


@_has_keys("?", (JSONB, TEXT), transfer=_has_transfer)
def has(json: Datum, key: Datum) -> pa.Array:
    """Whether a text is a key of an object, a string in an array, or the string itself."""
    n = length(json, key)
    documents, keys = spread(json, n), spread(key, n)
    if is_small_batch(documents):
        pairs = zip(documents.to_pylist(), keys.to_pylist(), strict=True)
        return pa.array(
            [None if d is None or k is None else _has(exact_json.decode(d), k) for d, k in pairs], pa.bool_()
        )
    return duckdb_eval(
        """CASE WHEN j IS NULL OR k IS NULL THEN NULL
                WHEN starts_with(j, '{') THEN json_exists(j, p)
                WHEN starts_with(j, '[')
                THEN list_contains(json_extract(j, '$[*]')::VARCHAR[], to_json(k)::VARCHAR)
                ELSE starts_with(j, '"') AND json_extract_string(j, '$') = k END""",
        pa.bool_(), j=documents, p=to_pointers(keys), k=keys,
    )  # fmt: skip


def _has(document: Json, key: str) -> bool:
    return key in document if isinstance(document, dict | list) else document == key


def _has_several(json: Datum, keys: Datum, *, every: bool) -> pa.Array:
    """`?` of each key of each row, counted by row."""
    n = length(json, keys)
    lists = spread(keys, n)
    row = np.repeat(np.arange(n), pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False))
    documents = spread(json, n)
    flat = lists.flatten()
    valid_key = to_bools(flat.is_valid())
    has_key = _has_each(documents, row, flat) if len(flat) else np.zeros(0, bool)
    hits = np.bincount(row[valid_key & has_key], minlength=n)
    enough = hits == np.bincount(row[valid_key], minlength=n) if every else hits > 0
    valid = pc.and_(documents.is_valid(), lists.is_valid())
    return pc.if_else(valid, pa.array(enough), pa.scalar(None, pa.bool_()))


REPEATED = 1 << 24
"""Bytes of documents, counted once per key, above which each document is parsed once for all its keys."""


def _has_each(documents: pa.Array, row: np.ndarray, keys: pa.Array) -> np.ndarray:
    """Whether each key is in the document of its row; the keys of a row are adjacent."""
    sizes = pc.fill_null(pc.binary_length(documents), 0).to_numpy(zero_copy_only=False)
    if int(sizes.astype(np.float64)[row].sum()) <= REPEATED:
        return to_bools(has(documents.take(pa.array(row)), keys))
    result = np.zeros(len(keys), bool)
    starts = np.searchsorted(row, np.arange(len(documents) + 1))
    for i, text in enumerate(checked(documents.to_pylist(), every=1)):
        if text is not None and starts[i] < starts[i + 1]:
            row_keys = keys[starts[i] : starts[i + 1]]
            result[starts[i] : starts[i + 1]] = to_bools(
                pc.is_in(row_keys, value_set=_names_in(exact_json.decode(text)))
            )
    result &= to_bools(keys.is_valid())
    return result


def _names_in(document: Json) -> pa.Array:
    """The texts that `?` finds in a document."""
    names = document if isinstance(document, dict | list) else [document]
    return pa.array([name for name in names if isinstance(name, str)], pa.string())


def _several_transfer(*, every: bool) -> Callable[[Type, Specs, Specs], Specs]:
    """`?|` and `?&` over containers: OR or AND over the keys of a constant."""

    def transfer(out: Type, json: Specs, keys: Specs) -> Specs:
        names = constant(keys)
        answers = (
            [json_specs.has_key(json, name) for name in names.as_py() if name is not None]
            if names is not None
            else []
        )
        if not answers:
            has_rows = ~(json.empty | keys.empty)
            return Specs.boolean(has_rows, has_rows, json.null | keys.null, json.error | keys.error)
        junction = and_transfer if every else or_transfer
        return junction(BOOL, *answers)

    return transfer


@_has_keys("?|", (JSONB, _TEXTS), transfer=_several_transfer(every=False))
def has_any(json: Datum, keys: Datum) -> pa.Array:
    """Whether any of the texts is a key of an object or a string in an array."""
    return _has_several(json, keys, every=False)


@_has_keys("?&", (JSONB, _TEXTS), transfer=_several_transfer(every=True))
def has_all(json: Datum, keys: Datum) -> pa.Array:
    """Whether all of the texts are keys of an object or strings in an array."""
    return _has_several(json, keys, every=True)


def _typeof_transfer(out: Type, json: Specs) -> Specs:
    """jsonb_typeof over containers, by the JSON types that occur."""
    return json_specs.typeof(json)


@scalar("jsonb_typeof", (JSONB,), TEXT, errors=NEVER, transfer=_typeof_transfer, stable=True)
def typeof(json: Datum) -> pa.Array:
    """The type of a JSON value: object, array, string, number, boolean or null."""
    return type_names(json)


@scalar("jsonb_array_length", (JSONB,), INT4, cost=HEAVY, stable=True)
def array_length(json: Datum) -> Outcome:
    """The number of elements of a JSON array."""
    sizes = duckdb_eval("json_array_length(j)::INTEGER", pa.int32(), j=json)
    letters = first_bytes(json)
    wrong = pa.array(letters != ord("["))
    message = pc.if_else(
        pa.array(letters == ord("{")),
        "cannot get array length of a non-array",
        "cannot get array length of a scalar",
    )
    return with_errors(sizes, failing(pc.and_(wrong, json.is_valid()), message))
