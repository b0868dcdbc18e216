"""Pieces of pages: the frame with its navigation, cards, tables, error boxes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import MappingProxyType

from starlette.responses import HTMLResponse

from tidegate.errors import TidegateError
from tidegate.server.web.guard import policy_with_nonce
from tidegate.server.web.markup import Child, Html, el, join_html
from tidegate.server.web.terms import term
from tidegate.text import Position

PAGES = (
    ("/", "Collections"), ("/query", "Query"), ("/views", "Views"), ("/ingest", "Sources"),
    ("/maintenance", "Maintenance"), ("/settings", "Settings"), ("/health", "Health"), ("/glossary", "Glossary"),
)  # fmt: skip
SCRIPTS = ("session.js", "tidegate.js", "tips.js", "live.js")
LIVE_MILLISECONDS = 2_000
"""How often the live pieces of a page are reloaded."""
NO_WORDS: Mapping[str, str] = MappingProxyType({})
WAVE = "M1 15c3 0 3-4 6-4s3 4 6 4 3-4 6-4 3 4 6 4"


def page(
    title: str, *content: Child, at: str = "", write: bool = False, known: bool = True, status: int = 200
) -> HTMLResponse:
    """Builds a whole page; `at` is the one of `PAGES` that it belongs to."""
    nonce = secrets.token_urlsafe(16)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="style-nonce", nonce=nonce),  # for the style elements of the editor
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · Tidegate" if title else "Tidegate"),
        el("link", rel="icon", href="/static/tidegate.svg", type="image/svg+xml"),
        el("link", rel="stylesheet", href="/static/tidegate.css"),
        el("script", src="/static/theme.js"),
        [el("script", src=f"/static/{name}", type="module") for name in SCRIPTS],
    )
    body = el(
        "body",
        el("a", "Skip to content", href="#content", class_="skip"),
        _bar(at, write) if known else None,
        el("main", content, id="content", tabindex="-1"),
        el("div", id="tip", class_="tip", role="tooltip", hidden=True),
    )
    response = html_response(Html(f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'), status)
    response.headers["Content-Security-Policy"] = policy_with_nonce(nonce)
    return response


def fragments(*content: Child, status: int = 200) -> HTMLResponse:
    """Returns elements with ids; each replaces the element of the page with its id."""
    return html_response(join_html(content), status)


def live(id_: str, *content: Child, every: int = LIVE_MILLISECONDS) -> Html:
    """Builds a piece of a page that `static/live.js` keeps up to date; the page itself is asked for it."""
    return el("div", content, id=id_, data_live=every)


def html_response(content: Html, status: int = 200) -> HTMLResponse:
    """Sends markup as UTF-8; a character that cannot be encoded (half a surrogate pair) becomes `?`."""
    return HTMLResponse(content.encode("utf-8", "replace"), status)


def _bar(at: str, write: bool) -> Html:
    links = [
        el("a", name, href=path, aria_current="page" if path == at else None, class_="tab")
        for path, name in PAGES
    ]
    mark = el(
        "svg",
        el("path", d=WAVE, class_="wave"),
        el("path", d=WAVE.replace("M1 15", "M1 21"), class_="wave low"),
        el("path", d="M7 3v6M13 3v6M19 3v6", class_="gate"),
        viewBox="0 0 26 26",
        class_="mark",
        aria_hidden="true",
    )
    means = "Clients of this server may change the lake" if write else "This server is read-only"
    return el(
        "header",
        el(
            "div",
            el("a", mark, el("span", "Tidegate"), href="/", class_="brand"),
            el("nav", links, aria_label="Pages"),
            el(
                "button", el("span", "Live", class_="dot-live"), type="button", class_="live-switch", data_live_toggle=True,
                aria_pressed="true", hidden=True, data_tip="Reloads lists and numbers of this page every few seconds. Pauses "
                "while the page is in the background.",
            ),
            el("span", "read-write" if write else "read-only", class_="badge", tabindex="0", data_tip=means),
            el(
                "button",
                _theme(),
                type="button",
                class_="icon",
                data_theme_toggle=True,
                aria_label="Light or dark",
                title="Light or dark",
            ),
            class_="inner",
        ),
        class_="bar",
    )  # fmt: skip


def _theme() -> Html:
    half = "M10 3a7 7 0 1 0 0 14z"
    return el(
        "svg",
        el("circle", cx=10, cy=10, r=7, class_="ring"),
        el("path", d=half),
        viewBox="0 0 20 20",
        aria_hidden="true",
    )


def error_box(error: TidegateError, id_: str | None = None) -> Html:
    """Shows an error: what happened, the position in the text, what to do."""
    excerpt = None if error.position is None else error.position.excerpt()
    place: Child = None
    span: tuple[int | None, int | None] = (None, None)
    if error.position is not None:
        span = _offsets(error.position)
        lines = "" if excerpt is None else "\n".join(excerpt)
        where = f"line {error.position.line}, column {error.position.column}"
        place = [el("div", where, class_="where"), el("pre", lines, class_="caret") if lines else None]
    return el(
        "div",
        el("div", error.message, class_="what"),
        place,
        [el("div", line) for line in error.details()],
        el("div", error.hint, class_="hint") if error.hint else None,
        class_="trouble",
        role="alert",
        id=id_,
        data_from=span[0],
        data_to=span[1],
    )


def _offsets(position: Position) -> tuple[int, int]:
    """Returns where a position begins and ends, in UTF-16 units, by which scripts count."""

    def units(end: int) -> int:
        return len(position.sql[: max(end, 0)].encode("utf-16-le", "surrogatepass")) // 2

    return units(position.start), units(max(position.start, position.end))


def card(heading: Child, *content: Child, id_: str | None = None, more: Child = None) -> Html:
    """Builds a section of a page with a heading."""
    return el(
        "section",
        el("div", el("h2", heading), more, class_="head") if heading else None,
        content,
        class_="card",
        id=id_,
    )


def facts(*pairs: tuple[Child, Child]) -> Html:
    """Builds a row of names and values."""
    return el(
        "dl",
        [el("div", el("dt", name), el("dd", value)) for name, value in pairs],
        class_="facts",
    )


def table(
    names: list[str],
    rows: list[list[Child]],
    numbers: frozenset[int] = frozenset(),
    *,
    words: Mapping[str, str] = NO_WORDS,
    stacked: bool = False,
    label: str = "Table",
) -> Html:
    """Builds a table; `numbers` are the right-aligned columns.

    `words` maps names of columns to words of the glossary that explain them. A `stacked` table shows each row as a list of
    names and values on narrow screens, so that nothing scrolls sideways.
    """

    def cell(i: int, value: Child) -> Html:
        empty = stacked and value in (None, "")
        return el(
            "td",
            value,
            class_="n" if i in numbers else None,
            data_label=names[i] if stacked and not empty else None,
        )

    head = el(
        "tr",
        [
            el("th", term(words[name], name) if name in words else name, class_="n" if i in numbers else None, scope="col")
            for i, name in enumerate(names)
        ],
    )  # fmt: skip
    body = [el("tr", [cell(i, value) for i, value in enumerate(row)]) for row in rows]
    return el(
        "div", el("table", el("thead", head), el("tbody", body), class_="stacked" if stacked else None), class_="scroll",
        tabindex="0", role="region", aria_label=label,
    )  # fmt: skip
