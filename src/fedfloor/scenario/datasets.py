"""The data sets a scenario can name: what a sample looks like and how many there are."""

__all__ = ["DATASETS", "DatasetFacts"]

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What can be known of a data set without its files."""

    input: tuple[int, int, int]  #: (C, H, W) of one sample
    classes: int
    summary: str


DATASETS = MappingProxyType(
    {
        "fashion-mnist": DatasetFacts((1, 28, 28), 10, "grey 28x28 pictures of clothes (Zalando Research, MIT)"),
        "cifar10": DatasetFacts((3, 32, 32), 10, "colour 32x32 pictures of animals and vehicles (Krizhevsky 2009)"),
        "svhn": DatasetFacts((3, 32, 32), 10, "colour 32x32 house-number digits (Netzer et al. 2011)"),
    }
)
