"""The query console in a real Chromium: the editor, runs, results, charts, history; without scripts, too."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tidegate
from tests.server.web_site import Site, serving, tiled

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here: .ci/chromium installs one"
)
PICTURES = Path(os.environ.get("TIDEGATE_SCREENSHOTS", "screenshots"))
DAYS = "SELECT date_trunc('day', created_at) AS day, count(*) AS orders, max(id) AS id FROM orders GROUP BY 1 ORDER BY 1"
MANY = "SELECT id, price, created_at FROM orders WHERE customer < 5000"
VALUES = """SELECT * FROM (VALUES
  (1, 10.5::numeric, '{"b": 12345678901234567890, "a": [1, {}]}'::jsonb, repeat('long ', 130)),
  (2, NULL, NULL, ''), (3, 9.5, '[]', E'tab\\there')) AS t (id, n, doc, note)"""


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tiled("memory://", 3) as found:
        yield found


@pytest.fixture(scope="module")
def site(db: tidegate.Database) -> Iterator[Site]:
    with serving(db) as found:
        yield found


@pytest.fixture
def context(browser: Any, site: Site) -> Iterator[Any]:
    found = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    found.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    yield found
    found.close()


@pytest.fixture
def page(context: Any, site: Site) -> Iterator[Any]:
    """The console; what its scripts raise or the browser refuses fails the test."""
    found, said = context.new_page(), []
    found.set_default_timeout(20_000)
    found.on("console", lambda message: said.append(message.text))
    found.on("pageerror", lambda error: said.append(str(error)))
    found.goto(f"{site.url}/query")
    until(found, "document.activeElement.id === 'sql'")
    yield found
    assert said == []


def until(page: Any, expression: str) -> None:
    """Waits until it holds. Playwright's own way evaluates a text inside of the page, which its policy forbids."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"it never came true: {expression}")


def keep(page: Any, name: str, **options: Any) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"console_{name}.png", **options)


def run(page: Any, sql: str | None = None, keys: str = "Control+Shift+Enter") -> None:
    """Runs a text, and waits for its result."""
    if sql is not None:
        page.fill("#sql", sql)
    page.evaluate("document.getElementById('result').setAttribute('data-before', '')")
    page.keyboard.press(keys)
    until(page, "!document.getElementById('result').hasAttribute('data-before')")


def column(page: Any, number: int) -> list[str]:
    return page.locator(f".rows tbody tr:not([hidden]) td:nth-child({number})").all_inner_texts()


# ---------------------------------------------------------------- the answer


def test_the_answer_is_under_the_query(page: Any) -> None:
    run(page, "SELECT id, price FROM orders\nWHERE customer < 3000\nORDER BY id")
    rows = page.locator(".rows tbody tr")
    assert rows.nth(4).bounding_box()["y"] < 800
    assert page.evaluate("scrollY") == 0
    page.wait_for_selector(
        "#chart svg"
    )  # the map comes with the answer of /explain, which may take longer than the rows
    editor, result, chart = (page.locator(one).bounding_box() for one in (".cm-editor", "#result", "#chart"))
    assert editor["y"] < result["y"] < chart["y"]
    assert "local in" in page.inner_text(".answer .cost")
    assert "rows local in" in page.text_content("[role=status]"), "screen readers hear of it"
    keep(page, "answer")


def test_after_an_error_nothing_of_the_query_before_is_shown(page: Any) -> None:
    run(page, MANY)
    page.wait_for_selector("path.tile.read", state="attached")
    run(page, "SELECT id FROM orders\nWHERE prise > 3 ")
    assert page.locator(".rows").count() == 0
    assert page.inner_text("#result .what") == 'column "prise" does not exist'
    until(page, "document.querySelector('.sql-error')?.textContent === 'prise'")
    until(page, "!document.querySelector('path.tile.read')")
    assert page.locator(".conjunct").count() == 0
    keep(page, "error")
    run(page, "SELECT 1 +")
    until(page, "document.querySelector('.sql-error')?.textContent === '+'")
    page.keyboard.type(" 2")
    until(page, "!document.querySelector('.sql-error')")


def test_several_statements_have_all_their_results(page: Any) -> None:
    run(page, "SELECT 1 AS a;\nSELECT count(*) FROM orders;\nSELECT prise FROM orders;\nSELECT 2")
    assert page.locator(".answer").count() == 3
    assert page.locator(".answer .number").all_inner_texts() == ["1", "2", "3"]
    assert "metadata in" in page.inner_text(".answer >> nth=1 >> .cost")
    assert "line 3, column 8" in page.inner_text(".answer.failed")
    assert page.inner_text(".skipped") == "1 statement after it: not run."
    until(page, "document.querySelector('.sql-error')?.textContent === 'prise'")
    keep(page, "several", full_page=True)


def test_what_runs_is_the_selection_or_the_statement_at_the_cursor(page: Any) -> None:
    page.fill("#sql", "SELECT 1 AS one;\nSELECT 2 AS two, ';' AS text;\nSELECT 3 AS three")
    run(page, keys="Control+Enter")
    assert page.locator(".rows th").all_inner_texts() == ["three"]
    page.keyboard.press("ArrowUp")
    run(page, keys="Control+Enter")
    assert page.locator(".rows th").all_inner_texts() == ["two", "text"]
    page.keyboard.press("Control+Home")
    page.keyboard.press("Shift+ArrowDown")
    run(page, keys="Control+Enter")
    assert page.locator(".rows th").all_inner_texts() == ["one"]
    page.keyboard.press("Control+End")
    page.click("text=Run")
    until(page, "document.querySelectorAll('.answer').length === 3")
    page.focus("#sql")
    page.keyboard.press("Control+Home")
    page.keyboard.type("SELECT x FROM orders;\n")
    run(page, keys="Control+Shift+Enter")
    assert "line 1" in page.inner_text(".answer.failed")


# ---------------------------------------------------------------- the editor


def options(page: Any, first: str) -> list[str]:
    """What is offered, once `first` comes first: what was offered for fewer letters may still be there."""
    label = ".cm-tooltip-autocomplete .cm-completionLabel"
    until(page, f"document.querySelector('{label}')?.textContent === {first!r}")
    return page.locator(label).all_inner_texts()


def test_the_editor_colours_and_completes(page: Any) -> None:
    page.keyboard.type("SELECT price FROM ord")
    assert options(page, "orders") == ["orders"]
    page.keyboard.press("Tab")
    page.keyboard.type(" o WHERE cu")
    options(page, "customer")  # columns come first
    keep(page, "completion")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type(" > 5 AND o.")
    assert sorted(options(page, "country")) == ["country", "created_at", "customer", "id", "price"]
    page.keyboard.press("Escape")
    page.keyboard.type("country = 'cu")
    page.keyboard.press("Control+Space")
    page.wait_for_timeout(200)
    assert page.locator(".cm-tooltip-autocomplete").count() == 0, "not inside of a string"
    assert (
        page.input_value("#sql-text") == "SELECT price FROM orders o WHERE customer > 5 AND o.country = 'cu'"
    )
    colours = {
        kind: page.evaluate(f"getComputedStyle(document.querySelector('.sql-{kind}')).color")
        for kind in ("keyword", "string", "number")
    }
    assert len(set(colours.values())) == 3
    page.click("[data-theme-toggle]")
    dark = page.evaluate("getComputedStyle(document.querySelector('.sql-keyword')).color")
    assert dark != colours["keyword"]


def test_settings_and_functions_complete(page: Any) -> None:
    page.keyboard.type("SET stats")
    options(page, "stats_filter")
    page.fill("#sql", "SELECT date_tr")
    page.keyboard.press("Control+Space")
    options(page, "date_trunc")
    page.keyboard.press("Tab")
    assert page.input_value("#sql-text") == "SELECT date_trunc("


def test_tab_leaves_the_editor(page: Any) -> None:
    page.keyboard.type("SELECT 1")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Run"


# ---------------------------------------------------------------- rows


def test_columns_sort_by_value(page: Any) -> None:
    run(page, VALUES)
    for order in (["3", "1", "2"], ["1", "3", "2"], ["1", "2", "3"]):
        page.click("th >> text=n >> nth=0")
        assert column(page, 1) == order, "10.5 is more than 9.5; NULL comes last; the third click undoes it"
    assert page.locator(".sorted-note").count() == 0
    assert page.locator(".rows td.n").count() == 6
    assert page.locator(".null").count() == 2
    assert page.locator("tbody tr:nth-child(2) td:nth-child(4) .null").count() == 0, "'' is no NULL"


def test_more_rows_are_shown_on_request(page: Any) -> None:
    run(page, MANY)
    assert len(column(page, 1)) == 100
    page.click("text=Show 100 more")
    assert len(column(page, 1)) == 200
    page.click("text=Show all 1,000")
    assert len(column(page, 1)) == 1_000
    assert "more rows: download all" in page.inner_text(".more")
    page.click("th >> text=price")
    prices = [float(text) for text in column(page, 2)]
    assert prices == sorted(prices)
    assert "the 1,000 rows that were sent" in page.inner_text(".sorted-note")
    keep(page, "sorted", full_page=True)


def test_values_open(page: Any) -> None:
    run(page, VALUES)
    document = page.locator("tbody tr:first-child td:nth-child(3) span")
    document.click()
    assert document.inner_text().startswith('{\n  "a": [\n    1,\n    {}\n  ],\n  "b": 12345678901234567890')
    document.press("Enter")
    assert "\n" not in document.inner_text()
    note = page.locator("tbody tr:first-child td:nth-child(4) span")
    assert len(note.inner_text()) == 500
    note.click()
    assert len(note.inner_text().rstrip()) == 649
    keep(page, "values")


def test_rows_are_copied(page: Any) -> None:
    run(page, VALUES)
    page.click(".tools >> text=Copy")
    until(page, "document.querySelector('.tools').textContent.includes('Copied')")
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert lines[0] == "id\tn\tdoc\tnote"
    assert lines[1].startswith('1\t10.5\t"{""a"":[1,{}],""b"":12345678901234567890}"\tlong long')
    assert lines[2:4] == ["2\t\t\t", '3\t9.5\t[]\t"tab\there"']


def test_results_are_downloaded_whole(page: Any, tmp_path: Path) -> None:
    run(page, "SELECT id FROM orders WHERE customer < 5000 ORDER BY id")
    found = {}
    for name in ("CSV", "JSON", "Parquet"):
        with page.expect_download() as started:
            page.click(f".tools >> text={name}")
        started.value.save_as(tmp_path / name)
        found[name] = tmp_path / started.value.suggested_filename
    assert [path.name for path in found.values()] == ["result.csv", "result.json", "result.parquet"]
    rows = pq.read_table(tmp_path / "Parquet").num_rows
    assert rows > 1_000
    assert len((tmp_path / "CSV").read_text().splitlines()) == rows + 1
    assert all("id" in json.loads(line) for line in (tmp_path / "JSON").read_text().splitlines()[:5])


# ---------------------------------------------------------------- charts, plans


def test_a_result_is_drawn(page: Any) -> None:
    run(page, DAYS)
    page.click("text=Chart")
    page.wait_for_selector(".plot canvas")
    assert page.input_value("[data-plot=x]") == "0"
    assert page.locator("[data-plot=y]:checked").count() == 1, "the key is not drawn"
    assert page.input_value("[data-plot=draw]") == "line"
    assert page.inner_text(".plot p") == ""
    keep(page, "chart")
    line = page.locator(".plot canvas").screenshot()
    page.select_option("[data-plot=draw]", "bars")
    assert page.locator(".plot canvas").screenshot() != line
    page.click("text=Chart")
    assert page.locator(".plot").count() == 0
    run(page, MANY)
    page.click("text=Chart")
    until(page, "document.querySelector('.plot p').textContent.includes('first 1,000 rows')")
    run(page, "SELECT country, count(*) AS n FROM orders GROUP BY 1")
    page.click("text=Chart")
    page.wait_for_selector(".plot canvas")
    assert page.input_value("[data-plot=draw]") == "bars"
    run(page, "SELECT 'a' AS text")
    assert page.is_disabled("text=Chart")


def test_an_analysis_is_drawn(page: Any) -> None:
    page.fill("#sql", "SELECT a.country, count(*) FROM orders a JOIN orders b ON a.id = b.id GROUP BY 1")
    page.click("text=Analyze")
    page.wait_for_selector(".analysis")
    assert "embedded in" in page.inner_text(".analysis .cost")
    bars = page.locator(".bars rect.rows")
    widths = [bars.nth(i).bounding_box()["width"] for i in range(bars.count())]
    assert max(widths) > 50
    assert page.locator(".plan li").count() >= 4
    assert "count(*)" in page.inner_text(".bars")
    assert "#" not in page.inner_text(".bars")
    keep(page, "analysis", full_page=True)
    page.set_viewport_size({"width": 400, "height": 844})
    room = "(e => [e.scrollWidth, e.clientWidth])(document.querySelector('.bars'))"
    until(page, f"{room}[0] <= {room}[1]")  # the times are in sight
    run(page, "SELECT id, created_at, 'two words' AS text FROM orders LIMIT 3")
    assert page.locator(".rows tbody tr").first.bounding_box()["height"] < 40, "a row is one line"


# ---------------------------------------------------------------- history, links, no scripts


def test_the_history(page: Any, context: Any, site: Site) -> None:
    run(page, "SELECT id FROM orders LIMIT 7")
    run(page, "SELECT nothing")
    run(page, "CREATE CONNECTION k TO POSTGRES (HOST 'h', PASSWORD 'hunter2')")
    page.reload()
    page.click("text=History")
    entries = page.locator(".entry")
    assert entries.count() == 2
    assert "failed" in entries.nth(0).inner_text()
    assert " ms · 7 rows" in entries.nth(1).inner_text()
    assert "hunter2" not in page.evaluate("JSON.stringify(localStorage)")
    keep(page, "history")
    page.fill(".history input", "limit")
    assert entries.count() == 1
    entries.nth(0).click()
    assert page.input_value("#sql-text") == "SELECT id FROM orders LIMIT 7"
    page.click("text=Copy link")
    until(page, "document.querySelector('[data-link]').textContent === 'Copied'")
    address = page.evaluate("navigator.clipboard.readText()")
    assert address == f"{site.url}/query#q=SELECT%20id%20FROM%20orders%20LIMIT%207"
    other = context.new_page()
    other.goto(address)
    other.wait_for_selector(".cm-editor")
    assert other.input_value("#sql-text") == "SELECT id FROM orders LIMIT 7"
    other.wait_for_selector(".sentence")
    assert other.inner_text("#result") == "", "a link runs nothing"
    other.close()
    page.click("text=History")
    page.click("text=Clear")
    assert page.inner_text(".entries") == "Nothing yet."


def test_without_scripts_it_is_a_form(browser: Any, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.url}/query")
    page.fill("textarea", "SELECT 1 AS a;\nSELECT prise FROM orders")
    page.click("text=Run")
    assert page.input_value("textarea") == "SELECT 1 AS a;\nSELECT prise FROM orders"
    assert page.locator(".answer").count() == 2
    assert page.is_visible(".rows td")
    assert page.is_hidden("text=History")
    context.close()


def test_in_the_dark_and_on_a_phone(browser: Any, site: Site) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{site.url}/query")
    page.wait_for_selector(".cm-editor")
    run(page, f"{MANY};\nEXPLAIN ANALYZE {MANY}")
    page.click("text=Chart")
    page.wait_for_selector(".plot canvas")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    keep(page, "phone", full_page=True)
    context.close()
