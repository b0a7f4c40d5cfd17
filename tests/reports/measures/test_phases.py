"""Phases of a floor's round, against the log's own sums."""

from pathlib import Path

import numpy as np
import pytest

from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.measures.phases import phase_times
from tests.reports.logs import POLICIES, simulated


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_phases_add_up_to_the_delay_that_was_logged(policy: str, cut: int, tmp_path: Path) -> None:
    run = lay_out_run(simulated(tmp_path, policy, cut=cut))
    phases = phase_times(run)
    assert np.all(phases >= 0.0)
    delay = np.array([[gateway.delay_s for gateway in record.gateways] for record in run.run.records])
    assert np.allclose(phases.sum(axis=0), delay)
