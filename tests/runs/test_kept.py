"""Run folders, snapshots and answers of an earlier version, kept as they were: `kept/` was made before device links.

`fedfloor run quick --policy ddsra:v=1 --workers 1 --set model.width=0.25 --set participation.rates=uniform
--set training.checkpoint_every=3 --set training.evaluate_every=3` with `--rounds 3` left `run`, and with `--rounds 6
--resume` the log `after.jsonl` and the weights `after.safetensors`. `plan --round 5` of that gave `round.json` and
`answer.json`. `presets.json` has digests of what `fedfloor simulate PRESET --policy POLICY --rounds ROUNDS --seed 1`
left then: of `scenario.toml` under the name that the preset had, of `rounds.jsonl`, and of its records with numbers of
nine digits. Its `arithmetic` tells machines apart whose functions differ in the last bits.
"""

import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedfloor
from fedfloor.api import evaluate
from fedfloor.rounds.listeners.checkpoint import load_checkpoint

KEPT = Path(__file__).parent / "kept"
SETTINGS = (
    "model.width=0.25",
    "participation.rates=uniform",
    "training.checkpoint_every=3",
    "training.evaluate_every=3",
)


def quick(out: Path, rounds: int, *, resume: bool = False) -> Any:
    return fedfloor.run("quick", "ddsra:v=1", overrides=SETTINGS, rounds=rounds, workers=1, out=out, resume=resume)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KEPT / "run", tmp_path / "run"))


def scheduled(log: Path) -> list[Any]:
    """The records of a log without what depends on the arithmetic of the machine."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    for record in records:
        record["accuracy"] = record["loss"] = None
        for gateway in record["gateways"]:
            gateway["loss"] = gateway["divergence_bound"] = None
    return records


def test_an_old_run_resumes_to_the_bit(kept: Path, tmp_path: Path) -> None:
    assert quick(kept, 6, resume=True).resumed == 3
    assert scheduled(kept / "rounds.jsonl") == scheduled(KEPT / "after.jsonl")
    quick(tmp_path / "here", 3)
    if (tmp_path / "here" / "rounds.jsonl").read_bytes() != (KEPT / "run" / "rounds.jsonl").read_bytes():
        pytest.skip("this machine's arithmetic differs in the last bits from that of the machine that kept the run")
    assert (kept / "rounds.jsonl").read_bytes() == (KEPT / "after.jsonl").read_bytes()
    checkpoint, weights = load_checkpoint(kept), load_file(KEPT / "after.safetensors")
    assert checkpoint is not None
    assert checkpoint.state.weights.keys() == weights.keys()
    assert all(np.array_equal(checkpoint.state.weights[name], tensor) for name, tensor in weights.items())


def test_the_same_settings_still_resolve_to_the_same_file(kept: Path, tmp_path: Path) -> None:
    quick(tmp_path / "here", 3)
    assert (tmp_path / "here" / "scenario.toml").read_bytes() == (kept / "scenario.toml").read_bytes()


def test_an_old_run_is_reported_and_evaluated(kept: Path, tmp_path: Path) -> None:
    assert fedfloor.report(kept, out=tmp_path / "report").page.is_file()
    assert 0.0 <= evaluate(kept)["accuracy"] <= 1.0


def test_a_round_of_an_old_run_is_decided_again_as_it_was(kept: Path) -> None:
    record = json.loads((kept / "rounds.jsonl").read_text().splitlines()[2])
    answer = fedfloor.plan(kept, round=2)
    assert answer["delay_s"] == record["delay_s"]
    assert [gateway["channel"] for gateway in answer["gateways"]] == [entry["channel"] for entry in record["gateways"]]


def test_an_old_snapshot_has_the_old_answer() -> None:
    answer, before = dict(fedfloor.plan(KEPT / "round.json")), json.loads((KEPT / "answer.json").read_text())
    assert json.loads(json.dumps(answer | {"solve_s": 0.0})) == before | {"solve_s": 0.0}


def rounded(value: Any) -> Any:
    """The same with nine digits of every number, on which machines agree."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def arithmetic() -> str:
    """Digest of what this machine's logarithms, exponentials and powers are, to the last bit."""
    values = np.random.default_rng(0).uniform(0.0, 9.0, 1000)
    whole = [np.log1p(values), np.log(values), np.exp(-values), values**2.5, np.cumsum(values)]
    single = [[math.log1p(value), math.log(value), math.exp(-value), value**2.5] for value in values.tolist()]
    return digest(np.concatenate([*whole, np.ravel(single)]).tobytes())


DIGESTS = json.loads((KEPT / "presets.json").read_text())
PRESET_RUNS = [
    pytest.param(entry, id=f"{entry['preset']}-{entry['policy']}", marks=[pytest.mark.slow] if entry["slow"] else [])
    for entry in DIGESTS["runs"]
]


@pytest.mark.parametrize("before", PRESET_RUNS)
def test_every_preset_gives_the_same_log_to_the_last_byte(before: dict[str, Any], tmp_path: Path) -> None:
    fedfloor.simulate(before["preset"], before["policy"], before["rounds"], seed=1, out=tmp_path / "run")
    resolved = (tmp_path / "run" / "scenario.toml").read_text()
    name = before["preset"].removesuffix("-random")  # the paper's presets with drawn plants had the plain names then
    assert (
        digest(resolved.replace(f'name = "{before["preset"]}"', f'name = "{name}"', 1).encode()) == before["scenario"]
    )
    log = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    records = [rounded(json.loads(line)) for line in log.splitlines()]
    assert digest(json.dumps(records).encode()) == before["rounded"]
    if arithmetic() != DIGESTS["arithmetic"]:
        pytest.skip("this machine's arithmetic differs in the last bits from that of the machine that kept the digests")
    assert digest(log) == before["log"]
