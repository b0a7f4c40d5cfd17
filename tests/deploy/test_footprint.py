"""What programs hold while rounds go by: memory, threads and descriptors."""

from pathlib import Path

import pytest
from benchmarks.footprint import footprints

WARM = 5  #: rounds after which nothing grows any more


@pytest.mark.slow
def test_fifty_devices_on_one_gateway_make_no_program_grow_in_twenty_rounds(tmp_path: Path) -> None:
    for name, held in footprints(50, 20, tmp_path).items():
        memory = [each.memory for each in held]
        assert memory[-1] <= 1.05 * memory[WARM - 1], (name, memory)
        threads = [each.threads for each in held]
        assert max(threads[-5:]) <= max(threads[:WARM]) + 2, (name, threads)  # grpc's pool of threads breathes
        descriptors = [each.descriptors for each in held]
        assert max(descriptors[-5:]) <= max(descriptors[:WARM]) + 1, (name, descriptors)  # a log that is just written
