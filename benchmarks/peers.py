"""`make bench-peers`: Flower's simulation runtime and Apple's pfl beside fedfloor, on the same federated work.

All sides start from the same weights, train the same devices on the same batches with K steps of plain SGD, and average
with the numbers of samples as weights; nobody evaluates. Each has two processes with one thread. A peer lives in an
environment of its own and keeps running between its turns. It is measured as it comes, and `tuned`: given the memory
format of the weights and the settings of malloc that make our own step fast. Turns alternate: ours, the peer's, ours.
"""

import argparse
import contextlib
import json
import os
import platform
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

import fedfloor
from fedfloor.scenario.model import Model
from fedfloor.training.data.samples import Samples, batch_of
from fedfloor.training.network.built import network_of
from fedfloor.training.network.weights import Layout, average
from fedfloor.training.schedule import RateSchedule
from fedfloor.training.work import Job
from fedfloor.workers.engine import Engine, engine_for, train_devices

ROOT = Path(__file__).parent.parent
MEAN, DEVIATION = 128.0, 64.0
HELD = 4  #: batches' worth of samples that a device holds
PATIENCE = 900.0  #: [s] for one answer of a peer
WORKERS = 2
QUIET = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
MALLOC = {  # as fedfloor's own processes have it
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "16777216",
}

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Case:
    """One piece of federated work."""

    name: str
    model: Model
    devices: int  #: per round, all of them; an even number, which pfl's processes share evenly
    batch: tuple[int, int]  #: least and most samples of a device's batch
    learning_rate: float
    warm: int  #: rounds before any is timed
    turns: int  #: how often each side takes its turn
    rounds: int  #: per turn
    iterations: int = 5  #: K

    @property
    def total(self) -> int:
        """Rounds that every side runs."""
        return self.warm + self.turns * self.rounds


CASES = (
    Case("VGG-11, width 1/4", Model(name="vgg11", input=(3, 32, 32), width=0.25), 12, (16, 48), 0.002, 2, 7, 2),
    Case("MLP 784-128-10", Model(name="mlp", input=(1, 28, 28)), 100, (8, 24), 0.05, 5, 7, 5),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another simulator and what its environment holds."""

    name: str
    module: str  #: of ours, run in its environment
    requirements: tuple[str, ...]
    processes: int  #: that we start; Ray starts its own


#: torch exactly so: any other version or a range pulls gigabytes
PEERS = (
    Peer(
        "flower",
        "benchmarks.peer_flower",
        ("torch==2.13.0", "numpy==2.4.6", "ray==2.55.1", "flwr[simulation]==1.41.0"),
        1,
    ),
    Peer("pfl", "benchmarks.peer_pfl", ("torch==2.13.0", "numpy==2.4.6", "pfl==0.6.0"), WORKERS),
)


NOTES = """
Seconds are medians per round over the turns; ratio is the peer's over ours, and its least and most in a single turn.
Loss is over all samples. Apart is the distance of the sides' weights after the first and after the last round, relative
to how far ours have moved: sums in another order differ in the last bits, which a deep network's training lets grow.
"""


class PeerError(Exception):
    """Why a peer has no figures."""


def say(text: str) -> None:
    """Progress, beside the table."""
    print(text, file=sys.stderr, flush=True)


def environment(peer: Peer, cache: Path) -> Path:
    """Python of a peer's own environment, made when it is not there yet."""
    place, wanted = cache / peer.name, "\n".join((platform.python_version(), *peer.requirements))
    python, note = place / "bin" / "python", place / "installed.txt"
    if python.exists() and note.exists() and note.read_text(encoding="utf-8") == wanted:
        return python
    say(f"{peer.name}: installing {', '.join(peer.requirements)} into {place}, this takes minutes ...")
    shutil.rmtree(place, ignore_errors=True)
    ours = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}  # a peer's pins are its own
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.requirements]
    for command in ([sys.executable, "-m", "venv", str(place)], pip):
        done = subprocess.run(command, env=ours, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
            raise PeerError(f"not installed: {lines[-1] if lines else f'code {done.returncode}'}")
    note.write_text(wanted, encoding="utf-8")
    return python


class Running:
    """A peer's processes, and the lines to them."""

    def __init__(self, peer: Peer, python: Path, folder: Path, log: Path, settings: dict[str, str]) -> None:
        self._log = log
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = probe.getsockname()[1]
        common = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            **QUIET,
            **settings,
            "PYTHONPATH": str(ROOT),
            "PEER_WORK": str(folder),
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "PFL_PYTORCH_DEVICE": "cpu",
        }
        code = f"from {peer.module} import main; main()"
        self._processes = []
        for rank in range(peer.processes):
            shared = {"PFL_WORKER_RANK": str(rank), "PFL_WORKER_ADDRESSES": ",".join([f"localhost:{port}"] * WORKERS)}
            with log.open("a") as errors:
                process = subprocess.Popen(
                    [str(python), "-c", code],
                    env={**common, **(shared if peer.processes > 1 else {})},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    cwd=folder,
                    process_group=0,  # not a session: Linux may share its cores out by session
                )
            self._processes.append(process)

    def hear(self) -> dict[str, Any]:
        """The answer of the slowest process."""
        answers = []
        for process in self._processes:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            line = process.stdout.readline() if ready else ""
            if not line:
                raise PeerError(f"no answer, see {self._log}")
            answers.append(json.loads(line))
        return max(answers, key=lambda answer: answer.get("seconds", 0.0))

    def ask(self, *requests: str) -> dict[str, Any]:
        """Send a request to every process, and wait for all."""
        with contextlib.suppress(BrokenPipeError):
            for process, request in zip(self._processes, requests * WORKERS, strict=False):
                assert process.stdin is not None
                process.stdin.write(request + "\n")
                process.stdin.flush()
        return self.hear()

    def close(self) -> None:
        """Hang up; end what does not end by itself."""
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # a group of its own, which we began
                process.wait()


def made(case: Case) -> tuple[Job, Samples]:
    """Pictures that can be told apart, from a fixed seed, and who holds which."""
    rng = np.random.default_rng(0)
    batch = rng.integers(case.batch[0], case.batch[1] + 1, case.devices)
    first = np.concatenate([[0], np.cumsum(HELD * batch)])
    labels = rng.integers(0, case.model.classes, first[-1])
    patterns = rng.normal(0.0, 16.0, (case.model.classes, *case.model.input))
    noise = rng.normal(MEAN, DEVIATION, (labels.size, *case.model.input))
    images = np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8)
    channels = case.model.input[0]
    samples = Samples(
        images=images,
        labels=labels,
        first=first,
        held=np.arange(labels.size),
        test_images=images[:1],
        test_labels=labels[:1],
        mean=np.full(channels, MEAN),
        deviation=np.full(channels, DEVIATION),
    )
    job = Job(case.model, 0, RateSchedule(case.learning_rate), case.iterations, batch, redraw=False, apart=False)
    return job, samples


def write(case: Case, job: Job, samples: Samples, folder: Path, *, tuned: bool) -> None:
    """Put the work where peers find it: the batches that we would draw, and the network we begin with."""
    numbers = [
        batch_of(samples.of_device(n), int(job.batch[n]), job.seed, index, n, 0)
        for index in range(case.total)
        for n in range(case.devices)
    ]
    first = np.concatenate([[0], np.cumsum([part.size for part in numbers])])
    np.savez(
        folder / "samples.npz",
        images=samples.images,
        labels=samples.labels,
        numbers=np.concatenate(numbers),
        first=first,
    )
    torch.save(network_of(job.model, job.seed), folder / "network.pt")
    settings = {
        "devices": case.devices,
        "rounds": case.total,
        "iterations": job.iterations,
        "learning_rate": job.learning_rate,
        "mean": MEAN,
        "deviation": DEVIATION,
        "channels_last": len(case.model.input) == 3 and case.model.name != "mlp" and tuned,
    }
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


class Ours:
    """Rounds of fedfloor's training engine: devices' local training and their average."""

    def __init__(self, case: Case, engine: Engine) -> None:
        self._case, self._engine, self._index = case, engine, 0
        self.weights = engine.work.first_weights()

    def run(self, rounds: int) -> float:
        """Seconds that so many rounds take."""
        begun = time.perf_counter()
        for _ in range(rounds):
            self.weights = average(self._trained(), self.weights.size)
            self._index += 1
        return time.perf_counter() - begun

    def _trained(self) -> Iterator[tuple[float, Vector]]:
        devices, batch = np.arange(self._case.devices), self._engine.work.job.batch
        for n, _, _, trained in train_devices(self._engine, self._index, devices, np.zeros_like(devices), self.weights):
            yield float(batch[n]), trained


def loss_of(job: Job, samples: Samples, weights: Vector) -> float:
    """Mean loss over all devices' samples, by our own network whoever trained the weights."""
    network = network_of(job.model, job.seed).eval()
    Layout(network).load(weights)
    total = 0.0
    with torch.no_grad():
        for part in torch.split(torch.arange(samples.labels.size), 256):
            x = (torch.from_numpy(samples.images[part]).float() - MEAN) / DEVIATION
            total += float(
                functional.cross_entropy(network(x), torch.from_numpy(samples.labels[part]), reduction="sum")
            )
    return total / samples.labels.size


@dataclass(frozen=True, slots=True)
class Figures:
    """What one pair of sides gave."""

    ours: float  #: [s] per round, median over turns
    theirs: float  #: [s]
    least: float  #: ratio of the turn most in the peer's favour
    most: float
    losses: tuple[float, float, float]  #: at first, ours, theirs
    apart: tuple[float, float]  #: see `distance`; after the first round, and after the last
    versions: dict[str, str]


def saved(theirs: Running, folder: Path) -> Vector:
    """A peer's weights, which both processes of pfl have."""
    theirs.ask(f"weights {folder / 'one.npy'}", f"weights {folder / 'other.npy'}")
    return np.load(folder / "one.npy")  # type: ignore[no-any-return]


def distance(ours: Vector, theirs: Vector, first: Vector) -> float:
    """Between two sides' weights, relative to how far ours have moved from the first ones."""
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(ours - first))


def compared(case: Case, peer: Peer, python: Path, cache: Path, *, tuned: bool) -> Figures:
    """Both sides in turn on one case."""
    job, samples = made(case)
    log = cache / f"{peer.name}.log"
    with tempfile.TemporaryDirectory(prefix="peers-") as name, engine_for(job, samples, WORKERS) as engine:
        folder, ours = Path(name), Ours(case, engine)
        first = ours.weights
        write(case, job, samples, folder, tuned=tuned)
        theirs = Running(peer, python, folder, log, MALLOC if tuned else {})
        try:
            versions = theirs.hear()["versions"]
            ours.run(1)
            theirs.ask("rounds 1")
            early = distance(ours.weights, saved(theirs, folder), first)
            ours.run(case.warm - 1)
            theirs.ask(f"rounds {case.warm - 1}")
            times = np.empty((case.turns, 2))
            for turn in range(case.turns):
                times[turn] = ours.run(case.rounds), theirs.ask(f"rounds {case.rounds}")["seconds"]
                times[turn] /= case.rounds
                took = f"ours {times[turn, 0]:.3f} s, {peer.name} {times[turn, 1]:.3f} s"
                say(f"  turn {turn + 1} of {case.turns}: {took}")
            found = saved(theirs, folder)
        finally:
            theirs.close()
    ratio = times[:, 1] / times[:, 0]
    return Figures(
        ours=float(np.median(times[:, 0])),
        theirs=float(np.median(times[:, 1])),
        least=float(ratio.min()),
        most=float(ratio.max()),
        losses=(loss_of(job, samples, first), loss_of(job, samples, ours.weights), loss_of(job, samples, found)),
        apart=(early, distance(ours.weights, found, first)),
        versions=versions,
    )


def attempt(peer: Peer, cache: Path, cases: list[Case]) -> Iterator[tuple[Case, bool, Figures | str]]:
    """Figures of a peer on every case, as it comes and tuned, or why there are none."""
    settings = [(case, tuned) for case in cases for tuned in (False, True)]
    try:
        python = environment(peer, cache)
    except (PeerError, OSError) as error:
        yield from ((case, tuned, str(error)) for case, tuned in settings)
        return
    for case, tuned in settings:
        how = "tuned" if tuned else "as it comes"
        say(f"{peer.name} {how}, {case.name}: {case.turns} turns of {case.rounds} rounds each")
        try:
            yield case, tuned, compared(case, peer, python, cache, tuned=tuned)
        except (PeerError, OSError) as error:
            yield case, tuned, str(error)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=ROOT / ".peers", help="folder of the peers' environments")
    parser.add_argument("--only", choices=[peer.name for peer in PEERS], help="one peer instead of all")
    parser.add_argument("--model", choices=[case.model.name for case in CASES], help="one model instead of all")
    given = parser.parse_args()
    cases = [case for case in CASES if given.model in (None, case.model.name)]
    cache = given.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    row = "{:20} {:14} {:>7} {:>7} {:>5}  {:>9} {:>9} {:>7} {:>12}  {:26} {:>13}".format
    head = ("model", "peer", "devices", "batch", "steps", "ours [s]", "peer [s]", "ratio", "over turns")
    versions = {"python": platform.python_version(), "fedfloor": fedfloor.__version__}
    versions |= {name: version(name) for name in ("torch", "numpy")}
    print(row(*head, "loss: first -> ours / peer", "apart"), flush=True)
    for peer in PEERS:
        if given.only not in (None, peer.name):
            continue
        for case, tuned, found in attempt(peer, cache, cases):
            name = f"{peer.name}, tuned" if tuned else peer.name
            start = (case.name, name, case.devices, f"{case.batch[0]}-{case.batch[1]}", case.iterations)
            if isinstance(found, str):
                print(f"{case.name:20} {name:14} {found}", flush=True)
                continue
            times = (f"{found.ours:.4f}", f"{found.theirs:.4f}", f"{found.theirs / found.ours:.2f}x")
            spread = f"{found.least:.2f}-{found.most:.2f}"
            losses = "{:.3f} -> {:.3f} / {:.3f}".format(*found.losses)
            print(row(*start, *times, spread, losses, "{:.0e}, {:.0e}".format(*found.apart)), flush=True)
            for name, what in found.versions.items():
                key = name if versions.get(name, what) == what else f"{name} of {peer.name}"
                versions[key] = what
    print(NOTES)
    print("  ".join(f"{name} {what}" for name, what in versions.items()) + f"  cores {os.cpu_count()}")


if __name__ == "__main__":
    main()
