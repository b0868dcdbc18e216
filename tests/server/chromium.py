"""A real Chromium for tests of the pages, and how to wait for what a page does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 400, "height": 844}


@contextmanager
def browsing(browser: Any, **options: Any) -> Iterator[Any]:
    """A page of its own; what its console says or its scripts raise fails the test."""
    context = browser.new_context(**{"viewport": DESKTOP, "color_scheme": "light", **options})
    page, messages = context.new_page(), []
    page.set_default_timeout(20_000)
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    assert messages == []


def until(page: Any, expression: str) -> None:
    """Waits until it holds. Playwright's own way evaluates a text inside of the page, which its policy forbids."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"it never came true: {expression}")


def text(selector: str) -> str:
    """The expression for the text of an element."""
    return f"(document.querySelector({selector!r})?.textContent ?? '')"
