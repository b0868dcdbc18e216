"""Sorts the keys of many documents at once, by the layout that they share.

Rows of one column tend to be written by one program, so that their keys have the same, unsorted, order. The first document of a
batch defines a layout: its maps, the keys of each in order, and the leaves (values that are not maps). One DuckDB call finds the
other documents with exactly the same keys in the same maps, another extracts their leaves, and the canonical document is the
leaves joined with constant text in between:

    {"b": 1, "a": {"d": "x", "c": 2.50}}     maps: "" → [b, a], "/a" → [d, c]
    {"a":{"c":  2.5  ,"d":  "x"  },"b":  1  }

Then the first document that did not fit defines the next layout. After a few layouts that fit hardly any documents the remaining
ones are left to the caller. Lists are leaves too, unless a map is inside one. The documents must be valid JSON without anything
unusual (see `canonical.py`), so DuckDB's text of a leaf is canonical except `2.0`, which is 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.outcome import to_bools
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval, sql_list
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import InvalidJson, Json

MAX_LAYOUTS = 16
MAX_LEAVES = 100
MIN_SHARE_FITTING = 0.05
"""The share of the remaining documents that a layout must fit to be worth its pass."""
MAX_MISSES = 3


@dataclass(frozen=True)
class KeyLayout:
    """The maps of documents with their keys in order, and the canonical document as text around leaves."""

    maps: dict[str, list[str]]
    """By JSON pointer."""
    leaves: list[str]
    """JSON pointers, in canonical order."""
    between: list[str]
    """The text before each leaf, and after the last."""

    @staticmethod
    def of(document: Json) -> KeyLayout:
        """The layout of a document."""
        layout = KeyLayout({}, [], [""])
        layout._add(document, "")
        return layout

    def _add(self, value: Json, at: str) -> None:
        if not isinstance(value, dict) or not value:
            self.leaves.append(at)
            self.between.append("")
            return
        self.maps[at] = list(value)
        sign = "{"
        for key in sorted(value, key=exact_json.key_order):
            self.between[-1] += f"{sign}{exact_json.quote(key)}:"
            self._add(value[key], f"{at}/{escape_pointer(key)}")
            sign = ","
        self.between[-1] += "}"


def escape_pointer(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def sort_keys(documents: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The canonical texts of documents that share a layout, and the mask of these documents."""
    fitting = np.zeros(len(documents), bool)
    sorted_texts: list[pa.Array] = [pa.nulls(0, pa.string())]
    rows: list[np.ndarray] = [np.zeros(0, np.int64)]
    for layout_rows, texts in _by_layout(documents):
        sorted_texts.append(texts)
        rows.append(layout_rows)
        fitting[layout_rows] = True
    order = np.argsort(np.concatenate(rows), kind="stable")
    return pa.concat_arrays(sorted_texts).take(pa.array(order)), fitting


def _by_layout(documents: pa.Array) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Yields rows and their canonical texts, one layout after the other."""
    left = np.arange(len(documents))
    misses = 0
    for _ in range(MAX_LAYOUTS):
        if not len(left) or misses == MAX_MISSES:
            return
        layout = _layout(documents[int(left[0])].as_py())
        if layout is None:
            misses, left = misses + 1, np.roll(left, -1)
            continue
        texts = _fitting(layout, documents.take(pa.array(left)))
        fits = to_bools(texts.is_valid())
        if fits.any():
            yield left[fits], texts.filter(pa.array(fits))
        misses += bool(fits.mean() < MIN_SHARE_FITTING)
        # A document that does not fit even its own layout goes to the end of the queue, and so to the caller.
        left = left[~fits] if fits[0] else np.roll(left[~fits], -1)


def _layout(document: str) -> KeyLayout | None:
    """The layout of a document, or None if it has too many leaves to be worth it."""
    try:
        layout = KeyLayout.of(exact_json.decode(document))
    except InvalidJson:
        return None
    return layout if len(layout.leaves) <= MAX_LEAVES else None


def _fitting(layout: KeyLayout, documents: pa.Array) -> pa.Array:
    """The canonical text of each document of this layout, null for others."""
    if layout.maps:
        keys = "[" + ", ".join(sql_list(names) for names in layout.maps.values()) + "]"
        same = duckdb_eval(f"json_keys(j, {sql_list(layout.maps)}) = {keys}", pa.bool_(), j=documents)
    else:
        same = pc.invert(pc.starts_with(documents, "{"))
    rows = np.flatnonzero(to_bools(same))
    candidates = documents.take(pa.array(rows))
    leaves = duckdb_eval(f"json_extract(j, {sql_list(layout.leaves)})", pa.list_(pa.string()), j=candidates)
    pieces: list[pa.Array | str] = []
    plain = np.ones(len(rows), bool)
    for i, before in enumerate(layout.between[:-1]):
        leaf = pc.list_element(leaves, i)
        plain &= _is_leaf(leaf)
        pieces += [before, _without_point_zero(leaf)]
    joined = pc.binary_join_element_wise(*pieces, layout.between[-1], "")
    source = np.full(len(documents), -1)
    source[rows[plain]] = np.flatnonzero(plain)
    return joined.take(pa.array(source, mask=source < 0))


def _is_leaf(leaf: pa.Array) -> np.ndarray:
    """Where the value is not a map with keys, nor a list that may hold one or a real like 2.0."""
    result: np.ndarray = ~to_bools(pc.starts_with(leaf, "{")) | to_bools(pc.equal(leaf, "{}"))
    lists = pc.starts_with(leaf, "[")
    if pc.any(lists, min_count=0).as_py():
        result &= ~to_bools(pc.match_substring_regex(leaf, r"^\[.*(?:\{|\.0[,\]])"))
    return result


def _without_point_zero(leaf: pa.Array) -> pa.Array:
    """Numbers like `2.0` as `2`; strings end with a quote, so nothing else ends like this."""
    ends = pc.ends_with(leaf, ".0")
    if not pc.any(ends, min_count=0).as_py():
        return leaf
    return pc.if_else(ends, pc.replace_substring_regex(leaf, r"\.0$", ""), leaf)
