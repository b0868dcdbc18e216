"""A Kafka topic as a collection: each key has its last value, and positions are stored with the rows.

    pip install 'tidegate[ingest]'
    TIDEGATE_KAFKA=localhost:9092 python examples/kafka_source.py

It creates a topic on that broker and deletes it at the end.
"""

import json
import os
import secrets
import sys
import tempfile

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import tidegate

broker = os.environ.get("TIDEGATE_KAFKA")
if broker is None:
    sys.exit("set TIDEGATE_KAFKA to the address of a broker: TIDEGATE_KAFKA=localhost:9092")

topic = f"tidegate-example-{secrets.token_hex(4)}"
admin = AdminClient({"bootstrap.servers": broker})
admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)
producer = Producer({"bootstrap.servers": broker})


def send(key: str, value: dict[str, object] | None) -> None:
    """Sends a record; without a value it deletes the key."""
    producer.produce(topic, key=key, value=None if value is None else json.dumps(value))


with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
    db = tidegate.open(folder)
    # A secret is written as SASL PASSWORD 'env:KAFKA_PASSWORD': only this reference is stored.
    db.sql(f"CREATE CONNECTION k TO KAFKA (BROKER '{broker}')")
    db.sql(f"""
        CREATE SOURCE accounts FROM KAFKA CONNECTION k (TOPIC '{topic}')
        KEY FORMAT TEXT VALUE FORMAT JSON INCLUDE KEY AS id ENVELOPE UPSERT
        TRANSFORM USING (
            SELECT id, (data->>'balance')::numeric(12,2) AS balance
            FROM accounts WHERE data->>'state' = 'open'
        )
    """)

    for i in range(1000):
        send(f"a{i:03}", {"balance": i, "state": "open" if i % 4 else "closed"})
    producer.flush(30)
    progress = db.ingest("accounts", once=True, spark=False).progress()
    print(
        f"first: {progress.records:,} records, {progress.kept} rows kept, {progress.filtered} closed accounts not stored"
    )

    for i in range(1, 100, 2):  # new balances: the same batch retracts the old rows
        send(f"a{i:03}", {"balance": 1_000_000 + i, "state": "open"})
    send("a001", None)  # a tombstone
    send(
        "a002", {"balance": "lots", "state": "open"}
    )  # not a number: the account has no row until its next value
    producer.flush(30)
    progress = db.ingest("accounts", once=True, spark=False).progress()
    print(f"then: {progress.records} records, {progress.bad} bad")

    rich, total = db.sql("SELECT count(*) FILTER (WHERE balance > 1000000), count(*) FROM accounts").rows()[0]
    print(f"accounts: {total}, of them {rich} rich")
    deleted = db.sql("SELECT balance FROM accounts WHERE id = 'a001'").rows()
    print(f"a001: {deleted}")
    print(f"bad: {db.sql('SELECT message FROM accounts_errors').rows()[0][0]}")

    # Positions are in the lake, by partition: no consumer group to rebalance, no checkpoint to lose.
    status = db.status().sources["accounts"]
    print(
        f"batches: {status.batches}; nothing new: {db.ingest('accounts', once=True, spark=False).progress().records}"
    )
    db.sql("DROP SOURCE accounts")
    db.close()
admin.delete_topics([topic])[topic].result(30)
