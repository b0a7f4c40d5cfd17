"""Predicted beside real seconds of a run on the testbed, from its log: one row per round and floor."""

__all__ = ["HEADER", "PARTS", "FloorRow", "RoundRow", "lines_of", "rows_of", "summary"]

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedfloor.rounds.record import GatewayRecord, RoundRecord

PARTS = ("download", "train", "upload", "total")
_PAIR, _ERROR = 15, 9  #: widths of two columns of seconds and of one of shares
#: of the table: predicted and real seconds of every part
HEADER = (
    " " * 33 + "".join(f"{part:>{_PAIR}}" for part in PARTS) + " " * _ERROR,
    f"{'round':>5}  {'floor':<12} {'ch':>2}  {'cuts':<8}" + f"{'pred.':>8}{'real':>7}" * len(PARTS) + f"{'error':>{_ERROR}}",
)
WITHIN = 0.1  #: a round is near its prediction if its total is so near


@dataclass(frozen=True, slots=True)
class FloorRow:
    """One floor in one round; seconds by part."""

    floor: str
    channel: int | None
    cuts: tuple[int, ...]
    predicted: Mapping[str, float]
    real: Mapping[str, float] | None  #: None: the floor was lost
    failure: str | None

    @property
    def error(self) -> float | None:
        """Real against predicted total, as a share of the latter."""
        return None if self.real is None else self.real["total"] / self.predicted["total"] - 1.0


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round: its slowest floor counts."""

    policy: str
    round: int  #: from 1
    floors: tuple[FloorRow, ...]  #: that got orders

    @property
    def predicted(self) -> float:
        """[s] of the round."""
        return max((row.predicted["total"] for row in self.floors), default=0.0)

    @property
    def real(self) -> float | None:
        """[s] of the round; None if a floor was lost."""
        real = [None if row.real is None else row.real["total"] for row in self.floors]
        return None if None in real or not real else max(each for each in real if each is not None)

    @property
    def error(self) -> float | None:
        """Real against predicted seconds, as a share of the latter."""
        return None if self.real is None else self.real / self.predicted - 1.0

    @property
    def is_near(self) -> bool:
        """Whether the prediction holds."""
        return self.error is not None and abs(self.error) <= WITHIN


def rows_of(record: RoundRecord, policy: str) -> RoundRow:
    """The comparison of one round."""
    selected = [gateway for gateway in record.gateways if gateway.selected]
    rows = [row for row in map(_floor, selected) if row is not None]
    return RoundRow(policy, record.round + 1, tuple(rows))


def _floor(gateway: GatewayRecord) -> FloorRow | None:
    predicted = _seconds(
        gateway.predicted_download_s, gateway.predicted_train_s, gateway.predicted_upload_s, gateway.predicted_s
    )
    real = _seconds(gateway.download_s, gateway.train_s, gateway.upload_s, gateway.delay_s)
    if predicted is None or gateway.failure not in (None, "lost"):
        return None  # it got no order
    cuts = tuple(device.cut for device in gateway.devices)
    is_lost = gateway.failure is not None
    return FloorRow(gateway.name, gateway.channel, cuts, predicted, None if is_lost else real, gateway.failure)


def _seconds(*values: object) -> Mapping[str, float] | None:
    numbers = [value for value in values if isinstance(value, float)]
    return dict(zip(PARTS, numbers, strict=True)) if len(numbers) == len(PARTS) else None


def lines_of(row: RoundRow) -> list[str]:
    """The lines of a round in the table: one for every floor, and one for the slowest of them, which is the round."""
    lines = []
    for entry in row.floors:
        cuts = ",".join(map(str, entry.cuts))
        start = f"{row.round:>5}  {entry.floor:<12.12} {entry.channel!s:>2}  {cuts:<8.8}"
        pairs = "".join(_pair(entry.predicted[part], None if entry.real is None else entry.real[part]) for part in PARTS)
        lines.append(start + pairs + _percent(entry.error))
    gap = " " * (len(HEADER[0]) - _PAIR - _ERROR - 15)
    ending = "" if row.is_near else "  more than 10 % off" if row.real is not None else "  lost"
    return [*lines, f"{row.round:>5}  whole round".ljust(15) + gap + _pair(row.predicted, row.real) + _percent(row.error) + ending]


def _pair(predicted: float, real: float | None) -> str:
    return f"{predicted:>8.3f}" + (f"{real:>7.3f}" if real is not None else f"{'-':>7}")


def _percent(error: float | None) -> str:
    return f"{'-':>9}" if error is None else f"{100.0 * error:>+7.1f} %"


def summary(rows: Iterable[RoundRow]) -> str:
    """How many rounds are near their predictions, and how far the others are."""
    listed = [row for row in rows if row.floors]
    errors = [abs(row.error) for row in listed if row.error is not None]
    near = sum(row.is_near for row in listed)
    text = f"{near} of {len(listed)} rounds took at most {WITHIN:.0%} more or less than predicted"
    if errors:
        text += f"; off by {sum(errors) / len(errors):.1%} on average and {max(errors):.1%} at most"
    lost = sum(row.real is None for row in listed)
    return text + (f"; {lost} lost a floor" if lost else "")
