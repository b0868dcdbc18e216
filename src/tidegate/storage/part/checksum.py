r"""Seals that detect changed bytes: every entry of a log and every object that is not a part has one.

    tg1 <32 hex digits: BLAKE2b of the rest>\n<the rest>

A flipped byte, a truncated end or a foreign file is a `CorruptError` that names the object; none of it is used. Parts are Parquet
files that any reader opens, so their digest is in the state instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tidegate.errors import CorruptError

_MAGIC = b"tg1 "
_DIGITS = 32


def digest(data: bytes | memoryview) -> str:
    """The digest of some bytes, as 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=_DIGITS // 2).hexdigest()


def seal(data: bytes) -> bytes:
    """`data` after its digest."""
    return _MAGIC + digest(data).encode() + b"\n" + data


def unseal(name: str, sealed: bytes) -> bytes:
    """The sealed bytes; `name` is for the error."""
    return bytes(unseal_view(name, sealed))


def unseal_view(name: str, sealed: bytes) -> memoryview:
    """The same without a copy: a segment of a million parts is large."""
    size = len(_MAGIC) + _DIGITS + 1
    data = memoryview(sealed)[size:]
    if sealed[:size] != _MAGIC + digest(data).encode() + b"\n":
        raise _damaged(name)
    return data


def verify_pieces(name: str, pieces: Iterable[bytes], expected: str) -> None:
    """Raises unless the pieces of a part, one after the other, have the digest in the state."""
    hasher = hashlib.blake2b(digest_size=_DIGITS // 2)
    for piece in pieces:
        hasher.update(piece)
    if hasher.hexdigest() != expected:
        raise _damaged(name)


def verify(name: str, data: bytes, expected: str) -> bytes:
    """Returns `data` of a part if it has the digest in the state."""
    if digest(data) != expected:
        raise _damaged(name)
    return data


def _damaged(name: str) -> CorruptError:
    message = f"{name} is damaged: its bytes are not those that were written"
    return CorruptError(message, hint="restore it from a backup")
