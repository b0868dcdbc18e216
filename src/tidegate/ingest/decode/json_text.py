r"""JSON as it arrives: the values at some paths, exactly as if each document had been made canonical first.

DuckDB parses a document and gives the texts at all paths in 0.7 µs (40 fields, 600 bytes); making it canonical
takes 6. So paths are read from the text as it came, and what DuckDB sees otherwise than we do is found by
looking for its traces in the bytes (`expr/find.py`, 0.07 µs each), line by line:

| trace | why | then |
|---|---|---|
| `,]` `,}`, NaN, inf, `\u0000`, a long exponent | DuckDB takes them, we may not | read exactly |
| more than 400 brackets | may be too deep | read exactly |
| no value at all | DuckDB does not take it | read exactly: most likely an error |
| `"key"` twice | of equal keys DuckDB gives the first, jsonb keeps the last | are both in one map? then exactly |
| `"\u006bey":` | a key spelled with escapes is not seen by the line above | read exactly |
| the value may be a real: 1.50, 1e3, 0.1000000000000000001 | DuckDB gives the nearest double | spelled from its text |
| the value is a list or map | its keys have an order, its numbers a spelling | made canonical, or read exactly |

Each trace may be there for another reason (`"key"` in a nested map, `info` in a message): that costs time, not
exactness. *Exactly* is `exact_json.py`, one document at a time, 40 µs.

>>> from tidegate.expr.json_path import Key
>>> documents = pa.array(['{"a": 1.50}', '{"a": 1, "a": 2}', '{"a": 1'])
>>> found = read(documents, [Wanted((Key("a"),), as_text=True)])
>>> found.values[0].to_pylist(), found.errors.to_pylist()
(['1.5', '2', None], [None, None, 'invalid input syntax for type json'])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.config import MAX_NESTING
from tidegate.expr import exact_json
from tidegate.expr.canonical import FEW, canonical, replace_rows
from tidegate.expr.duck import duck
from tidegate.expr.exact_json import BadJson
from tidegate.expr.find import captured, matches
from tidegate.expr.json_path import (
    Either,
    Index,
    Path,
    Wanted,
    extract,
    first_letters,
    look_up,
    segments,
    spelled,
)
from tidegate.expr.layout import sql_list
from tidegate.expr.outcome import Errors, failing, raw_bytes
from tidegate.expr.specs import to_bools

_SPACE = r"[ \t\r\n]*"
_STARTS = r"(?:^|[:,\[ \t\r\n-])"
_TRACES = "|".join(
    [*(f"{a}\\{b}" for a in (",", " ", r"\t", r"\n", r"\r") for b in "]}"), r"(?i:nan|inf)", r"\\u"]
)
_LENIENT = rf",{_SPACE}[\]}}]|{_STARTS}(?i:nan|inf(?:inity)?){_SPACE}(?:[,\]}}]|$)|\\u0000"
_EXPONENT = r"[eE][+-]?[0-9][0-9][0-9]"
_LONG_EXPONENT = rf"{_STARTS}[0-9]+(?:\.[0-9]+)?{_EXPONENT}"
_MANY_ZEROS = "0" * 900
"""Behind a point these are an overflow, or with an exponent of two digits may be one."""
_ESCAPED_KEY = rf'\\u(?:[^"\\]|\\.)*"{_SPACE}:'
_REAL = r"^-?[0-9]+[.eE]"
_HOLDS_REAL = r"[0-9][.eE]|\\u00"
_PLAIN_REAL = r"^-?[0-9]+\.[0-9]+$"
_PLAIN_NAME = re.compile(r'[^"\\/\x00-\x1f]*\Z')


class Read(NamedTuple):
    """What documents gave: the values at each path, and what was wrong with those that failed."""

    values: list[pa.Array]
    errors: Errors


def read(documents: pa.Array, wanted: Sequence[Wanted]) -> Read:
    """The values at each of the paths of JSON as it came, none of it null; documents are parsed once."""
    if len(documents) <= FEW:
        return _exactly(documents, wanted)
    if not all(map(_direct, wanted)):
        whole = canonical(documents)
        return Read(_of_canonical(whole.values, wanted), whole.errors)
    values, parsed = _parsed(documents, wanted)
    traces = np.flatnonzero(matches(documents, _TRACES))
    doubt = ~parsed | _suspect(documents, traces)
    mending = _Mending(documents, wanted, traces, ~doubt)
    values = [mending.respelled(w, value) for w, value in zip(wanted, values, strict=True)]
    rows = np.flatnonzero(doubt | mending.unsure)
    if not len(rows):
        return Read(values, None)
    again = _exactly(documents.take(pa.array(rows)), wanted)
    messages = np.full(len(documents), None, object)
    if again.errors is not None:
        messages[rows] = again.errors.to_numpy(zero_copy_only=False)
    errors = pa.array(messages, pa.string())
    return Read(
        [replace_rows(old, rows, new) for old, new in zip(values, again.values, strict=True)],
        failing(errors.is_valid(), errors),
    )


def _of_canonical(whole: pa.Array, wanted: Sequence[Wanted]) -> list[pa.Array]:
    """The same of canonical documents; the empty path is the document."""
    paths = [w for w in wanted if w.path or w.as_text]
    found = dict(zip(paths, extract(whole, paths) if paths else [], strict=True))
    return [found.get(w, whole) for w in wanted]


def _exactly(documents: pa.Array, wanted: Sequence[Wanted]) -> Read:
    """One document after the other."""
    rows: list[list[str | None]] = []
    errors: list[str | None] = []
    for text in documents.to_pylist():
        row: list[str | None] = [None] * len(wanted)
        error = None
        try:
            document = exact_json.decode(exact_json.canonical_text(text))
            row = [spelled(look_up(document, w.path), as_text=w.as_text) for w in wanted]
        except BadJson as bad:
            error = str(bad)
        rows.append(row)
        errors.append(error)
    messages = pa.array(errors, pa.string())
    values = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(wanted))]
    return Read(values, failing(messages.is_valid(), messages))


# ---------------------------------------------------------------- what DuckDB says


def _direct(wanted: Wanted) -> bool:
    """Whether DuckDB has one word for the path."""
    return bool(wanted.path) and _word(wanted.path) is not None


def _word(path: Path) -> str | None:
    """The path as DuckDB spells it, if it can."""
    parts = segments(path)
    one = len(parts) == 1 and len(parts[0]) == 1 and "\0" not in parts[0][0]
    return parts[0][0] if one else None


def _parsed(documents: pa.Array, wanted: Sequence[Wanted]) -> tuple[list[pa.Array], np.ndarray]:
    """What DuckDB reads at each path, and which documents it takes."""
    if not wanted:
        return [], to_bools(duck("json_valid(j)", pa.bool_(), j=documents))
    values: list[pa.Array] = [None] * len(wanted)
    parsed = np.ones(len(documents), bool)
    for as_text, function in ((True, "json_extract_string"), (False, "json_extract")):
        places = [i for i, w in enumerate(wanted) if w.as_text == as_text]
        if not places:
            continue
        paths = sql_list(segments(wanted[i].path)[0][0] for i in places)
        found = duck(f"TRY({function}(j, {paths}))", pa.list_(pa.string()), j=documents)
        if found.null_count:
            parsed &= to_bools(found.is_valid())
            found = pc.fill_null(found, pa.scalar([None] * len(places), found.type))
        for at, i in enumerate(places):
            values[i] = found.flatten() if len(places) == 1 else pc.list_element(found, at)
    return values, parsed


def _suspect(documents: pa.Array, traces: np.ndarray) -> np.ndarray:
    """Where DuckDB may take what we do not."""
    found = np.zeros(len(documents), bool)
    found[_narrowed(documents, traces, _LENIENT)] = True
    exponents = np.flatnonzero(matches(documents, _EXPONENT))
    found[_narrowed(documents, exponents, _LONG_EXPONENT)] = True
    long = np.flatnonzero(to_bools(pc.greater(pc.binary_length(documents), 2 * MAX_NESTING)))
    if len(long):
        some = documents if len(long) == len(documents) else documents.take(pa.array(long))
        found[long] |= (_brackets(some) > MAX_NESTING) | matches(some, _MANY_ZEROS)
    return found


def _narrowed(documents: pa.Array, rows: np.ndarray, pattern: str) -> np.ndarray:
    """Those of the rows where `pattern` matches; others were ruled out by one that is found faster."""
    if not len(rows):
        return rows
    kept: np.ndarray = rows[matches(documents.take(pa.array(rows)), pattern)]
    return kept


def _brackets(documents: pa.Array) -> np.ndarray:
    """How many lists and maps are opened in each document, those in strings included."""
    at = np.flatnonzero((raw_bytes(documents) | 0x20) == ord("{"))  # [ and { differ in this bit alone
    ends = np.cumsum(pc.binary_length(documents).to_numpy())
    counts: np.ndarray = np.diff(np.searchsorted(at, ends), prepend=0)
    return counts


# ---------------------------------------------------------------- and what is made of it


class _Mending:
    """Which of DuckDB's values are not to be trusted, and others respelled. `unsure` grows as values are."""

    def __init__(
        self, documents: pa.Array, wanted: Sequence[Wanted], traces: np.ndarray, sure: np.ndarray
    ) -> None:
        self.documents = documents
        self.sure = sure
        names = {step.name for w in wanted for step in w.path if not isinstance(step, Index)}
        self.twice = {name: matches(documents, _twice(name)) & sure for name in names}
        self.unsure = np.zeros(len(documents), bool)
        self._doubt(_escaped_keys(documents, names, traces))
        for prefix, name in {
            (w.path[:i], step.name)
            for w in wanted
            for i, step in enumerate(w.path)
            if not isinstance(step, Index)
        }:
            self._doubt(self._equal_keys(prefix, name))

    def _doubt(self, rows: np.ndarray) -> None:
        self.unsure[rows] = True

    def _equal_keys(self, prefix: Path, name: str) -> np.ndarray:
        """The rows where a map has a key twice, or may have it."""
        rows = np.flatnonzero(self.twice[name])
        word = _word(prefix)
        if not len(rows) or (prefix and word is None):
            return rows
        asked = f"json_keys(j, {sql_list([word])[1:-1]})" if prefix and word else "json_keys(j)"
        keys = duck(asked, pa.list_(pa.string()), j=self.documents.take(pa.array(rows)))
        of = pc.list_parent_indices(keys).to_numpy()
        same = to_bools(pc.equal(keys.flatten(), name))
        equal: np.ndarray = rows[np.bincount(of[same], minlength=len(rows)) > 1]
        return equal

    def respelled(self, wanted: Wanted, values: pa.Array) -> pa.Array:
        """The values as canonical JSON gives them, where they are not `unsure`."""
        letters = first_letters(values)
        letters[~self.sure] = 0
        if not wanted.as_text:
            self._doubt(_among(np.flatnonzero(letters == ord('"')), values, r"\\u00"))
        numbers = np.flatnonzero((letters == ord("-")) | ((letters >= ord("0")) & (letters <= ord("9"))))
        values = self._reals(wanted, values, _among(numbers, values, _REAL))
        return self._nested(wanted, values, np.flatnonzero((letters | 0x20) == ord("{")))

    def _reals(self, wanted: Wanted, values: pa.Array, rows: np.ndarray) -> pa.Array:
        """Numbers with a point or an exponent are spelled from the text: `"key": 1.50`."""
        step = wanted.path[-1]
        if isinstance(step, Index) or (isinstance(step, Either) and step.at is not None):
            self._doubt(rows)
            return values
        several = self.twice[step.name][rows]
        self._doubt(rows[several])
        rows = rows[~several]
        if not len(rows):
            return values
        pattern = rf"{_quoted(step.name)}{_SPACE}:{_SPACE}(-?[0-9][0-9.eE+-]*)"
        found = captured(self.documents.take(pa.array(rows)), pattern)
        written = to_bools(found.is_valid())  # else it is a string that looks like a number
        if not wanted.as_text:
            self._doubt(rows[~written])
        rows = rows[written]
        return replace_rows(values, rows, _spelled(found.drop_null())) if len(rows) else values

    def _nested(self, wanted: Wanted, values: pa.Array, rows: np.ndarray) -> pa.Array:
        """Lists and maps are made canonical, unless their numbers may have been rounded."""
        if not len(rows):
            return values
        found = values.take(pa.array(rows))
        if wanted.as_text:  # or it is a string that starts with a bracket
            path = sql_list([_word(wanted.path) or ""])
            found = duck(f"json_extract(j, {path})[1]", pa.string(), j=self.documents.take(pa.array(rows)))
            nested = np.flatnonzero(first_letters(found) != ord('"'))
            rows, found = rows[nested], found.take(pa.array(nested))
        real = matches(found, _HOLDS_REAL)
        self._doubt(rows[real])
        rows, found = rows[~real], found.filter(pa.array(~real))
        return replace_rows(values, rows, canonical(found).values) if len(rows) else values


def _among(rows: np.ndarray, values: pa.Array, pattern: str) -> np.ndarray:
    """Those of the rows whose value matches."""
    if not len(rows):
        return rows
    some = values if len(rows) == len(values) else values.take(pa.array(rows))
    found: np.ndarray = rows[to_bools(pc.match_substring_regex(some, pattern))]
    return found


def _escaped_keys(documents: pa.Array, names: Iterable[str], traces: np.ndarray) -> np.ndarray:
    """Where a key may be one of these names, spelled with escapes."""
    if not all(map(_PLAIN_NAME.match, names)):
        return np.flatnonzero(matches(documents, r"\\"))
    return _narrowed(documents, traces, _ESCAPED_KEY)


def _quoted(name: str) -> str:
    """A pattern for a key between quotes, in words that RE2 and Rust share."""
    return '"' + "".join(c if c.isalnum() or ord(c) > 127 else f"\\x{{{ord(c):x}}}" for c in name) + '"'


def _twice(name: str) -> str:
    return f"(?s){_quoted(name)}.*{_quoted(name)}"


def _spelled(numbers: pa.Array) -> pa.Array:
    """Numbers as JSON has them, as canonical JSON has them."""
    cut = pc.utf8_rtrim(pc.utf8_rtrim(numbers, "0"), ".")
    cut = pc.if_else(pc.equal(cut, "-0"), "0", cut)
    rows = np.flatnonzero(~to_bools(pc.match_substring_regex(numbers, _PLAIN_REAL)))
    if not len(rows):
        return cut
    others = [exact_json.spell(Decimal(text)) for text in numbers.take(pa.array(rows)).to_pylist()]
    return replace_rows(cut, rows, pa.array(others, pa.string()))
