"""Extracts paths from JSON columns; any number of paths costs one parse of each document.

A path is a tuple of steps. `payload -> 'a' -> 0 ->> 'b'` is (Key a, Element 0, Key b) read as text, and
`payload #> '{a,0}'` is (KeyOrIndex a, KeyOrIndex 0), because a step of `#>` looks into maps and lists alike.

DuckDB extracts a list of paths after parsing a document once (0.5 to 1 µs for one path of a document of 315 bytes, 0.9 to 1.2 µs
for three, measured on a busy machine). It has two notations, and neither can express every step, so a path is split into segments
that one of them can:

| step | JSON path | JSON pointer |
|---|---|---|
| Key "ab" | `."ab"` | `/ab` |
| Key "0" | `."0"` | – (`/0` looks into lists too) |
| Key "" or "*" | – | `/` or `/*` |
| Index -1, Element -1 | `[-1]` | – |
| KeyOrIndex "0" | – | `/0` |
| KeyOrIndex "-1", "01" | both, as two alternatives | – |

Nearly all paths are one segment; others read their later segments from the result of the first. A path that ends with Element 0 or
Element -1 is read twice, with and without that step: `'5' -> 0` is 5, as in PostgreSQL.

DuckDB reads reals as doubles. A document whose reals lose digits by that (see `canonical.py`), if the result could show it, is read
again by `exact.py`, which is rare enough not to matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.outcome import to_bools
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval, sql_list
from tidegate.expr.primitives.json import canonical
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.canonical import HUGE_REAL, LONG_REAL, replace_rows
from tidegate.expr.primitives.json.exact import Json
from tidegate.expr.primitives.json.key_sort import escape_pointer


@dataclass(frozen=True)
class KeyStep:
    """Looks up a key in maps; other values have none."""

    name: str


@dataclass(frozen=True)
class IndexStep:
    """Looks up an element of lists, negative ones from the end; other values have none."""

    at: int


@dataclass(frozen=True)
class ElementStep(IndexStep):
    """A step of `-> n`: an element of lists; the only element of a scalar, 0 or -1, is the scalar."""

    @property
    def reads_scalars(self) -> bool:
        """Whether a scalar has this element."""
        return self.at in (0, -1)


@dataclass(frozen=True)
class KeyOrIndexStep:
    """A step of `#>`: a key of maps, or an element of lists if the name is a number."""

    name: str

    @property
    def at(self) -> int | None:
        """The index of the element, parsed as in C: white space, a sign and leading zeros are allowed."""
        if not _INTEGER.match(self.name) or len(self.name.strip().lstrip("+-0")) > 10:
            return None
        return index if abs(index := int(self.name)) < 2**31 else None


PathStep: TypeAlias = KeyStep | IndexStep | KeyOrIndexStep
JsonPath: TypeAlias = tuple[PathStep, ...]
Segment: TypeAlias = tuple[str, ...]
"""A path in DuckDB's notation, or two alternatives; at most one of them matches a document."""

_INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+\Z")
_POINTER_INTEGER = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_SEEMS_REAL = r'^(?:-?[0-9]+[.eE]|[\[{]|".*\\u00[01])'
_NOT_SURE = rf"{LONG_REAL}|{HUGE_REAL}|\\u00[01]"
_MAY_BE_REAL = np.zeros(256, bool)
_MAY_BE_REAL[list(b'-0123456789[{"')] = True
_MISSING = object()


def segments(path: JsonPath) -> list[Segment]:
    """The path split into segments of one notation each; an empty path is the document."""
    result: list[Segment] = []
    run: list[PathStep] = []
    allowed = "$/"
    for step in path:
        notations = _notations(step)
        shared = [notation for notation in allowed if notation in notations]
        if not shared and run:
            result.append((_notation_text(run, allowed[0]),))
            run = []
        if notations:
            run.append(step)
            allowed = "".join(shared) or notations
        else:
            assert isinstance(step, KeyOrIndexStep)
            allowed = "$/"
            result.append(
                (_notation_text([KeyStep(step.name)], "$"), _notation_text([IndexStep(step.at or 0)], "$"))
            )
    if run:
        result.append((_notation_text(run, allowed[0]),))
    return result or [("",)]


def _notations(step: PathStep) -> str:
    """The notations that can express a step: `$` JSON path, `/` JSON pointer; none if it takes two paths."""
    match step:
        case IndexStep():
            return "$"
        case KeyStep("" | "*"):
            return "/"
        case KeyStep(name):
            return "$" if _POINTER_INTEGER.match(name) else "$/"
        case KeyOrIndexStep(name):
            if _POINTER_INTEGER.match(name):
                return "/"
            return _notations(KeyStep(name)) if step.at is None else ""


def _notation_text(steps: Sequence[PathStep], notation: str) -> str:
    if notation == "/":
        return "".join(f"/{escape_pointer(step.name)}" for step in steps if not isinstance(step, IndexStep))
    text = "$"
    for step in steps:
        if isinstance(step, IndexStep):
            text += f"[{step.at}]"
        else:
            name = step.name.replace("\\", "\\\\").replace('"', '\\"')
            text += f'."{name}"'
    return text


def first_bytes(documents: pa.Array) -> np.ndarray:
    """The first byte of each document, which decides its type; 0 where null, undefined if empty."""
    n = len(documents)
    _, offsets, data = documents.buffers()
    letters = np.zeros(n, np.uint8)
    if n == documents.null_count or data is None:
        return letters
    starts = np.frombuffer(offsets, np.int32, n, documents.offset * 4)
    valid = to_bools(documents.is_valid())
    raw = np.frombuffer(data, np.uint8)
    valid &= starts < len(raw)  # an empty text may start after the last byte
    letters[valid] = raw[starts[valid]]
    return letters


TYPE_NAMES = ("number", "object", "array", "string", "boolean", "null")
_TYPE_OF_LETTER = np.zeros(256, np.int8)
for _letter, _type in zip(b'{["tfn', (1, 2, 3, 4, 4, 5), strict=True):
    _TYPE_OF_LETTER[_letter] = _type


def type_names(documents: pa.Array) -> pa.Array:
    """The jsonb_typeof of each document."""
    codes = pa.array(_TYPE_OF_LETTER[first_bytes(documents)], mask=to_bools(documents.is_null()))
    return pa.array(TYPE_NAMES).take(codes)


@dataclass(frozen=True)
class PathRequest:
    """A path, and whether its value is read as text (`->>`) or as JSON (`->`)."""

    path: JsonPath
    as_text: bool


def extract(documents: pa.Array, wanted: Sequence[PathRequest]) -> list[pa.Array]:
    """The values at each path, null where there is none; each document is parsed once."""

    def exactly(document: Json) -> list[str | None]:
        return [render(look_up(document, w.path), as_text=w.as_text) for w in wanted]

    if is_small_batch(documents):
        rows = [
            [None] * len(wanted) if d is None else exactly(exact_json.decode(d))
            for d in checked(documents.to_pylist())
        ]
        return [pa.array([row[i] for row in rows], pa.string()) for i in range(len(wanted))]
    results = _extract_readings(documents, wanted)
    return reread_exactly(documents, results, lambda row: exactly(exact_json.decode(documents[row].as_py())))


def is_small_batch(documents: pa.Array) -> bool:
    """Whether a loop over the documents is cheaper than a call of DuckDB."""
    return len(documents) <= canonical.MAX_ROWS_ONE_BY_ONE


def readings(path: JsonPath) -> list[JsonPath]:
    """The path, and what it is if the value before its last elements is a scalar, without those steps."""
    found = [path]
    for step in reversed(path):
        if not isinstance(step, ElementStep) or not step.reads_scalars:
            break
        found.append(found[-1][:-1])
    return found


def _extract_readings(documents: pa.Array, wanted: Sequence[PathRequest]) -> list[pa.Array]:
    """The values at each path as DuckDB reads them; of scalars, by the path without its last elements."""
    groups = [readings(w.path) for w in wanted]
    asked = [
        PathRequest(path, w.as_text and len(group) == 1)
        for w, group in zip(wanted, groups, strict=True)
        for path in group
    ]
    values = iter(_extract_with_duckdb(documents, asked))
    results = []
    for w, group in zip(wanted, groups, strict=True):
        value = next(values)
        for _ in group[1:]:
            scalar = next(values)
            value = pc.coalesce(value, _where(_is_scalar(scalar), scalar))
        results.append(to_text(value) if w.as_text and len(group) > 1 else value)
    return results


def _is_scalar(documents: pa.Array) -> pa.Array:
    letters = first_bytes(documents)
    return pa.array((letters != ord("[")) & (letters != ord("{")))


def _extract_with_duckdb(documents: pa.Array, wanted: Sequence[PathRequest]) -> list[pa.Array]:
    """The values at each path as DuckDB reads them."""
    plans = [segments(w.path) for w in wanted]
    firsts = list(dict.fromkeys(path for plan in plans for path in plan[0]))
    only_text = all(w.as_text and len(plan) == 1 for w, plan in zip(wanted, plans, strict=True))
    function = "json_extract_string" if only_text else "json_extract"
    # No document contains a zero byte, and DuckDB's SQL cannot express one.
    path_list = sql_list(path.replace("\0", "\ufffd") for path in firsts)
    if len(firsts) == 1:
        parts = {firsts[0]: duckdb_eval(f"{function}(j, {path_list[1:-1]})", pa.string(), j=documents)}
    else:
        lists = duckdb_eval(f"{function}(j, {path_list})", pa.list_(pa.string()), j=documents)
        parts = {path: pc.list_element(lists, i) for i, path in enumerate(firsts)}
    results = []
    for w, plan in zip(wanted, plans, strict=True):
        if any("\0" in path for segment in plan for path in segment):
            results.append(pa.nulls(len(documents), pa.string()))
            continue
        value = _coalesce([parts[path] for path in plan[0]])
        for segment in plan[1:]:
            value = _coalesce(
                [
                    duckdb_eval(f"json_extract(j, {sql_list([path])})[1]", pa.string(), j=value)
                    for path in segment
                ]
            )
        results.append(to_text(value) if w.as_text and not only_text else value)
    return results


def _coalesce(values: list[pa.Array]) -> pa.Array:
    return values[0] if len(values) == 1 else pc.coalesce(*values)


def to_text(values: pa.Array) -> pa.Array:
    """JSON values as `->>` yields them: strings unquoted, JSON null as NULL, others as JSON text."""
    if is_small_batch(values):
        bare = [
            None if v in (None, "null") else exact_json.decode(v) if v[0] == '"' else v
            for v in values.to_pylist()
        ]
        return pa.array(bare, pa.string())
    strings = pc.starts_with(values, '"')
    if pc.any(strings, min_count=0).as_py():
        rows = np.flatnonzero(to_bools(strings))
        bare = duckdb_eval("json_extract_string(j, '$')", pa.string(), j=values.take(pa.array(rows)))
        return replace_rows(pc.if_else(pc.equal(values, "null"), None, values), rows, bare)
    return pc.if_else(pc.equal(values, "null"), pa.scalar(None, pa.string()), values)


def reread_exactly(
    documents: pa.Array, results: list[pa.Array], exactly: Callable[[int], list[str | None]]
) -> list[pa.Array]:
    """`results`, read again exactly where DuckDB may have rounded, or escaped differently."""
    doubtful = np.zeros(len(documents), bool)
    for result in results:
        # Most results are plain words, which the first byte shows.
        rows = np.flatnonzero(_MAY_BE_REAL[first_bytes(result)])
        if len(rows):
            candidates = result if len(rows) == len(result) else result.take(pa.array(rows))
            doubtful[rows] |= to_bools(pc.match_substring_regex(candidates, _SEEMS_REAL))
    rows = rows_read_inexactly(documents, np.flatnonzero(doubtful))
    if not len(rows):
        return results
    again = [exactly(int(row)) for row in rows]
    return [
        replace_rows(result, rows, pa.array([values[i] for values in again], pa.string()))
        for i, result in enumerate(results)
    ]


def rows_read_inexactly(documents: pa.Array, rows: np.ndarray) -> np.ndarray:
    """Those of `rows` whose documents DuckDB does not return unchanged."""
    if not len(rows):
        return rows
    rows = rows[to_bools(pc.match_substring_regex(documents.take(pa.array(rows)), _NOT_SURE))]
    if not len(rows):
        return rows
    same = to_bools(duckdb_eval("json(j)::VARCHAR = j", pa.bool_(), j=documents.take(pa.array(rows))))
    changed: np.ndarray = rows[~same]
    return changed


def look_up(document: Json, path: JsonPath) -> Any:
    """The value at a path of a decoded document, or `_MISSING`."""
    value: Any = document
    for step in path:
        at = None if isinstance(step, KeyStep) else step.at
        if isinstance(value, dict) and not isinstance(step, IndexStep):
            value = value.get(step.name, _MISSING)
        elif isinstance(value, list) and at is not None and -len(value) <= at < len(value):
            value = value[at]
        elif isinstance(step, ElementStep) and step.reads_scalars and not isinstance(value, dict | list):
            pass
        else:
            return _MISSING
    return value


def render(value: Any, *, as_text: bool) -> str | None:
    """A value that `look_up` returned, as JSON or as text; None where it is missing."""
    if value is _MISSING or (as_text and value is None):
        return None
    return value if as_text and isinstance(value, str) else exact_json.encode(value)


def take_step(
    documents: pa.Array, steps: pa.Array, *, either: bool = False, scalars: bool = False
) -> pa.Array:
    """One step per row, by another key or index in each.

    Text steps also index lists if `either`; integer steps also read scalars if `scalars`.
    """
    index = ElementStep if scalars else IndexStep

    def exactly(row: int) -> list[str | None]:
        document, step = documents[row].as_py(), steps[row].as_py()
        if document is None or step is None:
            return [None]
        path_step: PathStep = (
            index(step) if isinstance(step, int) else KeyOrIndexStep(step) if either else KeyStep(step)
        )
        return [render(look_up(exact_json.decode(document), (path_step,)), as_text=False)]

    if is_small_batch(documents):
        return pa.array([exactly(row)[0] for row in range(len(documents))], pa.string())
    if pa.types.is_integer(steps.type):
        paths = pc.binary_join_element_wise("$[", pc.cast(steps, pa.string()), "]", "")
        if scalars:
            only = pc.and_(_is_scalar(documents), pc.is_in(steps, value_set=pa.array([0, -1], steps.type)))
            paths = pc.if_else(pc.and_(only, documents.is_valid()), "$", paths)
        paths = _where(pc.or_(pc.starts_with(documents, "["), pc.equal(paths, "$")), paths)
    else:
        paths = _where(pc.starts_with(documents, "{"), to_pointers(steps))
        if either:
            paths = pc.coalesce(paths, _where(pc.starts_with(documents, "["), _element_paths(steps)))
    values = duckdb_eval("json_extract(j, p)", pa.string(), j=documents, p=paths)
    return reread_exactly(documents, [values], exactly)[0]


def to_pointers(names: pa.Array) -> pa.Array:
    """Keys as JSON pointers with one step."""
    escaped = pc.replace_substring(pc.replace_substring(names, "~", "~0"), "/", "~1")
    return pc.binary_join_element_wise("/", escaped, "")


def _element_paths(steps: pa.Array) -> pa.Array:
    """`$[n]` for texts that are integers, else null."""
    digits = pc.struct_field(pc.extract_regex(steps, r"^[ \t\n\v\f\r]*(?P<n>[+-]?[0-9]+)$"), "n")
    digits = _where(pc.less(pc.binary_length(digits), 12), digits)
    number = pc.cast(pc.utf8_ltrim(digits, "+"), pa.int64())
    number = pc.if_else(pc.less(pc.abs(number), 2**31), number, pa.scalar(None, pa.int64()))
    return pc.binary_join_element_wise("$[", pc.cast(number, pa.string()), "]", "")


def _where(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(mask, values, pa.scalar(None, values.type))
