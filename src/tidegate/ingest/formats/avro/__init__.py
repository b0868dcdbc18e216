"""FORMAT AVRO, with or without a schema registry."""
