"""Live numbers of the web pages, in a real Chromium: they move without a reload, pause, and say when nothing answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tidegate
from tests.server.chromium import CHROMIUM, DESKTOP, browsing, text, until
from tests.server.web_site import Site, serving, tiled

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: .ci/chromium installs one"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tiled("memory://", 2) as found:
        yield found


@pytest.fixture(scope="module")
def site(db: tidegate.Database) -> Iterator[Site]:
    with serving(db) as found:
        yield found


def test_numbers_move_without_a_reload(page: Any, site: Site, db: tidegate.Database) -> None:
    db.sql("CREATE TABLE IF NOT EXISTS moving (id int8)")
    page.set_viewport_size({"width": 1280, "height": 300})  # lower than the page, so that it scrolls
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
