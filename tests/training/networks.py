"""Networks that users might bring, good and bad."""

import torch
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


def signal() -> nn.Module:
    """For windows of 64 values from 3 sensors."""
    return nn.Sequential(
        nn.Conv1d(3, 8, 5, padding=2),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(8, 12, 3, stride=2, bias=False),
        nn.LeakyReLU(),
        nn.AvgPool1d(2),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(48, 10),
    )


def long_signal() -> nn.Module:
    """For windows of 512 values from 6 sensors; large enough for the bytes to matter."""
    return nn.Sequential(
        nn.Conv1d(6, 64, 9, padding=4),
        nn.ReLU(),
        nn.MaxPool1d(4),
        nn.Conv1d(64, 128, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool1d(2),
        nn.Flatten(),
        nn.Linear(128 * 64, 10),
    )


def normed() -> nn.Module:
    """Group and layer norms of every form, for windows of 64 values from 3 sensors."""
    return nn.Sequential(
        nn.Conv1d(3, 8, 5, padding=2),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.MaxPool1d(4),
        nn.Conv1d(8, 12, 3, padding=1),
        nn.LayerNorm([12, 16]),
        nn.GELU(),
        nn.AdaptiveAvgPool1d(2),
        nn.Flatten(),
        nn.Linear(24, 16, bias=False),
        nn.LayerNorm(16, bias=False),
        nn.SiLU(),
        nn.GroupNorm(4, 16, affine=False),
        nn.Linear(16, 10),
    )


def normed_images() -> nn.Module:
    features = [nn.Conv2d(1, 8, 3), nn.GroupNorm(4, 8), nn.ReLU(), nn.MaxPool2d(4), nn.LayerNorm(6)]
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(288, 10))


class Residual(nn.Module):
    """Two convolutions with batch norm, and a skip connection around them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(inputs, outputs, 3, padding=1), nn.BatchNorm1d(outputs), nn.ReLU())
        self.second = nn.Sequential(nn.Conv1d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm1d(outputs))
        self.skip = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.skip(x))


class Skipped(nn.Sequential):
    """A chain with a skip connection around it."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        value: Tensor = input + super().forward(input)  # type: ignore[no-untyped-call]
        return value


class Wrapped(nn.Module):
    """A chain that is one unit."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.chain = nn.Sequential(*modules)

    def forward(self, x: Tensor) -> Tensor:
        value: Tensor = self.chain(x)
        return value


def residual() -> nn.Module:
    """Blocks with and without a class of their own for windows of 64 values from 3 sensors."""
    return nn.Sequential(
        nn.Conv1d(3, 8, 5, padding=2),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.MaxPool1d(2),
        Residual(8, 12),
        Skipped(nn.Conv1d(12, 12, 3, padding=1), nn.GELU(), nn.MaxPool1d(3, stride=1, padding=1)),
        nn.LayerNorm(32),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(48, 10),
    )


def residual_images() -> nn.Module:
    """The first layer that is trained is a block, and another one is depthwise."""
    wide = [nn.Conv2d(8, 16, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 8, 1)]
    return nn.Sequential(
        Wrapped(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3)),
        Skipped(*wide),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


class _Counting(nn.Module):
    """Counts its batches in a buffer, in one of several ways."""

    seen: Tensor

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.register_buffer("seen", torch.zeros(1), persistent=way != "hidden")

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.way == "replaced":
            self.seen = self.seen + 1.0
        elif self.training:
            self.seen.add_(1.0)
        return x + 0.0 * self.seen


def counts_batches() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), _Counting("in place"), nn.Linear(16, 10))


def replaces_a_buffer() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), _Counting("replaced"), nn.Linear(16, 10))


def hides_a_buffer() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), _Counting("hidden"), nn.Linear(16, 10))


class _Odd(nn.Module):
    """What a block must not do."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.scale = way, torch.ones(16)

    def forward(self, x: Tensor) -> object:
        results = {
            "every_pair": lambda: x @ x.T,
            "among_samples": lambda: (x @ x.T) @ x,
            "one_result": lambda: x.sum(0),
            "two_results": lambda: (x, x),
            "in_place": x.relu_,
            "reads_a_value": lambda: x * float(x.max()),
            "own_tensor": lambda: x * self.scale.cpu(),
        }
        result: object = results[self.way]()  # type: ignore[no-untyped-call]
        return result


def odd(way: str) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), _Odd(way), nn.Linear(16, 10))


def large_weights() -> nn.Module:
    """A network whose first bias only float32 can hold; it adds the same to all scores."""
    layer = nn.Linear(784, 10)
    nn.init.constant_(layer.bias, 1e5)
    return nn.Sequential(nn.Flatten(), layer)


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


def _dense() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.Tanh(), nn.Linear(16, 10))


def all_frozen() -> nn.Module:
    return _dense().requires_grad_(False)


def double_precision() -> nn.Module:
    return _dense().double()


def changes_in_place() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 16), nn.Sigmoid(), nn.LeakyReLU(0.1, inplace=True), nn.Linear(16, 10)
    )


def raises_forward() -> nn.Module:
    """Only on data: tensors without any, which shapes are inferred on, pass."""

    def hook(_: nn.Module, __: object, out: Tensor) -> None:
        if out.device.type != "meta":
            raise LookupError("the press is not heated")

    network = _dense()
    network[1].register_forward_hook(hook)
    return network


def raises_on_shapes() -> nn.Module:
    def hook(_: nn.Module, __: object, out: Tensor) -> None:
        raise LookupError(f"no shelf for {tuple(out.shape)}")

    network = _dense()
    network[1].register_forward_hook(hook)
    return network


def raises_backward() -> nn.Module:
    def hook(_: Tensor) -> None:
        raise LookupError("the way back is closed")

    network = _dense()
    weight = network[1].weight
    assert isinstance(weight, Tensor)
    weight.register_hook(hook)  # type: ignore[no-untyped-call]
    return network


def takes_no_single_gradients() -> nn.Module:
    """Trains and tests well, but `vmap` cannot write many samples into one tensor."""

    def hook(_: nn.Module, __: object, out: Tensor) -> Tensor:
        return torch.zeros(out.shape, device=out.device).add_(out)

    network = _dense()
    network[1].register_forward_hook(hook)
    return network


def raises_late() -> nn.Module:
    """Well in the first passes that are trained, as those of a trial."""
    passes = 0

    def hook(module: nn.Module, _: object, out: Tensor) -> None:
        nonlocal passes
        passes += module.training and out.device.type != "meta"
        if passes > 3:
            raise SystemExit("worn out")

    network = _dense()
    network[1].register_forward_hook(hook)
    return network


def not_finite() -> nn.Module:
    network = _dense()
    weight = network[3].weight
    assert isinstance(weight, Tensor)
    with torch.no_grad():
        weight[2, 3] = float("nan")
    return network


def scores_are_not_finite() -> nn.Module:
    network = _dense()
    network[3].register_forward_hook(lambda _, __, out: out / 0.0)
    return network
