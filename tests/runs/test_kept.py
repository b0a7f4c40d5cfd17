"""Run folders, snapshots and answers of an earlier version, kept as they were: `kept/` was made before device links.

`fedfloor run quick --policy ddsra:v=1 --workers 1 --set model.width=0.25 --set participation.rates=uniform
--set training.checkpoint_every=3 --set training.evaluate_every=3` with `--rounds 3` left `run`, and with `--rounds 6
--resume` the log `after.jsonl` and the weights `after.safetensors`. `plan --round 5` of that gave `round.json` and
`answer.json`. `presets.json` has digests of what `fedfloor simulate PRESET --policy POLICY --rounds ROUNDS --seed 1`
left then: of `scenario.toml` under the name that the preset had, of `rounds.jsonl`, and of its records with numbers of
nine digits. Its `arithmetic` and its `training` tell machines apart whose functions, or torch, differ in the last
bits. They are computed without fedfloor, so that a mistake of ours never looks like another machine.

`kept/levers/` was made later, before pages had a panel for decisions and data could be files. `run` is the same with
`--policy oort`, with other `--set` options (LEVERS below) and `--rounds 3`; `after.jsonl` and `after.json`, the state
of the checkpoint with digests of log and weights, are from `--rounds 6 --resume`, and `answer.json` is from `plan
--round 5`.
`fedfloor simulate line --policy ddsra --rounds 2` left `line`, and `plan --round 1` of it gave `line-answer.json`.
"""

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch.nn import functional

import fedfloor
from fedfloor.api import decide_round, evaluate, plan_round
from fedfloor.errors import RunLogError
from fedfloor.rounds.listeners.checkpoint import load_checkpoint, signed

KEPT = Path(__file__).parent / "kept"
SETTINGS = (
    "model.width=0.25",
    "participation.rates=uniform",
    "training.checkpoint_every=3",
    "training.evaluate_every=3",
)

LEVERS = (
    "model.width=0.1",
    "training.checkpoint_every=3",
    "training.evaluate_every=3",
    "training.momentum=0.9",
    "training.redraw_batch=true",
    "precision.upload=8",
    "precision.download=16",
    "aggregation.rule=fedexp",
    "aggregation.averaged_decay=0.8",
    "participation.rates=uniform",
)


def quick(out: Path, rounds: int, *, resume: bool = False) -> Any:
    return fedfloor.run("quick", "ddsra:v=1", overrides=SETTINGS, rounds=rounds, workers=1, out=out, resume=resume)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KEPT / "run", tmp_path / "run"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was kept, by this version."""
    folder = tmp_path_factory.mktemp("here") / "run"
    quick(folder, 3)
    return folder


def scheduled(log: Path) -> list[Any]:
    """The records of a log without what depends on the arithmetic of the machine."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    for record in records:
        record["accuracy"] = record["loss"] = None
        for gateway in record["gateways"]:
            gateway["loss"] = gateway["divergence_bound"] = gateway["rms_loss"] = None
    return records


def test_an_old_run_resumes_to_the_bit(kept: Path, here: Path, tmp_path: Path) -> None:
    assert quick(kept, 6, resume=True).resumed == 3
    assert scheduled(kept / "rounds.jsonl") == scheduled(KEPT / "after.jsonl")
    answer = decide_round(plan_round(kept, index=5), export=tmp_path / "round.json")
    snapshot, before = (json.loads((folder / "round.json").read_text()) for folder in (tmp_path, KEPT))
    assert keys_of(snapshot) == keys_of(before)
    skip_on_other_machines()
    assert (here / "rounds.jsonl").read_bytes() == (KEPT / "run" / "rounds.jsonl").read_bytes()
    assert (kept / "rounds.jsonl").read_bytes() == (KEPT / "after.jsonl").read_bytes()
    checkpoint, weights = load_checkpoint(kept), load_file(KEPT / "after.safetensors")
    assert checkpoint is not None
    assert checkpoint.state.weights.keys() == weights.keys()
    assert all(np.array_equal(checkpoint.state.weights[name], tensor) for name, tensor in weights.items())
    assert snapshot == before
    assert timeless(answer) == timeless(json.loads((KEPT / "answer.json").read_text()))


def with_levers(out: Path, rounds: int, *, resume: bool = False) -> Any:
    return fedfloor.run("quick", "oort", overrides=LEVERS, rounds=rounds, workers=1, out=out, resume=resume)


@pytest.mark.slow
def test_an_old_run_with_levers_resumes_to_the_bit_and_is_decided_again(tmp_path: Path) -> None:
    run = Path(shutil.copytree(KEPT / "levers" / "run", tmp_path / "run"))
    assert with_levers(run, 6, resume=True).resumed == 3
    assert scheduled(run / "rounds.jsonl") == scheduled(KEPT / "levers" / "after.jsonl")
    answer, before = fedfloor.plan(run, round=5), json.loads((KEPT / "levers" / "answer.json").read_text())
    assert keys_of(answer) == keys_of(before)
    line = shutil.copytree(KEPT / "levers" / "line", tmp_path / "line")
    for folder, policy in ((run, "oort"), (line, "ddsra:v=1000")):
        page = fedfloor.report(folder, out=tmp_path / f"report-{folder.name}").page.read_text(encoding="utf-8")
        assert policy in page
    with_levers(tmp_path / "here", 3)
    skip_on_other_machines()
    here, before_here = tmp_path / "here" / "rounds.jsonl", KEPT / "levers" / "run" / "rounds.jsonl"
    assert here.read_bytes() == before_here.read_bytes()
    assert (run / "rounds.jsonl").read_bytes() == (KEPT / "levers" / "after.jsonl").read_bytes()
    state, expected = (
        json.loads(path.read_text()) for path in (run / "checkpoint/state.json", KEPT / "levers/after.json")
    )
    assert state == expected
    assert timeless(answer) == timeless(before)


def test_a_round_of_an_old_simulation_with_links_is_decided_again() -> None:
    answer, before = fedfloor.plan(KEPT / "levers" / "line", round=1), KEPT / "levers" / "line-answer.json"
    assert rounded(timeless(answer)) == rounded(timeless(json.loads(before.read_text())))


def timeless(answer: Any) -> Any:
    """The answer of a plan without the time that it took."""
    return json.loads(json.dumps(dict(answer) | {"solve_s": 0.0}))


def keys_of(value: Any) -> Any:
    """Keys of a table and of the tables in it, in their order; those of a list are those of all its entries."""
    if isinstance(value, list):
        entries = [keys_of(entry) for entry in value if isinstance(entry, dict)]
        return [entry for index, entry in enumerate(entries) if entry not in entries[:index]]
    return [(key, keys_of(entry)) for key, entry in value.items()] if isinstance(value, dict) else None


def test_what_is_switched_off_adds_no_key_to_logs_and_checkpoints(here: Path) -> None:
    logs, states = [], []
    for run in (here, KEPT / "run"):
        logs.append([json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()])
        states.append(json.loads((run / "checkpoint" / "state.json").read_text()))
    assert keys_of(logs[0]) == keys_of(logs[1])
    assert keys_of(states[0]) == keys_of(states[1])


def test_the_same_settings_still_resolve_to_the_same_file(kept: Path, here: Path) -> None:
    assert (here / "scenario.toml").read_bytes() == (kept / "scenario.toml").read_bytes()


def test_an_old_run_is_reported_and_evaluated(kept: Path, tmp_path: Path) -> None:
    assert fedfloor.report(kept, out=tmp_path / "report").page.is_file()
    assert 0.0 <= (evaluate(kept)["accuracy"] or 0.0) <= 1.0


def test_a_round_of_an_old_run_is_decided_again_as_it_was(kept: Path) -> None:
    record = json.loads((kept / "rounds.jsonl").read_text().splitlines()[2])
    answer = fedfloor.plan(kept, round=2)
    assert answer["delay_s"] == record["delay_s"]
    assert [gateway["channel"] for gateway in answer["gateways"]] == [entry["channel"] for entry in record["gateways"]]


def test_an_old_snapshot_has_the_old_answer() -> None:
    assert timeless(fedfloor.plan(KEPT / "round.json")) == timeless(json.loads((KEPT / "answer.json").read_text()))


def test_a_log_of_a_later_version_is_refused_by_all_that_read_it(
    kept: Path, tmp_path: Path, fedfloor_command: Callable[..., Any]
) -> None:
    log = kept / "rounds.jsonl"
    log.write_bytes(log.read_bytes().replace(b'{"round": 2, ', b'{"version": 2, "round": 2, '))
    problem = "rounds.jsonl: line 3: version must be 1, got 2. It is damaged, or was written by another version"
    done = fedfloor_command("plan", str(kept), "--round", "1")
    assert (done.returncode, problem in " ".join(done.stderr.split())) == (2, True), done.stderr
    reading: list[Callable[[], object]] = [
        lambda: quick(kept, 6, resume=True),
        lambda: fedfloor.read(kept),
        lambda: fedfloor.report(kept, out=tmp_path / "report"),
    ]
    for read in reading:
        with pytest.raises(RunLogError, match=re.escape(problem)):
            read()


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_checkpoint_of_a_later_version_is_refused_whatever_its_checksums_are(
    is_signed: bool, kept: Path, fedfloor_command: Callable[..., Any]
) -> None:
    path = kept / "checkpoint" / "state.json"
    state = {**json.loads(path.read_text()), "version": 3}
    path.write_bytes(signed(state) if is_signed else json.dumps(state).encode())
    problem = "state.json: version must be 2, got 3. Use the version of fedfloor that wrote it"
    with pytest.raises(RunLogError, match=re.escape(problem)):
        quick(kept, 6, resume=True)
    if is_signed:
        done = fedfloor_command("evaluate", str(kept))
        assert (done.returncode, problem in " ".join(done.stderr.split())) == (2, True), done.stderr


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


def training() -> str:
    """Digest of what torch makes of a small network on this machine, forward and backward, to the last bit."""
    values = torch.from_numpy(np.random.default_rng(0).normal(size=40_000).astype(np.float32))
    images, kernels = values[:15_680].view(20, 1, 28, 28), values[:36].view(4, 1, 3, 3).clone().requires_grad_()
    matrix = values[:7840].view(10, 784).clone().requires_grad_()
    hidden = functional.max_pool2d(functional.conv2d(images, kernels, padding=1).relu(), 2).flatten(1)
    loss = functional.cross_entropy(functional.linear(hidden, matrix), torch.arange(20) % 10)
    parts = [loss, torch.linalg.vector_norm(values), *torch.autograd.grad(loss, (kernels, matrix))]
    return digest(b"".join(part.detach().numpy().tobytes() for part in parts))


def skip_on_other_machines() -> None:
    if (arithmetic(), training()) != (DIGESTS["arithmetic"], DIGESTS["training"]):
        pytest.skip("this machine's arithmetic differs in the last bits from that of the machine that kept the run")


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
