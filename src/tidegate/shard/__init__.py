"""One time-varying collection, durably: immutable parts in a blob store, and a small versioned state in consensus."""
