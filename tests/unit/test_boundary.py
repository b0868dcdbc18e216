"""The boundary: what nobody foresaw leaves as an InternalError, whose trace is in the log and whose values are not."""

from __future__ import annotations

import contextlib
import gc
import logging
import pickle
import re
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate.boundary import callback, public, trace
from tidegate.ingest.runtime import Ingestion, IngestionGroup
from tidegate.query.result import Result
from tidegate.statements.preview.query_map import Maps


@public
class Api:
    """Fails in many ways."""

    def fail(self, error: BaseException) -> None:
        raise error

    @property
    def value(self) -> int:
        raise KeyError("s3cret")

    @staticmethod
    def made() -> Api:
        raise OverflowError("s3cret")

    def rows(self) -> Iterator[int]:
        yield 1
        raise ValueError("s3cret")

    def told(self, report: Any) -> None:
        callback(report)()


@pytest.mark.parametrize(
    "error",
    [KeyError("s3cret"), OverflowError(), pa.ArrowInvalid("s3cret"), RecursionError(), AssertionError()],
)
def test_what_nobody_foresaw(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(tidegate.InternalError) as caught:
        Api().fail(error)
    found = caught.value
    assert found.__cause__ is error
    assert found.id in str(found)
    assert type(error).__name__ in str(found)
    (record,) = caplog.records
    assert found.id in record.getMessage()
    assert "tests.unit.test_boundary, line" in record.getMessage()
    assert "in Api.fail" in record.getMessage()
    for text in (str(found), record.getMessage(), str(record.__dict__)):
        assert "s3cret" not in text


def test_every_way_out(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    for work in (lambda: api.value, Api.made, lambda: list(api.rows())):
        with pytest.raises(tidegate.InternalError):
            work()
    assert "s3cret" not in caplog.text
    assert len({re.search("internal error ([0-9a-f]{12})", one.getMessage()) for one in caplog.records}) == 3


def test_what_passes(caplog: pytest.LogCaptureFixture) -> None:
    api, own = Api(), tidegate.StoreError("no")
    for error in (own, KeyboardInterrupt(), SystemExit(1), GeneratorExit()):
        with pytest.raises(type(error)) as caught:
            api.fail(error)
        assert caught.value is error
    with pytest.raises(tidegate.LimitError, match="out of memory"):
        api.fail(MemoryError())
    with pytest.raises(TypeError, match="missing 1 required"):
        api.fail()  # type: ignore[call-arg]  # the caller's mistake
    with pytest.raises(ZeroDivisionError):
        api.told(lambda: 1 // 0)  # what the caller's own function raises is the caller's
    assert not caplog.records


def test_causes_are_traced() -> None:
    def inner() -> None:
        try:
            raise KeyError("s3cret")
        except KeyError as error:
            raise ValueError("s3cret") from error

    with pytest.raises(ValueError) as caught:  # noqa: PT011  # its text is what must not be looked at
        inner()
    text = trace(caught.value)
    assert text.startswith("ValueError\n")
    assert "caused by KeyError" in text
    assert "s3cret" not in text


def test_an_internal_error_travels() -> None:
    error = tidegate.InternalError("KeyError", "abc")
    again = pickle.loads(pickle.dumps(error))
    assert (again.id, str(again)) == ("abc", str(error))


@pytest.mark.parametrize("kind", [tidegate.Database, Result, Maps])
def test_every_public_method_is_guarded(kind: type) -> None:
    for name, found in vars(kind).items():
        function = getattr(found, "fget", None) or getattr(found, "__func__", None) or found
        if not name.startswith("_") and callable(function):
            assert function.__code__.co_filename == "<tidegate>", f"{kind.__name__}.{name}"


def test_methods_of_ingestions_are_guarded() -> None:
    for name in ("progress", "stop", "wait"):
        assert vars(Ingestion)[name].__code__.co_filename == "<tidegate>"
        assert callable(vars(IngestionGroup)[name])


def test_a_query_that_fails_inside(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The statement's record and the trace have the same id, and the metrics say that it was our fault."""
    with tidegate.open("memory://") as db:
        monkeypatch.setattr("tidegate.statements.select.select", lambda *_: {}["s3cret"])
        with caplog.at_level(logging.INFO, "tidegate"), pytest.raises(tidegate.InternalError) as caught:
            db.sql("SELECT 's3cret'")
        known = [one.tidegate for one in caplog.records]  # type: ignore[attr-defined]  # ours
        assert [one["error"] for one in known] == [caught.value.id] * 2
        assert 'tidegate_statements_total{kind="select",outcome="internal"} 1.0' in db.metrics()
        assert "s3cret" not in caplog.text


@pytest.mark.parametrize("error", [tidegate.StoreError("no"), KeyError("no")])
def test_what_failed_is_let_go_at_once(error: Exception) -> None:
    """No cycle is made: rows and sockets in the frames of a failure would stay until Python looks for garbage."""

    class Held:
        pass

    @public
    class Api:
        def fail(self) -> None:
            held = Held()
            alive.append(weakref.ref(held))
            raise error

        def rows(self) -> Iterator[int]:
            yield 1
            self.fail()

    alive: list[weakref.ref[Held]] = []
    gc.disable()
    try:
        for work in (Api().fail, lambda: list(Api().rows())):
            with contextlib.suppress(tidegate.TidegateError):
                work()
            error.__traceback__ = None
            assert [one() for one in alive] == [None] * len(alive)
        with tidegate.open("memory://") as db:
            for sql in ("SELECT nope", "SELECT 1 / 0"):
                with pytest.raises(tidegate.TidegateError) as caught:
                    db.sql(sql)
                frames = [weakref.ref(one) for one in (caught.value,)]
                del caught
                assert [one() for one in frames] == [None]
    finally:
        gc.enable()
