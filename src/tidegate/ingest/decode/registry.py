r"""A client of Confluent's schema registry: schemas by number, fetched once in a process.

A record framed for it starts with a zero byte and four bytes that number the writer's schema:

    00 00 00 00 07 …        written by schema 7:  GET <url>/schemas/ids/7  →  {"schema": "{\"type\": …}"}

The number of a schema is for ever, so what was fetched is kept. A registry that cannot be reached is an error of
the source (it is tried again), one that does not know the number is an error of the record.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

from tidegate.errors import StoreError

TRIES = 3
_TIMEOUT = 10.0


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a registry within its own host alone: credentials go along, and it decides where to."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The next request, or an error."""
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if (before.scheme, before.netloc) != (after.scheme, after.netloc):
            raise urllib.error.HTTPError(req.full_url, code, f"it sends us to {after.netloc}", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SameHost)


class UnknownSchema(LookupError):  # noqa: N818  # it is the record that has the error
    """The registry has no schema of that number."""


@dataclass(frozen=True)
class Registry:
    """Where a registry is, and who asks."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    connection: str = ""
    """The connection that says all this; empty: nothing but the URL was given."""

    def schema(self, number: int) -> Any:
        """The schema of that number."""
        return _schema(self, number)

    def latest(self, subject: str) -> tuple[int, Any]:
        """The newest schema of a subject (`<topic>-value`) and its number; never kept."""
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return int(found["id"]), json.loads(found["schema"])

    def _get(self, path: str) -> Any:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise StoreError(
                f"{self.url} is no address of a schema registry", hint="it starts with http:// or https://"
            )
        headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if self.user:
            token = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        asked = urllib.request.Request(self.url.rstrip("/") + path, headers=headers)
        for left in reversed(range(TRIES)):
            try:
                with _OPENER.open(asked, timeout=_TIMEOUT) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    raise UnknownSchema(f"the schema registry {self.url} has no {path}") from None
                if error.code < 500 or not left:
                    raise StoreError(
                        f"the schema registry {self.url} answered {error.code} to {path}"
                    ) from None
            except (OSError, ValueError) as error:
                if not left:
                    raise StoreError(f"the schema registry {self.url} cannot be reached: {error}") from None
            time.sleep(0.1 * (TRIES - left))
        raise AssertionError("every try ends in an answer or an error")


@lru_cache(1024)
def _schema(registry: Registry, number: int) -> Any:
    return json.loads(registry._get(f"/schemas/ids/{number}")["schema"])
