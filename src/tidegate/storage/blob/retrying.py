"""A blob store whose calls are repeated when the store fails.

Only calls that can be repeated without harm are here. `create` is not: a repeated `create` meets the object of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidegate.errors import CorruptError, MissingObject, ReadOnlyError, StoreError
from tidegate.storage.blob.protocol import Blob, BlobInfo, missing_object
from tidegate.storage.retry import RetryPolicy

T = TypeVar("T")


class RetryingBlob:
    """Calls a blob store as often as the retry policy allows."""

    def __init__(self, blob: Blob, retries: RetryPolicy) -> None:
        self.blob, self.retries = blob, retries

    def call(self, work: Callable[[], T]) -> T:
        """The result of `work`, which is repeated when the store fails, unless repeating cannot help."""
        return self.retries.call(work, StoreError, unless=(ReadOnlyError, MissingObject, CorruptError))

    def put(self, name: str, data: bytes) -> None:
        """Stores an object."""
        self.call(lambda: self.blob.put(name, data))

    def find(self, name: str) -> bytes | None:
        """The bytes of an object, or None."""
        return self.call(lambda: self.blob.get(name))

    def get(self, name: str) -> bytes:
        """The bytes of an object; a `MissingObject` error if it does not exist."""
        data = self.find(name)
        if data is None:
            raise missing_object(name)
        return data

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(start, length)`."""
        return self.call(lambda: self.blob.get_ranges(name, ranges))

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Fills each target with the bytes that begin at its start."""
        self.call(lambda: self.blob.read_into(name, starts, targets))

    def delete(self, name: str) -> None:
        """Deletes an object if it exists."""
        self.call(lambda: self.blob.delete(name))

    def list(self, prefix: str) -> list[BlobInfo]:
        """Every object whose name begins with `prefix`, by name."""
        return self.call(lambda: [*self.blob.list(prefix)])
