"""The PostgreSQL protocol, version 3, so that psql, drivers and BI tools can query a lake.

    server = PostgresServer(gateway, host="127.0.0.1", port=5433, password=None, tls=None)
    await server.start()

| module | |
|---|---|
| `listener.py` | the port: limits on connections, and cancel requests |
| `wire/` | bytes: the handshake, messages, types, values, rows, SQLSTATE codes |
| `connection.py` | one client's loop over messages |
| `extended_query.py` | prepared statements and portals |
| `parameters.py`, `parameter_types.py` | values for `$1`, and the types of undeclared parameters |
| `commands.py` | which module runs a statement |
| `session_state.py`, `settings.py` | BEGIN, SET, SHOW, DISCARD: the state of a connection |
| `cursors.py`, `rows.py` | DECLARE, FETCH, CLOSE; rows on their way to the client |
| `catalog/` | pg_catalog and information_schema, answered by an in-memory DuckDB |
"""
