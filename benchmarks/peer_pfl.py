"""Apple's pfl on the work of `make bench-peers`; runs in pfl's own environment, one of two processes."""

import asyncio
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.peer_work import Driver, work


class Network(nn.Module):
    """The network with the two methods that pfl asks for."""

    def __init__(self, chain: nn.Sequential) -> None:
        super().__init__()
        self.chain = chain

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What a step minimises."""
        return functional.cross_entropy(self.chain(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """Asked for in the very first round only, which nobody times."""
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


def main() -> None:
    """Serve until the driver hangs up."""
    driver, given = Driver("pfl"), work()
    settings, devices = given.settings, given.settings["devices"]
    asyncio.set_event_loop(asyncio.new_event_loop())  # pfl looks for one
    np.random.seed(0)  # noqa: NPY002  # both processes sample alike, which pfl leaves to numpy's own state
    network = Network(given.network)
    model = PyTorchModel(
        network,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )

    def dataset(user: int) -> PyTorchTensorDataset:
        """A user is a device in a round and holds its batch, which K epochs without minibatches go over K times."""
        return PyTorchTensorDataset(given.batch(*divmod(user, devices)), user_id=str(user))

    # Its processes take every other device, which here share the samples evenly; balancing by weight gains nothing.
    sampler = get_user_sampler("minimize_reuse", list(range(settings["rounds"] * devices)))
    data = FederatedDataset(dataset, sampler)
    backend = SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()])
    algorithm, done = FederatedAveraging(), 0
    training = NNTrainHyperParams(
        local_num_epochs=settings["iterations"], local_learning_rate=settings["learning_rate"], local_batch_size=None
    )

    def run(rounds: int) -> None:
        nonlocal model, done
        done += rounds
        model = algorithm.run(
            NNAlgorithmParams(
                central_num_iterations=done, evaluation_frequency=10**9, train_cohort_size=devices, val_cohort_size=0
            ),
            backend,
            model,
            training,
            NNEvalHyperParams(local_batch_size=None),
            send_metrics_to_platform=False,
        )

    driver.serve(run, given.vector)
