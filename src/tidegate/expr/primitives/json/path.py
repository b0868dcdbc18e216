"""Reading paths out of JSON columns: any number of paths into one column for one parse.

A path is a tuple of steps. `payload -> 'a' -> 0 ->> 'b'` is (Key a, Index 0, Key b) read as text, and
`payload #> '{a,0}'` is (Either a, Either 0), because a step of `#>` looks into maps and lists alike.

DuckDB extracts a whole list of paths after parsing a document once (0.5 to 1 µs for one path of a document of
315 bytes, 0.9 to 1.2 µs for three, measured on a busy machine). It knows two notations, and neither can say
every step, so a path is cut into segments that one of them can:

| step | JSON path | JSON pointer |
|---|---|---|
| Key "ab" | `."ab"` | `/ab` |
| Key "0" | `."0"` | – (`/0` looks into lists too) |
| Key "" or "*" | – | `/` or `/*` |
| Index -1 | `[-1]` | – |
| Either "0" | – | `/0` |
| Either "-1", "01" | both, as two alternatives | – |

Nearly all paths are one segment; the others read their later segments from what the first gave.

DuckDB reads reals as doubles. A document whose reals do not survive that (see `canonical.py`), if the result
could show it, is read again by `exact_json.py`: exact, and rare enough not to matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import canonical, exact_json
from tidegate.expr.cancel import checked
from tidegate.expr.canonical import HUGE_REAL, LONG_REAL, replace_rows
from tidegate.expr.duck import duck
from tidegate.expr.exact_json import Json
from tidegate.expr.layout import escape, sql_list
from tidegate.expr.specs import to_bools


@dataclass(frozen=True)
class Key:
    """Looks up a key in maps; anything else has none."""

    name: str


@dataclass(frozen=True)
class Index:
    """Looks up an element of lists, negative ones from the end; anything else has none."""

    at: int


@dataclass(frozen=True)
class Either:
    """A step of `#>`: a key of maps, and of lists the element that it counts to, if it is a number."""

    name: str

    @property
    def at(self) -> int | None:
        """The element it means, read as C reads integers: white space, a sign and leading zeros allowed."""
        if not _INTEGER.match(self.name) or len(self.name.strip().lstrip("+-0")) > 10:
            return None
        return found if abs(found := int(self.name)) < 2**31 else None


Step: TypeAlias = Key | Index | Either
Path: TypeAlias = tuple[Step, ...]
Segment: TypeAlias = tuple[str, ...]
"""A path in DuckDB's notation, or two that are alternatives: what is there for one is not for the other."""

_INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+\Z")
_POINTER_INTEGER = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_SEEMS_REAL = r'^(?:-?[0-9]+[.eE]|[\[{]|".*\\u00[01])'
_NOT_SURE = rf"{LONG_REAL}|{HUGE_REAL}|\\u00[01]"
_MAY_BE_REAL = np.zeros(256, bool)
_MAY_BE_REAL[list(b'-0123456789[{"')] = True
_MISSING = object()


def segments(path: Path) -> list[Segment]:
    """The path cut into pieces that can each be said in one notation; an empty path is the document."""
    result: list[Segment] = []
    run: list[Step] = []
    allowed = "$/"
    for step in path:
        mine = _notations(step)
        both = [notation for notation in allowed if notation in mine]
        if not both and run:
            result.append((_said(run, allowed[0]),))
            run = []
        if mine:
            run.append(step)
            allowed = "".join(both) or mine
        else:
            assert isinstance(step, Either)
            allowed = "$/"
            result.append((_said([Key(step.name)], "$"), _said([Index(step.at or 0)], "$")))
    if run:
        result.append((_said(run, allowed[0]),))
    return result or [("",)]


def _notations(step: Step) -> str:
    """The notations that can say a step: `$` JSON path, `/` JSON pointer; none if it takes two paths."""
    match step:
        case Index():
            return "$"
        case Key("" | "*"):
            return "/"
        case Key(name):
            return "$" if _POINTER_INTEGER.match(name) else "$/"
        case Either(name):
            if _POINTER_INTEGER.match(name):
                return "/"
            return _notations(Key(name)) if step.at is None else ""


def _said(steps: Sequence[Step], notation: str) -> str:
    if notation == "/":
        return "".join(f"/{escape(step.name)}" for step in steps if not isinstance(step, Index))
    text = "$"
    for step in steps:
        if isinstance(step, Index):
            text += f"[{step.at}]"
        else:
            name = step.name.replace("\\", "\\\\").replace('"', '\\"')
            text += f'."{name}"'
    return text


def first_letters(documents: pa.Array) -> np.ndarray:
    """The first byte of each document, which tells its type; 0 where null. Of an empty text, any byte."""
    n = len(documents)
    _, offsets, data = documents.buffers()
    letters = np.zeros(n, np.uint8)
    if n == documents.null_count or data is None:
        return letters
    starts = np.frombuffer(offsets, np.int32, n, documents.offset * 4)
    valid = to_bools(documents.is_valid())
    raw = np.frombuffer(data, np.uint8)
    valid &= starts < len(raw)  # an empty text may stand behind the last byte
    letters[valid] = raw[starts[valid]]
    return letters


TYPE_NAMES = ("number", "object", "array", "string", "boolean", "null")
_TYPE_OF_LETTER = np.zeros(256, np.int8)
for _letter, _type in zip(b'{["tfn', (1, 2, 3, 4, 4, 5), strict=True):
    _TYPE_OF_LETTER[_letter] = _type


def type_names(documents: pa.Array) -> pa.Array:
    """What jsonb_typeof says of each document."""
    codes = pa.array(_TYPE_OF_LETTER[first_letters(documents)], mask=to_bools(documents.is_null()))
    return pa.array(TYPE_NAMES).take(codes)


@dataclass(frozen=True)
class Wanted:
    """A path, and whether its value is wanted as text (`->>`) or as JSON (`->`)."""

    path: Path
    as_text: bool


def extract(documents: pa.Array, wanted: Sequence[Wanted]) -> list[pa.Array]:
    """The values at each of the paths, null where there is none; documents are parsed once for all."""

    def exactly(document: Json) -> list[str | None]:
        return [spelled(look_up(document, w.path), as_text=w.as_text) for w in wanted]

    if few(documents):
        rows = [
            [None] * len(wanted) if d is None else exactly(exact_json.decode(d))
            for d in checked(documents.to_pylist())
        ]
        return [pa.array([row[i] for row in rows], pa.string()) for i in range(len(wanted))]
    results = _extracted(documents, wanted)
    return mended(documents, results, lambda row: exactly(exact_json.decode(documents[row].as_py())))


def few(documents: pa.Array) -> bool:
    """Whether a loop over the documents is cheaper than a call of DuckDB."""
    return len(documents) <= canonical.FEW


def _extracted(documents: pa.Array, wanted: Sequence[Wanted]) -> list[pa.Array]:
    """What DuckDB reads at each of the paths."""
    plans = [segments(w.path) for w in wanted]
    firsts = list(dict.fromkeys(path for plan in plans for path in plan[0]))
    only_text = all(w.as_text and len(plan) == 1 for w, plan in zip(wanted, plans, strict=True))
    function = "json_extract_string" if only_text else "json_extract"
    # No document holds a zero byte, and DuckDB's SQL cannot spell one.
    asked = sql_list(path.replace("\0", "\ufffd") for path in firsts)
    if len(firsts) == 1:
        parts = {firsts[0]: duck(f"{function}(j, {asked[1:-1]})", pa.string(), j=documents)}
    else:
        found = duck(f"{function}(j, {asked})", pa.list_(pa.string()), j=documents)
        parts = {path: pc.list_element(found, i) for i, path in enumerate(firsts)}
    results = []
    for w, plan in zip(wanted, plans, strict=True):
        if any("\0" in path for segment in plan for path in segment):
            results.append(pa.nulls(len(documents), pa.string()))
            continue
        value = _either([parts[path] for path in plan[0]])
        for segment in plan[1:]:
            value = _either(
                [duck(f"json_extract(j, {sql_list([path])})[1]", pa.string(), j=value) for path in segment]
            )
        results.append(to_text(value) if w.as_text and not only_text else value)
    return results


def _either(values: list[pa.Array]) -> pa.Array:
    return values[0] if len(values) == 1 else pc.coalesce(*values)


def to_text(values: pa.Array) -> pa.Array:
    """JSON values as `->>` gives them: strings without quotes, JSON null as NULL, all else as its JSON."""
    if few(values):
        bare = [
            None if v in (None, "null") else exact_json.decode(v) if v[0] == '"' else v
            for v in values.to_pylist()
        ]
        return pa.array(bare, pa.string())
    strings = pc.starts_with(values, '"')
    if pc.any(strings, min_count=0).as_py():
        rows = np.flatnonzero(to_bools(strings))
        bare = duck("json_extract_string(j, '$')", pa.string(), j=values.take(pa.array(rows)))
        return replace_rows(pc.if_else(pc.equal(values, "null"), None, values), rows, bare)
    return pc.if_else(pc.equal(values, "null"), pa.scalar(None, pa.string()), values)


def mended(
    documents: pa.Array, results: list[pa.Array], exactly: Callable[[int], list[str | None]]
) -> list[pa.Array]:
    """`results`, read again where what DuckDB gave may be rounded, or is escaped in another way."""
    doubtful = np.zeros(len(documents), bool)
    for result in results:
        # Most results are plain words, which their first letter tells.
        rows = np.flatnonzero(_MAY_BE_REAL[first_letters(result)])
        if len(rows):
            some = result if len(rows) == len(result) else result.take(pa.array(rows))
            doubtful[rows] |= to_bools(pc.match_substring_regex(some, _SEEMS_REAL))
    rows = not_sure(documents, np.flatnonzero(doubtful))
    if not len(rows):
        return results
    again = [exactly(int(row)) for row in rows]
    return [
        replace_rows(result, rows, pa.array([values[i] for values in again], pa.string()))
        for i, result in enumerate(results)
    ]


def not_sure(documents: pa.Array, rows: np.ndarray) -> np.ndarray:
    """Those of `rows` whose documents DuckDB does not give back as they are."""
    if not len(rows):
        return rows
    rows = rows[to_bools(pc.match_substring_regex(documents.take(pa.array(rows)), _NOT_SURE))]
    if not len(rows):
        return rows
    same = to_bools(duck("json(j)::VARCHAR = j", pa.bool_(), j=documents.take(pa.array(rows))))
    changed: np.ndarray = rows[~same]
    return changed


def look_up(document: Json, path: Path) -> Any:
    """The value at a path of a decoded document, or `_MISSING`."""
    value: Any = document
    for step in path:
        at = None if isinstance(step, Key) else step.at
        if isinstance(value, dict) and not isinstance(step, Index):
            value = value.get(step.name, _MISSING)
        elif isinstance(value, list) and at is not None and -len(value) <= at < len(value):
            value = value[at]
        else:
            return _MISSING
    return value


def spelled(value: Any, *, as_text: bool) -> str | None:
    """A value that `look_up` found, as JSON or as text."""
    if value is _MISSING or (as_text and value is None):
        return None
    return value if as_text and isinstance(value, str) else exact_json.encode(value)


def follow(documents: pa.Array, steps: pa.Array, *, either: bool = False) -> pa.Array:
    """One step, another for each row: keys (with `either` elements too) or, for integers, elements."""

    def exactly(row: int) -> list[str | None]:
        document, step = documents[row].as_py(), steps[row].as_py()
        if document is None or step is None:
            return [None]
        one: Step = Index(step) if isinstance(step, int) else Either(step) if either else Key(step)
        return [spelled(look_up(exact_json.decode(document), (one,)), as_text=False)]

    if few(documents):
        return pa.array([exactly(row)[0] for row in range(len(documents))], pa.string())
    if pa.types.is_integer(steps.type):
        paths = pc.binary_join_element_wise("$[", pc.cast(steps, pa.string()), "]", "")
        paths = _only(pc.starts_with(documents, "["), paths)
    else:
        paths = _only(pc.starts_with(documents, "{"), pointers(steps))
        if either:
            paths = pc.coalesce(paths, _only(pc.starts_with(documents, "["), _element_paths(steps)))
    values = duck("json_extract(j, p)", pa.string(), j=documents, p=paths)
    return mended(documents, [values], exactly)[0]


def pointers(names: pa.Array) -> pa.Array:
    """Keys as JSON pointers of one step."""
    escaped = pc.replace_substring(pc.replace_substring(names, "~", "~0"), "/", "~1")
    return pc.binary_join_element_wise("/", escaped, "")


def _element_paths(steps: pa.Array) -> pa.Array:
    """`$[n]` for texts that are integers, null for others."""
    digits = pc.struct_field(pc.extract_regex(steps, r"^[ \t\n\v\f\r]*(?P<n>[+-]?[0-9]+)$"), "n")
    digits = _only(pc.less(pc.binary_length(digits), 12), digits)
    number = pc.cast(pc.utf8_ltrim(digits, "+"), pa.int64())
    number = pc.if_else(pc.less(pc.abs(number), 2**31), number, pa.scalar(None, pa.int64()))
    return pc.binary_join_element_wise("$[", pc.cast(number, pa.string()), "]", "")


def _only(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(mask, values, pa.scalar(None, values.type))
