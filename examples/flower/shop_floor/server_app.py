"""The server: an ordinary ServerApp, whose strategy is wrapped in `FedFloor`."""

from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedfloor.flower import FedFloor
from shop_floor.task import make_network, test_network

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds."""
    config = context.run_config
    torch.manual_seed(0)
    arrays = ArrayRecord(make_network().state_dict())

    strategy = FedAvg(fraction_evaluate=0.0)
    # The next two lines, and the imports of FedFloor and Path, are all that fedfloor needs.
    plant, policy = Path(__file__).with_name("plant.toml"), config["policy"] or None
    strategy = FedFloor(strategy, plant, policy, out=config["out"], resume=config["resume"])

    strategy.start(
        grid=grid,
        initial_arrays=arrays,
        train_config=ConfigRecord({"lr": config["learning-rate"]}),
        num_rounds=config["num-server-rounds"],
        evaluate_fn=evaluate,
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:  # noqa: ARG001
    """Accuracy and loss on pictures that no node has."""
    network = make_network()
    network.load_state_dict(arrays.to_torch_state_dict())
    accuracy, loss = test_network(network)
    return MetricRecord({"accuracy": accuracy, "loss": loss})
