"""Predicted beside real seconds of a run on the testbed, from its log: one row per round and floor."""

__all__ = ["HEADER", "PARTS", "FloorRow", "RoundRow", "lines_of", "rows_of", "summary"]

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedfloor.rounds.record import GatewayRecord, RoundRecord

PARTS = ("download", "train", "upload", "total")
#: widths of what a line of the table begins with, of a predicted and a real number, and of the error
_START, _PREDICTED, _REAL, _ERROR = 32, 8, 7, 9
HEADER = (
    " " * _START + "".join(f"{part:>{_PREDICTED + _REAL}}" for part in PARTS),
    f"{'round':>5}  {'floor':<12} {'ch':>2}  {'cuts':<8}"
    + f"{'pred.':>{_PREDICTED}}{'real':>{_REAL}}" * len(PARTS)
    + f"{'error':>{_ERROR}}",
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

    @property
    def error(self) -> float | None:
        """Real against predicted total, as a share of the latter."""
        return None if self.real is None else self.real["total"] / self.predicted["total"] - 1.0


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round: its slowest floor counts."""

    policy: str
    round: int  #: from 0
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
    return RoundRow(policy, record.round, tuple(rows))


def _floor(gateway: GatewayRecord) -> FloorRow | None:
    predicted = _seconds(
        gateway.predicted_download_s, gateway.predicted_train_s, gateway.predicted_upload_s, gateway.predicted_s
    )
    real = _seconds(gateway.download_s, gateway.train_s, gateway.upload_s, gateway.delay_s)
    if predicted is None or gateway.failure not in (None, "lost"):
        return None  # it got no order
    cuts = tuple(device.cut for device in gateway.devices)
    return FloorRow(gateway.name, gateway.channel, cuts, predicted, real if gateway.completed else None)


def _seconds(*values: object) -> Mapping[str, float] | None:
    numbers = [value for value in values if isinstance(value, float)]
    return dict(zip(PARTS, numbers, strict=True)) if len(numbers) == len(PARTS) else None


def lines_of(row: RoundRow) -> list[str]:
    """The lines of a round in the table: one for every floor, and one for the round, whose slowest floor counts."""
    lines = []
    for entry in row.floors:
        start = f"{row.round:>5}  {entry.floor:<12.12} {entry.channel!s:>2}  {','.join(map(str, entry.cuts)):<8.8}"
        real = entry.real or {}
        pairs = [_pair(entry.predicted[part], real.get(part)) for part in PARTS]
        lines.append(start + "".join(pairs) + _percent(entry.error) + ("" if entry.real else "  lost"))
    start = f"{row.round:>5}  whole round".ljust(_START + (len(PARTS) - 1) * (_PREDICTED + _REAL))
    return [*lines, start + _pair(row.predicted, row.real) + _percent(row.error)]


def _pair(predicted: float, real: float | None) -> str:
    return f"{predicted:>{_PREDICTED}.3f}" + (f"{'-':>{_REAL}}" if real is None else f"{real:>{_REAL}.3f}")


def _percent(error: float | None) -> str:
    return f"{'-' if error is None else f'{100.0 * error:+.1f} %':>{_ERROR}}"


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
