"""How often raw samples left their device."""

from typing import Any

from fedfloor.reports.reading import ReadRun
from fedfloor.reports.tables import headline
from tests.reports.logs import changed, collection_of


def test_raw_samples_are_counted_unless_the_floor_had_no_memory_to_train(real: ReadRun) -> None:
    def change(t: int, record: dict[str, Any]) -> None:
        for gateway in record["gateways"]:
            gateway["failure"] = "memory" if t == 0 and gateway["selected"] else None
            for device in gateway.get("devices", ()):
                device["cut"] = 0 if t < 3 else 1

    run = changed(real, change)
    per_round = [sum(len(gateway.devices) for gateway in record.gateways) for record in run.records]
    raw, devices = sum(per_round[1:3]), sum(per_round)
    assert (run.summary.raw_device_rounds, run.summary.device_rounds) == (raw, devices)
    table = headline(collection_of(run))
    cell = table.rows[0][table.columns.index("raw samples sent")]
    assert cell == f"{100 * raw / devices:.1f} % of {devices}"
