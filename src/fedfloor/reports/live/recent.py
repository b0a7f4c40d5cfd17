"""The last rounds of a run, condensed to what a person reads at a glance."""

__all__ = ["RECENT", "RecentFloor", "RecentRound", "predicted_delay", "recent_round"]

from typing import NamedTuple

from fedfloor.rounds.record import Absent, GatewayRecord, RoundRecord
from fedfloor.rounds.summary import value_of_test

RECENT = 60  #: rounds that are shown floor by floor


class RecentFloor(NamedTuple):
    """One floor that was selected, in the order in which the page's script takes it apart; endless is None."""

    floor: int  #: index
    channel: int | None
    failure: str | None
    completed: bool
    delay: float | None  #: [s]
    predicted: float | None  #: [s] None if nothing was predicted
    download: float | None  #: [s]
    train: float | None  #: [s]
    upload: float | None  #: [s]
    energy: float  #: [J] of the gateway and its devices


class RecentRound(NamedTuple):
    """One round, in the order in which the page's script takes it apart."""

    number: int  #: from 0, as in the log
    delay: float | None  #: [s] None: without end
    predicted: float | None  #: [s] None if nothing was predicted
    result: float | None  #: accuracy, or error if numbers are predicted; None without an evaluation
    floors: tuple[RecentFloor, ...]  #: those that were selected


def recent_round(record: RoundRecord, *, predicts_numbers: bool) -> RecentRound:
    """A round, without the floors that had no part in it."""
    floors = tuple(_floor(m, gateway) for m, gateway in enumerate(record.gateways) if gateway.selected)
    result = value_of_test(record, predicts_numbers=predicts_numbers)
    return RecentRound(record.round, record.delay_s, predicted_delay(record), result, floors)


def predicted_delay(record: RoundRecord) -> float | None:
    """Delay [s] that was predicted for a round, which lasts as long as its slowest floor; None if none was."""
    return max(filter(None, map(_predicted, record.gateways)), default=None)


def _predicted(gateway: GatewayRecord) -> float | None:
    return None if isinstance(gateway.predicted_s, Absent) else gateway.predicted_s


def _floor(index: int, gateway: GatewayRecord) -> RecentFloor:
    return RecentFloor(
        floor=index,
        channel=gateway.channel,
        failure=gateway.failure,
        completed=gateway.completed,
        delay=gateway.delay_s,
        predicted=_predicted(gateway),
        download=gateway.download_s,
        train=gateway.train_s,
        upload=gateway.upload_s,
        energy=gateway.floor_energy,
    )
