"""A part's file read in pieces: any rows of any columns are what the whole file holds there, and damage is told."""

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.storage.part.test_part import SCHEMA, VALUES
from tidegate.errors import CorruptError, StoreError
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.blob.retrying import RetryingBlob
from tidegate.storage.part import page_reader as splice
from tidegate.storage.part import page_table as pages
from tidegate.storage.part.checksum import digest
from tidegate.storage.part.encode import decode_part, encode_part
from tidegate.storage.part.page_reader import RowRange
from tidegate.storage.part.part import Part
from tidegate.storage.part.part_file import PartFile, PartFiles
from tidegate.storage.part.schema import Schema
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.stats import StatsCounters

ROWS = 30_000
"""Four pages of most columns, and more of wide ones."""


class Store:
    """A blob store in memory, and the part files in it."""

    def __init__(self) -> None:
        self.blob = MemoryBlob()
        self.files = PartFiles(RetryingBlob(self.blob, RetryPolicy(times=1)), StatsCounters())


def columns(rows: int) -> list[pa.Array]:
    """Every type, values in runs and scattered, and texts so long that their pages end earlier."""
    rng = np.random.default_rng(4)
    made = []
    for type_, values in VALUES:
        pool = pa.array(values, type_.arrow)
        made.append(pool.take(pa.array(rng.integers(0, len(values), rows))))
    wide = pa.array([f"{i * 7919 % 100_003:06}" + "x" * 300 for i in range(rows)])
    made[8] = wide
    made[3] = pa.array(rng.integers(-(2**62), 2**62, rows))
    made[12] = pa.array(rng.integers(0, 10**15, rows), pa.timestamp("us"))
    return made


def stored(
    store: Store, rows: int = ROWS, schema: Schema = SCHEMA, given: list[pa.Array] | None = None
) -> Part:
    data = encode_part(
        schema, given or columns(rows), pa.array(np.arange(rows)), pa.array(np.ones(rows, np.int64))
    )
    store.blob.put("part/a", data)
    tail = pages.tail_size(data)
    return Part(
        "part/a", rows, len(data), rows, False, 0, rows - 1, 0, digest(data), 0,
        tail=tail, tail_digest=digest(data[-tail:]) if tail else "",
    )  # fmt: skip


def opened(store: Any, part: Part) -> PartFile:
    opened_file: PartFile = store.files.open(part, SCHEMA)
    return opened_file


def same(a: pa.Array, b: pa.Array) -> bool:
    """Equal, NaN equal to itself and 0 not to -0: floats are compared as their bits."""
    if not pa.types.is_floating(a.type):
        return bool(a.equals(b))
    bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}[a.type]
    return bool(a.is_valid().equals(b.is_valid())) and bool(
        a.drop_null().view(bits).equals(b.drop_null().view(bits))
    )


def asked(rng: np.random.Generator, rows: int) -> list[RowRange]:
    """All, none, one, a run, scattered, and each of them inside of a stretch."""
    found = [RowRange(0, 0, rows), RowRange(0, 5, 5), RowRange(0, rows - 1, rows), RowRange(0, 8192, 16_384)]
    for share in (0.0, 1e-4, 0.01, 0.5, 1.0):
        start, stop = sorted(rng.integers(0, rows + 1, 2).tolist())
        found.append(RowRange(0, start, stop, rng.random(stop - start) < share))
        found.append(RowRange(0, 0, rows, rng.random(rows) < share))
    run = np.zeros(rows, bool)
    run[9_000:9_100] = True
    return [*found, RowRange(0, 0, rows, run)]


def test_any_rows_of_any_columns() -> None:
    store = Store()
    part = stored(store)
    assert part.tail
    data = store.blob.get(part.name)
    assert data is not None
    ids = [column.id for column in SCHEMA.columns]
    types = [column.type for column in SCHEMA.columns]
    whole, hidden = decode_part(part.name, data, SCHEMA, ids)
    rng = np.random.default_rng(9)
    file = opened(store, part)
    for rows in asked(rng, ROWS):
        at = np.arange(rows.start, rows.stop)
        at = at if rows.mask is None else at[rows.mask]
        assert len(rows) == len(at)
        for got, column, type_ in zip(file.read(ids, types, rows), whole, types, strict=True):
            assert got.type == type_.arrow
            assert same(got, column.take(pa.array(at))), (type_, rows)
        assert file.times(rows).tolist() == hidden.column("_time").take(pa.array(at)).to_pylist()
        assert file.diffs(rows).tolist() == [1] * len(at)


def test_wide_columns_have_pages_of_their_own() -> None:
    store = Store()
    table = opened(store, stored(store)).table
    assert table is not None
    counts = {c.name: len(c.chunks[0][0].starts) for c in table.columns if c.flat}
    assert counts["c8"] > counts["c3"]


def test_little_is_fetched_for_few_rows() -> None:
    store = Store()
    part = stored(store)
    file = opened(store, part)
    few = RowRange(0, 0, ROWS).narrow(np.array([9_000, 9_010]))
    types = {column.id: column.type for column in SCHEMA.columns}
    promised = sum(file.size_of(id_, few) for id_ in (3, 8))
    file.read([3, 8], [types[3], types[8]], few)
    assert file.fetched == promised
    everything = sum(file.size_of(id_, RowRange(0, 0, ROWS)) for id_ in (3, 8))
    assert promised < everything / 3


def test_rows_narrow_to_places_among_them() -> None:
    rows = RowRange(0, 10, 20).narrow(np.array([1, 4, 5])).narrow(np.array([0, 2]))
    assert rows.mask is not None
    assert (np.flatnonzero(rows.mask) + rows.start).tolist() == [11, 15]


def test_small_files_have_no_table() -> None:
    store = Store()
    schema = Schema.of([(column.name, column.type, True) for column in SCHEMA.columns[:1]])
    part = stored(store, 3, schema, [pa.array([True, None, False])])
    assert part.tail == 0
    file = opened(store, part)
    rows = RowRange(0, 0, 3, np.array([True, False, True]))
    assert file.read([0], [schema.columns[0].type], rows)[0].to_pylist() == [True, False]
    assert file.read([77], [schema.columns[0].type], rows)[0].to_pylist() == [None, None]


@pytest.mark.parametrize("where", ["page", "tail", "short"])
def test_damage_is_told_and_names_the_part(where: str) -> None:
    store = Store()
    part = stored(store)
    data = bytearray(store.blob.get(part.name) or b"")
    if where == "page":
        data[2_000] ^= 1
    elif where == "tail":
        data[-part.tail + 20] ^= 1
    store.blob.put(part.name, bytes(data[: 50_000 if where == "short" else len(data)]))
    with pytest.raises(CorruptError, match="part/a"):
        _all_of(store, part)


def _all_of(store: Store, part: Part) -> list[pa.Array]:
    file = opened(store, part)
    return file.read([c.id for c in SCHEMA.columns], [c.type for c in SCHEMA.columns], RowRange(0, 0, ROWS))


def test_every_flipped_byte_of_a_page_is_told() -> None:
    store = Store()
    part = stored(store)
    table = opened(store, part).table
    assert table is not None
    column = table.by_id[3]
    chunk = column.chunks[0][0]
    data = bytes(store.blob.get(part.name) or b"")[chunk.start : chunk.start + chunk.size]
    rng = np.random.default_rng(1)
    for at in [*range(60), *rng.integers(0, len(data), 100).tolist()]:  # the first bytes are a page's header
        wrong = bytearray(data)
        wrong[at] ^= 1 << int(rng.integers(0, 8))
        with pytest.raises(CorruptError):
            splice.check(part.name, "c3", [bytes(wrong)], chunk.sizes.tolist(), chunk.checksums.tolist())


def test_a_vanished_part_is_named() -> None:
    store = Store()
    part = stored(store)
    file = opened(store, part)
    store.blob.delete(part.name)
    with pytest.raises(StoreError, match="part/a is missing"):
        file.read([3], [SCHEMA.columns[3].type], RowRange(0, 0, ROWS))


def test_other_readers_never_notice_the_table(tmp_path: Path) -> None:
    data = encode_part(
        SCHEMA, columns(ROWS), pa.array(np.zeros(ROWS, np.int64)), pa.array(np.ones(ROWS, np.int64))
    )
    assert pages.tail_size(data)
    table = pq.ParquetFile(pa.BufferReader(data)).read(columns=["c8", "c12"])
    assert table.num_rows == ROWS
    import duckdb
    import polars as pl

    assert len(pl.read_parquet(data, columns=["c8"])) == ROWS
    (tmp_path / "part").write_bytes(data)
    counted = duckdb.sql(f"SELECT count(c8) FROM read_parquet('{tmp_path / 'part'}')").fetchall()
    assert counted == [(ROWS,)]


@pytest.mark.parametrize("rows", [500, ROWS], ids=["small", "large"])
def test_threads_share_a_file(rows: int) -> None:
    """pyarrow's readers may not be shared: with one for all threads of a small file this corrupted the heap."""
    store = Store()
    schema = Schema.of([("a", SCHEMA.columns[3].type, True), ("s", SCHEMA.columns[8].type, True)])
    texts = [f"{i % 50}" for i in range(rows)]
    file = opened(store, stored(store, rows, schema, [pa.array(np.arange(rows)), pa.array(texts)]))
    wrong: list[BaseException] = []

    def read() -> None:
        own = store.files.open(file.part, file.schema)
        try:
            for _ in range(40):
                got = own.read(
                    [0, 1],
                    [c.type for c in schema.columns],
                    RowRange(0, 0, rows).narrow(np.arange(7, rows, 9)),
                )
                assert got[0].to_pylist() == list(range(7, rows, 9))
                assert got[1].to_pylist() == texts[7::9]
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test tells
            wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_kept_ends_with_its_machine() -> None:
    store = Store()
    opened(store, stored(store)).read([3], [SCHEMA.columns[3].type], RowRange(0, 0, ROWS))
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
