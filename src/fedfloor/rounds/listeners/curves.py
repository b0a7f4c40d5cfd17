"""What of a round optional loggers show as curves."""

__all__ = ["scalars"]

from fedfloor.rounds.record import ABSENT, RoundRecord


def scalars(record: RoundRecord) -> dict[str, float]:
    """The values of a round by name; what it has no value for, as an accuracy between evaluations, is left out."""
    values = {
        "delay_s": record.delay_s,
        "clock_s": record.clock_s,
        "training_loss": record.training_loss,
        "completed": sum(floor.completed for floor in record.gateways),
        "accuracy": record.accuracy,
        "raw_accuracy": None if record.raw_accuracy is ABSENT else record.raw_accuracy,
        "loss": record.loss,
    }
    return {key: float(value) for key, value in values.items() if value is not None}
