"""A real Apache Kafka for the tests: one node (KRaft) on loopback, started when first asked for.

`broker()` gives the one of this test run, shared by all of its processes. It is kept by a process of its own (this file, run as a
script), which ends it when the test run ends, however that ends. The jars are fetched by `.ci/kafka`; without them, or
without Java, `broker()` raises `Missing`, and the test is skipped by name.

It has three doors: one for everybody, one that wants a name and a password, and one that says that it lives at `front`, where a
test may put a `Gate` before it, to be closed and opened.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.errors import TidegateError

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".venv" / "kafka"
JAVA = ["-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
LOGS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
USER, PASSWORD = "ingest", "of-the-tests"
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://127.0.0.1:{plain},SASL://127.0.0.1:{sasl},FRONT://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},SASL://127.0.0.1:{sasl},FRONT://127.0.0.1:{front}
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAIN:PLAINTEXT,FRONT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT
listener.name.sasl.sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
num.network.threads=1
num.io.threads=2
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.backoff.ms=100
log.retention.ms=-1
log.initial.task.delay.ms=100
log.retention.check.interval.ms=100
log.segment.delete.delay.ms=0
"""


class Missing(Exception):  # noqa: N818  # reads as what it is
    """Kafka or Java is not on this machine."""


@dataclass(frozen=True)
class Broker:
    """Where it is, and what tests do with it."""

    address: str
    sasl: str
    front: int
    """The port at which the third door says that it is."""
    behind: int
    """The port at which it really is."""

    def admin(self) -> Any:
        """An administration client."""
        return _admin(self.address)

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic with a name of its own; settings with _ for the points."""
        name = f"t-{secrets.token_hex(6)}"
        self.make(name, partitions, **config)
        return name

    def make(self, name: str, partitions: int = 1, **config: str) -> None:
        """A topic of that name."""
        from confluent_kafka.admin import NewTopic

        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin().create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        wait(lambda: self._sees(name, partitions), f"topic {name}")

    def _sees(self, name: str, partitions: int) -> bool:
        found = self.admin().list_topics(timeout=10).topics.get(name)
        return found is not None and len(found.partitions) == partitions

    def delete(self, name: str) -> None:
        """No such topic any more."""
        self.admin().delete_topics([name])[name].result(30)
        wait(lambda: name not in self.admin().list_topics(timeout=10).topics, f"the end of {name}")

    def add_partitions(self, name: str, total: int) -> None:
        """More partitions."""
        from confluent_kafka.admin import NewPartitions

        self.admin().create_partitions([NewPartitions(name, total)])[name].result(30)
        wait(lambda: self._sees(name, total), f"partitions of {name}")

    def forget(self, name: str, partition: int, before: int) -> None:
        """Deletes records, as retention would."""
        from confluent_kafka import TopicPartition

        at = TopicPartition(name, partition, before)
        self.admin().delete_records([at])[at].result(30)

    def produce(self, topic: str, records: Iterable[dict[str, Any]], **settings: Any) -> None:
        """Sends records: `value`, and where wanted `key`, `partition`, `timestamp`, `headers`."""
        producer = self.producer(**settings)
        for i, record in enumerate(records):
            _send(producer, topic, record)
            if i % 1000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0

    def producer(self, **settings: Any) -> Any:
        """A producer; settings with _ for the points."""
        from confluent_kafka import Producer

        more = {key.replace("_", "."): value for key, value in settings.items()}
        return Producer({
            "bootstrap.servers": self.address,
            "linger.ms": 20,
            "enable.idempotence": True,  # a retry must not change the order
            "queue.buffering.max.messages": 1_000_000,
            **more,
        })  # fmt: skip


@cache
def _admin(address: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": address})


def _send(producer: Any, topic: str, record: dict[str, Any]) -> None:
    while True:
        try:
            producer.produce(topic, **record)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def wait(ready: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Until it is so."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


class Gate:
    """A door before the broker's third one: what goes through it can be cut."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.listener: socket.socket | None = None
        self.open_ones: list[socket.socket] = []

    def open(self) -> None:
        """Lets everybody through."""
        listener = socket.create_server(("127.0.0.1", self.broker.front))
        self.listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Cuts all connections, and refuses new ones."""
        listener, self.listener = self.listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for one in self.open_ones:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.open_ones = []

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                here, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", self.broker.behind))
                self.open_ones += [here, there]
                for a, b in ((here, there), (there, here)):
                    threading.Thread(target=_pump, args=(a, b), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def gate(broker: Broker) -> Iterator[Gate]:
    """An open gate; the only one of all test processes."""
    with open(_folder()[0] / "gate", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = Gate(broker)
        found.open()
        try:
            yield found
        finally:
            found.close()


# ---------------------------------------------------------------- starting and ending


def _folder() -> tuple[Path, int]:
    """Where the broker of this test run keeps all it has, and the process with which it ends."""
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    return Path(tempfile.gettempdir()) / f"tidegate-kafka-{owner}", owner


_keepers: list[subprocess.Popen[bytes]] = []
"""It ends after this process, and is not waited for."""


@cache
def broker() -> Broker:
    """The broker of this test run."""
    if not (JARS / "stamp").exists():
        raise Missing("Apache Kafka (.ci/kafka fetches it)")
    java = _java()
    folder, owner = _folder()
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ports").exists():
            _start(java, folder, owner)
    ports = json.loads((folder / "ports").read_text())
    return Broker(
        f"127.0.0.1:{ports['plain']}", f"127.0.0.1:{ports['sasl']}", ports["front"], ports["behind"]
    )


def _java() -> str:
    from tidegate.spark.session import java_home

    try:
        home = java_home()
    except TidegateError as error:
        raise Missing(f"Java ({error.message})") from None
    return f"{home}/bin/java" if home else "java"


def _start(java: str, folder: Path, owner: int) -> None:
    from tests.limits import share  # here: as the keeper's program this module knows no other of the tests

    ports = {name: _free_port() for name in ("plain", "sasl", "front", "behind", "controller")}
    text = SETTINGS.format(**ports, folder=folder, user=USER, password=PASSWORD)
    (folder / "settings").write_text(text)
    command = [sys.executable, __file__, java, str(folder), str(owner)]
    with open(folder / "log", "ab") as log:
        keeper = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    share(keeper.pid, with_others=True)
    _keepers.append(keeper)
    end = time.monotonic() + 120
    while not _answers(f"127.0.0.1:{ports['plain']}"):
        if keeper.poll() is not None or time.monotonic() > end:
            raise RuntimeError("Kafka did not start: " + (folder / "log").read_text()[-2000:])
        time.sleep(0.1)
    (folder / "ports").write_text(json.dumps(ports))


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def _answers(address: str) -> bool:
    from confluent_kafka import KafkaException

    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    try:
        return bool(_admin(address).list_topics(timeout=5).brokers)
    except KafkaException:
        return False


def _keep(java: str, folder: Path, owner: int) -> None:
    """Runs the broker until its owner ends."""
    program = [java, *JAVA, *LOGS, "-cp", f"{JARS}/*"]
    _format(program, folder)
    server = subprocess.Popen(
        [*program, "kafka.Kafka", folder / "settings"],
        preexec_fn=_with_its_parent,  # noqa: PLW1509  # this process has one thread
    )
    ends = select.poll()
    for process in (owner, server.pid):
        with suppress(ProcessLookupError):
            ends.register(os.pidfd_open(process), select.POLLIN)
    ends.poll()
    server.kill()
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _format(program: list[str], folder: Path) -> None:
    """An empty cluster's files: made once, as a Java has to be started for it, and copied from then on."""
    kept = JARS / "formatted"
    if kept.exists():
        shutil.copytree(kept, folder / "data")
        return
    name = ["-t", "tidegate-tests-cluster", "-c", str(folder / "settings")]
    command = [*program, "kafka.tools.StorageTool", "format", *name]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    fresh = JARS / f"formatted.{os.getpid()}"
    shutil.copytree(folder / "data", fresh)
    with suppress(OSError):  # another one was faster
        fresh.rename(kept)
    shutil.rmtree(fresh, ignore_errors=True)


def _with_its_parent() -> None:
    """The broker is killed when the process that keeps it is, however that happens."""
    death_signal = 1
    ctypes.CDLL(None).prctl(death_signal, signal.SIGKILL)


if __name__ == "__main__":
    _keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
