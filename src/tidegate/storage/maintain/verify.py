"""Verifies that the objects of a shard hold the bytes that were written.

    for name, size, error in verify_objects(machine): …      error is None where an object is as it was written

Queries verify only the pages that they read. This reads every byte: of parts by the digest in the state, of all other objects (the
rollup, its segments, bitmaps of deleted rows) by their own seal. Parts are read in pieces, so memory is bounded.

An object that is missing may have been replaced and swept since the state was read. It counts only if the newest state names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidegate.errors import MissingObject, StoreError
from tidegate.storage.blob.protocol import missing_object
from tidegate.storage.blob.retrying import RetryingBlob
from tidegate.storage.part.checksum import unseal_view, verify_pieces
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.state import State, unreferenced

PIECE_BYTES = 8 << 20


class VerifiedObject(NamedTuple):
    """One object that was read; `error` is None if it is as it was written."""

    name: str
    size: int
    error: StoreError | None


def verify_objects(machine: Machine) -> Iterator[VerifiedObject]:
    """Reads every object that the newest state names, and compares it with its digest."""
    state = machine.fetch()
    for table in state.parts.stored(["name", "size", "digest"]):
        for name, size, digest in zip(*(column.to_pylist() for column in table.columns), strict=True):
            yield VerifiedObject(name, size, _part_error(machine, name, size, digest))
    for name in _sealed(state):
        yield _sealed_object(machine, name)


def _part_error(machine: Machine, name: str, size: int, digest: str) -> StoreError | None:
    pieces = (
        _piece(machine.objects, name, start, min(PIECE_BYTES, size - start))
        for start in range(0, size, PIECE_BYTES)
    )
    try:
        verify_pieces(name, pieces, digest)
    except MissingObject as error:
        return error if is_referenced(machine, name) else None
    except StoreError as error:
        return error
    return None


def _piece(objects: RetryingBlob, name: str, start: int, length: int) -> bytes:
    return objects.get_ranges(name, [(start, length)])[0]


def is_referenced(machine: Machine, name: str) -> bool:
    """Whether the newest state still names an object."""
    return not unreferenced(machine.fetch(), [name], garbage=False)


def _sealed(state: State) -> list[str]:
    rollup = [] if state.rollup is None else [state.rollup[0]]
    bitmaps = sorted(state.parts.deletions.objects) if state.parts.deletions else []
    return [*rollup, *state.segments, *bitmaps]


def _sealed_object(machine: Machine, name: str) -> VerifiedObject:
    try:
        data = machine.objects.find(name)
        if data is None:
            return VerifiedObject(name, 0, missing_object(name) if is_referenced(machine, name) else None)
        unseal_view(name, data)
    except StoreError as error:
        return VerifiedObject(name, 0, error)
    return VerifiedObject(name, len(data), None)
