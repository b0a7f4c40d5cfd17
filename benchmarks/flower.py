"""What `FedFloor` adds to a round of Flower's simulation runtime: the wrapped strategy with and without it, in turn.

All six nodes take part in every round of both, and do next to nothing, so that rounds are as short as they can be.
`python -m benchmarks.flower` prints the rows that `make bench` shows.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

Row = tuple[str, str, str]

NODES, TURNS, ROUNDS = 6, 6, 7
EVERYBODY = ("participation.rates=uniform", f"radio.channels={NODES}", "limits=false")


def measure(target: Path) -> None:
    """Run both in one simulation, and write the seconds of every round but the first of each turn, as JSON."""
    from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict  # noqa: PLC0415
    from flwr.clientapp import ClientApp  # noqa: PLC0415
    from flwr.serverapp import Grid, ServerApp  # noqa: PLC0415
    from flwr.serverapp.strategy import FedAvg, Strategy  # noqa: PLC0415
    from flwr.simulation import run_simulation  # noqa: PLC0415

    from fedfloor.flower import FedFloor  # noqa: PLC0415

    client, server = ClientApp(), ServerApp()

    @client.train()
    def train(message: Message, context: Context) -> Message:  # noqa: ARG001
        metrics = MetricRecord({"num-examples": 1, "train_loss": 0.0})
        arrays = message.content.array_records["arrays"]
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    @server.main()
    def main(grid: Grid, context: Context) -> None:  # noqa: ARG001
        arrays = ArrayRecord({"weights": Array(np.zeros(100_000, np.float32))})
        taken: dict[str, list[float]] = {"FedAvg": [], "FedFloor": []}
        for turn in range(TURNS):
            alone = FedAvg(fraction_evaluate=0.0)
            out = target.with_name(f"run-{turn}")
            wrapped = FedFloor(FedAvg(fraction_evaluate=0.0), "quick", overrides=EVERYBODY, out=out)
            pair: list[tuple[str, Strategy]] = [("FedAvg", alone), ("FedFloor", wrapped)]
            for name, strategy in pair if turn % 2 == 0 else reversed(pair):
                ends: list[float] = []

                def evaluate(number: int, arrays: ArrayRecord, ends: list[float] = ends) -> MetricRecord:  # noqa: ARG001
                    ends.append(time.perf_counter())
                    return MetricRecord({"accuracy": 0.5})

                strategy.start(grid, arrays, num_rounds=ROUNDS, evaluate_fn=evaluate)
                taken[name] += np.diff(ends)[1:].tolist()
        target.write_text(json.dumps(taken), encoding="utf-8")

    run_simulation(server_app=server, client_app=client, num_supernodes=NODES)


def rows() -> Iterator[Row]:
    """Seconds per round of both sides, from a process of its own, because Ray stays in the one that starts it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "seconds.json"
        env = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "FLWR_HOME": folder}
        command = [sys.executable, "-m", "benchmarks.flower", str(target)]
        subprocess.run(command, check=True, capture_output=True, env=env, timeout=600)
        taken = {name: np.array(values) for name, values in json.loads(target.read_text(encoding="utf-8")).items()}
    alone, wrapped = float(np.median(taken["FedAvg"])), float(np.median(taken["FedFloor"]))
    note = f"{1e3 * wrapped:.0f} ms / {1e3 * alone:.0f} ms, {taken['FedAvg'].size} rounds each, {NODES} nodes on Ray"
    yield "Flower round: FedFloor around FedAvg / FedAvg", f"{wrapped / alone:.2f}x", note


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(Path(sys.argv[1]))
    else:
        for row in rows():
            print(*row, sep="  ")
