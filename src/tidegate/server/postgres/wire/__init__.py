r"""The bytes of the PostgreSQL protocol: messages, values, types, the handshake, and errors.

    parse_message("Q", b"SELECT 1\0")        QueryMessage("SELECT 1")
    ready_for_query("I")                     b"Z\0\0\0\5I"

Nothing here runs a statement: `startup.py` and `scram.py` do the handshake, `messages.py` reads and writes messages, `types.py` and
`sqlstate.py` map types and errors to PostgreSQL's, `values.py` reads parameters, and `encode.py` and `numeric.py` write rows.
"""
