"""Rival policies with training: what they add to the log, how they weigh models, and what they need.

`test_identical.py` shows that they leave the same bits with any number of workers, after a resume and on replay.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.deploy.serving import Serving, serve_planned
from fedfloor.errors import DeploymentError
from fedfloor.runs.planned import planned_run
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
    with pytest.raises(DeploymentError, match=r"policy 'oort:.*: needs the losses of single samples"):
        serve_planned(planned, Serving(listen="127.0.0.1:0", credentials=None))
