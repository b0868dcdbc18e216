"""The pages in a real Chromium, as people use them: by typing, by pointing, by keys alone, in the light and in the dark.

What they look like is kept as pictures in the folder that TIDEGATE_SCREENSHOTS names, else in `screenshots`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.server.web_site import Site, serving, tiled

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here: .ci/chromium installs one"
)
PICTURES = Path(os.environ.get("TIDEGATE_SCREENSHOTS", "screenshots"))
QUERY = "SELECT id, price FROM orders\nWHERE created_at > '2026-02-10' AND customer < 3000"
SLOW = "SELECT count(*) FROM big WHERE " + "md5(" * 12 + "id::text" + ")" * 12 + " < '0'"


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tiled("memory://") as found:
        found.sql("CREATE TABLE big (id int8)")
        for i in range(4):
            found.append("big", {"id": pa.array(np.arange(250_000) + i)})
        found.sql("CREATE SOURCE events FROM GENERATOR events (RATE 500)")
        yield found


@pytest.fixture(scope="module")
def site(db: tidegate.Database) -> Iterator[Site]:
    with serving(db) as found:
        yield found


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of its own; what its console says or its scripts raise fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    found, said = context.new_page(), []
    found.set_default_timeout(20_000)
    found.on("console", lambda message: said.append(message.text))
    found.on("pageerror", lambda error: said.append(str(error)))
    yield found
    context.close()
    assert said == []


def keep(page: Any, name: str, **options: Any) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", **options)


def counts(page: Any) -> tuple[int, int]:
    """Parts read, and parts, as the sentence says."""
    found = re.search(r"reads ([\d,]+) of ([\d,]+) part", page.inner_text("#verdict"))
    assert found is not None
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def marks(page: Any) -> list[list[int]]:
    """Of each mark: parts, kept, whole."""
    lines = page.get_attribute("#map", "data-marks").split(";")
    return [[int(line.split(" ")[i]) for i in (4, 9, 10)] for line in lines]


def until(page: Any, expression: str) -> None:
    """Waits until it holds. Playwright's own way evaluates a text inside of the page, which its policy forbids."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"it never came true: {expression}")


def typed(page: Any, sql: str) -> None:
    """Types into the box, and waits for what the server says of it."""
    before = int(page.get_attribute("#ask", "data-asked") or 0)
    page.fill("#sql", sql)
    until(page, f"Number(document.getElementById('ask').dataset.asked ?? 0) > {before}")


def test_the_collections(page: Any, site: Site) -> None:
    page.goto(site.url)
    keep(page, "collections")
    page.click("text=orders")
    assert page.url == f"{site.url}/c/orders"
    assert page.inner_text("h1") == "orders"


def test_typing_a_query_colours_the_parts(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/orders")
    assert page.locator("path.tile.level1").count() == 1
    assert page.locator("path.tile.read").count() == 0
    keep(page, "collection")
    before = page.locator("#chart").bounding_box()
    page.focus("#sql")
    page.keyboard.type(QUERY, delay=5)
    page.wait_for_selector(".conjunct")
    page.wait_for_selector("path.tile.whole", state="attached")  # what is said of half a query has none
    kept, total = counts(page)
    assert 0 < kept < total
    assert sum(mark[1] for mark in marks(page)) == kept
    for colour in ("dry", "read", "whole"):
        assert page.locator(f"path.tile.{colour}").count() == 1
    assert page.locator("#chart").bounding_box() == before, "nothing moves as one types"
    keep(page, "query")
    typed(page, QUERY.replace("3000", "500"))
    assert counts(page)[0] < kept
    page.check("[name=only] >> nth=0")
    until(page, "document.querySelector('[name=only]').checked")
    typed(page, "")
    assert page.locator("path.tile.read").count() == 0


def test_axes_are_chosen(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/orders")
    tiles = page.get_attribute("path.tile.level1", "d")
    page.select_option("[name=y]", "price")
    until(page, "document.querySelector('#map').ariaLabel.endsWith('created_at and price')")
    assert page.get_attribute("path.tile.level1", "d") != tiles


def test_running_a_query(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/query")
    until(page, "document.activeElement?.id === 'sql'")  # the box has the focus by itself
    page.keyboard.type(QUERY + " LIMIT 7")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result table")
    assert page.inner_text("#result h2") == "7 rows"
    assert "peek in" in page.inner_text(".cost")
    assert page.locator("#result .rows tbody tr").count() == 7
    assert page.locator(".stages tbody tr").count() >= 1
    keep(page, "rows", full_page=True)


def test_typing_before_the_editor_is_there(page: Any, site: Site) -> None:
    """What is typed into the field that the page starts with stays, in its order, and a Run is not lost."""
    held: list[Any] = []
    page.route("**/codemirror.js", lambda route: held.append(route))  # noqa: PLW0108  # playwright cannot hold a method of a list
    page.goto(f"{site.url}/query", wait_until="commit")
    until(page, "document.activeElement?.id === 'sql' && document.activeElement.tagName === 'TEXTAREA'")
    page.keyboard.type("SELECT id, pr")
    while not held:
        page.wait_for_timeout(20)
    held.pop().continue_()
    until(page, "document.querySelector('.cm-editor .cm-content') === document.activeElement")
    page.keyboard.type("ice FROM orders LIMIT 6")
    assert page.inner_text(".cm-content") == "SELECT id, price FROM orders LIMIT 6"
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result table")
    assert page.inner_text("#result h2") == "6 rows"


@pytest.mark.parametrize("way", ["keys", "button"])
def test_a_run_before_the_editor_is_there(page: Any, site: Site, way: str) -> None:
    held: list[Any] = []
    page.route("**/codemirror.js", lambda route: held.append(route))  # noqa: PLW0108  # playwright cannot hold a method of a list
    page.goto(f"{site.url}/query", wait_until="commit")
    until(page, "document.activeElement?.tagName === 'TEXTAREA'")
    page.keyboard.type(QUERY + " LIMIT 5")
    if way == "keys":
        page.keyboard.press("Control+Enter")
    else:
        page.click("text=Run", no_wait_after=True)
    while not held:
        page.wait_for_timeout(20)
    held.pop().continue_()
    page.wait_for_selector("#result table")
    assert page.inner_text("#result h2") == "5 rows"
    assert page.url.startswith(f"{site.url}/query#q="), "it is the same page"
    assert page.locator(".cm-editor").count() == 1


@pytest.mark.parametrize("early", [True, False])
def test_a_run_if_the_editor_never_comes(browser: Any, site: Site, early: bool) -> None:
    with contextlib.closing(browser.new_context()) as context:
        page, held = context.new_page(), list[Any]()
        page.route("**/codemirror.js", lambda route: held.append(route))  # noqa: PLW0108  # playwright cannot hold a method of a list
        page.goto(f"{site.url}/query", wait_until="commit")
        until(page, "document.activeElement?.tagName === 'TEXTAREA'")
        page.keyboard.type(QUERY + " LIMIT 4")
        steps = [lambda: page.keyboard.press("Control+Enter"), lambda: held.pop().abort()]
        while not held:
            page.wait_for_timeout(20)
        for step in steps if early else [steps[1], lambda: page.wait_for_load_state("load"), steps[0]]:
            step()
        page.wait_for_selector("#result table")
        assert page.inner_text("#result h2") == "4 rows"


def test_an_error_has_a_caret(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/orders")
    before = page.locator("#chart").bounding_box()
    typed(page, "SELECT id FROM orders\nWHERE prise > 3")
    assert page.inner_text("#verdict .caret") == "WHERE prise > 3\n      ^^^^^"
    assert "did you mean" in page.inner_text("#verdict")
    moved = page.locator("#chart").bounding_box()
    assert abs(moved["y"] - before["y"]) <= 24
    keep(page, "error")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result .trouble")


def test_cancel(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/query")
    page.fill("#sql", SLOW)
    page.click("text=Run")
    until(page, "document.querySelector('[data-elapsed]').textContent > '0.3 s'")
    page.click("text=Cancel")
    page.wait_for_selector("#result .trouble")
    assert "the query was cancelled" in page.inner_text("#result")
    assert page.is_disabled("[data-cancel]")


def test_keys_alone(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/orders")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "sql"
    page.keyboard.type("SELECT id FROM orders WHERE customer < 100")
    page.wait_for_selector(".conjunct")
    while page.evaluate("document.activeElement.id") != "map":
        page.keyboard.press("Tab")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
    assert re.match(r"Part \d+ · level", page.inner_text("#mark"))
    assert int(page.get_attribute(".cursor", "width")) > 2
    page.keyboard.press("Enter")
    page.wait_for_selector("#part h3")
    assert "customer < 100 is" in page.inner_text("#part")
    assert page.locator(":focus-visible").count() == 1
    page.focus("summary")
    page.keyboard.press("Enter")
    page.wait_for_selector("#listed tbody tr")
    assert "pruned" in page.inner_text("#listed")
    keep(page, "part", full_page=True)


def test_pointing_at_a_part(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/c/orders")
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
    assert page.inner_text("#mark").startswith("Part ")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("#part h3")
    assert "customer" in page.inner_text("#part table")


def test_ingestion_moves(page: Any, site: Site, db: tidegate.Database) -> None:
    page.goto(f"{site.url}/ingest")
    assert "events" in page.inner_text("#live")
    running = db.ingest("events", spark=False, progress=lambda _: None)
    try:
        until(page, "parseFloat(document.querySelector('[data-rate]').textContent.replace(',', '')) > 0")
        page.wait_for_selector(".state.running, .state.idle")
        until(
            page,
            "(document.querySelector('.line-chart .line')?.getAttribute('d').match(/L/g) ?? []).length >= 3",
        )
        keep(page, "ingestion")
        kept = db.sql("SELECT count(*) FROM events").rows()[0][0]
        until(
            page,
            f"Number(document.querySelectorAll('#live dd')[2].textContent.replaceAll(',', '')) >= {kept}",
        )
    finally:
        running.stop()


def test_dark_and_light(browser: Any, site: Site) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{site.url}/c/orders")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    typed(page, QUERY)
    keep(page, "dark")
    page.click("[data-theme-toggle]")
    light = page.evaluate(paper)
    assert _brightness(dark) < 60 < 200 < _brightness(light)
    page.reload()
    assert page.evaluate(paper) == light, "what was chosen stays"
    context.close()


def _brightness(colour: str) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def test_on_a_phone(browser: Any, site: Site) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    for path in ("/", "/c/orders", "/query", "/ingest", "/health"):
        page.goto(site.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, f"{path} scrolls sideways"
    page.goto(f"{site.url}/c/orders")
    typed(page, QUERY)
    keep(page, "phone", full_page=True)
    context.close()


def test_a_token_is_asked_for(page: Any, db: tidegate.Database) -> None:
    with serving(db, token="let me in") as guarded:
        page.goto(guarded.url)
        assert page.url.endswith("/login")
        page.fill("#token", "let me in")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Collections")
        page.goto(f"{guarded.url}/c/orders")
        typed(page, QUERY)
        assert counts(page)[0] > 0
        assert page.evaluate("document.cookie") == "", "no script sees the cookie"


def test_a_fault_of_the_server_is_told_in_words(
    db: tidegate.Database, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as the source of a page; nothing that was on the page is lost."""

    def broken(*_: object) -> object:
        raise KeyError("s3cret")

    monkeypatch.setattr("tidegate.server.web.query.answer.result_card", broken)
    context = browser.new_context()
    with serving(db) as site:
        page = context.new_page()
        page.goto(f"{site.url}/query")
        page.fill("#sql", QUERY)
        page.click("button.main")
        told = page.locator("#result .trouble").inner_text()
        assert "internal error" in told
        assert "<" not in told
        assert "s3cret" not in told
        assert page.input_value("#sql-text") == QUERY
    context.close()
