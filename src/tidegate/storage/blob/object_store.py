"""A blob store in S3, Google Cloud Storage or Azure, through obstore.

    ObjectBlob.open("s3://bucket/lake", endpoint="http://127.0.0.1:8333", allow_http="true", …)

Options are obstore's own, as strings (region, access_key_id, …). Those that are not given come from the environment, as users of
these clouds expect. `create` is a conditional put, so the cloud decides between concurrent callers. A put or create whose answer
was lost raises `IndeterminateError`.

obstore repeats a request when an answer is lost or a server is busy. That suits every call but `create`: its own first request
makes the second fail, and the caller does not learn that it won. So `create` uses a handle that sends each request once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.errors import IndeterminateError, ReadOnlyError, StoreError
from tidegate.fork import inherited
from tidegate.storage.blob.protocol import BlobInfo, check_name, fill_targets, missing_object
from tidegate.text import first_line

OBJECT_SCHEMES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://")


def _refuse_fork(url: str) -> None:
    """Refuses a forked child: it lacks the threads that serve requests, so each would wait for ever."""
    if inherited("obstore"):
        raise StoreError(
            f"{url}: a forked child of a process that uses object stores cannot use them",
            hint='start it otherwise: multiprocessing.set_start_method("spawn")',
        )


def open_object_store(url: str, **options: str) -> Any:
    """A handle of obstore for the store at `url`, to read files that are not ours; sends nothing yet."""
    return _handle(url, options, None)


def _handle(url: str, options: dict[str, str], retry: Any) -> Any:
    _refuse_fork(url)
    import obstore.store

    config: Any = dict(options)
    client: Any = {
        key: config.pop(key) for key in ("allow_http", "timeout", "connect_timeout") if key in config
    }
    if "endpoint" in config:
        config.setdefault("virtual_hosted_style_request", "false")
        client.setdefault("allow_http", str(config["endpoint"].startswith("http://")).lower())
    try:
        return obstore.store.from_url(url, config=config, client_options=client, retry_config=retry)
    except Exception as error:  # noqa: BLE001  # obstore raises its own, and several others, for bad options
        raise StoreError(f"{url}: {first_line(error)}") from None


class ObjectBlob:
    """Objects below a prefix of a bucket."""

    def __init__(self, store: Any, url: str, once: Any) -> None:
        """`once` is a handle of the same store that sends each request once."""
        self._store, self.url, self._once = store, url, once

    @staticmethod
    def open(url: str, **options: str) -> ObjectBlob:
        """The store at `url`; see the module's docstring for options."""
        return ObjectBlob(open_object_store(url, **options), url, _handle(url, options, {"max_retries": 0}))

    def put(self, name: str, data: bytes) -> None:
        """Stores `data` durably, all of it or none."""
        import obstore

        self._call(name, obstore.put, check_name(name), data, changes=True)

    def create(self, name: str, data: bytes) -> bool:
        """Stores `data` if no object has that name; returns whether it did."""
        from obstore.exceptions import AlreadyExistsError

        try:
            self._call(name, self._create, check_name(name), data, changes=True)
        except AlreadyExistsError:
            return False
        return True

    def _create(self, _: Any, name: str, data: bytes) -> None:
        import obstore

        # In one request however large it is: the parts of a larger one would be put together without a condition.
        obstore.put(self._once, name, data, mode="create", use_multipart=False)

    def get(self, name: str) -> bytes | None:
        """The bytes of the object with that name, or None."""
        import obstore

        try:
            found = self._call(name, obstore.get, check_name(name))
            return bytes(self._call(name, lambda _: found.bytes()))
        except FileNotFoundError:
            return None

    def changed(self, name: str) -> int | None:
        """When the object was last written, in ms by the store's clock; None if there is none."""
        import obstore

        try:
            found = self._call(name, obstore.head, check_name(name))
        except FileNotFoundError:
            return None
        return int(found["last_modified"].timestamp() * 1000)

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(start, length)`; neighbouring ranges are fetched together."""
        return [bytes(piece) for piece in self._ranges(name, ranges)]

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Fills each target with the bytes that begin at its start."""
        ranges = [(start, len(target)) for start, target in zip(starts, targets, strict=True)]
        fill_targets(name, [memoryview(piece) for piece in self._ranges(name, ranges)], targets)

    def _ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[Any]:
        import obstore

        if not ranges:
            return []
        starts, lengths = [start for start, _ in ranges], [length for _, length in ranges]
        try:
            found: Sequence[Any] = self._call(
                name, obstore.get_ranges, check_name(name), starts=starts, lengths=lengths
            )
        except FileNotFoundError:
            raise missing_object(name) from None
        return found

    def delete(self, name: str) -> None:
        """Deletes the object with that name."""
        import obstore

        try:
            self._call(name, obstore.delete, check_name(name))
        except FileNotFoundError:
            return

    def list(self, prefix: str = "", after: str = "") -> Iterator[BlobInfo]:
        """Every object whose name begins with `prefix` and is greater than `after`, by name."""
        import obstore

        # A store lists whole folders: the part of the prefix after the last slash is compared here.
        folder = prefix.rpartition("/")[0]
        infos: list[BlobInfo] = []
        # Pages are fetched as they are asked for, so all of them are asked for inside of `_call`.
        pages = self._call(
            prefix,
            lambda store: list(
                obstore.list(store, prefix=folder or None, offset=after or None, chunk_size=1000)
            ),
        )
        for batch in pages:
            infos += [
                BlobInfo(item["path"], item["size"], int(item["last_modified"].timestamp() * 1000))
                for item in batch
                if item["path"].startswith(prefix) and item["path"] > after
            ]
        yield from sorted(infos)

    def sweep_temporary(self, older_than_s: float) -> int:  # noqa: ARG002  # there is nothing to sweep
        """An object store has no temporary files."""
        return 0

    def _call(self, name: str, work: Any, *args: Any, changes: bool = False, **options: Any) -> Any:
        from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError

        _refuse_fork(self.url)
        try:
            return work(self._store, *args, **options)
        except (AlreadyExistsError, FileNotFoundError):
            raise
        except (BaseError, OSError) as error:
            kind = IndeterminateError if changes else StoreError
            if changes and isinstance(error, PermissionDeniedError):
                kind = ReadOnlyError
            raise kind(f"{self.url}/{name}: {first_line(error)}") from None
