"""Network, data, training and test: replace them with yours.

Pictures of six classes are drawn from seeds, so that nothing is downloaded. A node sees four of the classes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES, SIZE, SAMPLES = 6, 16, 240  # `plant.toml` has the same number of samples


def make_network() -> nn.Sequential:
    """The network that is trained; `plant.toml` lists its layers."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, CLASSES),
    )


def draw(labels: Tensor, seed: int) -> Tensor:
    """A picture for every label: the pattern of its class, shifted at random, and noise; (n, 1, SIZE, SIZE)."""
    patterns = torch.randn(CLASSES, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    patterns = 3 * functional.avg_pool2d(patterns, 3, stride=1, padding=1)
    random = torch.Generator().manual_seed(seed)
    shifts = torch.randint(-2, 3, (len(labels), 2), generator=random).tolist()
    moved = [patterns[label].roll(shift, (0, 1)) for label, shift in zip(labels.tolist(), shifts, strict=True)]
    return (torch.stack(moved) + torch.randn(len(labels), SIZE, SIZE, generator=random)).unsqueeze(1)


def partition(number: int) -> tuple[Tensor, Tensor]:
    """Pictures and labels of a node, of four neighbouring classes."""
    labels = (number + torch.arange(SAMPLES) % 4) % CLASSES
    return draw(labels, seed=1 + number), labels


def train_network(
    network: nn.Module, pictures: Tensor, labels: Tensor, *, epochs: int, batch_size: int, learning_rate: float
) -> float:
    """Train, and return the mean loss."""
    optimizer = torch.optim.SGD(network.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(batch_size):
            optimizer.zero_grad()
            loss = functional.cross_entropy(network(pictures[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)


def test_network(network: nn.Module) -> tuple[float, float]:
    """Accuracy and loss on pictures of all classes that no node has."""
    labels = torch.arange(600) % CLASSES
    with torch.no_grad():
        scores = network(draw(labels, seed=1000))
    accuracy = (scores.argmax(1) == labels).float().mean().item()
    return accuracy, functional.cross_entropy(scores, labels).item()
