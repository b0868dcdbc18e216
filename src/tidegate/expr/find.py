"""A text inside of others, many of them: `url LIKE '%google%'`.

Arrow's own kernel for it takes 180 ns a URL, its regular expressions 70 ns for the same, polars 28 ns (1,000,000 URLs of 80 bytes,
one core). Texts are UTF-8, where a text is inside of another exactly if its bytes are.

>>> contains(pa.array(["a google", None, "goo"]), "google").to_pylist()
[True, None, False]
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.regex import quoted

MANY = 65_536
"""Texts from which on it is worth it to import polars, and to hand them over."""


def contains(texts: pa.Array, wanted: str) -> pa.Array:
    """Which of the texts hold `wanted`, NULL where they are NULL."""
    if len(texts) < MANY:
        return pc.match_substring_regex(texts, quoted(wanted))
    import polars as pl

    found = pl.Series(texts).str.contains(wanted, literal=True).to_arrow()
    return found if isinstance(found, pa.Array) else found.combine_chunks()
