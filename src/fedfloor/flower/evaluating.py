"""What an evaluation says: its accuracy and loss, found by their keys, and which replies of nodes count."""

__all__ = ["MetricKeys", "evaluation_problems", "metric_in"]

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flwr.app import Message, MetricRecord

from fedfloor.errors import FedfloorError, counted, shown
from fedfloor.flower.replies import ReplyRules
from fedfloor.rounds.record import RoundRecord

_ROUNDING = 1e-9  #: by which a mean of shares may exceed 1


@dataclass(frozen=True, slots=True)
class MetricKeys:
    """Keys of the metrics that the log keeps; of several, the first that is there counts."""

    train_loss: tuple[str, ...]  #: in the replies of nodes that have trained
    accuracy: tuple[str, ...]  #: in an evaluation, from 0 to 1
    loss: tuple[str, ...]  #: in an evaluation
    awaited: tuple[str, ...] = ()  #: "accuracy", "loss": what the run is to end by

    def result_in(self, metrics: MetricRecord | None) -> tuple[float | None, float | None]:
        """Accuracy and loss of an evaluation; an accuracy that is not a share is refused."""
        if metrics is None:
            return None, None
        self._refuse_other_metrics(metrics)
        found, loss = metric_in([metrics], self.accuracy), metric_in([metrics], self.loss)
        accuracy = None if found is None or not math.isfinite(found[1]) else found[1]
        if found is not None and accuracy is not None and not _is_share(accuracy):
            problem = f"metric {found[0]!r}: must be from 0 to 1, got {accuracy:g}"
            raise FedfloorError(f"{problem}. Return the share of samples that are right, or name another accuracy_key")
        return (
            None if accuracy is None else min(max(accuracy, 0.0), 1.0),
            None if loss is None or not math.isfinite(loss[1]) else loss[1],
        )

    def missing_in(self, record: RoundRecord) -> set[str]:
        """Those of the awaited metrics that a round has no number for."""
        return {name for name in self.awaited if getattr(record, name) is None}

    def absence_remarks(self, missing: Iterable[str], rounds: int) -> Iterator[str]:
        """What to say of awaited metrics that no round has had."""
        for name in missing:
            keys = " or ".join(map(repr, self._keys(name)))
            problem = f"until_{name}: no evaluation in {counted(rounds, 'round')} had a number as the metric {keys}"
            yield f"{problem}. Check evaluate_fn and the evaluations of the nodes"

    def _refuse_other_metrics(self, metrics: MetricRecord) -> None:
        """Refuse an evaluation without the metric that a run is to end by."""
        for name in self.awaited:
            keys = self._keys(name)
            if metric_in([metrics], keys) is None:
                there = ", ".join(map(shown, metrics)) or "no metric at all"
                problem = f"an evaluation must have the metric {' or '.join(map(repr, keys))}, got {there}"
                raise FedfloorError(f"until_{name}: {problem}. Return it, or name another one with {name}_key")

    def _keys(self, name: str) -> tuple[str, ...]:
        return self.accuracy if name == "accuracy" else self.loss


def evaluation_problems(replies: Mapping[int, Message], rules: ReplyRules, keys: MetricKeys) -> dict[int, str]:
    """What is wrong with replies to an evaluation, by node; empty if a reply can be averaged.

    A share outside 0 to 1 is left out only if others are inside: if none is, the app means something else by it.
    """
    problems = rules.of_evaluation(replies, (*keys.accuracy, *keys.loss))
    usable = [node for node, problem in problems.items() if not problem]
    metrics = {node: metric_in(replies[node].content.metric_records.values(), keys.accuracy) for node in usable}
    shares = {node: share for node, share in metrics.items() if share is not None}
    wrong = {node: share for node, share in shares.items() if not _is_share(share[1])}
    if len(wrong) < len(shares):
        problems |= {
            node: f"the metric {key!r} must be from 0 to 1, got {value:g}" for node, (key, value) in wrong.items()
        }
    return problems


def metric_in(records: Iterable[MetricRecord], keys: Sequence[str]) -> tuple[str, float] | None:
    """The first key that is there, in the first record that has one, and its number; None if there is none."""
    for record in records:
        for key in keys:
            value = record.get(key)
            if isinstance(value, int | float):
                return key, float(value)
    return None


def _is_share(value: float) -> bool:
    return -_ROUNDING <= value <= 1.0 + _ROUNDING
