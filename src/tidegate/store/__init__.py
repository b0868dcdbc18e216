"""Where bytes and decisions live: blobs (immutable objects) and consensus (a log a key), each behind one narrow protocol."""
