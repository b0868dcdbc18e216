"""Servers for a lake: web pages, Prometheus metrics, the PostgreSQL protocol; results as files.

    asyncio.run(serve(db, ServerOptions(port=8080, pg=5433), ready=print))

    >>> from tidegate.server import ServerOptions
    >>> ServerOptions(host="0.0.0.0", token="secret").port
    8080

| module | |
|---|---|
| `serve.py` | opens the ports, checks that a port beyond loopback has a secret, and runs until a signal |
| `gateway.py` | one database for all clients: sessions, permission checks, threads |
| `web/` | the pages, `/metrics` and `/health`, with starlette and uvicorn |
| `postgres/` | psql, drivers and BI tools: the PostgreSQL protocol, version 3 |
| `copy_file.py` | COPY between a table and a file of this machine |
| `export.py` | results as CSV, JSON lines and Parquet, in bounded memory |

It rests on `tidegate.database`. Importing this package needs neither starlette, uvicorn nor scramp: `serve` imports them for the
ports that it opens, and names the extra to install (`pip install 'tidegate[server]'`) if they are missing.
"""

from tidegate.server.copy_file import copy_from_file, copy_to_file
from tidegate.server.export import atomic_write, csv_lines, json_lines, write_parquet
from tidegate.server.serve import BoundAddress, ServerOptions, serve

__all__ = [
    "BoundAddress",
    "ServerOptions",
    "atomic_write",
    "copy_from_file",
    "copy_to_file",
    "csv_lines",
    "json_lines",
    "serve",
    "write_parquet",
]
