"""Reading JSON: `-> ->> #> #>> ? ?| ?&`, jsonb_typeof, jsonb_array_length, jsonb_extract_path.

`->` gives JSON and `->>` gives text. What is not there is NULL; JSON's own null is a value for `->` and NULL
for `->>`:

| payload | `-> 'a'` | `->> 'a'` |
|---|---|---|
| `{"a": "x"}` | `"x"` | x |
| `{"a": null}` | `null` | NULL |
| `{"b": 1}`, `[1]`, `7` | NULL | NULL |

A text looks into maps only and an integer into lists only; a path of `#>` looks into both. All paths of
constants into one column make a family: they are followed down to the column and read together
(`json_path.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import exact_json, json_specs
from tidegate.expr.cancel import check, checked
from tidegate.expr.duck import duck
from tidegate.expr.exact_json import Json
from tidegate.expr.function import HEAVY, NEVER, scalar
from tidegate.expr.functions.boolean import and_transfer, or_transfer
from tidegate.expr.json_path import (
    Either,
    Index,
    Key,
    Path,
    Wanted,
    extract,
    few,
    first_letters,
    follow,
    pointers,
    to_text,
    type_names,
)  # fmt: skip
from tidegate.expr.outcome import Datum, Outcome, failing, length, spread, with_errors
from tidegate.expr.specs import Specs, to_bools
from tidegate.expr.tree import Call, Expr, Literal
from tidegate.expr.types import BOOL, INT4, JSONB, TEXT, Type, array

_GIVE_JSON = ("->", "#>", "jsonb_extract_path")
_GIVE_TEXT = ("->>", "#>>", "jsonb_extract_path_text")
_TEXTS = array(TEXT)


class Paths:
    """The family of all paths of constants: `payload -> 'a' ->> 'b'` reads payload in the end."""

    def root(self, call: Call) -> Expr | None:
        """The column, or whatever else the first step reads."""
        return self._followed(call)[0] if _constant_path(call) is not None else None

    def evaluate(self, root: pa.Array, calls: Sequence[Call]) -> list[Outcome]:
        """The values of all paths after parsing each document once."""
        return [Outcome(values) for values in extract(root, [self.wanted(call) for call in calls])]

    def wanted(self, call: Call) -> Wanted:
        """What a call of this family reads of its root."""
        return Wanted(self._followed(call)[1], call.function.name in _GIVE_TEXT)

    def _followed(self, call: Call) -> tuple[Expr, Path]:
        path = _constant_path(call) or ()
        base = call.args[0]
        while isinstance(base, Call) and base.function.name in _GIVE_JSON:
            before = _constant_path(base)
            if before is None:
                break
            path, base = before + path, base.args[0]
        return base, path


def _constant_path(call: Call) -> Path | None:
    """The steps of one call, if all of them are constants and none is NULL."""
    values = [arg.value.as_py() for arg in call.args[1:] if isinstance(arg, Literal)]
    if len(values) != len(call.args) - 1:
        return None
    return _steps(call.function.name, values)


def _steps(name: str, values: Sequence[Any]) -> Path | None:
    flat = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if any(value is None for value in flat):
        return None
    if name in ("->", "->>"):
        return tuple(Index(value) if isinstance(value, int) else Key(value) for value in flat)
    return tuple(Either(value) for value in flat)


PATHS = Paths()


def _path_transfer(out: Type, json: Specs, *keys: Specs) -> Specs:
    """A step or a path over containers: the lanes tell, if it is a constant."""
    values = [json_specs.constant(key) for key in keys]
    nested = any(key.type == _TEXTS for key in keys)
    steps = _steps("#>" if nested or len(keys) > 1 else "->", [v.as_py() for v in values if v is not None])
    if any(value is None for value in values) or steps is None:
        found = json_specs.unknown_path(json, *keys)
    else:
        found = json_specs.get_path(json, steps)
    return json_specs.text_of(found) if out == TEXT else json_specs.bounded(found)


def _variadic_transfer(out: Type, json: Specs, *keys: Specs) -> Specs:
    """As `_path_transfer`, where even a single key is a step of a path."""
    values = [json_specs.constant(key) for key in keys]
    if any(value is None for value in values):
        found = json_specs.unknown_path(json, *keys)
    else:
        found = json_specs.get_path(json, [Either(value.as_py()) for value in values if value is not None])
    return json_specs.text_of(found) if out == TEXT else json_specs.bounded(found)


_CLAIMS: dict[str, Any] = {
    "errors": NEVER, "makes_null": True, "transfer": _path_transfer, "cost": HEAVY, "stable": True, "family":
    PATHS,
}  # fmt: skip


def _read(json: Datum, key: Datum, out: Type, *, either: bool) -> pa.Array:
    """One step, the same for all rows or another for each."""
    n = length(json, key)
    documents = spread(json, n)
    if isinstance(key, pa.Scalar):
        if not key.is_valid:
            return pa.nulls(n, pa.string())
        value = key.as_py()
        step = Index(value) if isinstance(value, int) else Either(value) if either else Key(value)
        return extract(documents, [Wanted((step,), out == TEXT)])[0]
    found = follow(documents, key, either=either)
    return to_text(found) if out == TEXT else found


@scalar("->", (JSONB, INT4), JSONB, **_CLAIMS)
@scalar(
    "->", (JSONB, TEXT), JSONB, **_CLAIMS
)  # declared first, as decorators apply upwards: an unknown literal is a key
def get(json: Datum, key: Datum, *, out: Type) -> pa.Array:
    """The value under a key of a map, or at an index of a list (from the end if negative), as JSON."""
    return _read(json, key, out, either=False)


@scalar("->>", (JSONB, INT4), TEXT, **_CLAIMS)
@scalar("->>", (JSONB, TEXT), TEXT, **_CLAIMS)
def get_text(json: Datum, key: Datum, *, out: Type) -> pa.Array:
    """The value under a key of a map, or at an index of a list (from the end if negative), as text."""
    return _read(json, key, out, either=False)


def _read_path(json: Datum, path: Datum, out: Type) -> pa.Array:
    """A path that differs from row to row: one step of all rows after the other."""
    n = length(json, path)
    if isinstance(path, pa.Scalar):
        steps = _steps("#>", [path.as_py()])
        if steps is None:
            return pa.nulls(n, pa.string())
        return extract(spread(json, n), [Wanted(steps, out == TEXT)])[0]
    sizes = pc.fill_null(pc.list_value_length(path), 0).to_numpy(zero_copy_only=False)
    found = pc.if_else(path.is_valid(), spread(json, n), pa.scalar(None, pa.string()))
    for i in range(int(sizes.max(initial=0))):
        check()
        if found.null_count == len(
            found
        ):  # a path may be as long as its client likes, a document is not so deep
            break
        within = pa.array(sizes > i)
        step = pc.list_element(pc.if_else(within, path, pa.scalar([None] * (i + 1), path.type)), i)
        found = pc.if_else(within, follow(found, step, either=True), found)
    return to_text(found) if out == TEXT else found


@scalar("#>", (JSONB, _TEXTS), JSONB, **_CLAIMS)
def get_path(json: Datum, path: Datum, *, out: Type) -> pa.Array:
    """The value at a path of keys and indexes, as JSON."""
    return _read_path(json, path, out)


@scalar("#>>", (JSONB, _TEXTS), TEXT, **_CLAIMS)
def get_path_text(json: Datum, path: Datum, *, out: Type) -> pa.Array:
    """The value at a path of keys and indexes, as text."""
    return _read_path(json, path, out)


_VARIADIC = {**_CLAIMS, "variadic": True, "transfer": _variadic_transfer}


@scalar("jsonb_extract_path", (JSONB, TEXT), JSONB, **_VARIADIC)
@scalar("jsonb_extract_path_text", (JSONB, TEXT), TEXT, **_VARIADIC)
def extract_path(json: Datum, *keys: Datum, out: Type) -> pa.Array:
    """The value at a path of keys and indexes, each an argument."""
    n = length(json, *keys)
    found = spread(json, n)
    for key in keys:
        found = _read(found, key, JSONB, either=True)
    return to_text(found) if out == TEXT else found


def _has_transfer(out: Type, json: Specs, key: Specs) -> Specs:
    """`?` over containers: the keys of maps tell, for a constant."""
    name = json_specs.constant(key)
    if name is not None:
        return json_specs.has_key(json, name.as_py())
    some = ~(json.empty | key.empty)
    return Specs.boolean(some, some, json.null | key.null, json.error | key.error)


@scalar("?", (JSONB, TEXT), BOOL, errors=NEVER, transfer=_has_transfer, cost=HEAVY, stable=True)
def has(json: Datum, key: Datum) -> pa.Array:
    """Whether a text is a key of a map, a string in a list, or the string itself."""
    n = length(json, key)
    documents, keys = spread(json, n), spread(key, n)
    if few(documents):
        pairs = zip(documents.to_pylist(), keys.to_pylist(), strict=True)
        return pa.array(
            [None if d is None or k is None else _has(exact_json.decode(d), k) for d, k in pairs], pa.bool_()
        )
    return duck(
        """CASE WHEN j IS NULL OR k IS NULL THEN NULL
                WHEN starts_with(j, '{') THEN json_exists(j, p)
                WHEN starts_with(j, '[')
                THEN list_contains(json_extract(j, '$[*]')::VARCHAR[], to_json(k)::VARCHAR)
                ELSE starts_with(j, '"') AND json_extract_string(j, '$') = k END""",
        pa.bool_(), j=documents, p=pointers(keys), k=keys,
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
    given = to_bools(flat.is_valid())
    found = _has_each(documents, row, flat) if len(flat) else np.zeros(0, bool)
    hits = np.bincount(row[given & found], minlength=n)
    enough = hits == np.bincount(row[given], minlength=n) if every else hits > 0
    valid = pc.and_(documents.is_valid(), lists.is_valid())
    return pc.if_else(valid, pa.array(enough), pa.scalar(None, pa.bool_()))


REPEATED = 1 << 24
"""Bytes of documents, each as often as a key is looked for in it, from which on a document is parsed once for all keys."""


def _has_each(documents: pa.Array, row: np.ndarray, keys: pa.Array) -> np.ndarray:
    """Whether the document of each key's row has it; the keys of a row stand together."""
    sizes = pc.fill_null(pc.binary_length(documents), 0).to_numpy(zero_copy_only=False)
    if int(sizes.astype(np.float64)[row].sum()) <= REPEATED:
        return to_bools(has(documents.take(pa.array(row)), keys))
    result = np.zeros(len(keys), bool)
    starts = np.searchsorted(row, np.arange(len(documents) + 1))
    for i, text in enumerate(checked(documents.to_pylist(), every=1)):
        if text is not None and starts[i] < starts[i + 1]:
            some = keys[starts[i] : starts[i + 1]]
            result[starts[i] : starts[i + 1]] = to_bools(
                pc.is_in(some, value_set=_names_in(exact_json.decode(text)))
            )
    result &= to_bools(keys.is_valid())
    return result


def _names_in(document: Json) -> pa.Array:
    """The texts that `?` finds in a document."""
    names = document if isinstance(document, dict | list) else [document]
    return pa.array([name for name in names if isinstance(name, str)], pa.string())


def _several_transfer(every: bool) -> Callable[[Type, Specs, Specs], Specs]:
    """`?|` and `?&` over containers: OR or AND of what each key of a constant says."""

    def transfer(out: Type, json: Specs, keys: Specs) -> Specs:
        names = json_specs.constant(keys)
        told = (
            [json_specs.has_key(json, name) for name in names.as_py() if name is not None]
            if names is not None
            else []
        )
        if not told:
            some = ~(json.empty | keys.empty)
            return Specs.boolean(some, some, json.null | keys.null, json.error | keys.error)
        together = and_transfer if every else or_transfer
        return together(BOOL, *told)

    return transfer


@scalar("?|", (JSONB, _TEXTS), BOOL, errors=NEVER, transfer=_several_transfer(False), cost=HEAVY, stable=True)
def has_any(json: Datum, keys: Datum) -> pa.Array:
    """Whether any of the texts is a key of a map or a string in a list."""
    return _has_several(json, keys, every=False)


@scalar("?&", (JSONB, _TEXTS), BOOL, errors=NEVER, transfer=_several_transfer(True), cost=HEAVY, stable=True)
def has_all(json: Datum, keys: Datum) -> pa.Array:
    """Whether all of the texts are keys of a map or strings in a list."""
    return _has_several(json, keys, every=True)


def _typeof_transfer(out: Type, json: Specs) -> Specs:
    """jsonb_typeof over containers, by the lanes that occur."""
    return json_specs.typeof(json)


@scalar("jsonb_typeof", (JSONB,), TEXT, errors=NEVER, transfer=_typeof_transfer, stable=True)
def typeof(json: Datum) -> pa.Array:
    """What a JSON value is: object, array, string, number, boolean or null."""
    return type_names(json)


@scalar("jsonb_array_length", (JSONB,), INT4, cost=HEAVY, stable=True)
def array_length(json: Datum) -> Outcome:
    """How many elements a JSON list has."""
    sizes = duck("json_array_length(j)::INTEGER", pa.int32(), j=json)
    letters = first_letters(json)
    wrong = pa.array(letters != ord("["))
    message = pc.if_else(
        pa.array(letters == ord("{")),
        "cannot get array length of a non-array",
        "cannot get array length of a scalar",
    )
    return with_errors(sizes, failing(pc.and_(wrong, json.is_valid()), message))
