"""Reads JSON values at known offsets without parsing, where documents share a layout.

Canonical JSON has its keys in one order and no spaces, so documents of the same shape differ in their
values alone. A template is the text around the values of one such document, cut at its commas:

    {"id":7,"ts":1700,"user":{"id":3,"name":"x"},"tags":["a","b"]}

    field   before           value   behind      path
    0       {"id":           7                   id
    1       "ts":            1700                ts
    2       "user":{"id":    3                   user, id
    3       "name":          "x"     }           user, name         a list: here the template ends

Other documents are cut at the first commas, too, and their pieces compared with the text before and behind.
The rest of a piece must be one value: `"…"`, digits, or true, false, null, recognised by its first and last
byte. A comma inside a string leaves a piece without its closing quote, and a string with a backslash is not
trusted. A document that passes has, as far as the fields go, the very structure of the template; any other
is left to the caller. Cutting costs 0.03 µs a field; DuckDB's parser takes 0.3 µs before it has read the
first value.

A template also proves what is *absent*: keys are sorted, so a document that has passed `ts` holds no `id`
behind it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import to_bools
from tidegate.expr.primitives import exact_json
from tidegate.storage.stats.time_like import Place

MOST_FIELDS = 64
SLACK = 1.25
"""How much longer than in the sample the fields of a document may be."""
_BACKSLASH = ord("\\")

# One value, told by its ends: a string, a number, or one of true, false and null.
_FIRST, _LAST = np.zeros(256, np.uint8), np.full(256, 255, np.uint8)
_FIRST[ord('"')] = _LAST[ord('"')] = 1
_FIRST[[*b"-0123456789"]] = _LAST[[*b"0123456789"]] = 2
_FIRST[[*b"tfn"]] = _LAST[[*b"el"]] = 3


@dataclass(frozen=True)
class TemplateField:
    """A value's path, and the text before and behind it up to the commas."""

    path: Place
    before: str
    behind: str = ""


@dataclass(frozen=True)
class Template:
    """The fields of a shape, in the order of the documents."""

    fields: tuple[TemplateField, ...]
    complete: bool
    """Nothing comes behind the last field."""

    @staticmethod
    def of(document: Any) -> Template:
        """The template of a decoded document, up to its first list or empty map."""
        fields: list[TemplateField] = []
        for field in _fields(document, (), ""):
            if field is None or "," in field.before or len(fields) == MOST_FIELDS:
                return Template(tuple(fields), complete=False)
            fields.append(field)
        return Template(tuple(fields), complete=True)

    def first(self, many: int) -> Template:
        """Only so many fields."""
        return Template(self.fields[:many], self.complete and many >= len(self.fields))

    def needed(self, path: Place) -> int | None:
        """How many fields tell what is at a path, or that nothing is; None if the template ends before."""
        if any(len(field.path) > len(path) and field.path[: len(path)] == path for field in self.fields):
            return None  # a map, of which only the values are fields
        order = [_order(field.path) for field in self.fields]
        wanted = _order(path)
        at = bisect_left(order, wanted)
        if at > 0 and wanted[: len(order[at - 1])] == order[at - 1]:
            return at  # a value, where the path would lead through a map
        if at < len(order):
            return at + 1
        return len(order) if self.complete else None

    def place(self, path: Place) -> int | None:
        """The field at a path."""
        return next((i for i, field in enumerate(self.fields) if field.path == path), None)


def _order(path: Place) -> list[tuple[int, bytes]]:
    return [exact_json.key_order(name) for name in path]


def _fields(value: Any, path: Place, before: str) -> list[TemplateField | None]:
    """The fields of a document; None for what is no scalar."""
    if isinstance(value, dict) and value:
        found: list[TemplateField | None] = []
        for i, (name, inner) in enumerate(value.items()):
            found += _fields(inner, (*path, name), f"{'' if i else before + '{'}{exact_json.quote(name)}:")
        last = found[-1]
        found[-1] = None if last is None else replace(last, behind=last.behind + "}")
        return found
    return [None] if isinstance(value, dict | list) or not path else [TemplateField(path, before)]


def reach(texts: Sequence[str], template: Template) -> int:
    """About how many bytes of documents like these hold the fields of a template."""
    many = len(template.fields)
    ends = (len(",".join(text.split(",", many)[:many]).encode()) for text in texts)
    return int(max(ends, default=0) * SLACK) + 1


def read(documents: pa.Array, template: Template, size: int) -> tuple[list[pa.Array], np.ndarray]:
    """The values of each field for the documents that pass, and which ones do. No document may be null.

    Only the first `size` bytes are looked at: what lies behind need not even be brought into the cache.
    """
    many = len(template.fields)
    if not template.complete:
        documents = pc.binary_slice(documents.view(pa.binary()), 0, size)
    pieces = pc.split_pattern(documents.view(pa.binary()), ",", max_splits=many)
    wanted = many if template.complete else many + 1
    passed = np.diff(pieces.offsets.to_numpy()) == wanted
    if not passed.all():
        pieces = pieces.filter(pa.array(passed))
    texts = pieces.flatten()
    rows = len(texts) // wanted
    good = np.ones(rows, bool)
    values = []
    for i, field in enumerate(template.fields):
        text = texts.take(pa.array(np.arange(i, rows * wanted, wanted), pa.int32()))
        good &= to_bools(pc.starts_with(text, field.before))
        if field.behind:
            good &= to_bools(pc.ends_with(text, field.behind))
        value = _stripped(text, field)
        good &= _is_one_value(value)
        values.append(value)
    if not good.all():
        values = [value.filter(pa.array(good)) for value in values]
        passed[np.flatnonzero(passed)[~good]] = False
    return values, passed


def _stripped(text: pa.Array, field: TemplateField) -> pa.Array:
    """What stands between the text before and behind."""
    # Not by binary_slice: Arrow 26 fails where a text is shorter than what is sliced off.
    raw = pc.binary_replace_slice(text, 0, len(field.before.encode()), b"")
    if field.behind:
        raw = pc.binary_replace_slice(raw, -len(field.behind), 2**31 - 1, b"")
    return raw.view(pa.string())


def _is_one_value(value: pa.Array) -> np.ndarray:
    """Where a piece is one scalar, and no string with a backslash."""
    _, offsets, data = value.buffers()
    at = np.frombuffer(offsets, np.int32, len(value) + 1, value.offset * 4)
    if not len(value) or data is None or at[-1] == at[0]:
        return np.zeros(len(value), bool)
    raw = np.frombuffer(data, np.uint8)
    last_byte = len(raw) - 1
    first, last = raw[np.minimum(at[:-1], last_byte)], raw[at[1:] - 1]
    good: np.ndarray = (_FIRST[first] == _LAST[last]) & (np.diff(at) > (first == ord('"')))
    if (raw[at[0] : at[-1]] == _BACKSLASH).any():
        good &= ~to_bools(pc.match_substring(value, "\\"))
    return good
