"""Leases of readers on a shard: acting on them (`lease`), their records (`held`), renewal (`keeper`)."""
