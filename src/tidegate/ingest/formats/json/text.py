r"""Reads values at paths of raw JSON, with the same results as for canonical JSON.

DuckDB parses a document and returns the texts at all paths in 0.7 µs (40 fields, 600 bytes); making it canonical takes 6 µs.
So paths are read from the original text. Cases where DuckDB differs from jsonb are detected by their traces in the bytes
(`expr/primitives/text_search.py`, 0.07 µs each), document by document:

| trace | why | then |
|---|---|---|
| `,]` `,}`, NaN, inf, `\u0000`, a long exponent | DuckDB accepts them, jsonb may not | read exactly |
| more than 400 brackets | may be too deep | read exactly |
| no value at all | DuckDB does not accept the document | read exactly: most likely an error |
| `"key"` twice | DuckDB returns the first of equal keys, jsonb the last | read exactly if both are in one map |
| `"\u006bey":` | the row above does not match a key with escapes | read exactly |
| the value may be a real: 1.50, 1e3, 0.1000000000000000001 | DuckDB returns the nearest double | formatted from its text |
| the value is a list or map | canonical JSON orders its keys and formats its numbers | made canonical, or read exactly |

A trace may have another reason (`"key"` in a nested map, `info` in a message): that costs time, but the result is the same.
*Exactly* means by `exact_json.py`, one document at a time, 40 µs.

>>> documents = pa.array(['{"a": 1.50}', '{"a": 1, "a": 2}', '{"a": 1'])
>>> result = read_paths(documents, [PathRequest((json_path.KeyStep("a"),), as_text=True)])
>>> result.values[0].to_pylist(), result.errors.to_pylist()
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
from tidegate.expr.model import outcome, to_bools
from tidegate.expr.primitives import (
    InvalidJson,
    PathRequest,
    canonical_json,
    duckdb_eval,
    exact_json,
    json_path,
    sql_list,
    text_search,
)

_SPACE = r"[ \t\r\n]*"
_STARTS = r"(?:^|[:,\[ \t\r\n-])"
_TRACES = "|".join(
    [*(f"{a}\\{b}" for a in (",", " ", r"\t", r"\n", r"\r") for b in "]}"), r"(?i:nan|inf)", r"\\u"]
)
_LENIENT = rf",{_SPACE}[\]}}]|{_STARTS}(?i:nan|inf(?:inity)?){_SPACE}(?:[,\]}}]|$)|\\u0000"
_EXPONENT = r"[eE][+-]?[0-9][0-9][0-9]"
_LONG_EXPONENT = rf"{_STARTS}[0-9]+(?:\.[0-9]+)?{_EXPONENT}"
_ZERO_RUN = "0" * 900
"""After a decimal point, so many zeros overflow, or may do so with a two-digit exponent."""
_ESCAPED_KEY = rf'\\u(?:[^"\\]|\\.)*"{_SPACE}:'
_REAL = r"^-?[0-9]+[.eE]"
_HOLDS_REAL = r"[0-9][.eE]|\\u00"
_PLAIN_REAL = r"^-?[0-9]+\.[0-9]+$"
_PLAIN_NAME = re.compile(r'[^"\\/\x00-\x1f]*\Z')


class PathValues(NamedTuple):
    """The values at each path of some documents, and the errors of those that failed."""

    values: list[pa.Array]
    errors: outcome.Errors


def read_paths(documents: pa.Array, wanted: Sequence[PathRequest]) -> PathValues:
    """Reads the values at each path of original JSON texts without nulls; parses each document once."""
    if len(documents) <= canonical_json.MAX_ROWS_ONE_BY_ONE:
        return _read_exactly(documents, wanted)
    if not all(map(_has_duckdb_path, wanted)):
        whole = canonical_json.to_canonical(documents)
        return PathValues(_read_canonical(whole.values, wanted), whole.errors)
    values, parsed = _read_by_duckdb(documents, wanted)
    traces = np.flatnonzero(text_search.matches_regex(documents, _TRACES))
    doubt = ~parsed | _suspect(documents, traces)
    correction = _Correction(documents, wanted, traces, ~doubt)
    values = [correction.correct(w, value) for w, value in zip(wanted, values, strict=True)]
    rows = np.flatnonzero(doubt | correction.unsure)
    if not len(rows):
        return PathValues(values, None)
    again = _read_exactly(documents.take(pa.array(rows)), wanted)
    messages = np.full(len(documents), None, object)
    if again.errors is not None:
        messages[rows] = again.errors.to_numpy(zero_copy_only=False)
    errors = pa.array(messages, pa.string())
    return PathValues(
        [canonical_json.replace_rows(old, rows, new) for old, new in zip(values, again.values, strict=True)],
        outcome.failing(errors.is_valid(), errors),
    )


def _read_canonical(whole: pa.Array, wanted: Sequence[PathRequest]) -> list[pa.Array]:
    """Reads paths of canonical documents; the empty path is the document."""
    paths = [w for w in wanted if w.path or w.as_text]
    values = dict(zip(paths, json_path.extract(whole, paths) if paths else [], strict=True))
    return [values.get(w, whole) for w in wanted]


def _read_exactly(documents: pa.Array, wanted: Sequence[PathRequest]) -> PathValues:
    """Reads one document after the other, exactly."""
    rows: list[list[str | None]] = []
    errors: list[str | None] = []
    for text in documents.to_pylist():
        row: list[str | None] = [None] * len(wanted)
        error = None
        try:
            document = exact_json.decode(exact_json.canonical_text(text))
            row = [json_path.render(json_path.look_up(document, w.path), as_text=w.as_text) for w in wanted]
        except InvalidJson as bad:
            error = str(bad)
        rows.append(row)
        errors.append(error)
    messages = pa.array(errors, pa.string())
    values = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(wanted))]
    return PathValues(values, outcome.failing(messages.is_valid(), messages))


# ---------------------------------------------------------------- DuckDB's results


def _has_duckdb_path(wanted: PathRequest) -> bool:
    """Whether DuckDB can express the path as a single path."""
    return bool(wanted.path) and _duckdb_path(wanted.path) is not None


def _duckdb_path(path: json_path.JsonPath) -> str | None:
    """The path in DuckDB's syntax, or None if it has no single path for it."""
    parts = json_path.segments(path)
    single = len(parts) == 1 and len(parts[0]) == 1 and "\0" not in parts[0][0]
    return parts[0][0] if single else None


def _read_by_duckdb(documents: pa.Array, wanted: Sequence[PathRequest]) -> tuple[list[pa.Array], np.ndarray]:
    """Reads each path with DuckDB; also returns which documents it accepts."""
    if not wanted:
        return [], to_bools(duckdb_eval("json_valid(j)", pa.bool_(), j=documents))
    values: list[pa.Array] = [None] * len(wanted)
    parsed = np.ones(len(documents), bool)
    for as_text, function in ((True, "json_extract_string"), (False, "json_extract")):
        places = [i for i, w in enumerate(wanted) if w.as_text == as_text]
        if not places:
            continue
        paths = sql_list([json_path.segments(wanted[i].path)[0][0] for i in places])
        lists = duckdb_eval(f"TRY({function}(j, {paths}))", pa.list_(pa.string()), j=documents)
        if lists.null_count:
            parsed &= to_bools(lists.is_valid())
            lists = pc.fill_null(lists, pa.scalar([None] * len(places), lists.type))
        for at, i in enumerate(places):
            values[i] = lists.flatten() if len(places) == 1 else pc.list_element(lists, at)
    return values, parsed


def _suspect(documents: pa.Array, traces: np.ndarray) -> np.ndarray:
    """Which documents DuckDB may accept although jsonb does not."""
    suspect = np.zeros(len(documents), bool)
    suspect[_matching_rows(documents, traces, _LENIENT)] = True
    exponents = np.flatnonzero(text_search.matches_regex(documents, _EXPONENT))
    suspect[_matching_rows(documents, exponents, _LONG_EXPONENT)] = True
    long = np.flatnonzero(to_bools(pc.greater(pc.binary_length(documents), 2 * MAX_NESTING)))
    if len(long):
        texts = documents if len(long) == len(documents) else documents.take(pa.array(long))
        suspect[long] |= (_brackets(texts) > MAX_NESTING) | text_search.matches_regex(texts, _ZERO_RUN)
    return suspect


def _matching_rows(documents: pa.Array, rows: np.ndarray, pattern: str) -> np.ndarray:
    """Selects the rows where `pattern` matches; a faster pattern has ruled out all other rows."""
    if not len(rows):
        return rows
    matching: np.ndarray = rows[text_search.matches_regex(documents.take(pa.array(rows)), pattern)]
    return matching


def _brackets(documents: pa.Array) -> np.ndarray:
    """Counts the opening brackets of lists and maps in each document, including those in strings."""
    at = np.flatnonzero((outcome.raw_bytes(documents) | 0x20) == ord("{"))  # [ and { differ only in this bit
    ends = np.cumsum(pc.binary_length(documents).to_numpy())
    counts: np.ndarray = np.diff(np.searchsorted(at, ends), prepend=0)
    return counts


# ---------------------------------------------------------------- corrections


class _Correction:
    """Corrects DuckDB's values, and collects in `unsure` the documents that must be read exactly."""

    def __init__(
        self, documents: pa.Array, wanted: Sequence[PathRequest], traces: np.ndarray, sure: np.ndarray
    ) -> None:
        self.documents = documents
        self.sure = sure
        names = {step.name for w in wanted for step in w.path if not isinstance(step, json_path.IndexStep)}
        self.repeated = {
            name: text_search.matches_regex(documents, _repeated_key(name)) & sure for name in names
        }
        self.unsure = np.zeros(len(documents), bool)
        self._doubt(_escaped_keys(documents, names, traces))
        for prefix, name in {
            (w.path[:i], step.name)
            for w in wanted
            for i, step in enumerate(w.path)
            if not isinstance(step, json_path.IndexStep)
        }:
            self._doubt(self._equal_keys(prefix, name))

    def _doubt(self, rows: np.ndarray) -> None:
        self.unsure[rows] = True

    def _equal_keys(self, prefix: json_path.JsonPath, name: str) -> np.ndarray:
        """The rows where a map has, or may have, a key twice."""
        rows = np.flatnonzero(self.repeated[name])
        word = _duckdb_path(prefix)
        if not len(rows) or (prefix and word is None):
            return rows
        keys_call = f"json_keys(j, {sql_list([word])[1:-1]})" if prefix and word else "json_keys(j)"
        keys = duckdb_eval(keys_call, pa.list_(pa.string()), j=self.documents.take(pa.array(rows)))
        of = pc.list_parent_indices(keys).to_numpy()
        same = to_bools(pc.equal(keys.flatten(), name))
        equal: np.ndarray = rows[np.bincount(of[same], minlength=len(rows)) > 1]
        return equal

    def correct(self, wanted: PathRequest, values: pa.Array) -> pa.Array:
        """Converts values to canonical JSON, except in rows that are `unsure`."""
        letters = json_path.first_bytes(values)
        letters[~self.sure] = 0
        if not wanted.as_text:
            self._doubt(_rows_with_value(np.flatnonzero(letters == ord('"')), values, r"\\u00"))
        numbers = np.flatnonzero((letters == ord("-")) | ((letters >= ord("0")) & (letters <= ord("9"))))
        values = self._reals(wanted, values, _rows_with_value(numbers, values, _REAL))
        return self._nested(wanted, values, np.flatnonzero((letters | 0x20) == ord("{")))

    def _reals(self, wanted: PathRequest, values: pa.Array, rows: np.ndarray) -> pa.Array:
        """Formats numbers with a point or an exponent from the document's text: `"key": 1.50`."""
        step = wanted.path[-1]
        if isinstance(step, json_path.IndexStep) or (
            isinstance(step, json_path.KeyOrIndexStep) and step.at is not None
        ):
            self._doubt(rows)
            return values
        several = self.repeated[step.name][rows]
        self._doubt(rows[several])
        rows = rows[~several]
        if not len(rows):
            return values
        pattern = rf"{_key_pattern(step.name)}{_SPACE}:{_SPACE}(-?[0-9][0-9.eE+-]*)"
        numbers = text_search.capture_group(self.documents.take(pa.array(rows)), pattern)
        written = to_bools(numbers.is_valid())  # otherwise it is a string that looks like a number
        if not wanted.as_text:
            self._doubt(rows[~written])
        rows = rows[written]
        return (
            canonical_json.replace_rows(values, rows, _canonical_numbers(numbers.drop_null()))
            if len(rows)
            else values
        )

    def _nested(self, wanted: PathRequest, values: pa.Array, rows: np.ndarray) -> pa.Array:
        """Makes lists and maps canonical, unless their numbers may have been rounded."""
        if not len(rows):
            return values
        texts = values.take(pa.array(rows))
        if wanted.as_text:  # the value may be a string that starts with a bracket
            path = sql_list([_duckdb_path(wanted.path) or ""])
            texts = duckdb_eval(
                f"json_extract(j, {path})[1]", pa.string(), j=self.documents.take(pa.array(rows))
            )
            nested = np.flatnonzero(json_path.first_bytes(texts) != ord('"'))
            rows, texts = rows[nested], texts.take(pa.array(nested))
        real = text_search.matches_regex(texts, _HOLDS_REAL)
        self._doubt(rows[real])
        rows, texts = rows[~real], texts.filter(pa.array(~real))
        return (
            canonical_json.replace_rows(values, rows, canonical_json.to_canonical(texts).values)
            if len(rows)
            else values
        )


def _rows_with_value(rows: np.ndarray, values: pa.Array, pattern: str) -> np.ndarray:
    """Selects the rows whose value matches `pattern`."""
    if not len(rows):
        return rows
    candidates = values if len(rows) == len(values) else values.take(pa.array(rows))
    matching: np.ndarray = rows[to_bools(pc.match_substring_regex(candidates, pattern))]
    return matching


def _escaped_keys(documents: pa.Array, names: Iterable[str], traces: np.ndarray) -> np.ndarray:
    """The rows where a key may be one of these names, written with escapes."""
    if not all(map(_PLAIN_NAME.match, names)):
        return np.flatnonzero(text_search.matches_regex(documents, r"\\"))
    return _matching_rows(documents, traces, _ESCAPED_KEY)


def _key_pattern(name: str) -> str:
    """A pattern for a key between quotes, in a syntax that RE2 and Rust share."""
    return '"' + "".join(c if c.isalnum() or ord(c) > 127 else f"\\x{{{ord(c):x}}}" for c in name) + '"'


def _repeated_key(name: str) -> str:
    """A pattern for texts that contain a key twice."""
    return f"(?s){_key_pattern(name)}.*{_key_pattern(name)}"


def _canonical_numbers(numbers: pa.Array) -> pa.Array:
    """Converts JSON numbers to their canonical form."""
    cut = pc.utf8_rtrim(pc.utf8_rtrim(numbers, "0"), ".")
    cut = pc.if_else(pc.equal(cut, "-0"), "0", cut)
    rows = np.flatnonzero(~to_bools(pc.match_substring_regex(numbers, _PLAIN_REAL)))
    if not len(rows):
        return cut
    others = [exact_json.number_text(Decimal(text)) for text in numbers.take(pa.array(rows)).to_pylist()]
    return canonical_json.replace_rows(cut, rows, pa.array(others, pa.string()))
