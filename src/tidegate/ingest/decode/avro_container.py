"""Object container files of Avro: the schema, then blocks of records, each unpacked within a limit.

    schema, blocks = opened(file, "day.avro")
    for block in blocks:
        block.count, block.data         some records, one behind the other

    Obj 01 │ {avro.schema, avro.codec} │ sync │ count size bytes sync │ count size bytes sync │ …

Numbers in a file are whatever somebody wrote. None is believed before it is looked at: a size is asked of the file in pieces, what
is packed is unpacked only as far as `limits().block`, and a block has no more records than bytes, or than a batch has: records of
no bytes could be without end.
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

from tidegate.ingest.limits import limits

MAGIC = b"Obj\x01"
_SYNC = 16
_PIECE = 1 << 20
_XZ_MEMORY = 128 << 20
MANY = 131_072
"""Records that a block may have, however few bytes."""


class Damaged(ValueError):  # noqa: N818  # it is the file that has the error
    """What is wrong with the file."""


@dataclass(frozen=True)
class Block:
    """Some records."""

    count: int
    data: bytes


def opened(file: BinaryIO) -> tuple[Any, Iterator[Block]]:
    """The schema of a file, and its blocks."""
    if _exactly(file, len(MAGIC)) != MAGIC:
        raise Damaged("it does not start as one")
    header = _header(file)
    try:
        schema = json.loads(header["avro.schema"])
    except (KeyError, ValueError, RecursionError):
        raise Damaged("its header holds no schema") from None
    return schema, _blocks(file, header.get("avro.codec", b"null").decode("ascii", "replace"))


def _header(file: BinaryIO) -> dict[str, bytes]:
    """The map before the first block; the marker follows."""
    found: dict[str, bytes] = {}
    held = 0
    while count := _number(file):
        if count < 0:
            _number(file)  # the bytes that it has
        for _ in range(abs(count)):
            key, value = (_exactly(file, _number(file)) for _ in range(2))
            held += len(key) + len(value) + 1
            if held > limits().block:
                raise Damaged(limits().too_large("its header"))
            found[key.decode("utf-8", "replace")] = value
    return found


def _blocks(file: BinaryIO, codec: str) -> Iterator[Block]:
    sync = _exactly(file, _SYNC)
    while (first := file.read(1)) != b"":
        count, size = _number(file, first), _number(file)
        if count < 0 or size < 0:
            raise Damaged("a block has less than no records or bytes")
        data = _unpacked(_exactly(file, size), codec)
        if count > max(len(data), MANY):
            raise Damaged(f"a block of {len(data):,} bytes says that it has {count:,} records")
        if _exactly(file, _SYNC) != sync:
            raise Damaged("a block does not end with the marker of the file")
        yield Block(count, data)


def _number(file: BinaryIO, first: bytes = b"") -> int:
    """A zigzag number of seven bits a byte."""
    result = shift = 0
    while True:
        byte = (first or _exactly(file, 1))[0]
        first = b""
        result |= (byte & 127) << shift
        if byte < 128:
            return (result >> 1) ^ -(result & 1)
        shift += 7
        if shift > 63:
            raise Damaged("a number has more than 64 bits")


def _exactly(file: BinaryIO, size: int) -> bytes:
    """So many bytes, asked for in pieces: there may be far fewer than somebody says."""
    if size > limits().block:
        raise Damaged(limits().too_large(f"a block of {size:,} bytes"))
    pieces = []
    left = max(size, 0)
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            raise Damaged("it ends too early")
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unpacked(data: bytes, codec: str) -> bytes:
    """The bytes of a block, or an error where they are too many."""
    most = limits().block
    try:
        match codec:
            case "null":
                return data
            case "deflate":
                found = _upto(zlib.decompressobj(-15), data, most)
            case "bzip2":
                found = _upto(bz2.BZ2Decompressor(), data, most)
            case "xz":
                found = _upto(lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, most)
            case "zstandard":
                found = bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(most + 1))
            case "snappy":
                found = _snappy(data, most)
            case _:
                raise Damaged(f"it is packed by {codec}, which is not known")
    except (zlib.error, OSError, EOFError, lzma.LZMAError, pa.ArrowException, MemoryError) as error:
        raise Damaged(f"a block cannot be unpacked: {error}") from None
    if len(found) > most:
        del found  # the error would hold it
        raise Damaged(limits().too_large("an unpacked block"))
    return found


def _upto(unpack: Any, data: bytes, most: int) -> bytes:
    found: bytes = unpack.decompress(data, most + 1)
    if not unpack.eof and len(found) <= most:
        raise Damaged("a block ends too early")
    return found


def _snappy(data: bytes, most: int) -> bytes:
    """Snappy says how much it unpacks to; a checksum of four bytes follows."""
    packed, checksum = data[:-4], data[-4:]
    size = _unsigned(packed)
    if size > most:
        raise Damaged(limits().too_large("an unpacked block"))
    found = pa.Codec("snappy").decompress(packed, decompressed_size=size, asbytes=True)
    if zlib.crc32(found).to_bytes(4, "big") != checksum:
        raise Damaged("the checksum of a block is wrong")
    return bytes(found)


def _unsigned(data: bytes) -> int:
    folded = _number(io.BytesIO(data))
    return 2 * folded if folded >= 0 else -2 * folded - 1
