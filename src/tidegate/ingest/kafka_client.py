"""Clients of Kafka, and what they say when something is wrong.

confluent-kafka is imported here, when it is first needed. Positions, partitions and offsets are asked by an administration client,
one for each connection in a process, as that asks for all partitions at once; records are read by consumers that are assigned
what they read and join no group, so there is nothing to rebalance.

What a broker does not say within the connection's TIMEOUT MS ends as a `SourceError`. Trying again may help unless it is about
rights, names, or records that are gone.
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

from tidegate.errors import BindError, SourceError, UnsupportedError
from tidegate.fork import undying

LOG = logging.getLogger("tidegate.kafka")
_T = TypeVar("_T")

# The package's own stubs leave out half of what it has, and let an offset be None.
Consumer: TypeAlias = Any
Message: TypeAlias = Any
KafkaError: TypeAlias = Any
AdminClient: TypeAlias = Any

_HOPELESS = frozenset({
    "_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "_SSL", "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TOPIC_EXCEPTION", "INVALID_TOPIC_EXCEPTION",
    "_INVALID_ARG", "UNSUPPORTED_VERSION", "SECURITY_DISABLED", "_FATAL", "_UNSUPPORTED_FEATURE",
})  # fmt: skip
GONE = frozenset({"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"})
UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
_MOVING = frozenset({
    "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "PREFERRED_LEADER_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "_WAIT_COORD", "_WAIT_CACHE", "_STATE",
})  # fmt: skip
"""What a cluster says while it is busy with itself: it is asked again at once."""
_SILENT = frozenset({"_TIMED_OUT", "REQUEST_TIMED_OUT", "_TIMED_OUT_QUEUE"})


def library() -> Any:
    """confluent-kafka; raises unless it is installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise UnsupportedError(
            "KAFKA needs the package confluent-kafka, which is not installed",
            hint="pip install 'tidegate[ingest]'",
        ) from None
    return confluent_kafka


class Heard:
    """What librdkafka said of late about its connections: a time-out alone does not tell what is wrong."""

    def __init__(self) -> None:
        self.errors: deque[KafkaError] = deque(maxlen=4)

    def __call__(self, error: KafkaError) -> None:
        """Notes an error."""
        self.errors.append(error)

    def begin(self) -> None:
        """Another try. What is said of a broker that is down stays: librdkafka does not say the same thing twice."""
        for error in [error for error in self.errors if error.name() in _HOPELESS]:
            self.errors.remove(error)

    @property
    def hopeless(self) -> KafkaError | None:
        """An error after which waiting makes no sense."""
        return next((error for error in self.errors if error.name() in _HOPELESS), None)

    @property
    def last(self) -> KafkaError | None:
        """The one that says most: the last that is not the summary of others."""
        telling = [error for error in self.errors if error.name() != "_ALL_BROKERS_DOWN"]
        return next(reversed(telling or self.errors), None)


def consumer(
    settings: Mapping[str, Any], heard: Heard, group: str = "tidegate", **more: Callable[..., None]
) -> Consumer:
    """A consumer that does only what it is told: it commits nothing, and never moves an offset by itself."""
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

    class Watched(kafka.Consumer):  # type: ignore[misc, name-defined]  # no stubs
        """A consumer that can be referred to weakly: of the library's own class no object can."""

    try:
        return undying(Watched({**settings, **fixed, **more, "error_cb": heard, "logger": LOG}))
    except (kafka.KafkaException, ValueError, TypeError) as error:
        raise SourceError(f"Kafka's client cannot be set up: {said(error)}", again=False) from None


class Admin:
    """The administration client of a connection."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        kafka = library()
        self.heard = Heard()
        try:
            made: AdminClient = kafka.admin.AdminClient({**settings, "error_cb": self.heard, "logger": LOG})
            self.client = undying(made)
        except (kafka.KafkaException, ValueError, TypeError) as error:
            raise SourceError(f"Kafka's client cannot be set up: {said(error)}", again=False) from None

    def ask(self, what: str, seconds: float, question: Callable[[Admin, float], _T]) -> _T:
        """The answer to a question; what goes wrong is told as an error of `what`."""
        self.heard.begin()
        until = time.monotonic() + seconds
        try:
            while True:
                try:
                    return question(self, max(0.1, until - time.monotonic()))
                except library().KafkaException as error:
                    if error.args[0].name() not in _MOVING or time.monotonic() > until:
                        raise
                    time.sleep(0.05)
        except library().KafkaException as error:
            self.client.poll(0)  # what was heard is told now
            raise wrong(error.args[0], what, self.heard) from None
        finally:
            self.client.poll(0)

    def answer(self, future: Future[Any], seconds: float) -> Any:
        """What was asked for. Waits no longer than it makes sense: not after a wrong password."""
        until = time.monotonic() + seconds + 1  # the client has this time-out itself, and says more about it
        while True:
            try:
                return future.result(0.05)
            except TimeoutError:
                self.client.poll(0)
            if self.heard.hopeless is not None or time.monotonic() > until:
                raise library().KafkaException(self.heard.hopeless or silence("no answer"))


def admin(settings: Mapping[str, Any]) -> Admin:
    """The one of this process for these settings."""
    return _admin(tuple(sorted(settings.items())), os.getpid())


@lru_cache(16)
def _admin(settings: tuple[tuple[str, Any], ...], process: int) -> Admin:
    return Admin(dict(settings))


def silence(text: str) -> KafkaError:
    """The error of a time-out."""
    error = library().KafkaError
    return error(error._TIMED_OUT, text)


def commit(
    settings: Mapping[str, Any], group: str, topic: str, offsets: Mapping[int, int], seconds: float
) -> None:
    """Notes offsets under a group's name, by a consumer: an administration client whose request to a group's coordinator is
    answered too late ends the whole process (librdkafka 2.16, an assertion).
    """
    kafka = library()
    told: list[KafkaError | None] = []
    found, heard = _committer(tuple(sorted(settings.items())), group, os.getpid())
    found.poll(0)
    heard.done = told.append
    at = [kafka.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    try:
        found.commit(offsets=at, asynchronous=True)
    except kafka.KafkaException as error:
        raise wrong(error.args[0], f"group {group}", heard) from None
    until = time.monotonic() + seconds
    while not told and heard.hopeless is None and time.monotonic() < until:
        found.poll(0.02)
    if not told or told[0] is not None:
        raise wrong((told and told[0]) or silence("no answer"), f"group {group}", heard)


class _Committed(Heard):
    """What is heard of commits too."""

    def __init__(self) -> None:
        super().__init__()
        self.done: Callable[[KafkaError | None], None] = lambda error: None

    def committed(self, error: KafkaError | None, offsets: Sequence[Any]) -> None:
        """The broker's answer, for all partitions or for one."""
        self.done(error or next((one.error for one in offsets if one.error is not None), None))


@lru_cache(16)
def _committer(
    settings: tuple[tuple[str, Any], ...], group: str, process: int
) -> tuple[Consumer, _Committed]:
    heard = _Committed()
    return consumer(dict(settings), heard, group=group, on_commit=heard.committed), heard


def check_settings(more: Mapping[str, str]) -> None:
    """Raises a BindError where librdkafka does not know a setting, or not this value of it. Connects to nothing."""
    kafka = library()
    if not more:
        return
    try:
        kafka.admin.AdminClient({**more, "logger": LOG})
    except (kafka.KafkaException, ValueError, TypeError) as error:
        raise BindError(f"SETTINGS: {said(error)}", hint="they are those of librdkafka") from None


def wrong(error: KafkaError, what: str, heard: Heard | None = None) -> SourceError:
    """An error of Kafka as one of ours: a time-out is told by what was heard before it."""
    deeper = None
    if heard is not None:
        deeper = heard.hopeless or (heard.last if error.name() in _SILENT else None)
    shown = deeper or error
    text = said(shown) if deeper is None or deeper is error else f"{said(error)} ({said(deeper)})"
    again = shown.name() not in _HOPELESS | UNKNOWN | GONE
    return SourceError(f"{what}: {text}", again=again, hint=_hint(shown))


def _hint(error: KafkaError) -> str | None:
    name = error.name()
    if "AUTHENTICATION" in name or name == "UNSUPPORTED_SASL_MECHANISM":
        return "look at SASL MECHANISMS, SASL USERNAME and SASL PASSWORD of the connection"
    if "AUTHORIZATION" in name:
        return "the connection's user needs the rights READ and DESCRIBE on the topic"
    if name == "_SSL":
        return "look at SECURITY PROTOCOL and the SSL options of the connection"
    lost = name in _SILENT or name in ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE")
    return "is a broker running there, and is SECURITY PROTOCOL the one it speaks?" if lost else None


def said(error: object) -> str:
    """The words of an error, on one line."""
    kafka = library()
    if isinstance(error, kafka.KafkaException) and error.args:
        error = error.args[0]
    text = (error.str() or error.name()) if isinstance(error, kafka.KafkaError) else str(error)
    return " ".join(text.split())
