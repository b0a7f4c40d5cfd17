"""Who holds which samples: labels of a data set -> one list of sample numbers per device."""

__all__ = ["Wish", "by_classes", "by_shards", "dirichlet", "iid"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Ints


@dataclass(frozen=True, slots=True)
class Wish:
    """What one device would like to hold."""

    samples: int  #: D_n
    classes: int | None = None  #: q_m; None for all


class _Stock:
    """Samples that nobody holds yet, class by class, shuffled."""

    def __init__(self, labels: Ints, classes: int, rng: np.random.Generator) -> None:
        self._left = [rng.permutation(np.flatnonzero(labels == label)) for label in range(classes)]

    def sizes(self) -> Ints:
        """How many are left of every class, (C,)."""
        return np.array([left.size for left in self._left])

    def take(self, counts: Ints) -> Ints:
        """So many of every class (C,), or what is left of it."""
        taken = [left[:count] for left, count in zip(self._left, counts, strict=True)]
        self._left = [left[count:] for left, count in zip(self._left, counts, strict=True)]
        return np.concatenate(taken)

    def take_alike(self, total: int, among: Ints) -> Ints:
        """So many in all, evenly over some classes; what a class lacks comes from the others of them."""
        left = self.sizes()
        counts = np.zeros(left.size, np.int64)
        while total > 0:
            open_ = among[left[among] > counts[among]]
            if open_.size == 0:
                break
            each, rest = divmod(total, open_.size)
            wanted = np.full(open_.size, each)
            wanted[:rest] += 1
            granted = np.minimum(wanted, left[open_] - counts[open_])
            counts[open_] += granted
            total -= int(granted.sum())
        return self.take(counts)


def by_classes(
    labels: Ints, wishes: Sequence[Wish], *, classes: int, fraction: float, rng: np.random.Generator
) -> list[Ints]:
    """The paper's: a fraction chi of each device's samples from its own q classes, the rest from all.

    Without replacement. A class that is asked for more often than it has samples is shared in proportion; what a
    device lacks comes from its other classes if they have some left, else it holds fewer.
    """
    stock = _Stock(labels, classes, rng)
    own = [rng.permutation(classes)[: min(wish.classes or classes, classes)] for wish in wishes]
    biased = [round(fraction * wish.samples) for wish in wishes]
    asked = np.zeros((len(wishes), classes), np.int64)
    for n, total in enumerate(biased):
        each, rest = divmod(total, own[n].size)
        asked[n, own[n]] = each
        asked[n, own[n][:rest]] += 1
    scale = np.minimum(1.0, stock.sizes() / np.maximum(asked.sum(0), 1))
    held = [stock.take(granted) for granted in np.floor(asked * scale).astype(np.int64)]
    for n, total in enumerate(biased):
        held[n] = np.concatenate([held[n], stock.take_alike(total - held[n].size, own[n])])
    # The rest is drawn after everybody has their own, so that nobody's classes run out for the sake of it.
    rests = [wish.samples - total for wish, total in zip(wishes, biased, strict=True)]
    drawn = [stock.take(_drawn(stock.sizes(), rest, rng)) for rest in rests]
    return [np.sort(np.concatenate(pair)) for pair in zip(held, drawn, strict=True)]


def _drawn(left: Ints, total: int, rng: np.random.Generator) -> Ints:
    """How many of each class a blind draw of `total` samples takes, (C,)."""
    return rng.multivariate_hypergeometric(left, min(total, int(left.sum())))


def iid(labels: Ints, wishes: Sequence[Wish], *, classes: int, rng: np.random.Generator) -> list[Ints]:
    """Every device draws from all that is left."""
    stock = _Stock(labels, classes, rng)
    return [np.sort(stock.take(_drawn(stock.sizes(), wish.samples, rng))) for wish in wishes]


def dirichlet(
    labels: Ints, wishes: Sequence[Wish], *, classes: int, concentration: float, rng: np.random.Generator
) -> list[Ints]:
    """Class shares of every device from a symmetric Dirichlet distribution: small concentrations, few classes."""
    stock, held = _Stock(labels, classes, rng), []
    for wish in wishes:
        mine = np.zeros(classes, np.int64)
        shares, left = rng.dirichlet(np.full(classes, concentration)), stock.sizes()
        while (lacking := wish.samples - int(mine.sum())) > 0 and np.any(shares[left > mine] > 0.0):
            chances = np.where(left > mine, shares, 0.0)
            more = rng.multinomial(lacking, chances / chances.sum())
            mine = np.minimum(mine + more, left)
        held.append(np.sort(stock.take(mine)))
    return held


def by_shards(labels: Ints, wishes: Sequence[Wish], *, shards: int, rng: np.random.Generator) -> list[Ints]:
    """Samples sorted by label, cut into pieces; every device gets some pieces, which hold one or two classes each.

    Pieces are as long as the devices' wishes ask for, so that all devices together hold what they wish if there is
    enough, and proportionally less otherwise.
    """
    order = np.argsort(labels + rng.random(labels.size) * 0.5, kind="stable")  # by label, shuffled within
    wanted = sum(wish.samples for wish in wishes)
    scale = min(1.0, labels.size / wanted)
    pieces = [
        (n, size)
        for n, wish in enumerate(wishes)
        for size in _pieces(int(wish.samples * scale), shards)  # none for a device that gets nothing
    ]
    sizes, owner = [size for _, size in pieces], rng.permutation(len(pieces))  # which comes next along the order
    held: list[list[Ints]] = [[] for _ in wishes]
    step = labels.size / max(1, sum(sizes))  # pieces are spread over all labels
    start = 0
    for piece in owner:
        begin = int(start * step)
        held[pieces[piece][0]].append(order[begin : begin + sizes[piece]])
        start += sizes[piece]
    return [np.sort(np.concatenate([np.zeros(0, np.int64), *mine])) for mine in held]


def _pieces(total: int, count: int) -> list[int]:
    """So many samples in at most `count` pieces of nearly equal length."""
    count = min(count, total)
    return [total // count + (k < total % count) for k in range(count)]
