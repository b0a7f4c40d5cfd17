"""The work that `make bench-peers` gives to every peer: data, batches, network; needs no fedfloor."""

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

FOLDER = "PEER_WORK"  #: environment variable that names the folder of the work


@dataclass(frozen=True, slots=True, eq=False)
class PeerWork:
    """What a peer trains, and on what."""

    settings: dict[str, Any]  #: devices, rounds, iterations, learning_rate, channels_last
    network: nn.Sequential  #: with the first weights of all sides
    images: npt.NDArray[np.uint8]  #: (D, ...)
    labels: npt.NDArray[np.int64]  #: (D,)
    numbers: npt.NDArray[np.int64]  #: sample numbers of all batches, one after the other, round by round
    first: npt.NDArray[np.int64]  #: (rounds * devices + 1,) where each batch begins in `numbers`

    def batch(self, index: int, device: int) -> tuple[Tensor, Tensor]:
        """Inputs and labels of a device's batch in a round, the same that fedfloor draws."""
        at = index * self.settings["devices"] + device
        numbers = self.numbers[self.first[at] : self.first[at + 1]]
        x = torch.from_numpy(self.images[numbers]).to(torch.float32)
        x = (x - self.settings["mean"]).mul_(1.0 / self.settings["deviation"])
        if self.settings["channels_last"] and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return x, torch.from_numpy(self.labels[numbers])

    def vector(self) -> npt.NDArray[np.float32]:
        """The network's weights in fedfloor's order."""
        return np.concatenate([tensor.numpy().ravel() for tensor in self.network.state_dict().values()])


@functools.cache
def work() -> PeerWork:
    """The work in the folder that the environment names, read once per process."""
    torch.set_num_threads(1)
    folder = Path(os.environ[FOLDER])
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    network: nn.Sequential = torch.load(folder / "network.pt", weights_only=False)  # our own file
    if settings["channels_last"]:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with np.load(folder / "samples.npz") as file:
        return PeerWork(settings, network.train(), **{name: file[name] for name in file.files})


class Driver:
    """The line to `peers.py`: a request per line of stdin, an answer per line of stdout."""

    def __init__(self, *packages: str) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # whatever else is printed goes to the log
        self._versions = {package: version(package) for package in ("torch", "numpy", *packages)}

    def serve(self, run: Callable[[int], None], weights: Callable[[], npt.NDArray[np.float32]]) -> None:
        """Run as many rounds as asked for, or save the weights, until the line is cut."""
        self._say({"versions": self._versions})
        for request in sys.stdin:
            name, argument = request.rstrip("\n").split(" ", 1)
            if name == "rounds":
                begun = time.perf_counter()
                run(int(argument))
                self._say({"seconds": time.perf_counter() - begun})
            else:
                np.save(argument, weights())
                self._say({"saved": argument})

    def _say(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()
