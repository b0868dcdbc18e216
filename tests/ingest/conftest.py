"""Fixtures of the tests of ingestion."""

from __future__ import annotations

import pytest

from tests.ingest.broker import Broker, Missing, broker


@pytest.fixture(scope="session")
def kafka() -> Broker:
    """A real Kafka, one for the whole test run."""
    try:
        return broker()
    except Missing as missing:
        pytest.skip(f"{missing} is not here")
