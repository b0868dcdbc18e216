"""The words of KAFKA: what CREATE CONNECTION and CREATE SOURCE say, as settings of librdkafka.

    CREATE CONNECTION k TO KAFKA (BROKERS ('a:9092', 'b:9092'), SASL MECHANISMS 'SCRAM-SHA-512',
                                  SASL USERNAME 'ingest', SASL PASSWORD 'env:KAFKA_PASSWORD')
    CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 'orders', START TIMESTAMP -86400000)

| option of the connection | setting |
|---|---|
| BROKER, BROKERS | `bootstrap.servers`; a list, or names with commas between them |
| SECURITY PROTOCOL | PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; by default what the other options need |
| SASL MECHANISMS, SASL USERNAME, SASL PASSWORD | `sasl.…`; PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, … |
| SSL CERTIFICATE AUTHORITY, SSL CERTIFICATE, SSL KEY | a text that starts with -----BEGIN, or the path of a file |
| SSL KEY PASSWORD, CLIENT ID | `ssl.key.password`, `client.id` |
| TIMEOUT MS | how long a broker may say nothing before the source says that it is down; 30 s |
| SETTINGS | anything else of librdkafka: `SETTINGS ('fetch.wait.max.ms=50', …)` |

| option of the source | meaning |
|---|---|
| TOPIC | needed |
| START OFFSET | where to begin: a number for all partitions, or a list; partitions that are not in it are read whole |
| START TIMESTAMP | begin at the first record of this time or later, in ms since 1970; a negative one is that long before now |
| GROUP ID | under what name positions are told to the broker, for those who watch it; `tidegate-<source>` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import BindError
from tidegate.ingest import kafka_client
from tidegate.ingest.connect import Connection, Given

TIMEOUT_MS = 30_000
_CONNECTION = (
    "broker", "brokers", "security protocol", "sasl mechanisms", "sasl mechanism", "sasl username", "sasl password",
    "ssl certificate authority", "ssl certificate", "ssl key", "ssl key password", "client id", "timeout ms", "settings",
)  # fmt: skip
_SOURCE = ("topic", "start offset", "start timestamp", "group id")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PLAIN = {
    "sasl mechanisms": "sasl.mechanism",
    "sasl mechanism": "sasl.mechanism",
    "sasl username": "sasl.username",
    "sasl password": "sasl.password",
    "ssl key password": "ssl.key.password",
    "client id": "client.id",
}
_FILES = {"ssl certificate authority": "ssl.ca", "ssl certificate": "ssl.certificate", "ssl key": "ssl.key"}
OURS = (
    "bootstrap.servers", "metadata.broker.list", "group.id", "group.instance.id", "enable.auto.commit", "auto.offset.reset",
    "enable.auto.offset.store", "isolation.level", "enable.partition.eof", "allow.auto.create.topics",
)  # fmt: skip
"""Settings on which it depends that every record comes once: nobody changes them."""


@dataclass(frozen=True)
class Start:
    """Where a source begins that has ingested nothing: by default at the beginning of every partition."""

    offsets: tuple[int, ...] = ()
    """By partition."""
    everywhere: int | None = None
    """The same offset for every partition."""
    timestamp: int | None = None
    """In ms since 1970."""


def topic(given: Given) -> str:
    """TOPIC, after a look at all options."""
    unknown = sorted({*given.options, *given.more} - {*_SOURCE})
    if unknown:
        raise BindError(f"KAFKA has no option {unknown[0].upper()}", hint=_listed(_SOURCE))
    found = given.options.get("topic")
    if not isinstance(found, str) or not found:
        raise BindError("KAFKA needs the name of a topic", hint="FROM KAFKA CONNECTION k (TOPIC 'orders')")
    return found


def start(given: Mapping[str, Any], now: int) -> Start:
    """START OFFSET and START TIMESTAMP."""
    offset, timestamp = given.get("start offset"), given.get("start timestamp")
    if offset is not None and timestamp is not None:
        raise BindError("START OFFSET and START TIMESTAMP both say where to begin", hint="give one of them")
    if timestamp is not None:
        if not _whole(timestamp):
            raise BindError("START TIMESTAMP is a number of milliseconds", hint="START TIMESTAMP -3600000")
        return Start(timestamp=timestamp if timestamp >= 0 else max(now + timestamp, 0))
    if offset is None:
        return Start()
    listed = offset if isinstance(offset, tuple | list) else (offset,)
    if not listed or not all(_whole(one) and one >= 0 for one in listed):
        raise BindError(
            "START OFFSET is an offset, or a list with one for each partition",
            hint="START OFFSET (0, 10, 100)",
        )
    return Start(offsets=tuple(listed)) if isinstance(offset, tuple | list) else Start(everywhere=offset)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check(options: Mapping[str, Any]) -> None:
    """Raises a BindError unless these are good options of a connection TO KAFKA; follows no secret."""
    unknown = sorted({*options} - {*_CONNECTION})
    if unknown:
        raise BindError(
            f"a connection TO KAFKA has no option {unknown[0].upper()}",
            hint=_listed(_CONNECTION) + "; other settings of librdkafka: SETTINGS ('name=value', …)",
        )
    brokers(options)
    protocol(options)
    timeout_ms(options)
    more = _more(options)
    for name in more:
        if name in OURS:
            raise BindError(f"SETTINGS cannot change {name}", hint="Tidegate keeps positions itself")
    kafka_client.check_settings(more)


def brokers(options: Mapping[str, Any]) -> str:
    """Where the cluster is, with commas."""
    found = options.get("brokers", options.get("broker"))
    listed = found if isinstance(found, tuple | list) else (found,)
    if not all(isinstance(one, str) and one.strip() for one in listed) or not listed:
        raise BindError("a connection TO KAFKA needs a broker", hint="TO KAFKA (BROKER 'host:9092')")
    return ",".join(one.strip() for one in listed)


def protocol(options: Mapping[str, Any]) -> str:
    """SECURITY PROTOCOL, or what the other options ask for."""
    given = options.get("security protocol")
    if given is None:
        said = {name.partition(" ")[0] for name in options}
        return "SASL_SSL" if "sasl" in said else "SSL" if "ssl" in said else "PLAINTEXT"
    found = str(given).upper().replace(" ", "_")
    if found not in _PROTOCOLS:
        raise BindError(f"{given} is no security protocol of Kafka", hint=f"one of {', '.join(_PROTOCOLS)}")
    return found


def timeout_ms(options: Mapping[str, Any]) -> int:
    """TIMEOUT MS."""
    found = options.get("timeout ms", TIMEOUT_MS)
    if not _whole(found) or found <= 0:
        raise BindError("TIMEOUT MS is a number of milliseconds", hint=f"TIMEOUT MS {TIMEOUT_MS}")
    return int(found)


def settings(connection: Connection) -> dict[str, str]:
    """What every client of the connection is told. Secrets are followed now."""
    options = connection.options
    found = {"bootstrap.servers": brokers(options), "security.protocol": protocol(options)}
    for name in options:
        value = str(connection.get(name))
        if name in _PLAIN:
            found[_PLAIN[name]] = value
        elif name in _FILES:
            kind = "pem" if value.lstrip().startswith("-----BEGIN") else "location"
            found[f"{_FILES[name]}.{kind}"] = value
    return found | _more(options)


def _more(options: Mapping[str, Any]) -> dict[str, str]:
    """SETTINGS."""
    given = options.get("settings", ())
    found = {}
    for one in given if isinstance(given, tuple | list) else (given,):
        name, equals, value = str(one).partition("=")
        if not equals or not name.strip():
            raise BindError(f"{one!r} is no setting", hint="SETTINGS ('fetch.wait.max.ms=50', …)")
        found[name.strip()] = value.strip()
    return found


def _listed(names: tuple[str, ...]) -> str:
    return "it has " + ", ".join(name.upper() for name in names)
