"""Checks that a store lets exactly one of several callers create an object.

    check_create(blob, "s3://bucket/lake", "mark/catalog/")

One object is created twice, with different bytes. The second must be refused, and the first bytes must stay:

| store | second `create` | afterwards | |
|---|---|---|---|
| S3, GCS, Azure, files | refused | the first bytes | fine |
| one that ignores `If-None-Match` | accepted | the second bytes | refused: two writers would overwrite each other's entries |
| one that knows no `If-None-Match` (501) | an error, while a plain put works | | refused |
| a file system without hard links (FAT) | an error, while a plain put works | | refused |

A lost answer proves nothing, because the client's own retry meets the object that its first attempt created. So the bytes that
can be read back decide, and if they leave it open, the check is repeated. The object is deleted at the end; if the process is
killed before, `sweep` deletes what is left below `prefix` (`storage/maintain/sweep.py`).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable

from tidegate.errors import ReadOnlyError, StoreError
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.blob.protocol import Blob

ATTEMPTS = 8
_FIRST, _SECOND = b"first ", b"second "


def check_create(blob: Blob, where: str, prefix: str) -> None:
    """Raises a `StoreError` that names the store, unless its `create` never replaces what is there."""
    name = f"{prefix}{secrets.token_hex(8)}"
    try:
        exclusive = _is_exclusive(blob, name)
    except StoreError as error:
        if not _can_put(blob, prefix):
            raise  # nothing can be written, which is another problem
        raise _refusal(blob, where, error.message) from None
    finally:
        with contextlib.suppress(StoreError):
            blob.delete(name)
    if not exclusive:
        raise _refusal(blob, where, "it replaces an object that is there")


def _is_exclusive(blob: Blob, name: str) -> bool:
    """Creates an object twice; returns whether the second attempt is refused and the first bytes stay."""
    # `FileBlob.create` first looks whether the name is taken. A concurrent caller would not see it, so the link itself must refuse.
    create = blob.create_unseen if isinstance(blob, FileBlob) else blob.create
    first, second = _FIRST + name.encode(), _SECOND + name.encode()

    def is_there() -> bool | None:
        create(name, first)  # False may answer the second attempt of the client library: the bytes decide
        return True if _read(blob, name) == first else None

    def is_refused() -> bool | None:
        failure: StoreError | None = None
        accepted = False
        try:
            accepted = create(name, second)
        except StoreError as error:
            failure = error
        if _read(blob, name) != first:
            return False  # whatever was answered
        if failure is not None:
            raise failure
        return None if accepted else True

    return _attempt(is_there) and _attempt(is_refused)


def _attempt(work: Callable[[], bool | None]) -> bool:
    """Repeats `work` while the store fails, or contradicts itself (None)."""
    failure = StoreError("what it says that it wrote is not there")
    for _ in range(ATTEMPTS):
        try:
            outcome = work()
            if outcome is not None:
                return outcome
        except ReadOnlyError:
            raise
        except StoreError as error:
            failure = error
    raise failure


def _read(blob: Blob, name: str) -> bytes | None:
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(StoreError):
            return blob.get(name)
    return blob.get(name)


def _can_put(blob: Blob, prefix: str) -> bool:
    """Whether the store accepts an unconditional put, so that it is the condition that it refuses."""
    name = f"{prefix}{secrets.token_hex(8)}"
    try:
        blob.put(name, _FIRST)
        blob.delete(name)
    except StoreError:
        return False
    return True


def _refusal(blob: Blob, where: str, why: str) -> StoreError:
    if isinstance(blob, FileBlob):
        return StoreError(
            f"{where}: this file system cannot create a file only if there is none by that name ({why})",
            hint="hard links must be exclusive, or writers overwrite each other: take a folder on another file system, "
            "or keep the metadata in PostgreSQL: ?metadata=postgresql://…",
        )
    return StoreError(
        f"{where}: this store does not do conditional writes, If-None-Match ({why})",
        hint="without them writers overwrite each other's entries of the log, and rows are lost: keep the metadata in PostgreSQL, "
        "?metadata=postgresql://…, or enable conditional writes, if the store has them",
    )
