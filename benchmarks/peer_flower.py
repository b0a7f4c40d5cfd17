"""Flower's simulation runtime on the work of `make bench-peers`; runs in Flower's own environment."""

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.nn import functional

from benchmarks.peer_work import Driver, work

client = ClientApp()


@client.train()  # type: ignore[untyped-decorator, unused-ignore]
def train(message: Message, context: Context) -> Message:
    """Local training of one device; the network and the data stay in the process, as fedfloor keeps them."""
    given, config = work(), message.content.config_records["config"]
    network, settings = given.network, given.settings
    network.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=settings["learning_rate"])
    index = int(str(config["first"])) + int(str(config["server-round"])) - 1
    x, y = given.batch(index, int(context.node_config["partition-id"]))
    total = 0.0
    for _ in range(settings["iterations"]):
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += float(loss.detach())
    metrics = MetricRecord({"loss": total / settings["iterations"], "num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(network.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


def serving(driver: Driver) -> ServerApp:
    """A server that averages all devices with their numbers of samples, so many rounds at a time as the driver asks."""
    server = ServerApp()

    @server.main()  # type: ignore[untyped-decorator, unused-ignore]
    def serve(grid: Grid, _: Context) -> None:
        given = work()
        strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=given.settings["devices"])
        arrays, done = ArrayRecord(given.network.state_dict()), 0

        def run(rounds: int) -> None:
            nonlocal arrays, done
            config = ConfigRecord({"first": done})
            arrays = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=rounds, train_config=config).arrays
            done += rounds

        def weights() -> npt.NDArray[np.float32]:
            given.network.load_state_dict(arrays.to_torch_state_dict())
            return given.vector()

        driver.serve(run, weights)

    return server


def main() -> None:
    """Serve until the driver hangs up: two processes with a core each."""
    run_simulation(
        server_app=serving(Driver("flwr", "ray")),
        client_app=client,
        num_supernodes=work().settings["devices"],
        backend_config={"init_args": {"num_cpus": 2}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
