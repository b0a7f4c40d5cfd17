"""The table of predicted and real seconds, from records of the log."""

from dataclasses import replace

import pytest
from testbed.comparison import HEADER, lines_of, rows_of, summary

from fedfloor.rounds.record import DeviceRecord, GatewayRecord, RoundRecord

FLOOR = GatewayRecord(
    name="press", selected=True, channel=1, completed=True, failure=None, delay_s=6.3, download_s=0.5, train_s=5.0,
    upload_s=0.8, predicted_s=6.0, predicted_download_s=0.5, predicted_train_s=4.8, predicted_upload_s=0.7,
    power_w=0.2, energy_j=1.0, queue=0.0, target_rate=0.5, loss=1.0,
    devices=(DeviceRecord(name="press.camera", cut=2, energy_j=1.0),),
)  # fmt: skip
LOST = replace(FLOOR, name="weld", completed=False, failure="lost", delay_s=30.0)
IDLE = replace(FLOOR, name="paint", selected=False, completed=False, predicted_s=None, devices=())


def record(*floors: GatewayRecord) -> RoundRecord:
    return RoundRecord(
        round=0, policy="ddsra", delay_s=6.3, clock_s=6.3, accuracy=None, loss=None, gateways=floors
    )  # fmt: skip


def test_a_round_is_as_long_as_its_slowest_floor() -> None:
    fast = replace(FLOOR, name="weld", delay_s=5.0, predicted_s=4.0)
    row = rows_of(record(FLOOR, fast, IDLE), "ddsra:v=1")
    assert [floor.floor for floor in row.floors] == ["press", "weld"]
    assert (row.predicted, row.real) == (6.0, 6.3)
    assert row.error == pytest.approx(0.05)
    assert row.is_near
    assert row.floors[1].error == pytest.approx(0.25)


def test_a_round_that_lost_a_floor_is_not_near() -> None:
    row = rows_of(record(FLOOR, LOST), "ddsra:v=1")
    assert row.real is None
    assert not row.is_near
    assert lines_of(row)[1].endswith("lost")
    assert "0 of 1 rounds" in summary([row])
    assert "1 lost a floor" in summary([row])


def test_the_columns_of_the_table_stand_below_their_names() -> None:
    lines = lines_of(rows_of(record(FLOOR), "ddsra:v=1"))
    assert lines[0].split() == [
        "0",
        "press",
        "1",
        "2",
        *["0.500", "0.500", "4.800", "5.000", "0.700", "0.800", "6.000", "6.300", "+5.0", "%"],
    ]
    assert {len(line) for line in (HEADER[1], *lines)} == {len(HEADER[1])}
    assert lines[1][-24:] == lines[0][-24:]  # one floor is the whole round


def test_the_summary_counts_rounds_within_ten_percent() -> None:
    near = rows_of(record(FLOOR), "a")
    far = rows_of(record(replace(FLOOR, delay_s=6.9)), "a")
    text = summary([near, far, rows_of(record(IDLE), "a")])  # a round without orders has nothing to compare
    assert (
        text == "1 of 2 rounds took at most 10% more or less than predicted; off by 10.0% on average and 15.0% at most"
    )
