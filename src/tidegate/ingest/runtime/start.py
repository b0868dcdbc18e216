"""Starts ingestions: `db.ingest` of one source, of several as a group, or of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tidegate.boundary import text
from tidegate.context import Context
from tidegate.errors import BindError
from tidegate.ingest.define import catalog as definitions
from tidegate.ingest.runtime.ingestion import BatchRunner, Ingestion
from tidegate.ingest.runtime.progress import IngestionProgress, ReportIngestion, show_progress
from tidegate.progress import ProgressBars
from tidegate.storage.catalog import SourceItem


class IngestionGroup:
    """Several sources that are being ingested, each by its own thread.

    group = db.ingest(once=True)          every source
    group.wait(); group.progress()
    """

    def __init__(self, ingestions: Sequence[Ingestion]) -> None:
        self.each = {ingestion.name: ingestion for ingestion in ingestions}

    def progress(self) -> dict[str, IngestionProgress]:
        """Returns the progress of each source."""
        return {name: ingestion.progress() for name, ingestion in self.each.items()}

    def stop(self) -> None:
        """Stops all of them."""
        for ingestion in self.each.values():
            ingestion.stopping.set()
        for ingestion in self.each.values():
            ingestion.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all have ended; returns whether they have. Raises the error of the first that failed."""
        until = None if timeout is None else time.monotonic() + timeout
        ended = True
        for ingestion in self.each.values():
            ended &= ingestion.wait(None if until is None else max(0.0, until - time.monotonic()))
        return ended

    @property
    def error(self) -> BaseException | None:
        """The error of the first that failed."""
        return next((i.error for i in self.each.values() if i.error is not None), None)

    @property
    def running(self) -> bool:
        """Whether at least one of them is still running."""
        return any(ingestion.running for ingestion in self.each.values())


def ingest(
    context: Context,
    sources: str | Sequence[str] | None,
    runner: Callable[[], BatchRunner],
    *,
    once: bool,
    report: ReportIngestion | None,
) -> Ingestion | IngestionGroup:
    """Starts one source, several, or all (None); with `once` it waits for their end."""
    names = _source_names(context, sources)
    items = {name: definitions.source_item(context, name) for name in names}
    for name in names:
        running = context.ingestions.get(name)
        if isinstance(running, Ingestion) and running.running:
            raise BindError(f'source "{name}" is being ingested already', hint="stop() the other first")
    bars = ProgressBars()  # shared, so that the bars of all sources are drawn below each other
    report = report or partial(show_progress, bars)
    ingestions = [Ingestion(context, items[name], name, once=once, report=report) for name in names]
    if not ingestions:  # there are no sources, and Spark is not started for them
        return IngestionGroup(())
    shared_runner = runner()
    for ingestion in ingestions:
        context.ingestions[ingestion.name] = ingestion
        ingestion.start(shared_runner)
    started = ingestions[0] if isinstance(sources, str) else IngestionGroup(ingestions)
    if once:
        try:
            started.wait()
        finally:
            started.stop()
    return started


def _source_names(context: Context, sources: str | Sequence[str] | None) -> list[str]:
    """The names of the sources, each once."""
    if sources is None:
        return [name for name, item in context.catalog.items().items() if isinstance(item, SourceItem)]
    single = isinstance(sources, str) or not isinstance(sources, Iterable)
    names = [sources] if single else sources
    return list(dict.fromkeys(text(name, "the name of a source") for name in names))
