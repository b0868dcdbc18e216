"""The page `/settings`: every setting with its value, its default and its meaning.

Some can be changed for a session. It is that of the query boxes of one browser tab: `static/session.js` remembers its id for the
pages of the tab, which send it with each query. What it may change is what SET may change (`tidegate.settings`): settings of the
database are shown only.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tidegate.config import Config, SettingScope, spelled
from tidegate.errors import TidegateError
from tidegate.server.web.forms import form_fields
from tidegate.server.web.layout import card, error_box, page, table
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.query.boxes import QueryBoxes
from tidegate.server.web.terms import hint
from tidegate.statements import duration_text
from tidegate.text import format_bytes

SCOPES = {
    SettingScope.SESSION: "Every session may change it, for its own statements.",
    SettingScope.LIMIT: "A session may lower it for its own statements, and not exceed the value of the database.",
    SettingScope.DATABASE: "It counts for everybody: the owner of the database sets it, by tidegate.open, db.set or tidegate sql.",
}


@dataclass(frozen=True)
class SessionChange:
    """A change that was asked for and refused."""

    name: str
    value: str
    error: TidegateError


class SettingsPage:
    """Serves `/settings`."""

    def __init__(self, boxes: QueryBoxes) -> None:
        self.boxes, self.gateway = boxes, boxes.gateway

    async def page(self, request: Request) -> Response:
        """Shows the settings, or changes one for the session."""
        if request.method == "GET":
            return await self._shown(request.query_params.get("box"))
        fields = await form_fields(request)
        box, name, value = fields.get("box", ""), fields.get("name", ""), fields.get("value", "").strip()
        try:
            session = self.boxes.get(box).client.db
            session.set(name, None if fields.get("do") == "reset" or not value else value)
        except TidegateError as error:
            return await self._shown(box, SessionChange(name, value, error))
        return RedirectResponse(f"/settings?box={quote(box, safe='')}#setting-{quote(name)}", 303)

    async def _shown(self, box: str | None, refused: SessionChange | None = None) -> Response:
        content = await run_in_threadpool(self._content, box, refused)
        status = 200 if refused is None else 422
        heading = el("h1", "Settings")
        return page("Settings", heading, content, at="/settings", write=self.gateway.write, status=status)

    def _content(self, box: str | None, refused: SessionChange | None) -> Child:
        base = self.gateway.db.context.config
        id_ = box or QueryBoxes.new_id()
        own = self.boxes.get(id_).client.db.context.config
        groups: dict[bool, list[list[Child]]] = {True: [], False: []}
        for name, meaning in Config.meanings().items():
            open_ = Config.scopes()[name] is not SettingScope.DATABASE
            groups[open_].append(_row(name, meaning, base, own, id_ if open_ else None, refused))
        names = ["setting", "meaning", "default", "database", "who may change it"]
        return [
            el(
                "p", "No setting changes which rows are the right answer. What is set here counts for the queries of this browser "
                "tab, until the server stops.", class_="quiet",
            ),
            error_box(refused.error) if refused else None,
            card(
                "For this tab",
                table([*names, "this tab"], groups[True], stacked=True, label="Settings of the session"),
                id_="session-settings",
            ),
            card(
                "For the whole database",
                table(names, groups[False], stacked=True, label="Settings of the database"),
            ),
            el("span", hidden=True, data_session=id_, data_chosen=bool(box)),
        ]  # fmt: skip


def _row(
    name: str, meaning: str, base: Config, own: Config, box: str | None, refused: SessionChange | None
) -> list[Child]:
    scope = Config.scopes()[name]
    default, present, mine = (getattr(config, name) for config in (Config(), base, own))
    row: list[Child] = [
        el("code", name, id=f"setting-{name}"),
        el("span", meaning, class_="prose"),
        _value(name, default),
        _value(name, present, changed=present != default),
        hint(scope.value, SCOPES[scope]),
    ]
    if box is None:
        return row
    typed = refused.value if refused and refused.name == name else spelled(mine)
    return [*row, _form(name, typed, box, changed=mine != present)]


def _value(name: str, value: object, *, changed: bool = False) -> Html:
    text = spelled(value)
    if not isinstance(value, bool) and isinstance(value, int) and value:
        if name.endswith("_ms"):
            text = duration_text(value)
        elif name.endswith("_bytes") or name == "embedded_memory":
            text = format_bytes(value)
        else:
            text = f"{value:,}"
    return el("span", text, class_="changed" if changed else None, title=spelled(value))


def _form(name: str, value: str, box: str, *, changed: bool) -> Html:
    words = Config.choices(name)
    if words:
        options = [el("option", word, value=word, selected=word == value) for word in words]
        field = el("select", options, name="value", aria_label=f"{name} for this tab")
    else:
        field = el(
            "input", type="text", name="value", value=value, size=12, autocomplete="off", spellcheck="false",
            aria_label=f"{name} for this tab",
        )  # fmt: skip
    return el(
        "form",
        el("input", type="hidden", name="box", value=box),
        el("input", type="hidden", name="name", value=name),
        field,
        el("button", "Set", type="submit", name="do", value="set", class_="act"),
        el("button", "Reset", type="submit", name="do", value="reset", class_="act") if changed else None,
        method="post",
        action="/settings",
        class_="inline",
    )
