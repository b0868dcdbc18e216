"""The form of a query box: a text field that `static/console/` turns into an editor, and its buttons.

    query_form(form, console=True)      the page /query, with history and links

Without scripts it is a plain form: Run sends the text, and the answer is a page.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.server.web.forms import QueryForm
from tidegate.server.web.markup import Html, el

MIN_LINES, MAX_LINES = 5, 14
"""Lines of the text field without scripts."""


def query_form(
    form: QueryForm,
    *,
    hint: str = "SELECT …",
    examples: Mapping[str, str] | None = None,
    autofocus: bool = False,
    console: bool = False,
) -> Html:
    """Builds the query box. Its fields elsewhere on the page have `form="ask"`."""
    chips = [
        el("button", name, data_fill=sql, title=sql, type="button", class_="chip")
        for name, sql in (examples or {}).items()
    ]
    lines = min(max(form.sql.count("\n") + 1, MIN_LINES if console else 3), MAX_LINES)
    return el(
        "form",
        *(el("link", rel="stylesheet", href=f"/static/{name}.css") for name in ("vendor/uplot", "console/console")),
        el("script", src="/static/console/early.js"),
        el("script", src="/static/console/console.js", type="module"),
        el("label", "SQL", for_="sql", class_="unseen", id="sql-label"),
        el(
            "textarea", form.sql, name="sql", id="sql", rows=lines, placeholder=hint, spellcheck="false",
            autocomplete="off", autocapitalize="off", data_query=True, autofocus=autofocus,
        ),
        el("input", type="hidden", name="c", value=form.collection) if form.collection else None,
        el("input", type="hidden", name="box", value=form.box),
        el(
            "div",
            el("button", "Run", type="submit", class_="main", title="Run all statements, or what is selected"),
            el("button", "Analyze", type="submit", name="analyze", value="1",
               title="EXPLAIN ANALYZE: run the query, and draw where rows, bytes and time went"),
            el("button", "Cancel", type="button", data_cancel="/cancel", disabled=True, title="Escape"),
            el("span", class_="elapsed", data_elapsed=True, aria_live="off"),
            el("span", class_="unseen", data_status=True, role="status"),
            el("div", chips, class_="chips", role="group", aria_label="Examples") if chips else None,
            _keys(),
            _history_buttons() if console else None,
            class_="row",
        ),
        id="ask", class_="box console" if console else "box", method="post", action="/run", data_ask="/explain",
    )  # fmt: skip


def _keys() -> Html:
    return el(
        "span", el("kbd", "Ctrl"), " ", el("kbd", "↵"), " runs the statement at the cursor", class_="keys"
    )


def _history_buttons() -> Html:
    """Builds the buttons of the history and of links; scripts show them."""
    return el(
        "span",
        el("button", "Copy link", type="button", data_link=True, title="Copy the address of this page with the query in it"),
        el("button", "History", type="button", data_history=True, aria_expanded="false", aria_controls="history"),
        class_="kept", hidden=True,
    )  # fmt: skip
