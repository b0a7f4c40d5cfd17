"""The networks, data sets and cost models a scenario can name, with what is known about them without torch or files."""

__all__ = ["COST_MODELS", "DATASETS", "NETWORKS", "DatasetFacts", "NetworkFacts"]

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """A built-in network."""

    input: tuple[int, int, int]  #: (C, H, W) of the samples it is made for
    summary: str


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A data set."""

    input: tuple[int, int, int]  #: (C, H, W) of one sample
    classes: int
    training_samples: int
    summary: str


NETWORKS = MappingProxyType(
    {
        "vgg11": NetworkFacts((3, 32, 32), "8 convolutions, 5 poolings, linear or 4096-4096 head; optional batch norm"),
        "cnn": NetworkFacts((1, 28, 28), "2 convolutions with pooling, 2 linear layers; optional batch norm"),
        "mlp": NetworkFacts((1, 28, 28), "2 linear layers with 128 hidden units"),
    }
)

DATASETS = MappingProxyType(
    {
        "fashion-mnist": DatasetFacts((1, 28, 28), 10, 60_000, "grey 28x28 images of clothes (Zalando Research, MIT)"),
        "cifar10": DatasetFacts(
            (3, 32, 32), 10, 50_000, "colour 32x32 images of animals and vehicles (Krizhevsky 2009)"
        ),
        "svhn": DatasetFacts((3, 32, 32), 10, 73_257, "colour 32x32 house-number digits (Netzer et al. 2011)"),
    }
)

COST_MODELS = MappingProxyType(
    {
        "exact": "what torch computes and holds in a step of plain SGD (default)",
        "paper": "Table II of the paper to the letter",
    }
)
