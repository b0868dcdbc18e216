"""Sorting the keys of many documents at once, by the layout that they share.

Rows of one column tend to be written by one program, so that their keys stand in the same, unsorted, order.
The first document of a batch tells a layout: its maps, the keys of each in order, and the leaves (all that is
no map). Which other documents have the very same keys in the very same maps is one DuckDB call; their leaves
are another; and the canonical document is the leaves joined with constant text in between:

    {"b": 1, "a": {"d": "x", "c": 2.50}}     maps: "" → [b, a], "/a" → [d, c]
    {"a":{"c":  2.5  ,"d":  "x"  },"b":  1  }

Then the first document that did not fit tells the next layout. After a few layouts that fit hardly anyone the
others are left to the caller. Leaves are lists too, unless a map is inside one. Documents given here are
valid JSON with nothing odd in them (see `canonical.py`), so what DuckDB makes of a leaf is canonical but for
`2.0`, which is 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import exact_json
from tidegate.expr.duck import duck
from tidegate.expr.exact_json import BadJson, Json
from tidegate.expr.specs import to_bools

MAX_LAYOUTS = 16
MAX_LEAVES = 100
ENOUGH = 0.05
"""The share of what is left that a layout must fit, or it was not worth its pass."""
MAX_MISSES = 3


@dataclass(frozen=True)
class Layout:
    """Maps with their keys as they stand in the documents; the canonical document as text around leaves."""

    maps: dict[str, list[str]]
    """By JSON pointer."""
    leaves: list[str]
    """JSON pointers, in canonical order."""
    between: list[str]
    """The text before each leaf, and that after the last."""

    @staticmethod
    def of(document: Json) -> Layout:
        """The layout of a document."""
        layout = Layout({}, [], [""])
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
            self._add(value[key], f"{at}/{escape(key)}")
            sign = ","
        self.between[-1] += "}"


def escape(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def sql_text(value: str) -> str:
    """A string as a constant in DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'"


def sql_list(values: Iterable[str]) -> str:
    """Strings as a constant list in DuckDB's SQL."""
    return "[" + ", ".join(map(sql_text, values)) + "]"


def arrange(documents: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The canonical texts of those documents that share a layout, and the mask of which they are."""
    done = np.zeros(len(documents), bool)
    found: list[pa.Array] = [pa.nulls(0, pa.string())]
    rows: list[np.ndarray] = [np.zeros(0, np.int64)]
    for at, texts in _by_layout(documents):
        found.append(texts)
        rows.append(at)
        done[at] = True
    order = np.argsort(np.concatenate(rows), kind="stable")
    return pa.concat_arrays(found).take(pa.array(order)), done


def _by_layout(documents: pa.Array) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Rows and their canonical texts, one layout after the other."""
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
        misses += bool(fits.mean() < ENOUGH)
        # A document that tells no layout even for itself goes to the end of the queue, and to the caller.
        left = left[~fits] if fits[0] else np.roll(left[~fits], -1)


def _layout(document: str) -> Layout | None:
    """The layout of a document, unless it is too large to be worth it."""
    try:
        layout = Layout.of(exact_json.decode(document))
    except BadJson:
        return None
    return layout if len(layout.leaves) <= MAX_LEAVES else None


def _fitting(layout: Layout, documents: pa.Array) -> pa.Array:
    """The canonical text of each document of this layout, null for others."""
    if layout.maps:
        keys = "[" + ", ".join(sql_list(names) for names in layout.maps.values()) + "]"
        same = duck(f"json_keys(j, {sql_list(layout.maps)}) = {keys}", pa.bool_(), j=documents)
    else:
        same = pc.invert(pc.starts_with(documents, "{"))
    rows = np.flatnonzero(to_bools(same))
    some = documents.take(pa.array(rows))
    leaves = duck(f"json_extract(j, {sql_list(layout.leaves)})", pa.list_(pa.string()), j=some)
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
    """Where there is no map with keys in it, nor a list that may have one, or a real like 2.0."""
    result: np.ndarray = ~to_bools(pc.starts_with(leaf, "{")) | to_bools(pc.equal(leaf, "{}"))
    lists = pc.starts_with(leaf, "[")
    if pc.any(lists, min_count=0).as_py():
        result &= ~to_bools(pc.match_substring_regex(leaf, r"^\[.*(?:\{|\.0[,\]])"))
    return result


def _without_point_zero(leaf: pa.Array) -> pa.Array:
    """Numbers like `2.0` as `2`; a string ends with a quote, so nothing else ends like this."""
    found = pc.ends_with(leaf, ".0")
    if not pc.any(found, min_count=0).as_py():
        return leaf
    return pc.if_else(found, pc.replace_substring_regex(leaf, r"\.0$", ""), leaf)
