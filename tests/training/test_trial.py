"""Models of users that cannot be trained are named before a run has begun, with what they did and what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedfloor.api import evaluate
from fedfloor.errors import ModelError
from fedfloor.training.network import stored
from fedfloor.training.work import is_short_of_memory, undisturbed
from tests.runs.small import small_run

OWN = r"networks\.py, line \d+\)"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all_frozen", r"none of its 4 parameters is trained\. Set requires_grad"),
        (
            "double_precision",
            r"'1\.weight' is float64, but models are exchanged as float32\. Convert the model with \.float",
        ),
        ("changes_in_place", r"a training step failed: RuntimeError: .*inplace operation.*operations in place often"),
        ("raises_forward", rf"a training step failed: LookupError: the press is not heated \(.*{OWN}\. Fix the model"),
        ("raises_on_shapes", rf"module '1' .* failed: LookupError: no shelf for \(2, 16\) \(.*{OWN}\. Fix the module"),
        ("raises_backward", rf"a training step failed: LookupError: the way back is closed \(.*{OWN}\. Fix the model"),
        ("takes_no_single_gradients", rf"gradients of single samples .* failed: .*{OWN}.*rates to 'uniform'"),
        (
            "replaces_a_buffer",
            r"'2\.seen' is another tensor after a training step, .* in place, as in self\.seen\.copy_",
        ),
        ("hides_a_buffer", r"the buffer '2\.seen' changes in training, but is not averaged\. .* persistent=True"),
        ("not_finite", r"its first weights are not finite: 1 of 160 in '3\.weight'\. Initialise them with finite"),
        ("scores_are_not_finite", r"its loss is nan with its first weights, before any step"),
    ],
)
def test_a_model_that_cannot_be_trained_is_named_before_the_run(name: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=f"(?s)^(model 'tests.training.networks:{name}'|tests.training.networks:{name}): .*{expected}"
    ):
        small_run(tmp_path / "run", f'model.name="tests.training.networks:{name}"', rounds=1)
    assert not (tmp_path / "run").exists()


def test_a_model_without_single_gradients_trains_where_rates_are_given() -> None:
    few = ('model.name="tests.training.networks:takes_no_single_gradients"', "participation.rates=uniform")
    assert len(small_run(None, *few, rounds=1).records) == 1


@pytest.mark.parametrize("halves", ["joined", "apart"])
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_model_that_fails_in_the_middle_of_a_run_is_named(workers: int, halves: str) -> None:
    few = (
        'model.name="tests.training.networks:raises_late"',
        "participation.rates=uniform",
        f'training.halves="{halves}"',
    )
    expected = r"model 'tests\.training\.networks:raises_late': a training step failed: "
    expected += rf"SystemExit: worn out \(.*{OWN}\. Fix the model"
    with pytest.raises(ModelError, match=expected):
        small_run(None, *few, rounds=4, workers=workers)


def test_a_failing_model_is_one_line_and_exit_code_2(fedfloor_process: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "plant.py").write_text(Path(__file__).with_name("networks.py").read_text())
    model = ("--set", "model.name=plant:changes_in_place", "--workers", "2")
    done = fedfloor_process("run", "quick", "--policy", "random", "--rounds", "1", "--out", "run", *model)
    *before, error = done.stderr.splitlines()
    assert done.returncode == 2, done.stderr
    assert set(before) <= {"reading fashion-mnist ..."}  # on a busy machine
    assert error.startswith("error: model 'plant:changes_in_place': a training step failed: RuntimeError")
    assert not (tmp_path / "run").exists()


def test_want_of_memory_is_not_the_models_fault() -> None:
    assert is_short_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_short_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))
    assert not is_short_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_run_leaves_torchs_threads_and_random_numbers_alone(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        torch.manual_seed(5)
        expected = torch.rand(4)
        torch.manual_seed(5)
        small_run(tmp_path / "run", "participation.rates=uniform", rounds=1)
        evaluate(tmp_path / "run")
        with pytest.raises(ModelError):
            small_run(None, 'model.name="tests.training.networks:all_frozen"', rounds=1)
        assert torch.get_num_threads() == 3
        assert torch.equal(torch.rand(4), expected)
    finally:
        torch.set_num_threads(threads)


def test_a_lack_of_memory_in_torch_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="can't allocate memory"), undisturbed():
        torch.empty(2**48)
    with pytest.raises(RuntimeError, match="shapes"), undisturbed():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_weights_that_memory_does_not_hold_are_not_given_to_safetensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "save", pytest.fail)  # it would end the process
    with pytest.raises(MemoryError):
        stored.packed({"weight": np.broadcast_to(np.float32(1.0), (2**48,))})
