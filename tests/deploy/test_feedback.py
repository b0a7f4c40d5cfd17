"""Rounding errors that a gateway keeps."""

from pathlib import Path

import numpy as np
import pytest

from fedfloor.deploy.feedback import Feedback
from fedfloor.errors import DeploymentError
from fedfloor.training.network.quantised import unpack
from fedfloor.training.network.weights import Piece

PIECES = (Piece(slice(0, 30), counts=False), Piece(slice(30, 40), counts=False))
UPDATES = np.random.default_rng(5).normal(size=(4, 40)).astype(np.float32)


def feedback(folder: Path | None = None, run: str = "quick 7") -> Feedback:
    return Feedback(PIECES, 8, folder=folder, run=run)


def sent(kept: Feedback, index: int) -> bytes:
    return kept.message(UPDATES[index], seed=7, index=index, floor=1)


def test_errors_are_added_to_the_next_update_that_is_used() -> None:
    kept = feedback()
    first = unpack(sent(kept, 0), PIECES, 8)
    kept.settle(0, completed=True)
    second = unpack(sent(kept, 1), PIECES, 8)
    step = np.abs(UPDATES[:2]).max() / 127
    assert np.abs(first + second - UPDATES[0] - UPDATES[1]).max() < 2.5 * step  # the error of one rounding, not of two


def test_a_round_that_was_not_used_leaves_no_errors() -> None:
    lost, fresh = feedback(), feedback()
    sent(lost, 0)
    lost.settle(0, completed=False)
    sent(lost, 1)  # and no word about this one
    assert sent(lost, 2) == sent(fresh, 2)


def test_a_round_that_is_done_again_sends_the_same(tmp_path: Path) -> None:
    kept = feedback(tmp_path)
    for index in (0, 1):
        sent(kept, index)
        kept.settle(index, completed=True)
    expected = feedback()
    sent(expected, 0)
    expected.settle(0, completed=True)
    again = sent(expected, 1)
    assert sent(feedback(tmp_path), 1) == again  # after a restart of both machines
    assert sent(kept, 1) == again


def test_a_run_that_begins_anew_begins_without_errors(tmp_path: Path) -> None:
    kept = feedback(tmp_path)
    for index in (0, 1, 2):
        sent(kept, index)
        kept.settle(index, completed=True)
    assert sent(feedback(tmp_path), 0) == sent(feedback(), 0)


def test_errors_outlast_a_restart_but_not_the_run(tmp_path: Path) -> None:
    kept = feedback(tmp_path)
    sent(kept, 0)
    kept.settle(0, completed=True)
    assert sent(feedback(tmp_path), 1) == sent(kept, 1)
    assert sent(feedback(tmp_path, "quick 8"), 1) == sent(feedback(), 1)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    kept = feedback(tmp_path)
    sent(kept, 0)
    kept.settle(0, completed=True)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(DeploymentError, match=r"upload_error\.safetensors: cannot be read"):
        feedback(tmp_path)


def test_an_update_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="is not finite"):
        feedback().message(np.full(40, np.inf, np.float32), seed=7, index=0, floor=1)
