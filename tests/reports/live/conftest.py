"""A run that has ended, and copies of it that grow."""

from pathlib import Path

import pytest

from tests.reports.live.growing import Growing, finished_run


@pytest.fixture(scope="package")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def growing(finished: Path, tmp_path: Path) -> Growing:
    """A run folder whose log is still to be written."""
    return Growing(finished, tmp_path / "growing")
