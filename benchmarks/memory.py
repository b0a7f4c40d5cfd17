"""How near the `exact` memory is to what torch's allocator sees: `python -m benchmarks.memory`."""

import torch
from torch import nn

from fedfloor.costs.layers import layer_costs
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.description import infer_layers
from fedfloor.training.network.models import build_model
from fedfloor.training.network.peak import allocator_peak


def split_at(network: nn.Sequential, cut: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The two halves of a network whose layers begin with a convolution, pooling or linear module."""
    starts = [index for index, module in enumerate(network) if isinstance(module, nn.Conv2d | nn.MaxPool2d | nn.Linear)]
    at = [*starts, len(network)][cut]
    modules = list(network)
    return nn.Sequential(*modules[:at]), nn.Sequential(*modules[at:])


def main() -> None:
    """Print predicted over measured for whole networks and for halves."""
    torch.set_num_threads(1)
    print("predicted / measured peak of one SGD step")
    print(f"{'network':24} {'part':14}" + "".join(f"{f'batch {batch}':>11}" for batch in (1, 50, 100)))
    for model in (
        Model(name="vgg11", input=(3, 32, 32)),
        Model(name="vgg11", input=(3, 32, 32), head="4096-4096"),
        Model(name="vgg11", input=(3, 32, 32), batch_norm=True),
        Model(name="cnn", input=(1, 28, 28)),
        Model(name="mlp", input=(1, 28, 28)),
    ):
        layers = infer_layers(model, Costs())
        costs = layer_costs(layers, "exact")
        network = build_model(model)
        assert isinstance(network, nn.Sequential)
        label = (
            model.name + (" 4096-4096" if model.head != "linear" else "") + (" batch norm" if model.batch_norm else "")
        )
        parts: list[tuple[str, nn.Sequential, tuple[int, ...], slice, bool]] = [
            ("whole", network, model.input, slice(None), False)
        ]
        for cut in range(1, len(layers)) if model.name != "mlp" else ():
            bottom, top = split_at(network, cut)
            parts.append((f"device, cut {cut}", bottom, model.input, slice(0, cut), False))
            parts.append((f"gateway, cut {cut}", top, layers[cut].input, slice(cut, None), True))
        for name, part, shape, rows, error_down in parts:
            ratios = []
            for batch in (1, 50, 100):
                ours = costs.fixed_bytes[rows].sum() + batch * costs.sample_bytes[rows].sum()
                ratios.append(ours / allocator_peak(part, torch.randn(batch, *shape), error_down=error_down))
            print(f"{label:24} {name:14}" + "".join(f"{ratio:11.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
