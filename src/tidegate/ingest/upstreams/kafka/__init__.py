"""KAFKA: a topic, each record once."""
