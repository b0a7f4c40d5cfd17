"""Division of a data set among devices: labels -> one list of sample numbers per device."""

__all__ = ["Wish", "by_classes", "by_shards", "dirichlet", "iid"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Ints


@dataclass(frozen=True, slots=True)
class Wish:
    """Number of samples and of classes that one device asks for."""

    samples: int  #: D_n
    classes: int | None = None  #: q_m; None for all
    among: tuple[int, ...] | None = None  #: labels of its classes; None: q_m of all are drawn


class _Stock:
    """Samples that no device holds yet, class by class, shuffled."""

    def __init__(self, labels: Ints, classes: int, rng: np.random.Generator) -> None:
        self._left = [rng.permutation(np.flatnonzero(labels == label)) for label in range(classes)]

    def sizes(self) -> Ints:
        """Number of samples left of every class, (C,)."""
        return np.array([left.size for left in self._left])

    def take(self, counts: Ints) -> Ints:
        """Take `counts` (C,) samples of the classes, or all that a class has left."""
        parts = [left[:count] for left, count in zip(self._left, counts, strict=True)]
        self._left = [left[count:] for left, count in zip(self._left, counts, strict=True)]
        return np.concatenate(parts)

    def take_alike(self, total: int, among: Ints) -> Ints:
        """Take `total` samples evenly from the classes `among`; what one class lacks comes from the others."""
        left = self.sizes()
        counts = np.zeros(left.size, np.int64)
        while total > 0:
            sources = among[left[among] > counts[among]]
            if sources.size == 0:
                break
            each, rest = divmod(total, sources.size)
            demand = np.full(sources.size, each)
            demand[:rest] += 1
            supply = np.minimum(demand, left[sources] - counts[sources])
            counts[sources] += supply
            total -= int(supply.sum())
        return self.take(counts)


def by_classes(
    labels: Ints, wishes: Sequence[Wish], *, classes: int, fraction: float, rng: np.random.Generator
) -> list[Ints]:
    """Partition of the paper: a fraction chi of each device's samples from its own q classes, the rest from all.

    A wish may name its classes. Samples are drawn without replacement. A class with too few samples is shared in
    proportion to the demand. What a device lacks comes from its other classes if they have samples left; otherwise it
    holds fewer.
    """
    stock = _Stock(labels, classes, rng)
    drawn = [rng.permutation(classes)[: min(wish.classes or classes, classes)] for wish in wishes]
    own = [some if wish.among is None else np.array(wish.among) for wish, some in zip(wishes, drawn, strict=True)]
    totals = [round(fraction * wish.samples) for wish in wishes]  # from the device's own classes
    demand = np.zeros((len(wishes), classes), np.int64)
    for n, total in enumerate(totals):
        each, rest = divmod(total, own[n].size)
        demand[n, own[n]] = each
        demand[n, own[n][:rest]] += 1
    scale = np.minimum(1.0, stock.sizes() / np.maximum(demand.sum(0), 1))
    shares = [stock.take(counts) for counts in np.floor(demand * scale).astype(np.int64)]
    for n, total in enumerate(totals):
        shares[n] = np.concatenate([shares[n], stock.take_alike(total - shares[n].size, own[n])])
    # The rest is drawn last, so that it does not use up the classes that devices have of their own.
    rests = [wish.samples - total for wish, total in zip(wishes, totals, strict=True)]
    draws = [stock.take(_draw_counts(stock.sizes(), rest, rng)) for rest in rests]
    return [np.sort(np.concatenate(pair)) for pair in zip(shares, draws, strict=True)]


def _draw_counts(left: Ints, total: int, rng: np.random.Generator) -> Ints:
    """Number of samples of each class in a blind draw of `total` samples, (C,)."""
    return rng.multivariate_hypergeometric(left, min(total, int(left.sum())))


def iid(labels: Ints, wishes: Sequence[Wish], *, classes: int, rng: np.random.Generator) -> list[Ints]:
    """Every device draws blindly from all samples that are left."""
    stock = _Stock(labels, classes, rng)
    return [np.sort(stock.take(_draw_counts(stock.sizes(), wish.samples, rng))) for wish in wishes]


def dirichlet(
    labels: Ints, wishes: Sequence[Wish], *, classes: int, concentration: float, rng: np.random.Generator
) -> list[Ints]:
    """Class shares of every device from a symmetric Dirichlet distribution; small concentrations give few classes."""
    stock, shares = _Stock(labels, classes, rng), []
    for wish in wishes:
        counts = np.zeros(classes, np.int64)
        ratios, left = rng.dirichlet(np.full(classes, concentration)), stock.sizes()
        while (shortage := wish.samples - int(counts.sum())) > 0 and np.any(ratios[left > counts] > 0.0):
            chances = np.where(left > counts, ratios, 0.0)
            more = rng.multinomial(shortage, chances / chances.sum())
            counts = np.minimum(counts + more, left)
        shares.append(np.sort(stock.take(counts)))
    return shares


def by_shards(labels: Ints, wishes: Sequence[Wish], *, shards: int, rng: np.random.Generator) -> list[Ints]:
    """Sort samples by label and cut them into pieces of one or two classes; every device gets at most `shards` pieces.

    The lengths of the pieces follow from the wishes, so that every device holds what it asks for if there is enough,
    and proportionally less otherwise.
    """
    order = np.argsort(labels + rng.random(labels.size) * 0.5, kind="stable")  # by label, and shuffled within a label
    demand = sum(wish.samples for wish in wishes)
    scale = min(1.0, labels.size / demand)
    pieces = [
        (n, size)
        for n, wish in enumerate(wishes)
        for size in _pieces(int(wish.samples * scale), shards)  # no pieces for a device that gets nothing
    ]
    sizes, sequence = [size for _, size in pieces], rng.permutation(len(pieces))  # of the pieces along the labels
    shares: list[list[Ints]] = [[] for _ in wishes]
    step = labels.size / max(1, sum(sizes))  # pieces are spread over all labels
    start = 0
    for piece in sequence:
        begin = int(start * step)
        shares[pieces[piece][0]].append(order[begin : begin + sizes[piece]])
        start += sizes[piece]
    return [np.sort(np.concatenate([np.zeros(0, np.int64), *share])) for share in shares]


def _pieces(total: int, count: int) -> list[int]:
    """Lengths of at most `count` pieces, nearly equal, that add up to `total` samples."""
    count = min(count, total)
    return [total // count + (k < total % count) for k in range(count)]
