"""Avro object container files: the schema, then blocks of records, each decompressed within a limit.

    schema, blocks = open_container(file)
    for block in blocks:
        block.count, block.data         the records of a block, one after another

    Obj 01 │ {avro.schema, avro.codec} │ sync │ count size bytes sync │ count size bytes sync │ …

Numbers in a file are not trusted: data of a given size is read in pieces, compressed data is decompressed only up to
`current_limits().block`, and a block has at most as many records as bytes, or `MAX_EMPTY_RECORDS`: records without bytes could
otherwise be endless.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from tidegate.ingest.formats.limits import current_limits

MAGIC = b"Obj\x01"
_SYNC = 16
_PIECE = 1 << 20
_XZ_MEMORY = 128 << 20
MAX_EMPTY_RECORDS = 131_072
"""The number of records that a block may have even if it has fewer bytes."""


class DamagedBlock(ValueError):  # noqa: N818  # the error is in the file
    """A container file is damaged; the message states how."""


@dataclass(frozen=True)
class AvroBlock:
    """The encoded records of one block."""

    count: int
    data: bytes


def open_container(file: BinaryIO) -> tuple[Any, Iterator[AvroBlock]]:
    """Reads the schema of a file; returns it with an iterator over the blocks."""
    if _read_exactly(file, len(MAGIC)) != MAGIC:
        raise DamagedBlock("it does not start as one")
    header = _header(file)
    try:
        schema = json.loads(header["avro.schema"])
    except (KeyError, ValueError, RecursionError):
        raise DamagedBlock("its header holds no schema") from None
    return schema, _blocks(file, header.get("avro.codec", b"null").decode("ascii", "replace"))


def _header(file: BinaryIO) -> dict[str, bytes]:
    """Reads the map before the first block; the sync marker follows it."""
    entries: dict[str, bytes] = {}
    size = 0
    while count := _number(file):
        if count < 0:
            _number(file)  # its size in bytes
        for _ in range(abs(count)):
            key, value = (_read_exactly(file, _number(file)) for _ in range(2))
            size += len(key) + len(value) + 1
            if size > current_limits().block:
                raise DamagedBlock(current_limits().too_large("its header"))
            entries[key.decode("utf-8", "replace")] = value
    return entries


def _blocks(file: BinaryIO, codec: str) -> Iterator[AvroBlock]:
    sync = _read_exactly(file, _SYNC)
    while (first := file.read(1)) != b"":
        count, size = _number(file, first), _number(file)
        if count < 0 or size < 0:
            raise DamagedBlock("a block has less than no records or bytes")
        data = _decompress(_read_exactly(file, size), codec)
        if count > max(len(data), MAX_EMPTY_RECORDS):
            raise DamagedBlock(f"a block of {len(data):,} bytes says that it has {count:,} records")
        if _read_exactly(file, _SYNC) != sync:
            raise DamagedBlock("a block does not end with the marker of the file")
        yield AvroBlock(count, data)


def _number(file: BinaryIO, first: bytes = b"") -> int:
    """Reads a zigzag number with seven bits per byte."""
    result = shift = 0
    while True:
        byte = (first or _read_exactly(file, 1))[0]
        first = b""
        result |= (byte & 127) << shift
        if byte < 128:
            return (result >> 1) ^ -(result & 1)
        shift += 7
        if shift > 63:
            raise DamagedBlock("a number has more than 64 bits")


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    """Reads `size` bytes in pieces: there may be far fewer than the file claims."""
    if size > current_limits().block:
        raise DamagedBlock(current_limits().too_large(f"a block of {size:,} bytes"))
    pieces = []
    left = max(size, 0)
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            raise DamagedBlock("it ends too early")
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress(data: bytes, codec: str) -> bytes:
    """Decompresses a block; raises if it is too large."""
    max_bytes = current_limits().block
    try:
        match codec:
            case "null":
                return data
            case "deflate":
                block = _decompress_upto(zlib.decompressobj(-15), data, max_bytes)
            case "bzip2":
                block = _decompress_upto(bz2.BZ2Decompressor(), data, max_bytes)
            case "xz":
                block = _decompress_upto(lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, max_bytes)
            case "zstandard":
                block = bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(max_bytes + 1))
            case "snappy":
                block = _snappy(data, max_bytes)
            case _:
                raise DamagedBlock(f"it is packed by {codec}, which is not known")
    except (zlib.error, OSError, EOFError, lzma.LZMAError, pa.ArrowException, MemoryError) as error:
        raise DamagedBlock(f"a block cannot be unpacked: {error}") from None
    if len(block) > max_bytes:
        del block  # the traceback would keep it in memory
        raise DamagedBlock(current_limits().too_large("an unpacked block"))
    return block


def _decompress_upto(unpack: Any, data: bytes, max_bytes: int) -> bytes:
    block: bytes = unpack.decompress(data, max_bytes + 1)
    if not unpack.eof and len(block) <= max_bytes:
        raise DamagedBlock("a block ends too early")
    return block


def _snappy(data: bytes, max_bytes: int) -> bytes:
    """Decompresses Snappy data, which begins with its size and is followed by a four-byte checksum."""
    packed, checksum = data[:-4], data[-4:]
    size = _unsigned(packed)
    if size > max_bytes:
        raise DamagedBlock(current_limits().too_large("an unpacked block"))
    block = pa.Codec("snappy").decompress(packed, decompressed_size=size, asbytes=True)
    if zlib.crc32(block).to_bytes(4, "big") != checksum:
        raise DamagedBlock("the checksum of a block is wrong")
    return bytes(block)


def _unsigned(data: bytes) -> int:
    folded = _number(io.BytesIO(data))
    return 2 * folded if folded >= 0 else -2 * folded - 1
