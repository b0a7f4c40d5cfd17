"""What tests of nodes share."""

import pytest

from tests.flower.federation import Federation, line_app


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for nodes again at once."""
    monkeypatch.setattr("fedfloor.flower.nodes._LONG_PAUSE", 0.0)


@pytest.fixture
def identity() -> None:
    """Messages need a run, as every ServerApp has one."""
    Federation(line_app(), 1)
