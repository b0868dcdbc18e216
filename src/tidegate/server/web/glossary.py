"""The page `/glossary`: every word of docs/glossary.md, with links between them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tidegate.server.gateway import Gateway
from tidegate.server.web.layout import card, page
from tidegate.server.web.markup import el
from tidegate.server.web.terms import glossary


class GlossaryPage:
    """Serves `/glossary`."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def page(self, _: Request) -> Response:
        """Lists all words."""
        entries = [
            el("div", el("dt", entry.word), el("dd", entry.markup()), id=entry.anchor)
            for entry in glossary().values()
        ]
        content = card(None, el("dl", entries, class_="glossary"))
        return page("Glossary", el("h1", "Glossary"), content, at="/glossary", write=self.gateway.write)
