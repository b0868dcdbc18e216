"""Clients of Kafka, and what their errors mean for a source.

confluent-kafka is imported here, when it is first needed. Partitions and offsets are read by an administration client, which asks
for all partitions at once, one for each connection in a process. Records are read by consumers that are assigned what they read
and join no group, so nothing is ever rebalanced.

A broker that does not answer within the connection's TIMEOUT MS causes a `SourceError`. Errors are classified by the codes of
librdkafka: another attempt may help unless the code is about rights, names, or removed records.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from tidegate.errors import SourceError, UnsupportedError
from tidegate.fork import undying
from tidegate.ingest.options import option_error

LOG = logging.getLogger("tidegate.kafka")
_T = TypeVar("_T")

# The package's type stubs are incomplete, and allow an offset to be None.
Consumer: TypeAlias = Any
Message: TypeAlias = Any
KafkaError: TypeAlias = Any
AdminClient: TypeAlias = Any

_PERMANENT_ERRORS = frozenset({
    "_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "_SSL", "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TOPIC_EXCEPTION", "INVALID_TOPIC_EXCEPTION",
    "_INVALID_ARG", "UNSUPPORTED_VERSION", "SECURITY_DISABLED", "_FATAL", "_UNSUPPORTED_FEATURE",
})  # fmt: skip
RECORDS_GONE_ERRORS = frozenset({"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"})
UNKNOWN_TOPIC_ERRORS = frozenset(
    {"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}
)
_REORGANISING_ERRORS = frozenset({
    "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "PREFERRED_LEADER_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "_WAIT_COORD", "_WAIT_CACHE", "_STATE",
})  # fmt: skip
"""Errors of a cluster that reorganises itself: the request is repeated at once."""
_TIMEOUT_ERRORS = frozenset({"_TIMED_OUT", "REQUEST_TIMED_OUT", "_TIMED_OUT_QUEUE"})


def library() -> Any:
    """The module confluent_kafka; raises unless it is installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise UnsupportedError(
            "KAFKA needs the package confluent-kafka, which is not installed",
            hint="pip install 'tidegate[ingest]'",
        ) from None
    return confluent_kafka


class ErrorLog:
    """The latest connection errors of librdkafka: they explain a time-out."""

    def __init__(self) -> None:
        self.errors: deque[KafkaError] = deque(maxlen=4)

    def __call__(self, error: KafkaError) -> None:
        """Records an error."""
        self.errors.append(error)

    def begin(self) -> None:
        """Starts another attempt; keeps errors of brokers that are down, as these are not reported twice."""
        for error in [error for error in self.errors if error.name() in _PERMANENT_ERRORS]:
            self.errors.remove(error)

    @property
    def permanent(self) -> KafkaError | None:
        """An error after which waiting is useless."""
        return next((error for error in self.errors if error.name() in _PERMANENT_ERRORS), None)

    @property
    def last(self) -> KafkaError | None:
        """The most specific error: the last one that does not summarise others."""
        specific = [error for error in self.errors if error.name() != "_ALL_BROKERS_DOWN"]
        return next(reversed(specific or self.errors), None)


def consumer(
    settings: Mapping[str, Any], errors: ErrorLog, group: str = "tidegate", **more: Callable[..., None]
) -> Consumer:
    """Creates a consumer that never commits or resets offsets on its own."""
    kafka = library()
    fixed = {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
    }

    class WeakConsumer(kafka.Consumer):  # type: ignore[misc, name-defined]  # no stubs
        """A consumer that can be referenced weakly, which the library's own class does not allow."""

    try:
        return undying(WeakConsumer({**settings, **fixed, **more, "error_cb": errors, "logger": LOG}))
    except (kafka.KafkaException, ValueError, TypeError) as error:
        raise SourceError(f"the Kafka client cannot be set up: {error_text(error)}", again=False) from None


class Admin:
    """The administration client of a connection."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        kafka = library()
        self.errors = ErrorLog()
        try:
            client: AdminClient = kafka.admin.AdminClient(
                {**settings, "error_cb": self.errors, "logger": LOG}
            )
            self.client = undying(client)
        except (kafka.KafkaException, ValueError, TypeError) as error:
            raise SourceError(
                f"the Kafka client cannot be set up: {error_text(error)}", again=False
            ) from None

    def ask(self, what: str, seconds: float, request: Callable[[Admin, float], _T]) -> _T:
        """Sends a request and returns its result; error messages name `what`."""
        self.errors.begin()
        until = time.monotonic() + seconds
        try:
            while True:
                try:
                    return request(self, max(0.1, until - time.monotonic()))
                except library().KafkaException as error:
                    if error.args[0].name() not in _REORGANISING_ERRORS or time.monotonic() > until:
                        raise
                    time.sleep(0.05)
        except library().KafkaException as error:
            self.client.poll(0)  # delivers errors to the log
            raise source_error(error.args[0], what, self.errors) from None
        finally:
            self.client.poll(0)

    def answer(self, future: Future[Any], seconds: float) -> Any:
        """The result of a future; stops waiting after a permanent error such as a wrong password."""
        until = time.monotonic() + seconds + 1  # the client applies the same time-out, with a better error
        while True:
            try:
                return future.result(0.05)
            except TimeoutError:
                self.client.poll(0)
            if self.errors.permanent is not None or time.monotonic() > until:
                raise library().KafkaException(self.errors.permanent or timeout_error("no answer"))


def timeout_error(text: str) -> KafkaError:
    """The error of a time-out."""
    error = library().KafkaError
    return error(error._TIMED_OUT, text)


class _CommitLog(ErrorLog):
    """Collects errors of a connection and the broker's answers to commits."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: Callable[[KafkaError | None], None] = lambda error: None

    def committed(self, error: KafkaError | None, offsets: Sequence[Any]) -> None:
        """Passes on the broker's answer: an error for the request or for one partition, or None."""
        self.answered(error or next((offset.error for offset in offsets if offset.error is not None), None))


# Clients are shared by all upstreams of a connection and live as long as the process: destroying the client of a broker that is
# down blocks this process for many seconds, and connecting again costs a round trip for each batch.


@lru_cache(16)
def _admin(settings: tuple[tuple[str, Any], ...], process: int) -> Admin:
    return Admin(dict(settings))


@lru_cache(16)
def _committer(
    settings: tuple[tuple[str, Any], ...], group: str, process: int
) -> tuple[Consumer, _CommitLog]:
    errors = _CommitLog()
    return consumer(dict(settings), errors, group=group, on_commit=errors.committed), errors


class KafkaClients:
    """The clients that an upstream uses in this process. It pickles as one without clients."""

    def __init__(self) -> None:
        self.record_size: tuple[float, int] | None = None
        """When the mean size of records was sampled, and the size in bytes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return KafkaClients, ()

    def admin(self, settings: Mapping[str, Any]) -> Admin:
        """The administration client for these settings."""
        return _admin(tuple(sorted(settings.items())), os.getpid())

    def commit(
        self,
        settings: Mapping[str, Any],
        group: str,
        topic: str,
        offsets: Mapping[int, int],
        seconds: float,
    ) -> None:
        """Commits offsets of a group through a consumer.

        The administration client is not used: if a group's coordinator answers it too late, an assertion of librdkafka 2.16 ends
        the whole process.
        """
        kafka = library()
        answers: list[KafkaError | None] = []
        client, errors = _committer(tuple(sorted(settings.items())), group, os.getpid())
        client.poll(0)
        errors.answered = answers.append
        at = [kafka.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        try:
            client.commit(offsets=at, asynchronous=True)
        except kafka.KafkaException as error:
            raise source_error(error.args[0], f"group {group}", errors) from None
        until = time.monotonic() + seconds
        while not answers and errors.permanent is None and time.monotonic() < until:
            client.poll(0.02)
        if not answers or answers[0] is not None:
            reason = (answers and answers[0]) or timeout_error("no answer")
            raise source_error(reason, f"group {group}", errors)


def check_settings(more: Mapping[str, str]) -> None:
    """Raises a BindError if librdkafka does not know a setting or refuses its value."""
    kafka = library()
    if not more:
        return
    try:
        kafka.admin.AdminClient({**more, "logger": LOG})
    except (kafka.KafkaException, ValueError, TypeError) as error:
        message = f"SETTINGS: {error_text(error)}"
        raise option_error(message, "settings", hint="they are those of librdkafka") from None


def source_error(error: KafkaError, what: str, errors: ErrorLog | None = None) -> SourceError:
    """Converts an error of Kafka to a SourceError; the errors before a time-out explain it."""
    deeper = None
    if errors is not None:
        deeper = errors.permanent or (errors.last if error.name() in _TIMEOUT_ERRORS else None)
    shown = deeper or error
    text = (
        error_text(shown)
        if deeper is None or deeper is error
        else f"{error_text(error)} ({error_text(deeper)})"
    )
    again = shown.name() not in _PERMANENT_ERRORS | UNKNOWN_TOPIC_ERRORS | RECORDS_GONE_ERRORS
    return SourceError(f"{what}: {text}", again=again, hint=_hint(shown))


def _hint(error: KafkaError) -> str | None:
    name = error.name()
    if "AUTHENTICATION" in name or name == "UNSUPPORTED_SASL_MECHANISM":
        return "look at SASL MECHANISMS, SASL USERNAME and SASL PASSWORD of the connection"
    if "AUTHORIZATION" in name:
        return "the connection's user needs the rights READ and DESCRIBE on the topic"
    if name == "_SSL":
        return "look at SECURITY PROTOCOL and the SSL options of the connection"
    lost = name in _TIMEOUT_ERRORS or name in ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE")
    return "is a broker running there, and is SECURITY PROTOCOL the one it speaks?" if lost else None


def error_text(error: object) -> str:
    """The text of an error, on one line."""
    kafka = library()
    if isinstance(error, kafka.KafkaException) and error.args:
        error = error.args[0]
    text = (error.str() or error.name()) if isinstance(error, kafka.KafkaError) else str(error)
    return " ".join(text.split())
