"""The pages of a lake, served by a real uvicorn on a port of its own, for tests that ask them as programs and browsers do."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import uvicorn

import tidegate
from tidegate.config import Config
from tidegate.server.gateway import Gateway
from tidegate.server.web.app import application

DAY = 86_400_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
CUSTOMERS = 10_000


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass(frozen=True)
class Site:
    """A server that runs."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, fields: Mapping[str, Any], **headers: str) -> Answer:
        body = urlencode(fields).encode()
        return self.ask("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded", **headers})

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Sends a request; `Accept_Language` is the header Accept-Language."""
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            asking.request(
                method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
            )
            answer = asking.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())
        finally:
            asking.close()


@contextmanager
def serving(db: tidegate.Database, *, write: bool = False, **options: Any) -> Iterator[Site]:
    """Serves until it is left."""
    gateway = Gateway(db, write=write)
    config = uvicorn.Config(application(gateway, **options), log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield Site(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(30)
            gateway.close()


def tiled(path: Any, batches: int = 12) -> tidegate.Database:
    """A lake with orders whose parts are tiles of time and customer, and some that were written since."""
    db = tidegate.open(path, config=Config(part_bytes=8_000, recluster_parts=12))
    db.sql(
        "CREATE TABLE orders (id int8, created_at timestamptz, customer int4, country text, price float8)"
        " CLUSTER BY (customer)"
    )
    random = np.random.default_rng(7)
    for batch in range(batches):
        db.append("orders", orders(batch * 10, 10, 1_500, random))
    db.recluster("orders")
    for batch in range(4):
        db.append("orders", orders(batches * 10 + batch * 2, 2, 300, random))
    return db


def orders(day: int, days: int, rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    """Orders of some days."""
    times = np.sort(START + day * DAY + random.integers(0, days * DAY, rows)) * 1000
    countries = np.array(["de", "np", "us", "fr", "jp"])[random.integers(0, 5, rows)]
    return {
        "id": pa.array(np.arange(rows) + day * 1_000),
        "created_at": pa.array(times, pa.timestamp("us", "UTC")),
        "customer": pa.array(random.integers(0, CUSTOMERS, rows).astype(np.int32)),
        "country": pa.array(countries),
        "price": pa.array(np.round(random.gamma(2, 20, rows), 2)),
    }
