"""An open database at work: what each statement does, across the rooms below (sql, scan, shard)."""
