"""Spark Connect: this process as the server, so that its clients read collections with all pruning.

    db.attach(spark)
    server = serve(spark, port=15002)               in the process that has the database open
    server.url                                      "sc://127.0.0.1:15002"

    client = SparkSession.builder.remote("sc://127.0.0.1:15002").getOrCreate()      anywhere
    client.sql("SELECT … FROM global_temp.orders WHERE …")
    client.sql("SELECT … FROM tidegate('orders', 1719792000000)")

A client has no JVM that could call back into its Python, so a FileIndex in Python can only live in the server. Global temporary
views and the table function of `attach.py` are known to every session of the server's process that begins after `attach`.

A client's DataFrame is a plan that is sent to the server at each action, and is only there given its meaning: so each action reads
what is committed by then. `tidegate('orders', as_of)` is the way to read one snapshot several times.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from tidegate.errors import UnsupportedError
from tidegate.spark.jvm import Jvm, single

_ADDRESS, _PORT = "spark.connect.grpc.binding.address", "spark.connect.grpc.binding.port"


@dataclass(frozen=True, eq=False)
class Server:
    """A Spark Connect server inside of a session's process."""

    url: str
    service: Any

    def stop(self) -> None:
        """Clients are told that it is gone; the session goes on."""
        given = [
            getattr(self.service, f"stop$default${i}")() for i in (1, 2)
        ]  # how Scala spells its defaults
        self.service.stop(*given)


def serve(spark: SparkSession, port: int = 0, address: str = "127.0.0.1") -> Server:
    """Starts the server; port 0 is any free one.

    Whoever can connect can run code here. It listens to this machine alone, unless told otherwise; a token is asked of clients
    if SPARK_CONNECT_AUTHENTICATE_TOKEN was set before the session started.
    """
    jvm = Jvm.of(spark).jvm
    if address not in ("127.0.0.1", "localhost", "::1") and not os.environ.get(
        "SPARK_CONNECT_AUTHENTICATE_TOKEN"
    ):
        raise UnsupportedError(
            f"a Spark Connect server at {address} would let anybody run code in this process",
            hint="set SPARK_CONNECT_AUTHENTICATE_TOKEN before the session starts, or serve 127.0.0.1",
        )
    context: Any = spark.sparkContext
    conf = context._jsc.sc().conf()
    conf.set(_ADDRESS, address)
    conf.set(_PORT, str(port))
    service = single(jvm.org.apache.spark.sql.connect.service, "SparkConnectService")
    service.start(context._jsc.sc())
    return Server(f"sc://{address}:{service.localPort()}", service)
