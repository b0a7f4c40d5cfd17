"""What tests of nodes share."""

import logging
from collections.abc import Callable

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


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What Flower's log has said so far, one text per line."""
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    caplog.set_level(logging.INFO, "flwr")
    return lambda: [record.getMessage() for record in caplog.records]
