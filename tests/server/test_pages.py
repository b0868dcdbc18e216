"""The pages beside the query box, in a real Chromium: words explained, live numbers, views, sources, maintenance, settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.server.chromium import CHROMIUM, DESKTOP, PHONE, browsing, text, until
from tests.server.web_site import Site, orders, serving, tiled
from tidegate.config import Config
from tidegate.server.web.part_map import svg as drawing
from tidegate.server.web.sources import history
from tidegate.server.web.terms import glossary

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: .ci/chromium installs one"),
    pytest.mark.slow,
]
PICTURES = Path(os.environ.get("TIDEGATE_SCREENSHOTS", "screenshots"))
PAGES = {
    "collections": "/",
    "collection": "/c/orders",
    "explained": "/c/orders?sql=SELECT id FROM orders WHERE customer < 3000 AND price > 2",
    "empty": "/c/empty",
    "many": "/c/many",
    "console": "/query",
    "views": "/views",
    "sources": "/ingest",
    "maintenance": "/maintenance",
    "orphans": "/maintenance?orphans=orders",
    "settings": "/settings",
    "health": "/health",
    "glossary": "/glossary",
}


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tiled("memory://", 6) as found:
        found.sql("CREATE VIEW cheap AS SELECT id, price FROM orders WHERE price < 5 AND customer < 2000")
        found.sql("CREATE VIEW cheapest (n) AS SELECT count(*) FROM cheap")
        found.sql("CREATE TABLE gone (id int8)")
        found.sql("CREATE VIEW broken AS SELECT id FROM gone")
        found.sql("CREATE TABLE empty (id int8, at timestamptz)")
        found.sql("CREATE TABLE events (id int8, at timestamptz)")
        for i in range(4):
            at = pa.array([(1_767_225_600 + i * 3_600) * 1_000_000], pa.timestamp("us", "UTC"))
            found.append("events", {"id": [i], "at": at})
        found.sql("DELETE FROM orders WHERE customer < 1500 AND created_at < '2026-02-01'")
        many(found)
        found.sql("CREATE SOURCE clicks FROM GENERATOR events (RATE 500)")
        yield found


def many(db: tidegate.Database) -> None:
    """A table of more parts than are drawn one by one."""
    db.sql("CREATE TABLE many (id int8, created_at timestamptz, customer int4, country text, price float8)")
    random = np.random.default_rng(1)
    for batch in range(10):
        db.append("many", orders(batch * 7, 7, 40, random))
    shard = db.context.table("many")
    copies = [
        replace(part, name=f"{part.name}{i:04d}", id=-1)
        for part in shard.machine.fetch().parts.all()
        for i in range(100)
    ]
    shard.commit(copies, at=None, token="copies")


@pytest.fixture(scope="module")
def site(db: tidegate.Database) -> Iterator[Site]:
    with serving(db) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with browsing(browser) as found:
        yield found


@pytest.mark.parametrize("looks", ["light", "dark", "narrow"])
def test_every_page(browser: Any, site: Site, looks: str) -> None:
    """No page scrolls sideways, says something on the console, or has a word that the keyboard does not reach."""
    narrow = looks == "narrow"
    options = {
        "viewport": PHONE if narrow else DESKTOP,
        "color_scheme": "dark" if looks == "dark" else "light",
    }
    PICTURES.mkdir(parents=True, exist_ok=True)
    with browsing(browser, **options) as page:
        for name, path in PAGES.items():
            assert page.goto(site.url + path).status == 200, path
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= options["viewport"]["width"], f"{path} scrolls sideways"
            unexplained = page.evaluate(
                "[...document.querySelectorAll('.term')].filter(e => e.tabIndex < 0 || !e.dataset.tip).length"
            )
            assert unexplained == 0, path
            page.screenshot(path=PICTURES / f"{looks}-{name}.png", full_page=True)
            if narrow:
                cut = page.evaluate(
                    "[...document.querySelectorAll('.stacked')].filter(e => e.scrollWidth > e.clientWidth).length"
                )
                assert cut == 0, f"a table of {path} is wider than its place"


# ---------------------------------------------------------------- words


def test_words_are_explained_to_the_keyboard(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/orders")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.word") == "since":
            break
    assert page.inner_text("#tip") == glossary()["since"].plain
    assert page.get_attribute("a.term[data-word=since]", "aria-describedby") == "tip"
    box = page.locator("#tip").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280
    page.keyboard.press("Escape")
    assert not page.is_visible("#tip")
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary#since")
    assert page.inner_text("#since dt") == "since"


def test_words_are_explained_to_the_pointer(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/orders")
    page.hover("text=dot area: bytes")
    page.wait_for_selector("#tip:not([hidden])")
    assert page.inner_text("#tip").startswith("Each mark is one part.")
    page.hover("#tip")
    page.hover(".legend .term >> nth=0")
    until(page, f"{text('#tip')}.startsWith('Level')")
    page.mouse.move(5, 600)
    until(page, "document.getElementById('tip').hidden")


def test_a_touch_explains_before_it_follows(browser: Any, site: Site) -> None:
    with browsing(browser, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.goto(f"{site.url}/c/orders")
        page.tap("a.term[data-word=upper]")
        assert page.inner_text("#tip") == glossary()["upper"].plain
        assert page.url.endswith("/c/orders")
        page.tap("a.term[data-word=upper]")
        page.wait_for_url("**/glossary#upper")


def test_the_glossary_is_that_of_the_documentation(page: Any, site: Site) -> None:
    file = Path(__file__).parents[2] / "docs" / "glossary.md"
    words = re.findall(r"^\| \*\*(.+?)\*\*", file.read_text(), re.MULTILINE)
    assert [entry.word for entry in glossary().values()] == words
    page.goto(f"{site.url}/glossary")
    assert page.locator(".glossary dt").all_inner_texts() == words
    broken = page.evaluate(
        "[...document.querySelectorAll('.glossary a')].filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert broken == 0


# ---------------------------------------------------------------- the map


def test_the_axes_are_time_and_size(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/events")
    assert page.input_value("[name=x]") == "at"
    assert page.input_value("[name=y]") == "_size"
    page.select_option("[name=y]", "_level")
    until(page, "document.querySelector('#map').ariaLabel.endsWith('_level')")
    assert page.locator(".tick.side").all_text_contents() == ["0"], "no half levels"
    page.select_option("[name=y]", "id")
    until(page, "document.querySelector('#map').ariaLabel.endsWith('id')")
    assert page.locator(".tick.side").all_text_contents() == ["0", "1", "2", "3"]
    hours = page.locator(".tick:not(.side)").all_text_contents()
    assert hours[0] == "2026-01-01"
    assert set(hours[1:]) <= {"00:30", "01:00", "01:30", "02:00", "02:30", "03:00"}


def test_an_empty_table_is_a_sentence(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/empty")
    assert page.inner_text("#map") == "empty is empty: nothing was written to it yet."
    assert page.locator("#chart svg, #chart .tick").count() == 0
    page.fill("#sql", "SELECT id FROM empty WHERE id > 3")
    until(page, f"{text('#verdict')}.startsWith('reads 0 of 0 parts')")
    assert "empty is empty" in page.inner_text("#map")


def test_deleted_rows_are_seen(page: Any, site: Site, db: tidegate.Database) -> None:
    deleted = db.status().collections["orders"].deleted
    assert deleted > 0
    page.goto(f"{site.url}/c/orders")
    assert page.locator("path.dot.gone").count() == 1
    assert f"{deleted:,} deleted rows" in page.inner_text("#verdict")
    assert f"deleted rows {deleted:,}" in page.inner_text(".legend")
    counts = [int(mark.split(" ")[11]) for mark in page.get_attribute("#map", "data-marks").split(";")]
    assert sum(counts) == deleted
    page.focus("#map")
    for _ in counts:
        page.keyboard.press("ArrowRight")
        if "deleted" in page.inner_text("#mark"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#part h3")
    shown = re.search(r"deleted rows\s+([\d,]+)", page.inner_text("#part"))
    assert shown is not None
    assert int(shown[1].replace(",", "")) in counts


def test_the_grid_counts_each_part_once(page: Any, site: Site, db: tidegate.Database) -> None:
    total = db.status().collections["many"].parts
    page.goto(f"{site.url}/c/many")
    assert f"as written {total:,}" in page.inner_text(".legend")
    assert page.inner_text("#mark").startswith("Each square adds up the parts of many")
    page.fill("#sql", "SELECT id FROM many WHERE created_at > '2026-02-01' AND price > 1")
    until(page, "document.querySelector('#map').classList.contains('asked')")
    legend = [int(count.replace(",", "")) for count in page.locator(".legend b").all_inner_texts()]
    assert len(legend) == 3
    assert sum(legend) == total
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    parts, pruned, read, whole = (
        int(re.search(rf"([\d,]+) {word}", page.inner_text("#mark"))[1].replace(",", ""))  # type: ignore[index]  # all are there
        for word in ("parts", "pruned", "read", "proven whole")
    )
    assert parts == pruned + read + whole


def test_a_map_for_narrow_screens(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/orders")
    wide = page.get_attribute("#map", "viewBox")
    page.set_viewport_size(PHONE)
    until(page, "document.querySelector('#map').classList.contains('narrow')")
    assert page.get_attribute("#map", "viewBox") == f"0 0 {drawing.NARROW.width} {drawing.NARROW.height}"
    assert page.locator("#map").count() == 1
    box = page.locator("#map").bounding_box()
    assert box["height"] > 300, "as high as it is wide"
    assert 0.85 < box["width"] / drawing.NARROW.width < 1.15, "text is as large as elsewhere"
    page.fill("#sql", "SELECT id FROM orders WHERE customer < 100")
    page.wait_for_selector("svg.map.narrow.asked")
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#mark").startswith("Part ")
    page.set_viewport_size(DESKTOP)
    until(page, "!document.querySelector('#map').classList.contains('narrow')")
    assert page.get_attribute("#map", "viewBox") == wide


# ---------------------------------------------------------------- views and sources


def test_views_say_what_they_read(page: Any, site: Site, db: tidegate.Database) -> None:
    gone = db.context.catalog.find("gone")
    assert gone is not None
    db.context.catalog.drop({"gone": gone})  # as an older version may have done: DROP TABLE refuses it
    page.goto(f"{site.url}/views")
    cheap, cheapest, broken = (page.inner_text(f"#view-{name}") for name in ("cheap", "cheapest", "broken"))
    assert "CREATE VIEW cheap AS SELECT id, price FROM orders" in cheap
    kept = re.search(r"orders\s+(\d+) of (\d+)", cheap)
    assert kept is not None
    assert 0 < int(kept[1]) < int(kept[2])
    assert "through the views cheap" in cheapest
    assert "gone" in broken
    assert page.locator("#view-broken .trouble").count() == 1
    page.click("#view-cheap details summary")
    assert "float8" in page.inner_text("#view-cheap details")
    page.click("#view-cheap >> text=orders >> nth=-1")
    page.wait_for_url("**/c/orders")


def test_lag_is_kept_while_no_page_is_open(
    browser: Any, db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(history, "TICK_SECONDS", 0.05)
    running = db.ingest("clicks", spark=False, progress=lambda _: None)
    try:
        with serving(db) as site, browsing(browser, java_script_enabled=False) as page:
            begin = db.status().sources["clicks"].batches
            while db.status().sources["clicks"].batches < begin + 4:
                page.wait_for_timeout(50)
            page.goto(f"{site.url}/ingest")
            line = page.locator(".charts .line >> nth=1").get_attribute("d")
            assert line.count("L") >= 3, "samples of before the page was opened"
            assert "age of the oldest unread record" in page.inner_text(".charts")
            assert page.locator("svg[role=img][aria-label^='lag of clicks: now']").count() == 1
    finally:
        running.stop()


# ---------------------------------------------------------------- maintenance and settings


def test_maintenance_needs_write_access(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/maintenance")
    assert page.locator("main button, main form").count() == 0
    assert "merge" in page.inner_text("#outlook")
    refused = site.post("/maintenance", {"do": "sweep"})
    assert (refused.status, "read-only" in refused.text) == (403, True)


def test_compaction_and_sweep_from_the_page(browser: Any) -> None:
    with tidegate.open("memory://", config=Config(sweep_grace_ms=0)) as db:
        db.sql("CREATE TABLE t (id int8)")
        for i in range(9):
            db.append("t", {"id": [i]})
        stray = f"part/{db.context.table('t').machine.fetch().shard}/stray"
        db.context.table("t").machine.objects.put(stray, b"x")
        with serving(db, write=True) as site, browsing(browser) as page:
            page.goto(f"{site.url}/maintenance")
            assert re.search(r"merge \d parts", page.inner_text("#outlook"))
            page.click("text=look for orphans")
            assert stray in page.inner_text("#orphans")
            page.click("button:text-is('Compact')")
            until(page, f"{text('#outlook')}.includes('parts became 1')")
            assert db.status().collections["t"].parts < 9
            page.click("button:text-is('Sweep all')")
            until(page, f"{text('#outlook')}.includes('1 orphan')")
            crossing = site.post("/maintenance", {"do": "sweep"}, Sec_Fetch_Site="cross-site")
            assert crossing.status == 403
            assert site.post("/maintenance", {"do": "compact", "name": "nothing"}).status == 303
            until(page, f"{text('#outlook')}.includes('no table or view')")


def test_settings_of_a_tab(browser: Any, site: Site, db: tidegate.Database) -> None:
    sql = "SELECT id FROM orders WHERE customer < 10"
    with browsing(browser) as page:
        page.goto(f"{site.url}/settings")
        rows = page.locator("main tbody tr")
        assert rows.count() == len(Config.meanings())
        assert page.locator("text=lease_ms").count() == 1
        form = "form:has(input[value=stats_filter])"
        page.select_option(f"{form} select", "off")
        page.click(f"{form} button[value=set]")
        page.wait_for_selector(f"{form} button[value=reset]")
        assert db.context.config.stats_filter, "nobody else is affected"
        page.goto(f"{site.url}/query")
        page.fill("#sql", sql)
        until(page, f"/reads (\\d+) of \\1 parts/.test({text('#verdict')})")
        page.goto(f"{site.url}/settings")
        page.wait_for_url("**/settings?box=*")
        page.click(f"{form} button[value=reset]")
        page.wait_for_selector(f"{form} button[value=reset]", state="detached")
    with browsing(browser) as page:
        page.goto(f"{site.url}/settings")
        form = "form:has(input[value=max_result_bytes])"
        page.fill(f"{form} input[name=value]", "99999999999")
        refused = site.post("/settings", {"box": "b", "name": "max_result_bytes", "value": "99999999999"})
        assert (refused.status, "cannot be more than" in refused.text) == (422, True)
        refused = site.post("/settings", {"box": "b", "name": "lease_ms", "value": "1"})
        assert (refused.status, "setting of the database" in refused.text) == (422, True)


# ---------------------------------------------------------------- live


def test_numbers_move_without_a_reload(page: Any, site: Site, db: tidegate.Database) -> None:
    db.sql("CREATE TABLE IF NOT EXISTS moving (id int8)")
    page.goto(site.url)
    page.evaluate("window.same = document.querySelector('a.tile[href=\"/c/moving\"]')")
    page.evaluate("window.same.focus(); window.scrollTo(0, 40)")
    db.append("moving", {"id": [1, 2, 3]})
    until(page, "window.same.textContent.includes('3 rows')")
    assert page.evaluate("window.same.isConnected && document.activeElement === window.same")
    assert page.evaluate("window.scrollY") == 40
    db.sql("CREATE TABLE another (id int8)")
    until(page, "document.querySelector('a.tile[href=\"/c/another\"]') !== null")
    assert page.evaluate("document.activeElement === window.same")
    db.sql("DROP TABLE another")
    db.sql("DROP TABLE moving")
    until(page, "document.querySelector('a.tile[href=\"/c/moving\"]') === null")


def test_live_pauses_and_ends(browser: Any, site: Site) -> None:
    """By a clock that the test moves: nothing is asked for while the page is hidden, or after the switch was used."""
    with browsing(browser) as page:
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.headers.get("x-tidegate", "")))
        page.add_init_script(
            "Object.defineProperty(document, 'hidden', { get: () => window.away === true, configurable: true })"
        )
        page.clock.install()
        page.goto(site.url)
        count = "Number(document.documentElement.dataset.refreshed ?? 0)"

        def turn(away: bool) -> None:
            page.evaluate(
                f"window.away = {str(away).lower()}; document.dispatchEvent(new Event('visibilitychange'))"
            )

        page.clock.fast_forward(60_000)
        until(page, f"{count} >= 1")
        turn(True)
        page.clock.fast_forward(60_000)
        before = requests.count("live")
        page.clock.fast_forward(600_000)
        assert requests.count("live") == before
        turn(False)
        until(page, f"{count} > {before - 1}")
        page.click("[data-live-toggle]")
        assert page.get_attribute("[data-live-toggle]", "aria-pressed") == "false"
        before = requests.count("live")
        page.clock.fast_forward(600_000)
        assert requests.count("live") == before
        page.reload()
        assert page.get_attribute("[data-live-toggle]", "aria-pressed") == "false", "what was chosen stays"
        page.click("[data-live-toggle]")
        until(page, f"{count} >= 1")


def test_a_server_that_fails_is_seen(browser: Any) -> None:
    """The page of a server whose lake was closed says so, and one whose server is gone says that nothing answers."""
    with tidegate.open("memory://") as lake:
        context = browser.new_context(viewport=DESKTOP)
        page = context.new_page()
        with serving(lake) as site:
            page.goto(f"{site.url}/health")
            assert page.inner_text("#health .state") == "ok"
            lake.close()
            until(page, f"{text('#health')}.includes('was closed')")
        until(page, f"{text('[data-live-toggle]')} === 'No answer'")
        context.close()
