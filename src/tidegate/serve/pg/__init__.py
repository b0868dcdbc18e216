"""The protocol of PostgreSQL, version 3: so that psql, drivers and BI tools can ask a lake.

    server = PgServer(desk, host="127.0.0.1", port=5433, password=None, tls=None)
    await server.start()

| file | |
|---|---|
| `listen.py` | the port: how many at once, and who is cancelled by whom |
| `startup.py`, `scram.py` | from the first byte to the first question: TLS, the password |
| `connection.py` | one client's loop over messages |
| `messages.py` | bytes → messages, messages → bytes |
| `extended.py`, `holes.py` | prepared statements and portals; `$1` in a text |
| `values.py`, `infer.py` | what a client binds to a parameter; of which type it is |
| `commands.py`, `own.py`, `settings.py` | who answers a statement; what is PostgreSQL's own: BEGIN, SET, SHOW, DISCARD |
| `cursors.py` | DECLARE, FETCH, CLOSE |
| `types.py`, `encode.py`, `numbers.py` | types by their numbers; columns → rows of bytes, all rows at once |
| `catalog.py`, `catalog_*.py` | pg_catalog and information_schema, in a DuckDB of their own |
| `sqlstate.py` | errors, as PostgreSQL numbers them |
"""
