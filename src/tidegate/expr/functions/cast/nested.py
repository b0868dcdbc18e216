"""Casts of arrays and records: to and from text, and element by element or field by field.

An array column is one flat run of elements and a size for each row. A cast converts the flat run with the cast of the
element types and applies the sizes to the result; a row fails with the error of its first failed element:

    '{1,x,3}'::int8[]   →   elements 1, x, 3   →   1, error, 3   →   invalid input syntax for type bigint: "x"

Text forms are PostgreSQL's: `{1,NULL,"a b"}` and `(1,,"a b")`. Literals without quotes and backslashes are split by
Arrow; the others (and arrays of arrays) are parsed one distinct text at a time by the small parser at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.cast.text import fit_varchar
from tidegate.expr.model.function import MODERATE, NEVER, REGISTRY, cast
from tidegate.expr.model.outcome import (
    Datum,
    Errors,
    Outcome,
    failing,
    first_error,
    length,
    spread,
    to_bools,
    with_errors,
)
from tidegate.expr.model.types import SCALARS, TEXT, Kind, Type, array, record
from tidegate.expr.primitives.cancel import checked

SOME_ARRAY, SOME_RECORD = Type(Kind.ARRAY), Type(Kind.RECORD)
"""Any array and any record, in declarations: casts are looked up by kind."""


# ---------------------------------------------------------------- the parts of a list


def sizes_of(lists: pa.Array) -> np.ndarray:
    """The number of elements of each row, 0 where it is null."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)


def rows_of(sizes: np.ndarray) -> np.ndarray:
    """The row of each element of the flat run."""
    return np.repeat(np.arange(len(sizes)), sizes)


def starts_of(sizes: np.ndarray) -> np.ndarray:
    """The position in the flat run where each row's elements start."""
    return np.asarray(np.cumsum(sizes) - sizes, np.int64)


def make_lists(flat: pa.Array, sizes: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """Lists from their flat run, null where `valid` is false (the size must be 0 there)."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(offsets, flat, type=pa.list_(flat.type), mask=mask)


def valid_rows(values: pa.Array) -> np.ndarray:
    """Where values are not null, as a numpy array."""
    return to_bools(values.is_valid())


def cast_values(values: pa.Array, source: Type, target: Type) -> Outcome:
    """`values` cast at run time by the declared cast between their kinds."""
    if source == target:
        return Outcome(values)
    function = REGISTRY.cast(source.kind, target.kind)
    if function is None:
        # The expression was built with this cast, so both types are of the same kind.
        return Outcome(values)
    outcome = function.run((values,), target, (source,))
    if outcome.errors is None or function.lenient:
        return outcome
    return Outcome(
        outcome.values, pc.if_else(values.is_valid(), outcome.errors, pa.scalar(None, pa.string()))
    )


def output_text(values: pa.Array, type_: Type) -> pa.Array:
    """The text of a value inside an array or a record, as PostgreSQL writes it: `t` and `f` for booleans."""
    if type_.kind is Kind.BOOL:
        return pc.if_else(values, "t", "f")
    return cast_values(values, type_, TEXT).values


def _type_of(arrow: pa.DataType) -> Type:
    """The type of Arrow values whose type is not passed on; jsonb appears as text, mz_timestamp as int8."""
    if pa.types.is_list(arrow):
        return array(_type_of(arrow.value_type))
    if pa.types.is_struct(arrow):
        return record(*((field.name, _type_of(field.type)) for field in arrow))
    if pa.types.is_decimal(arrow):
        return Type(Kind.NUMERIC, arrow.precision, arrow.scale)
    return next(type_ for type_ in SCALARS if type_.arrow == arrow)


def _source(values: Datum, types: Sequence[Type]) -> Type:
    return types[0] if types else _type_of(values.type)


# ---------------------------------------------------------------- arrays


@cast(SOME_ARRAY, SOME_ARRAY)
def array_to_array(values: pa.Array, out: Type, types: Sequence[Type] = ()) -> Outcome:
    """An array with every element cast."""
    source = _source(values, types)
    assert source.element is not None
    assert out.element is not None
    sizes = sizes_of(values)
    flat, errors = cast_values(values.flatten(), source.element, out.element)
    return with_errors(make_lists(flat, sizes, valid_rows(values)), _by_row(errors, sizes))


def _by_row(errors: Errors, sizes: np.ndarray) -> Errors:
    """The first error among the elements of each row."""
    if errors is None or errors.null_count == len(errors):
        return None
    failed = np.flatnonzero(valid_rows(errors))
    rows, first = np.unique(rows_of(sizes)[failed], return_index=True)
    at = np.zeros(len(sizes), np.int64)
    at[rows] = failed[first]
    return errors.take(pa.array(at, mask=~np.isin(np.arange(len(sizes)), rows)))


@cast(SOME_ARRAY, TEXT, errors=NEVER, cost=MODERATE)
def array_to_text(values: pa.Array, out: Type = TEXT, types: Sequence[Type] = ()) -> pa.Array:
    """An array as PostgreSQL writes it, `{1,NULL,"a b"}`."""
    element = _source(values, types).element
    assert element is not None
    flat = output_text(values.flatten(), element)
    if element.kind is not Kind.ARRAY:
        flat = _quote_elements(flat, r'^$|[{}",\\ \t\n\v\f\r]|^(?i:null)$', r"\\")
    joined = pc.binary_join(make_lists(pc.fill_null(flat, "NULL"), sizes_of(values), valid_rows(values)), ",")
    return fit_varchar(pc.binary_join_element_wise("{", joined, "}", ""), out)


def _quote_elements(texts: pa.Array, needs: str, quote: str) -> pa.Array:
    r"""Texts in double quotes where needed; a quote inside follows `quote`, a backslash is doubled."""
    inner = pc.replace_substring(texts, "\\", "\\\\")
    inner = pc.replace_substring_regex(inner, '"', quote + '"')
    return pc.if_else(
        pc.match_substring_regex(texts, needs), pc.binary_join_element_wise('"', inner, '"', ""), texts
    )


@cast(TEXT, SOME_ARRAY, cost=MODERATE)
def text_to_array(values: pa.Array, out: Type) -> Outcome:
    """An array read from text such as `{1,NULL,"a b"}`."""
    assert out.element is not None
    shape = _text_shape(out)
    odd = pc.match_substring_regex(values, r'["\\]')
    plain, malformed = _split(values, "{", "}", null="null")
    if out.element.kind is Kind.ARRAY:
        odd, malformed = pa.repeat(pa.scalar(True), len(values)), pa.repeat(pa.scalar(False), len(values))
        plain = pa.nulls(len(values), shape.arrow)
    lists, malformed = _parse_odd_rows(values, plain, malformed, odd, shape)
    unreadable = failing(
        malformed, pc.binary_join_element_wise('malformed array literal: "', values, '"', "")
    )
    done, errors = array_to_array(with_errors(lists, unreadable).values, out, (shape,))
    return with_errors(done, first_error(unreadable, errors))


def _text_shape(type_: Type) -> Type:
    """The array type with text elements: what a literal is before its elements are read."""
    if type_.kind is Kind.ARRAY:
        assert type_.element is not None
        return array(_text_shape(type_.element))
    return TEXT


def _split(values: pa.Array, opening: str, closing: str, null: str) -> tuple[pa.Array, pa.Array]:
    """Unquoted literals as lists of trimmed pieces, and where they are malformed."""
    trimmed = pc.ascii_trim_whitespace(values)
    framed = pc.and_(pc.starts_with(trimmed, opening), pc.ends_with(trimmed, closing))
    framed = pc.and_(framed, pc.greater(pc.binary_length(trimmed), 1))
    body = pc.if_else(framed, pc.utf8_slice_codeunits(trimmed, 1, -1), pa.scalar(None, pa.string()))
    none = pc.equal(pc.ascii_trim_whitespace(body), "")
    lists = pc.split_pattern(body, ",")
    sizes = np.where(to_bools(pc.fill_null(none, False)), 0, sizes_of(lists))
    pieces = lists.flatten()
    keep = to_bools(pc.fill_null(pc.invert(none), True))[rows_of(sizes_of(lists))]
    pieces = pc.ascii_trim_whitespace(pieces.filter(pa.array(keep, pa.bool_())))
    bad = np.zeros(len(values), bool)
    bad[rows_of(sizes)[to_bools(pc.or_(pc.equal(pieces, ""), pc.match_substring_regex(pieces, r"[{}]")))]] = (
        True
    )
    pieces = pc.if_else(pc.equal(pc.utf8_lower(pieces), null), pa.scalar(None, pa.string()), pieces)
    malformed = pc.or_(pc.invert(framed), pa.array(bad))
    return make_lists(pieces, sizes, to_bools(body.is_valid())), pc.fill_null(malformed, False)


def _parse_odd_rows(
    values: pa.Array, plain: pa.Array, malformed: pa.Array, odd: pa.Array, shape: Type
) -> tuple[pa.Array, pa.Array]:
    """`plain`, with the rows marked `odd` read by the parser instead."""
    where = np.flatnonzero(to_bools(odd) & valid_rows(values))
    if not len(where):
        return plain, malformed
    texts = values.take(pa.array(where)).dictionary_encode()
    read = [parse_array(text, _depth(shape)) for text in checked(texts.dictionary.to_pylist())]
    parsed = pa.array(read, shape.arrow).take(texts.indices)
    at = np.arange(len(values))
    at[where] = len(values) + np.arange(len(where))
    bad = to_bools(malformed).copy()
    bad[where] = ~valid_rows(parsed)
    return pa.concat_arrays([plain, parsed]).take(pa.array(at)), pa.array(bad)


def _depth(type_: Type) -> int:
    return 0 if type_.element is None else 1 + _depth(type_.element)


# ---------------------------------------------------------------- records


@cast(SOME_RECORD, SOME_RECORD)
def record_to_record(values: pa.Array, out: Type, types: Sequence[Type] = ()) -> Outcome:
    """A record with every field cast, by position."""
    source = _source(values, types)
    outcomes = [
        cast_values(pc.struct_field(values, [i]), from_type, to_type)
        for i, ((_, from_type), (_, to_type)) in enumerate(zip(source.fields, out.fields, strict=True))
    ]
    return _records(outcomes, out, values)


def _records(outcomes: Sequence[Outcome], out: Type, values: pa.Array, own: Errors = None) -> Outcome:
    """Records from the outcomes of their fields, null where `values` are; a field's error fails the row."""
    records = make_records([values for values, _ in outcomes], out, valid_rows(values))
    return with_errors(records, first_error(own, *(errors for _, errors in outcomes)))


def make_records(fields: Sequence[pa.Array], type_: Type, valid: np.ndarray | None = None) -> pa.Array:
    """Records from their fields, null where `valid` is false."""
    mask = None if valid is None or valid.all() else pa.array(~valid)
    names = [pa.field(name, field_type.arrow) for name, field_type in type_.fields]
    return pa.StructArray.from_arrays(list(fields), fields=names, mask=mask)


@cast(SOME_RECORD, TEXT, errors=NEVER, cost=MODERATE)
def record_to_text(values: pa.Array, out: Type = TEXT, types: Sequence[Type] = ()) -> pa.Array:
    """A record as PostgreSQL writes it, `(1,,"a b")`."""
    texts = []
    for i, (_, type_) in enumerate(_source(values, types).fields):
        text = output_text(pc.struct_field(values, [i]), type_)
        texts.append(pc.fill_null(_quote_elements(text, r'^$|[()",\\ \t\n\v\f\r]', '"'), ""))
    body = pc.binary_join_element_wise(*texts, ",")
    framed = pc.binary_join_element_wise("(", body, ")", "")
    return fit_varchar(pc.if_else(values.is_valid(), framed, pa.scalar(None, pa.string())), out)


@cast(TEXT, SOME_RECORD, cost=MODERATE)
def text_to_record(values: pa.Array, out: Type) -> Outcome:
    """A record read from text such as `(1,,"a b")`; each distinct text is read once."""
    texts = values.dictionary_encode()
    read = [None if text is None else parse_record(text) for text in checked(texts.dictionary.to_pylist())]
    width = len(out.fields)
    bad = pa.array([row is None or len(row) != width for row in read], pa.bool_()).take(texts.indices)
    outcomes = []
    for i, (_, type_) in enumerate(out.fields):
        column = pa.array([None if row is None or len(row) != width else row[i] for row in read], pa.string())
        outcomes.append(cast_values(column.take(texts.indices), TEXT, type_))
    message = pc.binary_join_element_wise('malformed record literal: "', values, '"', "")
    return _records(outcomes, out, values, failing(pc.fill_null(bad, False), message))


def spread_rows(*args: Datum) -> list[pa.Array]:
    """All arguments as arrays of the same length."""
    n = length(*args)
    return [spread(arg, n) for arg in args]


# ---------------------------------------------------------------- the parser of odd literals

_BLANK = " \t\n\v\f\r"
_ELEMENT = re.compile(r'[ \t\n\v\f\r]*(?:"((?:[^"\\]|\\.)*)"|((?:[^"{},\\]|\\.)+))', re.DOTALL)
_FIELD = re.compile(r'(?:"(?:[^"\\]|\\.|"")*"|[^"\\,)]|\\.)*', re.DOTALL)
_PIECE = re.compile(r'"((?:[^"\\]|\\.|"")*)"|((?:[^"\\]|\\.)+)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_array(text: str, depth: int) -> list[Any] | None:
    """`{a,{b},"c"}` as nested lists of text and None; None if malformed or not `depth` levels deep."""
    reader = _ArrayReader(text)
    result = reader.array(depth)
    return result if result is not None and not text[reader.at :].strip(_BLANK) else None


class _ArrayReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, symbol: str) -> bool:
        """Consumes the next symbol if it is `symbol`; returns whether it was."""
        at = self.at
        while self.text[at : at + 1] in _BLANK and at < len(self.text):
            at += 1
        if self.text[at : at + 1] != symbol:
            return False
        self.at = at + 1
        return True

    def array(self, depth: int) -> list[Any] | None:
        """Reads an array of `depth` levels; None if there is none."""
        if not self.take("{"):
            return None
        items: list[Any] = []
        if self.take("}"):
            return items
        while True:
            inner = self.array(depth - 1) if depth > 1 else self.element()
            if inner is None:
                return None
            items.append(inner if depth > 1 else inner[0])
            if self.take("}"):
                return items
            if not self.take(","):
                return None

    def element(self) -> list[Any] | None:
        """Reads one element, in a list since it may be None; None if there is no element."""
        match = _ELEMENT.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        if match[1] is not None:
            return [_ESCAPED.sub(r"\1", match[1])]
        plain = match[2].strip(_BLANK)
        return [None if plain.lower() == "null" else _ESCAPED.sub(r"\1", plain)] if plain else None


def parse_record(text: str) -> list[str | None] | None:
    """`(a,,"b c")` as a list of text and None; None if it is malformed."""
    inside = text.strip(_BLANK)
    if not inside.startswith("("):
        return None
    fields: list[str | None] = []
    at = 1
    while True:
        match = _FIELD.match(inside, at)
        assert match is not None
        fields.append(_PIECE.sub(_unquoted, match[0]) if match[0] else None)
        at = match.end() + 1
        if inside[at - 1 : at] == ")":
            return fields if at == len(inside) else None
        if inside[at - 1 : at] != ",":
            return None


def _unquoted(match: re.Match[str]) -> str:
    body = match[2] if match[1] is None else match[1].replace('""', '"')
    return _ESCAPED.sub(r"\1", body)
