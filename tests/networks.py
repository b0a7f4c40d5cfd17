"""Networks that users might bring, good and bad."""

from torch import Tensor, nn


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 30), nn.GELU(), nn.Sequential(nn.Dropout(), nn.Linear(30, 10)))


def depthwise() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, groups=2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )


def does_not_chain() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(100, 30))


def with_an_lstm() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LSTM(784, 10))


def not_a_module() -> int:
    return 3


class _Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(784, 10), nn.Linear(784, 10)

    def forward(self, x: Tensor) -> Tensor:
        value: Tensor = self.left(x) + self.right(x)
        return value


def with_a_branch() -> nn.Module:
    return _Branch()


def takes_arguments(width: int) -> nn.Module:
    return nn.Linear(width, width)


def leaves() -> nn.Module:
    raise SystemExit(0)


class _OwnForward(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return input.flatten(1)


def with_its_own_forward() -> nn.Module:
    return _OwnForward(nn.Flatten(), nn.Linear(784, 10))


def shares_weights() -> nn.Module:
    layer = nn.Linear(784, 784)
    return nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer, nn.Linear(784, 10))


def reuses_its_activation() -> nn.Module:
    relu = nn.ReLU()
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 20), relu, nn.Linear(20, 15), relu, nn.Linear(15, 10))


def folds_the_batch() -> nn.Module:
    return nn.Sequential(nn.Flatten(0, 2), nn.Linear(28, 10))


def logistic() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def half_frozen() -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))
    for parameter in network[1].parameters():
        parameter.requires_grad_(False)
    return network


def by_rows() -> nn.Module:
    return nn.Sequential(nn.Linear(28, 4), nn.ReLU(), nn.Flatten(), nn.Linear(112, 10))
