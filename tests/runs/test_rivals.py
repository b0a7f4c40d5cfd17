"""Rival policies with training: what they add to the log, how they weigh models, and what they need.

`test_identical.py` shows that they leave the same bits with any number of workers, after a resume and on replay.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.api import plan_runs, run_planned
from fedfloor.deploy.serving import Serving, serve_planned
from fedfloor.errors import DeploymentError, RunLogError
from fedfloor.reports.reading import collect
from fedfloor.runs.compare import planned_comparison
from fedfloor.runs.options import CompareOptions, RunOptions
from fedfloor.runs.planned import planned_run
from fedfloor.scheduling import registry
from fedfloor.scheduling.state import Decision, RoundState

TINY = (
    "model.width=0.1",
    "participation.rates=uniform",
    "training.evaluate_every=1",
    "training.checkpoint_every=2",
    "training.batch_fraction=0.05",
)


def tiny_run(policy: str, out: Path, **options: Any) -> Any:
    return fedfloor.run("quick", policy, overrides=TINY, out=out, **{"workers": 1, "rounds": 6, **options})


def assert_replays(folder: Path, rounds: tuple[int, ...]) -> None:
    records = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    for index in rounds:
        answer = fedfloor.plan(folder, round=index)
        channels = [gateway["channel"] for gateway in records[index]["gateways"]]
        assert [gateway["channel"] for gateway in answer["gateways"]] == channels, index


@pytest.mark.slow
def test_a_run_under_its_old_name_is_resumed_replayed_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def oort(rounds: int, *, resume: bool = False) -> Any:
        (planned,) = plan_runs("quick", ["oort"], rounds, overrides=TINY, training=True, resume=resume)
        return run_planned(planned, RunOptions(workers=1, resume=resume))

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as older:
        older.setattr(registry, "_named_settings", lambda spec: spec.settings)
        old = oort(3)
    name = old.records[0].policy
    assert name.startswith("oort:clip=0.98,percentile=10,")
    assert old.folder.name.startswith("quick-oort-clip0.98-percentile10-")
    resumed = oort(6, resume=True)
    assert (resumed.folder, resumed.resumed) == (old.folder, 3)
    assert {record.policy for record in resumed.records} == {name}
    assert_replays(old.folder, (0, 5))

    new = oort(6)
    assert new.folder == Path("runs/quick-oort-7")
    for file in ("scenario.toml", "rounds.jsonl"):
        assert (new.folder / file).read_text() == (old.folder / file).read_text().replace(name, "oort")
    tiny_run("oort", tmp_path / "other", seed=8)
    (series,) = collect([old.folder, tmp_path / "other"]).series
    assert series.label == "oort"
    with pytest.raises(RunLogError, match=r"cannot resume with a changed scenario: policy\.settings\.clip"):
        tiny_run("oort:clip=0.9", old.folder, resume=True)


def test_a_comparison_finds_runs_under_their_old_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folders() -> list[str]:
        planned = planned_comparison(
            "quick", ["fedcs", "random"], None, seed=7, overrides=TINY, out=tmp_path, options=CompareOptions(seeds=1)
        )
        return [run.folder.name for run in planned if run.folder is not None]

    assert folders() == ["quick-fedcs-7", "quick-random-7"]
    with monkeypatch.context() as older:
        older.setattr(registry, "_named_settings", lambda spec: spec.settings)
        tiny_run("fedcs", tmp_path / "quick-fedcs-deadline_s180-7", rounds=2)
    assert folders() == ["quick-fedcs-deadline_s180-7", "quick-random-7"]


def keys_of(folder: Path) -> set[str]:
    records = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return {key for record in records for gateway in record["gateways"] for key in gateway}


def test_only_policies_that_ask_for_them_add_keys_to_the_log(tmp_path: Path) -> None:
    tiny_run("oort", tmp_path / "oort", rounds=2)
    tiny_run("lyapunov", tmp_path / "lyapunov", rounds=2)
    tiny_run("random", tmp_path / "random", rounds=2)
    plain = keys_of(tmp_path / "random")
    assert keys_of(tmp_path / "oort") - plain == {"rms_loss"}
    assert keys_of(tmp_path / "lyapunov") - plain == {"weight"}
    first = json.loads((tmp_path / "oort" / "rounds.jsonl").read_text().splitlines()[0])
    for gateway in first["gateways"]:
        assert (gateway["rms_loss"] is not None) == gateway["completed"]
        assert not gateway["completed"] or gateway["rms_loss"] > gateway["loss"] > 0.0  # the mean square exceeds


def test_weights_of_a_decision_weigh_the_models(tmp_path: Path) -> None:
    equal = tiny_run("tests.runs.test_rivals:Weighing", tmp_path / "equal", rounds=1)
    tripled = tiny_run("tests.runs.test_rivals:Weighing:first=3.0,other=3.0", tmp_path / "tripled", rounds=1)
    uneven = tiny_run("tests.runs.test_rivals:Weighing:first=3.0", tmp_path / "uneven", rounds=1)
    plain = tiny_run("tests.runs.test_rivals:Weighing:weigh=false", tmp_path / "plain", rounds=1)
    assert equal.loss == plain.loss
    assert tripled.loss == pytest.approx(plain.loss, rel=1e-6)
    assert uneven.loss != plain.loss


class Weighing:
    """Serves the first two floors, with weights."""

    def __init__(self, *, first: float = 1.0, other: float = 1.0, weigh: bool = True) -> None:
        self.first, self.other, self.weigh = first, other, weigh

    def schedule(self, state: RoundState) -> Decision:
        weight = np.array([self.first] + [self.other] * 5)
        return Decision(np.array([0, 1, -1, -1, -1, -1]), weight=weight if self.weigh else None)


def test_real_machines_refuse_a_policy_that_needs_sample_losses() -> None:
    planned = planned_run("quick", "oort", overrides=["training.min_cut=1", "baseline.cut=1", *TINY], training=True)
    with pytest.raises(DeploymentError, match=r"policy 'oort': needs the losses of single samples"):
        serve_planned(planned, Serving(listen="127.0.0.1:0", credentials=None))
