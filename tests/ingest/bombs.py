"""Files that are small and unpack to hundreds of MB, and a process that ingests one and says how much memory it took.

    python -m tests.ingest.bombs FOLDER 'JSON'

prints `{"rows": …, "errors": […], "mb": …}`: `mb` is by how much the process grew while it ingested.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
from tidegate.config import Config

MB = 1 << 20
LIMITS = Config(ingest_record_bytes=4 * MB, ingest_block_bytes=8 * MB, part_bytes=8 * MB)
GOOD = 3
"""Records of each file that are nothing special."""


def packed_line(path: Path) -> None:
    """A document of 400 MB between others."""
    with gzip.open(path / "a.json.gz", "wb", 1) as file:
        file.write(b'{"a": 1}\n{"a": 2}\n{"a": "')
        for _ in range(400):
            file.write(MB * b"x")
        file.write(b'"}\n{"a": 3}\n')


def packed_blanks(path: Path) -> None:
    """Forty million empty lines."""
    with gzip.open(path / "a.json.gz", "wb", 1) as file:
        file.write(b'{"a": 1}\n{"a": 2}\n')
        for _ in range(40):
            file.write(MB * b"\n")
        file.write(b'{"a": 3}\n')


def open_quote(path: Path) -> None:
    """A quote that nobody closes, in a line of 400 MB."""
    with gzip.open(path / "a.csv.gz", "wb", 1) as file:
        file.write(b'1,2\n3,4\n5,"')
        for _ in range(400):
            file.write(MB * b"x")
        file.write(b"\n7,8\n")


def dictionary(path: Path) -> None:
    """Forty thousand rows of one text of 100 kB: 4 GB; the source wants them where `id` is less than three."""
    places = pa.array(np.zeros(40_000, np.int32))
    table = pa.table({"id": np.arange(40_000), "t": pa.DictionaryArray.from_arrays(places, ["x" * 100_000])})
    pq.write_table(table, path / "a.parquet", compression="zstd")


def rows(path: Path) -> None:
    """A row group of twenty million rows in a few kB."""
    same = np.zeros(20_000_000, np.int64)
    same[:3] = 1, 2, 3
    table = pa.table({"id": same, "b": same, "c": same})
    pq.write_table(table, path / "a.parquet", compression="zstd", row_group_size=len(same))


def page(path: Path) -> None:
    """One page of 400 MB."""
    table = pa.table({"t": pa.array(["x" * 100 * MB] * 4)})
    pq.write_table(table, path / "a.parquet", compression="zstd", use_dictionary=False)


def number(value: int) -> bytes:
    """As Avro writes it."""
    folded, out = (value << 1) ^ (value >> 63), bytearray()
    while folded > 127:
        out.append(folded & 127 | 128)
        folded >>= 7
    return bytes([*out, folded])


def container(
    schema: object, blocks: list[tuple[int, bytes, int | None]], codec: bytes = b"deflate"
) -> bytes:
    """A file of Avro; of each block how many records it says it has, its bytes, and perhaps another size than it has."""
    header = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec}
    pairs = b"".join(number(len(one)) + one for pair in header.items() for one in pair)
    made = b"Obj\x01" + number(len(header)) + pairs + number(0) + 16 * b"s"
    for count, data, size in blocks:
        made += number(count) + number(len(data) if size is None else size) + data + 16 * b"s"
    return made


def deflated(data: bytes, zeros_mb: int = 0) -> bytes:
    """Packed, with so many MB of letters behind it."""
    packer = zlib.compressobj(1, wbits=-15)
    return b"".join(
        [packer.compress(data), *(packer.compress(MB * b"x") for _ in range(zeros_mb)), packer.flush()]
    )


RECORD = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
_THREE = (GOOD, deflated(b"\x02a\x02b\x02c"), None)


def avro(path: Path) -> None:
    """A block whose one text has 400 MB."""
    large = 1, deflated(number(400 * MB), 400), None
    (path / "a.avro").write_bytes(container(RECORD, [_THREE, large]))


def avro_size(path: Path) -> None:
    """A block that says that it has 2**60 bytes."""
    (path / "a.avro").write_bytes(container(RECORD, [_THREE, (1, b"", 2**60)]))


def avro_nothing(path: Path) -> None:
    """A billion records of no bytes."""
    nothing = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "null"}]}
    (path / "a.avro").write_bytes(
        container(nothing, [(GOOD, deflated(b""), None), (10**9, deflated(b""), None)])
    )


def avro_list(path: Path) -> None:
    """A second file in whose records there is a list of 10**12 nulls, which nobody asks for."""
    nulls = {"name": "n", "type": {"type": "array", "items": "null"}}
    other = {**RECORD, "fields": [*RECORD["fields"], nulls]}  # type: ignore[misc]  # a list it is
    (path / "a.avro").write_bytes(container(RECORD, [_THREE]))
    (path / "b.avro").write_bytes(container(other, [(1, deflated(b"\x02d" + number(10**12) + b"\0"), None)]))


BOMBS: dict[Callable[[Path], None], tuple[str, str, int, str]] = {
    packed_line: ("JSON", "SELECT data->'a' AS a FROM s", GOOD, "longer than ingest_record_bytes"),
    packed_blanks: ("JSON", "SELECT data->'a' AS a FROM s", GOOD, ""),
    open_quote: ("CSV WITH 2 COLUMNS", "SELECT column1 FROM s", GOOD, "longer than ingest_record_bytes"),
    dictionary: ("PARQUET", "SELECT t FROM s WHERE id < 3 AND length(t) > 0", GOOD, ""),
    rows: ("PARQUET", "SELECT id FROM s WHERE id > 0 AND b > 0 AND c > 0", GOOD, ""),
    page: ("PARQUET", "SELECT t FROM s", 0, "page of column t"),
    avro: ("AVRO", "SELECT a FROM s", GOOD, "larger than ingest_block_bytes"),
    avro_size: ("AVRO", "SELECT a FROM s", GOOD, "larger than ingest_block_bytes"),
    avro_nothing: ("AVRO", "SELECT 1::int8 AS one FROM s", GOOD, "1,000,000,000 records"),
    avro_list: ("AVRO", "SELECT a FROM s", GOOD, "no bytes"),
}
"""Each with its format, the transform of a source, how many rows come of it, and what stands in the one error, if there is one."""


def peak_mb() -> int:
    """The most memory that this process has had; what `getrusage` says begins with that of whoever started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) // 1024


def run(folder: str, format_: str, query: str) -> None:
    with tempfile.TemporaryDirectory() as lake, tidegate.open(lake, config=LIMITS) as db:
        db.sql(f"CREATE SOURCE s FROM FILES '{folder}/*' FORMAT {format_} TRANSFORM USING ({query})")
        before = peak_mb()
        db.ingest("s", once=True, spark=False)
        grown = peak_mb() - before
        errors = [row[0] for row in db.sql("SELECT message FROM s_errors").rows()]
        db.ingest("s", once=True, spark=False)  # there is nothing left to do
        count = db.sql("SELECT count(*) FROM s").rows()[0][0]
        assert len(db.sql("SELECT message FROM s_errors").rows()) == len(errors)
        print(json.dumps({"rows": count, "errors": errors, "mb": grown}))


if __name__ == "__main__":
    run(*sys.argv[1:])
