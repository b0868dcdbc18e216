"""Blob stores: named, immutable objects, written once and read in whole or in ranges.

>>> blob = MemoryBlob()
>>> blob.put("part/a", b"some bytes")
>>> blob.get_ranges("part/a", [(5, 5)])
[b'bytes']

| module | contents |
|---|---|
| `protocol` | `Blob`, what every store promises; the store in memory |
| `files` | objects as files of a folder |
| `object_store` | S3, Google Cloud Storage and Azure, through obstore |
| `retrying` | repeats calls of a store that fails |
| `probe` | checks that a store creates an object only once |
"""

from tidegate.storage.blob.files import FileBlob
from tidegate.storage.blob.object_store import OBJECT_SCHEMES, ObjectBlob, open_object_store
from tidegate.storage.blob.probe import check_create
from tidegate.storage.blob.protocol import Blob, BlobInfo, MemoryBlob
from tidegate.storage.blob.retrying import RetryingBlob

__all__ = [
    "OBJECT_SCHEMES",
    "Blob",
    "BlobInfo",
    "FileBlob",
    "MemoryBlob",
    "ObjectBlob",
    "RetryingBlob",
    "check_create",
    "open_object_store",
]
