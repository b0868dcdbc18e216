"""Arrays to text and back: array_to_string and string_to_array.

array_to_string('{a,NULL,b}', '-')        a-b
array_to_string('{a,NULL,b}', '-', '?')   a-?-b
string_to_array('a-b', '-')               {a,b}
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import any_of
from tidegate.expr.functions.cast.nested import (
    make_lists,
    output_text,
    rows_of,
    sizes_of,
    spread_rows,
    valid_rows,
)
from tidegate.expr.model.function import ARRAY_A, MODERATE, NEVER, scalar
from tidegate.expr.model.outcome import Datum, spread
from tidegate.expr.model.types import TEXT, Kind, Type, array
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.text_search import split_text


@scalar("array_to_string", (ARRAY_A, TEXT), TEXT, errors=NEVER, cost=MODERATE, stable=True)
def array_to_string(arrays: Datum, separator: Datum, types: Sequence[Type]) -> pa.Array:
    """The elements as text with a separator between them; NULL elements are left out."""
    return _to_string(arrays, separator, None, types[0])


@scalar(
    "array_to_string", (ARRAY_A, TEXT, TEXT), TEXT, lenient=True, errors=NEVER, cost=MODERATE, stable=True,
    transfer=lambda out, *args: Specs.anything(out, error=any_of([a.error for a in args])),
)  # fmt: skip
def array_to_string_with_null(
    arrays: Datum, separator: Datum, null: Datum, types: Sequence[Type]
) -> pa.Array:
    """The elements as text with a separator between them; the last argument stands for NULL."""
    return _to_string(arrays, separator, null, types[0])


def _to_string(arrays: Datum, separator: Datum, null: Datum | None, type_: Type) -> pa.Array:
    arrays, separator = (
        spread_rows(arrays, separator) if null is None else spread_rows(arrays, separator, null)[:2]
    )
    valid, sizes, flat = valid_rows(arrays), sizes_of(arrays), arrays.flatten()
    while (
        type_.element is not None and type_.element.kind is Kind.ARRAY
    ):  # inner arrays are written without braces
        sizes, type_ = _outer_sizes(sizes, sizes_of(flat)), type_.element
        flat = flat.flatten()
    assert type_.element is not None
    text, row = output_text(flat, type_.element), rows_of(sizes)
    if null is not None:
        text = pc.coalesce(text, spread(null, len(arrays)).take(pa.array(row)))
    sizes = np.bincount(row[valid_rows(text)], minlength=len(arrays))
    return pc.binary_join(make_lists(text.drop_null(), sizes, valid), separator)


def _outer_sizes(sizes: np.ndarray, inner: np.ndarray) -> np.ndarray:
    total, ends = np.concatenate([[0], np.cumsum(inner)]), np.cumsum(sizes)
    return np.asarray(total[ends] - total[ends - sizes], np.int64)


def string_to_array_transfer(out: Type, text: Specs, separator: Specs, *null: Specs) -> Specs:
    """string_to_array over containers: NULL only for NULL text."""
    error = any_of([a.error for a in (text, separator, *null)])
    return Specs.anything(out, null=text.null, error=error, empty=text.empty)


@scalar(
    "string_to_array", (TEXT, TEXT), array(TEXT), overloads=[((TEXT, TEXT, TEXT), array(TEXT))],
    lenient=True, errors=NEVER, transfer=string_to_array_transfer, cost=MODERATE, stable=True,
)  # fmt: skip
def string_to_array(text: Datum, separator: Datum, null: Datum | None = None) -> pa.Array:
    """The parts of a text between separators; parts equal to the last argument are NULL."""
    args = (text, separator) if null is None else (text, separator, null)
    text, separator = spread_rows(*args)[:2]
    keys = separator.dictionary_encode()
    at = pc.fill_null(keys.indices, -1).to_numpy(zero_copy_only=False)
    rising = np.argsort(at, kind="stable")
    codes, starts = np.unique(at[rising], return_index=True)
    parts, sorted_text = [pa.nulls(0, pa.list_(pa.string()))], text.take(pa.array(rising))
    for i, code in enumerate(
        checked(codes.tolist(), every=1)
    ):  # one step for each distinct separator: nearly always one
        end = starts[i + 1] if i + 1 < len(starts) else len(text)
        cut = _cut(sorted_text[starts[i] : end], None if code < 0 else keys.dictionary[code].as_py())
        parts.append(cut)
    place = np.empty(len(text), np.int64)
    place[rising] = np.arange(len(text))
    result = pa.concat_arrays(parts).take(pa.array(place))
    if null is None:
        return result
    sizes, flat = sizes_of(result), result.flatten()
    same = pc.equal(flat, spread(null, len(text)).take(pa.array(rows_of(sizes))))
    flat = pc.if_else(pc.fill_null(same, False), pa.scalar(None, pa.string()), flat)
    return make_lists(flat, sizes, valid_rows(result))


def _cut(text: pa.Array, separator: str | None) -> pa.Array:
    """Text split at one separator: None splits between characters, '' nowhere; '' has no parts."""
    if separator is None:
        pieces = _characters(text)
    elif separator == "":
        pieces = make_lists(pc.fill_null(text, ""), np.ones(len(text), np.int64))
    else:
        pieces = split_text(text, separator)
    nothing = make_lists(pa.nulls(0, pa.string()), np.zeros(len(text), np.int64))
    cut = pc.if_else(pc.fill_null(pc.equal(text, ""), False), nothing, pieces)
    return pc.if_else(text.is_valid(), cut, pa.scalar(None, cut.type))


def _characters(text: pa.Array) -> pa.Array:
    """The characters of each text, without copying its bytes."""
    text = pc.fill_null(text, "")
    first, last = (np.frombuffer(text.buffers()[1], np.int32)[text.offset + i] for i in (0, len(text)))
    data = np.frombuffer(text.buffers()[2] or b"", np.uint8)[:last]
    starts = np.flatnonzero((data & 0xC0) != 0x80).astype(np.int32)
    starts = np.append(starts[starts >= first], last).astype(np.int32)
    flat = pa.StringArray.from_buffers(len(starts) - 1, pa.py_buffer(starts), text.buffers()[2])
    return make_lists(flat, pc.utf8_length(text).to_numpy().astype(np.int64))
