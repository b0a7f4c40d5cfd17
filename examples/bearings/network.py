"""A small network for windows of 1024 accelerations: two convolutions, a block with a shortcut, a linear layer."""

from torch import Tensor, nn


class Shortcut(nn.Sequential):
    """A block that adds its input to what its layers give; fedfloor does not cut inside it."""

    def forward(self, x: Tensor) -> Tensor:
        """Sum of the input (B, C, L) and the output of the layers (B, C, L)."""
        shift: Tensor = super().forward(x)
        return x + shift


def bearings() -> nn.Sequential:
    """Scores of ten classes from windows (1, 1024)."""
    inside = (
        nn.Conv1d(32, 32, 5, padding=2),
        nn.GroupNorm(8, 32),
        nn.ReLU(),
        nn.Conv1d(32, 32, 5, padding=2),
        nn.GroupNorm(8, 32),
    )
    return nn.Sequential(
        nn.Conv1d(1, 16, 64, stride=8, padding=28),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 5, padding=2),
        nn.GroupNorm(8, 32),
        nn.ReLU(),
        Shortcut(*inside),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
