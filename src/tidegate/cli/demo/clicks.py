"""Writes the clicks of the demo: lines of JSON with forty fields each, as a web server logs them.

    write_clicks(folder, rows=200_000, files=8, ends=now)     clicks of the sixty days before `ends`, in order

Orders come from our generator (`ingest/upstreams/generator/upstream.py`), clicks from files, so the demo has both kinds of source.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DAYS = 60
FIELDS = 32
"""Fields of each click that the demo does not use."""
_PAGES = ("home", "search", "item", "cart", "checkout", "help")
_KINDS = ("view", "view", "view", "view", "scroll", "scroll", "scroll", "scroll", "scroll", "click")


def write_clicks(folder: Path, rows: int, files: int, ends: int, seed: int = 7) -> int:
    """Writes the files and returns their bytes; `ends` is the time of the last click in ms."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    size = 0
    for number, clicks in enumerate(np.array_split(np.arange(rows), files)):
        path = folder / f"clicks-{number:03d}.json"
        lines = pc.binary_join(
            pa.ListArray.from_arrays([0, len(clicks)], _lines(clicks, rows, ends, random)), "\n"
        )
        path.write_text(lines[0].as_py() + "\n")
        size += path.stat().st_size
    return size


def _lines(numbers: np.ndarray, rows: int, ends: int, random: np.random.Generator) -> pa.Array:
    times = ends - DAYS * 86_400_000 + numbers * (DAYS * 86_400_000) // max(rows, 1)
    count = len(numbers)
    at = pc.strftime(pa.array(times, pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%SZ")
    pieces: list[str | pa.Array] = ['{"id": ', _text(numbers), ', "at": "', at, '", "kind": "']
    pieces += [
        _random_words(_KINDS, count, random),
        '", "user": ',
        _text(random.integers(1, 20_000, count)),
        ', "url": "/',
    ]
    pieces += [
        _random_words(_PAGES, count, random),
        "/",
        _text(random.integers(1, 5_000, count)),
        '", "ms": ',
    ]
    pieces += [
        _text(random.integers(1, 3_000, count)),
        ', "device": {"battery": ',
        _text(random.integers(0, 101, count)),
    ]
    pieces += [', "ts": ', _text(times), '}, "agent": "Mozilla/5.0 (X11; Linux x86_64)"']
    for field in range(FIELDS):
        pieces += [f', "field_{field:02d}": ', _text(random.integers(0, 1_000_000, count))]
    pieces.append("}")
    texts = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*texts, pa.scalar(""))


def _text(values: np.ndarray) -> pa.Array:
    return pa.array(values).cast(pa.string())


def _random_words(words: tuple[str, ...], count: int, random: np.random.Generator) -> pa.Array:
    return pa.array(words).take(pa.array(random.integers(0, len(words), count)))
