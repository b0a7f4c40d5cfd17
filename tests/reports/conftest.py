"""A run that tests of the report share."""

import pytest

from fedfloor.reports.reading import ReadRun
from tests.reports.logs import simulated


@pytest.fixture(scope="package")
def real(tmp_path_factory: pytest.TempPathFactory) -> ReadRun:
    """Six rounds of round robin on two floors; tests must not change it."""
    return simulated(tmp_path_factory.mktemp("real"), "round_robin")
