"""Makes the pictures of the documentation: a lake of orders, the pages over it, and Chromium that looks at them.

    python docs/pictures.py            docs/pictures/parts.png: the map of parts with a query, for the README
                                       docs/pictures/console.png: the query console with a chart, for docs/web.md

Needs what the tests need: playwright, and a Chromium (`.ci/chromium` installs Debian's).
"""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import uvicorn
from playwright.sync_api import sync_playwright

import tidegate
from tidegate.config import Config
from tidegate.server.gateway import Gateway
from tidegate.server.web.app import application

PICTURES = Path(__file__).parent / "pictures"
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
DAY = 86_400_000
QUERY = """SELECT id, price FROM orders
WHERE created_at + '60 days' > '2026-07-20'
  AND (payload->>'customer')::numeric BETWEEN 2000 AND 6000"""
REVENUE = """SELECT date_trunc('week', created_at) AS week, count(*) AS orders, round(sum(price)::numeric / 100, 2) AS revenue
FROM orders WHERE created_at >= '2026-03-01' GROUP BY 1 ORDER BY 1"""
MOST_BYTES = 300_000


def orders(day: int, days: int, rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    """Orders of some days."""
    times = np.sort(START + day * DAY + random.integers(0, days * DAY, rows))
    customers = random.integers(0, 10_000, rows)
    payloads = [
        f'{{"customer": {customer}, "basket": {basket}}}'
        for customer, basket in zip(customers.tolist(), random.integers(1, 40, rows).tolist(), strict=True)
    ]
    return {
        "id": pa.array(np.arange(rows) + day * 1_000),
        "created_at": pa.array(times * 1000, pa.timestamp("us", "UTC")),
        "customer": pa.array(customers.astype(np.int32)),
        "price": pa.array(np.round(random.gamma(2, 20, rows), 2)),
        "payload": pa.array(payloads),
    }


def lake(folder: Path) -> tidegate.Database:
    """Nine months that were reclustered by customer, and two weeks that came in since."""
    db = tidegate.open(folder, config=Config(part_bytes=14_000, recluster_parts=12))
    db.sql(
        "CREATE TABLE orders (id int8, created_at timestamptz, customer int4, price float8, payload jsonb)"
        " CLUSTER BY (customer) KEEP STATISTICS (payload.customer)"
    )
    random = np.random.default_rng(5)
    for day in range(0, 270, 9):
        db.append("orders", orders(day, 9, int(2_400 + 900 * np.sin(day / 40)), random))
    db.recluster("orders")
    for day in range(270, 284, 2):
        db.append("orders", orders(day, 2, 420, random))
    return db


@contextmanager
def served(db: tidegate.Database) -> Iterator[str]:
    """The pages of a lake, at a port that is free; their address."""
    gateway = Gateway(db)
    server = uvicorn.Server(uvicorn.Config(application(gateway), log_config=None, lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()
    gateway.close()


def photograph(url: str, path: Path) -> None:
    """The page of the orders with a query, from the box to what each condition does."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("there is no Chromium here: .ci/chromium installs one")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": 1180, "height": 1000}, color_scheme="light", device_scale_factor=1.5
        )
        page.goto(f"{url}/c/orders")
        page.fill("#sql", QUERY)
        page.wait_for_selector(".conjunct")
        page.evaluate("document.activeElement.blur()")
        box, last = page.locator("#ask").bounding_box(), page.locator("#conditions").bounding_box()
        assert box is not None
        assert last is not None
        clip = {"x": box["x"] - 20, "y": box["y"] - 16, "width": box["width"] + 40}
        page.screenshot(
            path=path, full_page=True, clip={**clip, "height": last["y"] + last["height"] - box["y"] + 20}
        )
        browser.close()


def photograph_console(url: str, path: Path) -> None:
    """The query console with a result and its chart."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": 1180, "height": 860}, color_scheme="light", device_scale_factor=1.5
        )
        page.goto(f"{url}/query")
        page.fill("#sql", REVENUE)
        page.keyboard.press("Control+Enter")
        page.click("text=Chart")
        page.wait_for_selector(".plot canvas")
        page.wait_for_selector(".sentence")
        page.evaluate("document.activeElement.blur()")
        page.screenshot(path=path, clip={"x": 0, "y": 60, "width": 1180, "height": 800})
        browser.close()


def main() -> None:
    """Makes them all."""
    PICTURES.mkdir(exist_ok=True)
    parts, console = PICTURES / "parts.png", PICTURES / "console.png"
    with tempfile.TemporaryDirectory() as folder, lake(Path(folder) / "lake") as db, served(db) as url:
        photograph(url, parts)
        photograph_console(url, console)
    for path in (parts, console):
        assert path.stat().st_size <= MOST_BYTES, f"{path} has {path.stat().st_size:,} bytes"


if __name__ == "__main__":
    main()
