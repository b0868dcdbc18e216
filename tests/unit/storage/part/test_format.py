"""docs/format.md is the file as it is: a part is read here by what that page says, without the code that it describes."""

import base64
import hashlib
import json
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.storage.part.part import Part

pytestmark = pytest.mark.usefixtures("commits_make_files")

ROWS = 20_000


def written(tmp_path, rows: int) -> tuple[Part, bytes]:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8, note text, kind text, f float8, span interval, tags int4[])")
        random = np.random.default_rng(3)
        table = {
            "id": random.integers(0, 1 << 60, rows),
            "note": [random.bytes(150).hex() for _ in range(rows)],
            "kind": [f"k{i % 5}" for i in range(rows)],
            "f": random.random(rows),
            "span": pa.nulls(rows, pa.month_day_nano_interval()),
            "tags": [[1, 2]] * rows,
        }
        db.append("t", table, at=5)
        shard = db.context.table("t")
        (part,) = shard.machine.fetch().parts.all()
        data = shard.machine.blob.get(part.name)
        assert data is not None
        return part, bytes(data)


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def table_of(data: bytes, part: Part) -> tuple[dict, np.ndarray]:
    tail = data[len(data) - part.tail :]
    assert digest(tail) == part.tail_digest
    end = len(tail) - 8 - int.from_bytes(tail[-8:-4], "little")
    assert tail[end - 4 : end] == b"TGP1"
    assert int.from_bytes(tail[end - 8 : end - 4], "little") == end - 8
    plain = pa.Codec("zstd").decompress(tail[8 : end - 8], int.from_bytes(tail[:8], "little"), asbytes=True)
    size = 4 + int.from_bytes(plain[:4], "little")
    return json.loads(plain[4:size]), np.frombuffer(plain, "<u4", offset=size).reshape(3, -1)


def test_table_of_pages(tmp_path) -> None:
    part, data = written(tmp_path, ROWS)
    assert (part.size, part.digest) == (len(data), digest(data))
    head, pages = table_of(data, part)
    metadata = pq.read_metadata(pa.BufferReader(data))
    assert head["groups"] == [ROWS]
    columns = head["columns"]
    assert [(c["name"], c["id"]) for c in columns[:2]] == [("id", 0), ("note", 1)]
    assert [(c["name"], c["id"]) for c in columns[-3:]] == [("_time", None), ("_diff", None), ("_pos", None)]
    at, leaf, sizes = 0, 0, {}
    for column in columns:
        for chunk in column["chunks"][0]:
            told = metadata.row_group(0).column(leaf)
            first = told.dictionary_page_offset if chunk["dictionary"] else told.data_page_offset
            assert (".".join(chunk["path"]), chunk["start"]) == (told.path_in_schema, first)
            own = pages[:, at : at + chunk["pages"]]
            assert own[0].sum() == told.total_compressed_size
            assert own[1].sum() == ROWS
            assert (own[1][0] == 0) == chunk["dictionary"]
            begin = chunk["start"]
            for size, _, checksum in own.T.tolist():
                assert zlib.crc32(data[begin : begin + size]) == checksum
                begin += size
            sizes[told.path_in_schema] = own[1][int(chunk["dictionary"]) :].max()
            at, leaf = at + chunk["pages"], leaf + 1
    assert (at, leaf) == (pages.shape[1], metadata.num_columns)
    assert sizes["id"] == 8192
    assert sizes["note"] < 8192  # long texts: a page is full before it has that many rows


def test_columns_and_page_statistics(tmp_path) -> None:
    part, data = written(tmp_path, ROWS)
    file = pq.ParquetFile(pa.BufferReader(data))
    ids = [(f.name, (f.metadata or {}).get(b"PARQUET:field_id")) for f in file.schema_arrow]
    assert ids[:2] == [("id", b"1"), ("note", b"2")]
    assert ids[-3:] == [("_time", None), ("_diff", None), ("_pos", None)]
    assert file.read(["_pos"]).column(0).to_pylist() == list(range(ROWS))
    chunks = {c.path_in_schema: c for c in map(file.metadata.row_group(0).column, range(11))}
    assert [n for n, c in chunks.items() if c.has_dictionary_page] == ["kind"]
    assert chunks["f"].statistics is None or not chunks["f"].statistics.has_min_max
    assert "DELTA_BINARY_PACKED" in chunks["_pos"].encodings
    assert {"span.months", "span.days", "span.micros"} < set(chunks)
    packed = base64.b85decode(file.metadata.metadata[b"tidegate.pages"])
    facts = pa.ipc.open_file(packed).read_all()
    assert facts.num_rows == -(-ROWS // 8192)
    values = file.read(["id"]).column(0).to_numpy()
    assert facts.column('["low",0]').to_pylist() == [values[i : i + 8192].min() for i in range(0, ROWS, 8192)]
    assert (part.first, part.last, part.diffs) == (5, 5, ROWS)


def test_small_files_have_no_table(tmp_path) -> None:
    part, data = written(tmp_path, 10)
    assert len(data) < 65_536
    assert (part.tail, part.tail_digest, part.digest) == (0, "", digest(data))
    assert b"TGP1" not in data[-16_384:]
