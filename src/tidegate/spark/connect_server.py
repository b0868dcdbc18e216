"""Spark Connect: this process as the server, so that its clients read collections with pruning.

    db.attach(spark)
    server = serve(spark, port=15002)               in the process that has opened the database
    server.url                                      "sc://127.0.0.1:15002"

    client = SparkSession.builder.remote("sc://127.0.0.1:15002").getOrCreate()      anywhere
    client.sql("SELECT … FROM global_temp.orders WHERE …")
    client.sql("SELECT … FROM tidegate('orders', 1719792000000)")

A client has no JVM that could call back into its Python, so a FileIndex in Python can only live in the server. Global temporary
views and the table function of `temp_views.py` are known to every session of the server's process that starts after `attach`.

A client's DataFrame is a plan that is sent to the server and analysed there at each action: so each action reads what is committed
at that moment. `tidegate('orders', as_of)` reads one snapshot several times.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from tidegate.errors import UnsupportedError
from tidegate.spark.jvm import Jvm, scala_object

_ADDRESS, _PORT = "spark.connect.grpc.binding.address", "spark.connect.grpc.binding.port"


@dataclass(frozen=True, eq=False)
class ConnectServer:
    """A Spark Connect server inside a session's process."""

    url: str
    service: Any

    def stop(self) -> None:
        """Stops serving clients; the session continues."""
        defaults = [getattr(self.service, f"stop$default${i}")() for i in (1, 2)]  # Scala's default arguments
        self.service.stop(*defaults)


def serve(spark: SparkSession, port: int = 0, address: str = "127.0.0.1") -> ConnectServer:
    """Starts the server; port 0 chooses a free one.

    A client can run code in this process. The server listens only on this machine by default; clients need a token if
    SPARK_CONNECT_AUTHENTICATE_TOKEN was set before the session started.
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
    service = scala_object(jvm.org.apache.spark.sql.connect.service, "SparkConnectService")
    service.start(context._jsc.sc())
    return ConnectServer(f"sc://{address}:{service.localPort()}", service)
