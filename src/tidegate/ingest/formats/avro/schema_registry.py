r"""A client of Confluent's schema registry: fetches each schema once, by its number.

A framed record starts with a zero byte and four bytes with the number of the writer's schema:

    00 00 00 00 07 …        written by schema 7:  GET <url>/schemas/ids/7  →  {"schema": "{\"type\": …}"}

A number always means the same schema, so schemas are cached. A registry that cannot be reached is an error of the source, which is
retried; a number that the registry does not know is an error of the record.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from tidegate.cache import LruCache
from tidegate.errors import StoreError
from tidegate.ingest.connection import ConnectionType, ExternalConnection
from tidegate.ingest.options import ANY, TEXT, OptionSpec

TRIES = 3
MAX_CACHED_SCHEMAS = 1024
_TIMEOUT = 10.0


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects only within one host, since the request carries credentials."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Returns the redirected request; raises if it leads to another host."""
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if (before.scheme, before.netloc) != (after.scheme, after.netloc):
            raise urllib.error.HTTPError(req.full_url, code, f"it redirects to {after.netloc}", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SameHost)


class UnknownSchemaError(LookupError):
    """The registry has no such schema. This is an error of the record, not of the source."""


@dataclass(frozen=True)
class SchemaRegistry:
    """A schema registry: its URL and credentials, and a cache of its schemas."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    connection: str = ""
    """The name of the connection; empty if only a URL was given."""
    _schemas: LruCache[int, Any] = field(
        default_factory=lambda: LruCache(MAX_CACHED_SCHEMAS), compare=False, repr=False
    )

    @staticmethod
    def of(connection: ExternalConnection) -> SchemaRegistry:
        """Creates the registry of a connection."""
        user = connection.get("username", connection.get("user", ""))
        password = connection.get("password", "")
        return SchemaRegistry(str(connection.get("url", "")), str(user), str(password), connection.name)

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the catalog: the connection's name, or the URL."""
        return {"connection": self.connection} if self.connection else {"url": self.url}

    @staticmethod
    def from_json(
        stored: Mapping[str, Any], connections: Callable[[str], ExternalConnection]
    ) -> SchemaRegistry:
        """Loads the result of `to_json`; `connections` returns the connection with a name."""
        if "connection" in stored:
            return SchemaRegistry.of(connections(stored["connection"]))
        return SchemaRegistry(stored["url"])

    def schema(self, number: int) -> Any:
        """Returns the schema with a number, fetched once."""
        return self._schemas.get_or_compute(
            number, lambda: json.loads(self._get(f"/schemas/ids/{number}")["schema"])
        )

    def latest(self, subject: str) -> tuple[int, Any]:
        """Fetches the newest schema of a subject (`<topic>-value`) and its number; never cached."""
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return int(answer["id"]), json.loads(answer["schema"])

    def _get(self, path: str) -> Any:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise StoreError(
                f"{self.url} is not the address of a schema registry",
                hint="it starts with http:// or https://",
            )
        headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if self.user:
            token = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        request = urllib.request.Request(self.url.rstrip("/") + path, headers=headers)
        for left in reversed(range(TRIES)):
            try:
                with _OPENER.open(request, timeout=_TIMEOUT) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    raise UnknownSchemaError(f"the schema registry {self.url} has no {path}") from None
                if error.code < 500 or not left:
                    raise StoreError(
                        f"the schema registry {self.url} answered {error.code} to {path}"
                    ) from None
            except (OSError, ValueError) as error:
                if not left:
                    raise StoreError(f"the schema registry {self.url} cannot be reached: {error}") from None
            time.sleep(0.1 * (TRIES - left))
        raise AssertionError("every attempt ends in an answer or an error")


SCHEMA_REGISTRY = ConnectionType(
    "confluent schema registry",
    (
        OptionSpec("url", TEXT, "where it is", required=True, example="URL 'http://host:8081'"),
        OptionSpec("username", ANY, "who asks", alias="user"),
        OptionSpec("password", ANY, "a secret; may be env:NAME or file:PATH"),
    ),
)
