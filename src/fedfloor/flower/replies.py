"""Which replies of nodes may be aggregated: one reply must not spoil the model of all, nor end the run."""

__all__ = ["ReplyRules", "arrays_problem", "with_safe_error"]

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

import numpy as np
from flwr.app import ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import Strategy

from fedfloor.characters import safe_line
from fedfloor.errors import shown
from fedfloor.flower.memory import layers_of

_LARGEST = 1e18  #: magnitude of a number in a reply; squares of larger ones overflow float32
_LONGEST = 300  #: characters of an error of a node that are shown
_BYTES = "bytes"  #: form of an array that holds a file, such as trees, and may have any length
_Record = TypeVar("_Record", ArrayRecord, MetricRecord)
Form = tuple[int, ...] | str  #: shape of an array, or _BYTES
Outline = tuple[tuple[str, ...], ...]  #: names of the records of a reply, and of its metrics


def with_safe_error(reply: Message, message: Message) -> Message:
    """The reply; an error's reason becomes one printable line, because strategies log it."""
    if not reply.has_error():
        return reply
    return Message(Error(reply.error.code, safe_line(reply.error.reason or "", _LONGEST)), reply_to=message)


def arrays_problem(arrays: ArrayRecord) -> str:
    """What is wrong with the numbers of arrays; empty if nothing is, as in all functions here."""
    try:
        _forms(arrays)
    except ValueError as error:
        return str(error)
    return ""


def _forms(arrays: ArrayRecord) -> dict[str, Form]:
    """The form of every array, by name; a ValueError says which of them has no numbers that a model may have."""
    forms = {}
    for name, array in arrays.items():
        try:
            numbers = array.numpy()
            dtype, shape = numbers.dtype, numbers.shape
        except Exception as error:  # bytes of others may be anything
            raise ValueError(f"the array {shown(name)} cannot be read: {safe_line(error, _LONGEST)}") from None
        if dtype.kind not in "biuf":
            raise ValueError(f"the array {shown(name)} must hold real numbers, got {dtype}")
        least, most = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
        if not (math.isfinite(least) and math.isfinite(most)):
            raise ValueError(f"the array {shown(name)} has values that are not finite numbers")
        if max(-least, most) > _LARGEST:
            problem = f"has a value of magnitude {max(-least, most):.3g}, more than {_LARGEST:g}"
            raise ValueError(f"the array {shown(name)} {problem}")
        forms[name] = _form(shape, is_file=dtype == np.uint8 and len(arrays) == 1)
    return forms


def _form(shape: tuple[int, ...], *, is_file: bool) -> Form:
    """Only an array that is alone can be a file; beside others, bytes are masks or numbers that must fit."""
    return _BYTES if is_file and len(shape) == 1 else tuple(shape)


@dataclass(frozen=True, slots=True)
class ReplyRules:
    """What a strategy and the log need of every reply."""

    weight: str | None  #: metric by which models are weighted
    finite: tuple[str, ...]  #: other metrics that decide about the model
    must_match: bool  #: replies must have the arrays of the message and the metrics of most other replies
    _usual: Counter[Outline] = field(default_factory=Counter)  #: how many replies of earlier rounds had each outline

    @classmethod
    def of(cls, strategy: Strategy, *, must_match: bool) -> Self:
        """Those of a strategy and of what it wraps."""
        layers = list(layers_of(strategy))
        weights = [key for layer in layers if isinstance(key := getattr(layer, "weighted_by_key", None), str)]
        losses = [key for layer in layers if isinstance(key := getattr(layer, "train_loss_key", None), str)]
        return cls(weights[0] if weights else None, tuple(losses), must_match)

    def of_training(self, replies: Mapping[int, Message], sent: Mapping[int, RecordDict]) -> dict[int, str]:
        """What is wrong with replies to a training message, by floor; `sent` is what the floor was sent."""
        problems = {m: self._trained(reply, sent[m]) for m, reply in replies.items()}
        return self._compared(problems, replies)

    def of_evaluation(self, replies: Mapping[int, Message], finite: tuple[str, ...]) -> dict[int, str]:
        """What is wrong with replies to an evaluation, by node; the metrics `finite` must be finite numbers."""
        problems = {node: self._metrics(reply, finite) for node, reply in replies.items()}
        return self._compared(problems, replies)

    def weights(self, replies: Mapping[int, Message]) -> dict[int, float]:
        """The weights of replies that have been checked, by floor; nothing if the strategy has none."""
        if self.weight is None:
            return {}
        numbers = {m: _number(reply.content, self.weight) for m, reply in replies.items()}
        return {m: number for m, number in numbers.items() if number is not None}

    def _trained(self, reply: Message, sent: RecordDict) -> str:
        problem = self._metrics(reply, self.finite)
        if problem:
            return problem
        records, expected = (list(_of_kind(ArrayRecord, content).values()) for content in (reply.content, sent))
        try:
            forms = [_forms(record) for record in records]
        except ValueError as error:
            return str(error)
        if not self.must_match:
            return ""
        if len(records) != len(expected):
            return f"the reply must have {len(expected)} ArrayRecord, as many as the message, got {len(records)}"
        return next(filter(None, map(_difference, forms, expected)), "")

    def _metrics(self, reply: Message, finite: Iterable[str]) -> str:
        """What is wrong with the metrics of a reply, or why it has none."""
        if reply.has_error():
            return safe_line(reply.error.reason, _LONGEST) or f"error {reply.error.code}"
        records = _of_kind(MetricRecord, reply.content)
        metrics = {key: value for record in records.values() for key, value in record.items()}
        if self.weight is not None:
            value = metrics.get(self.weight)
            is_count = isinstance(value, int | float) and 0 <= value <= _LARGEST
            if self.weight not in metrics and self.must_match:
                return f"the reply has no metric {shown(self.weight)}, by which the strategy weights replies"
            if len(records) != 1 and self.must_match:
                return f"the reply must have one MetricRecord, got {', '.join(map(shown, records))}"
            if self.weight in metrics and not is_count:
                return f"the metric {shown(self.weight)} must be a number from 0 to {_LARGEST:g}, got {shown(value)}"
        for key in finite:
            value = metrics.get(key, 0.0)
            if isinstance(value, int | float) and not math.isfinite(value):
                return f"the metric {shown(key)} must be a finite number, got {shown(value)}"
        return ""

    def _compared(self, problems: dict[int, str], replies: Mapping[int, Message]) -> dict[int, str]:
        """The problems, and those of replies that differ from most others, or whose weights add up to nothing."""
        usable = [m for m, problem in problems.items() if not problem]
        outlines = {m: _outline(replies[m].content) for m in usable}
        if self.must_match and usable:
            most = self._most_usual(outlines.values())
            other = "the names of its records and metrics differ from those of other replies"
            problems |= {m: f"{other}: {shown(outlines[m], 200)}" for m in usable if outlines[m] != most}
            usable = [m for m in usable if not problems[m]]
        if self.weight is not None and usable:
            weights = [_number(replies[m].content, self.weight) for m in usable]
            if None not in weights and not any(weights):
                problems |= dict.fromkeys(usable, f"the metric {shown(self.weight)} is 0 in all replies of the round")
        self._usual.update(outlines[m] for m in usable if not problems[m])
        return problems

    def _most_usual(self, outlines: Collection[Outline]) -> Outline:
        """The outline that most replies have: of this round, else of earlier ones; if neither says, the shortest."""
        counts = Counter(outlines)
        return max(counts, key=lambda outline: (counts[outline], self._usual[outline], -len(outline), outline))


def _of_kind(kind: type[_Record], content: RecordDict) -> dict[str, _Record]:
    """The records of a kind, by name; Flower's own properties copy them and check their names again."""
    return {name: record for name, record in content.items() if isinstance(record, kind)}


def _difference(forms: Mapping[str, Form], sent: ArrayRecord) -> str:
    """In what the arrays of a reply differ from those that were sent."""
    for name, array in sent.items():
        form = _form(array.shape, is_file=array.dtype == "uint8" and len(sent) == 1)
        if name not in forms:
            return f"the reply has no array {shown(name)}, which the message had"
        if forms[name] != form:
            return f"the array {shown(name)} must have the shape {form}, as in the message, got {forms[name]}"
    more = next((name for name in forms if name not in sent), None)
    return "" if more is None else f"the reply has an array {shown(more)}, which the message did not have"


def _outline(content: RecordDict) -> Outline:
    """Names of the records of a reply, and of its metrics, those that are lists with their lengths."""
    metrics = sorted(
        (name, key, str(len(value)) if isinstance(value, list) else "")
        for name, record in _of_kind(MetricRecord, content).items()
        for key, value in record.items()
    )
    return (*((name,) for name in _of_kind(ArrayRecord, content)), *metrics)


def _number(content: RecordDict, key: str) -> float | None:
    """A metric that is a number, as it was checked; None if there is none."""
    for record in _of_kind(MetricRecord, content).values():
        value = record.get(key)
        if isinstance(value, int | float):
            return float(value)
    return None
