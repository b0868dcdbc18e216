"""Upstreams: where the records of sources come from. Each kind has a folder and is registered here.

| folder | FROM … |
|---|---|
| `files/` | FILES 'pattern': files of a folder or a bucket |
| `generator/` | GENERATOR name: generated tables, for demos, tests and benchmarks |
| `kafka/` | KAFKA CONNECTION c (TOPIC 't') |
| `postgres/` | POSTGRES CONNECTION c (PUBLICATION 'p'): a snapshot, and then every change |

`registry.py` has what a kind declares (`UpstreamType`) and the functions that create and load upstreams. To add a kind, write a
folder with an implementation of `Upstream` (`ingest/protocol.py`) and an `UpstreamType`, and register it below.
"""

from tidegate.ingest.formats.avro.schema_registry import SCHEMA_REGISTRY
from tidegate.ingest.upstreams.files.upstream import AWS, FILES
from tidegate.ingest.upstreams.generator.upstream import GENERATOR
from tidegate.ingest.upstreams.kafka.options import KAFKA_CONNECTION
from tidegate.ingest.upstreams.kafka.upstream import KAFKA
from tidegate.ingest.upstreams.postgres.connect import POSTGRES_CONNECTION
from tidegate.ingest.upstreams.postgres.upstream import POSTGRES
from tidegate.ingest.upstreams.registry import register_connection, register_upstream

for _upstream in (FILES, GENERATOR, KAFKA, POSTGRES):
    register_upstream(_upstream)
for _connection in (KAFKA_CONNECTION, POSTGRES_CONNECTION, SCHEMA_REGISTRY, AWS):
    register_connection(_connection)
