"""Options of KAFKA connections and sources, and the settings of librdkafka they become.

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
| TIMEOUT MS | how long a broker may stay silent before the source reports that it is down; 30 s by default |
| SETTINGS | any other setting of librdkafka: `SETTINGS ('fetch.wait.max.ms=50', …)` |

| option of the source | meaning |
|---|---|
| TOPIC | the topic; required |
| START OFFSET | where to begin: a number for all partitions, or a list; partitions beyond the list are read from their beginning |
| START TIMESTAMP | begin at the first record of this time or later, in ms since 1970; a negative one is that long before now |
| GROUP ID | the consumer group in which positions are committed at the broker, for monitoring; `tidegate-<source>` by default |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.ingest.connection import ConnectionType, ExternalConnection
from tidegate.ingest.options import (
    ANY,
    TEXT,
    TEXTS,
    OptionSpec,
    OptionType,
    as_list,
    is_integer,
    option_error,
    whole_number,
)
from tidegate.ingest.upstreams.kafka import client as kafka_client
from tidegate.text import literal

TIMEOUT_MS = 30_000
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TEXT_SETTINGS = {
    "sasl mechanisms": "sasl.mechanism",
    "sasl mechanism": "sasl.mechanism",
    "sasl username": "sasl.username",
    "sasl password": "sasl.password",
    "ssl key password": "ssl.key.password",
    "client id": "client.id",
}
_PEM_SETTINGS = {
    "ssl certificate authority": "ssl.ca",
    "ssl certificate": "ssl.certificate",
    "ssl key": "ssl.key",
}
RESERVED_SETTINGS = (
    "bootstrap.servers", "metadata.broker.list", "group.id", "group.instance.id", "enable.auto.commit", "auto.offset.reset",
    "enable.auto.offset.store", "isolation.level", "enable.partition.eof", "allow.auto.create.topics",
)  # fmt: skip
"""Settings that guarantee that every record is read once; users cannot change them."""


@dataclass(frozen=True)
class StartOffsets:
    """Where a new source begins to read: by default at the beginning of every partition."""

    offsets: tuple[int, ...] = ()
    """The offset of each partition, by its number."""
    everywhere: int | None = None
    """The same offset for every partition."""
    timestamp: int | None = None
    """Begin at the first record of this time or later; in ms since 1970."""


def start_offsets(options: Mapping[str, Any], now: int) -> StartOffsets:
    """Parses START OFFSET and START TIMESTAMP."""
    offset, timestamp = options["start offset"], options["start timestamp"]
    if offset is not None and timestamp is not None:
        message = "START OFFSET and START TIMESTAMP both say where to begin"
        raise option_error(message, "start timestamp", hint="give one of them")
    if timestamp is not None:
        return StartOffsets(timestamp=timestamp if timestamp >= 0 else max(now + timestamp, 0))
    if isinstance(offset, tuple | list):
        return StartOffsets(offsets=tuple(offset))
    return StartOffsets(everywhere=offset)


def _are_offsets(value: Any) -> bool:
    return bool(as_list(value)) and all(is_integer(item) and item >= 0 for item in as_list(value))


_OFFSETS = OptionType("an offset, or a list with one for each partition", _are_offsets)
_MILLISECONDS = OptionType("a number of milliseconds", is_integer)
_TOPIC = OptionType("the name of a topic", TEXT.accepts)

SOURCE_OPTIONS = (
    OptionSpec(
        "topic", _TOPIC, "the topic", required=True, example="FROM KAFKA CONNECTION k (TOPIC 'orders')"
    ),
    OptionSpec("start offset", _OFFSETS, "where to begin", example="START OFFSET (0, 10, 100)"),
    OptionSpec(
        "start timestamp",
        _MILLISECONDS,
        "begin at the first record of this time or later; a negative one is that long before now",
        example="START TIMESTAMP -3600000",
    ),
    OptionSpec("group id", ANY, "the consumer group under which positions are shown at the broker"),
)


def check(connection: ExternalConnection) -> None:
    """Raises a BindError unless the options of a connection TO KAFKA fit together; resolves no secret."""
    options = connection.options
    brokers(options)
    protocol(options)
    settings = _settings(options)
    for name in settings:
        if name in RESERVED_SETTINGS:
            message = f"SETTINGS cannot change {name}"
            raise option_error(message, "settings", hint="Tidegate keeps positions itself")
    kafka_client.check_settings(settings)


def brokers(options: Mapping[str, Any]) -> str:
    """The addresses of the bootstrap brokers, separated by commas."""
    addresses = options.get("brokers", options.get("broker"))
    if addresses is None:
        raise option_error(
            "a connection TO KAFKA needs a broker", "broker", hint="TO KAFKA (BROKER 'host:9092')"
        )
    return ",".join(address.strip() for address in as_list(addresses))


def protocol(options: Mapping[str, Any]) -> str:
    """SECURITY PROTOCOL, or the protocol that the other options imply."""
    written = options.get("security protocol")
    if written is None:
        first_words = {name.partition(" ")[0] for name in options}
        return "SASL_SSL" if "sasl" in first_words else "SSL" if "ssl" in first_words else "PLAINTEXT"
    name = str(written).upper().replace(" ", "_")
    if name not in _PROTOCOLS:
        message = f"{written} is not a security protocol of Kafka"
        raise option_error(message, "security protocol", hint=f"one of {', '.join(_PROTOCOLS)}")
    return name


def timeout_ms(options: Mapping[str, Any]) -> int:
    """The value of TIMEOUT MS."""
    return int(options.get("timeout ms", TIMEOUT_MS))


def settings(connection: ExternalConnection) -> dict[str, str]:
    """The settings for all clients of the connection, with secrets resolved."""
    options = connection.options
    values = {"bootstrap.servers": brokers(options), "security.protocol": protocol(options)}
    for name in options:
        value = str(connection.get(name))
        if name in _TEXT_SETTINGS:
            values[_TEXT_SETTINGS[name]] = value
        elif name in _PEM_SETTINGS:
            kind = "pem" if value.lstrip().startswith("-----BEGIN") else "location"
            values[f"{_PEM_SETTINGS[name]}.{kind}"] = value
    return values | _settings(options)


def _settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Parses SETTINGS, a list of `name=value`."""
    values = {}
    for setting in as_list(options.get("settings", ())):
        name, equals, value = str(setting).partition("=")
        if not equals or not name.strip():
            hint = "SETTINGS ('fetch.wait.max.ms=50', …)"
            raise option_error(f"{literal(setting)} is not a setting", "settings", hint=hint)
        values[name.strip()] = value.strip()
    return values


_BROKERS = OptionType("the address of a broker, or a list of them", TEXTS.accepts)
KAFKA_CONNECTION = ConnectionType(
    "kafka",
    (
        OptionSpec("broker", _BROKERS, "where the cluster is", example="BROKER 'host:9092'"),
        OptionSpec("brokers", _BROKERS, "several brokers", example="BROKERS ('a:9092', 'b:9092')"),
        OptionSpec("security protocol", ANY, ", ".join(_PROTOCOLS)),
        OptionSpec("sasl mechanisms", ANY, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, …", alias="sasl mechanism"),
        OptionSpec("sasl username", ANY, "who connects"),
        OptionSpec("sasl password", ANY, "a secret; may be env:NAME or file:PATH"),
        OptionSpec("ssl certificate authority", ANY, "a text that starts with -----BEGIN, or a path"),
        OptionSpec("ssl certificate", ANY, "a text that starts with -----BEGIN, or a path"),
        OptionSpec("ssl key", ANY, "a text that starts with -----BEGIN, or a path"),
        OptionSpec("ssl key password", ANY, "a secret; may be env:NAME or file:PATH"),
        OptionSpec("client id", ANY, "the name by which brokers log the client"),
        OptionSpec(
            "timeout ms",
            whole_number(1, of=" of milliseconds"),
            "how long a broker may stay silent before the source says that it is down",
            default=TIMEOUT_MS,
            example=f"TIMEOUT MS {TIMEOUT_MS}",
        ),
        OptionSpec("settings", ANY, "any other setting of librdkafka: SETTINGS ('name=value', …)"),
    ),
    check,
)
