"""Runs the statements of a query box one after the other, and shows the result of each.

    runner = ScriptRunner(box.client, "SELECT 1; SELECT x; SELECT 2", watch)
    await runner.run()
    runner.shown()      a result, the error of `SELECT x` with its place, and that one statement was not run

What follows a statement that failed is not run. All statements share the session of the box, its time-out and its Cancel button.
"""

from __future__ import annotations

import json
import time

from starlette.concurrency import run_in_threadpool

from tidegate.errors import TidegateError
from tidegate.query import CancelToken, Result
from tidegate.server.gateway import ClientSession
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.query import answer, plan_picture
from tidegate.server.web.query.answer import AnswerHeading, AnswerLimits
from tidegate.server.web.query.script import ScriptStatement, analyzed, split_script
from tidegate.text import plural


class ScriptRunner:
    """One run of a query box."""

    def __init__(
        self, client: ClientSession, sql: str, watch: CancelToken, box: str, *, analyze: bool
    ) -> None:
        self.client, self.sql, self.watch, self.box, self.analyze = client, sql, watch, box, analyze
        self.answers: list[Child] = []
        self.rows, self.seconds, self.failed = 0, 0.0, False

    async def run(self) -> None:
        """Runs the statements until one fails."""
        began = time.perf_counter()
        try:
            script = await run_in_threadpool(split_script, self.sql)
        except TidegateError as error:
            self._fail(error, None)
            return
        limits = AnswerLimits.shared(len(script))
        for i, given in enumerate(script):
            heading = AnswerHeading(given.text, self.box, i + 1, len(script))
            try:
                await self._run_one(given, heading, limits)
            except TidegateError as error:
                self._fail(error, heading)
                if left := len(script) - i - 1:
                    self.answers.append(
                        el("p", f"{plural(left, 'statement')} after it: not run.", class_="skipped")
                    )
                break
        self.seconds = time.perf_counter() - began

    async def _run_one(self, given: ScriptStatement, heading: AnswerHeading, limits: AnswerLimits) -> None:
        picture = await run_in_threadpool(analyzed, given, wanted=self.analyze)
        asked, began = picture or given, time.perf_counter()
        try:
            result: Result = await self.client.ask(asked.sql, self.watch)
        except TidegateError as error:
            asked.restore_position(error)
            raise
        seconds = time.perf_counter() - began
        if picture is not None:
            document = json.loads(result.text())[0]
            self.answers.append(plan_picture.plan_card(document, result, heading))
            self.rows += document.get("Actual Rows", 0)
            return
        rows = 0 if result.is_text else result.ready
        readable = await run_in_threadpool(self.client.changes_nothing, given.sql)
        heading = heading.with_download(readable and bool(result.names) and not result.is_text)
        self.answers.append(await run_in_threadpool(answer.result_card, result, seconds, heading, limits))
        self.rows += rows

    def _fail(self, error: TidegateError, heading: AnswerHeading | None) -> None:
        self.failed = True
        self.answers.append(answer.failed_card(error, heading))

    def shown(self) -> Html:
        """Returns the piece of the page with the results."""
        return answer.results(self.answers, rows=self.rows, seconds=self.seconds, failed=self.failed)
