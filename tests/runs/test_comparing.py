"""Comparisons: the same runs as by themselves, interrupted at any moment, killed, refused."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.errors import FailedRunError, PolicyError, RunLogError
from fedfloor.files import only_writer
from fedfloor.rounds.listeners.checkpoint import checkpoint_round
from fedfloor.runs.compare import Watch, _report_progress, _train_elsewhere, planned_comparison
from fedfloor.runs.mirror import kept_of
from fedfloor.runs.options import CompareOptions
from fedfloor.runs.planned import PlannedRun
from tests.conftest import known
from tests.runs.small import SMALL, assert_equal_runs, small_run

POLICIES = ["ddsra:v=1", "random"]


def comparison(out: Path, *more: str, **options: Any) -> Any:
    return fedfloor.compare(
        "quick", POLICIES, overrides=[*SMALL, *more], out=out, **{"seeds": 2, "workers": 2, **options}
    )


def wait_until(holds: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison") / "whole"
    comparison(folder)
    return folder


def test_a_run_of_a_comparison_is_the_run_by_itself(whole: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in whole.iterdir()) == [
        "figures", "quick-ddsra-v1-exact-7", "quick-ddsra-v1-exact-8", "quick-random-7", "quick-random-8",
        "report.html", "tradeoff.json",
    ]  # fmt: skip
    small_run(tmp_path / "alone", policy="random", seed=8)
    assert_equal_runs(tmp_path / "alone", whole / "quick-random-8")
    for name in ("scenario.toml", "holding.json"):
        assert (tmp_path / "alone" / name).read_text() == (whole / "quick-random-8" / name).read_text()


def test_policies_meet_the_same_weather_data_and_plant(whole: Path) -> None:
    one, other = (fedfloor.read(whole / f"quick-{slug}-7", per="gateway") for slug in ("ddsra-v1-exact", "random"))
    assert one["energy_budget_j"] == other["energy_budget_j"]
    held = [(whole / f"quick-{slug}-7" / "holding.json").read_text() for slug in ("ddsra-v1-exact", "random")]
    assert held[0] == held[1]


def test_the_trade_off_over_v_is_kept_beside_the_runs(whole: Path) -> None:
    points = json.loads((whole / "tradeoff.json").read_text())
    assert points[0]["v"] == 0.0
    assert len({point["mean_delay_s"] for point in points}) > 1


def test_a_run_elsewhere_tells_what_it_reads_and_what_every_test_gave(tmp_path: Path) -> None:
    (run,) = planned_comparison(
        "quick", ["random"], 2, seed=None, overrides=SMALL[1:], out=tmp_path, options=CompareOptions(seeds=1)
    )
    told: list[Any] = []
    _train_elsewhere(told.append, run, kept_of(tmp_path / "nothing"), None)
    first, *rounds, last = told
    assert (first.reading, first.done, first.changes) == ("fashion-mnist", None, ())
    assert [progress.done for progress in rounds] == [1, 2]
    assert all(re.fullmatch(r"accuracy \d+\.\d%", progress.result) for progress in rounds)  # the last are all tested
    assert (last.done, last.result) == (None, "")
    seen: list[object] = []
    watch = Watch(
        on_reading=lambda _, name: seen.append(name),
        on_test=lambda _, result: seen.append(result),
        on_round=lambda _, done: seen.append(done),
    )
    for progress in told:
        _report_progress(run, progress, watch)
    assert seen == ["fashion-mnist", rounds[0].result, 1, rounds[1].result, 2]


def test_what_is_finished_is_not_run_again(whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.glob("quick-*/**/*") if path.is_file()}
    told: list[int] = []
    comparison(whole, watch=Watch(on_round=lambda _, done: told.append(done)))
    assert told == [6, 6, 6, 6]
    assert before == {path: path.stat().st_mtime_ns for path in whole.glob("quick-*/**/*") if path.is_file()}


@pytest.mark.slow
def test_a_comparison_killed_in_the_middle_loses_at_most_the_rounds_since_the_last_checkpoint(
    whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    code = (
        "import sys, fedfloor; from pathlib import Path; from tests.runs.test_comparing import comparison; "
        "comparison(Path(sys.argv[1]), seeds=1, workers=1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], cwd=Path(__file__).parents[2])
    wait_until(lambda: process.poll() is not None or checkpoint_round(folder / "quick-ddsra-v1-exact-7") is not None)
    assert process.poll() is None, "it ended before it could be killed"
    process.kill()
    process.wait()
    kept = checkpoint_round(folder / "quick-ddsra-v1-exact-7")
    assert kept is not None
    told: list[int] = []
    comparison(folder, seeds=1, watch=Watch(on_round=lambda run, done: told.append(done)))
    assert min(told) in (1, kept + 1)  # the second policy begins, the first goes on
    assert sum(done <= kept for done in told) <= kept, "rounds before the checkpoint were run again"
    for run in ("quick-ddsra-v1-exact-7", "quick-random-7"):
        assert_equal_runs(folder / run, whole / run)


@pytest.mark.slow
def test_a_run_whose_process_is_killed_goes_on_by_itself(whole: Path, tmp_path: Path) -> None:
    killed: list[int] = []
    told: list[int] = []
    trouble: list[str] = []

    def kill_one(run: PlannedRun, done: int) -> None:
        told.append(done)
        if done == 3 and not killed:
            child = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()[-1]
            killed.append(int(child))
            os.kill(int(child), signal.SIGKILL)

    watch = Watch(on_round=kill_one, on_trouble=lambda run, problem: trouble.append(problem))
    done = comparison(tmp_path / "again", seeds=1, workers=1, watch=watch)
    assert killed
    assert "SIGKILL" in trouble[0]
    assert told.count(1) == 2, "a run was begun anew instead of going on"
    assert not done.failed
    for run in ("quick-ddsra-v1-exact-7", "quick-random-7"):
        assert_equal_runs(tmp_path / "again" / run, whole / run)


@pytest.mark.slow
def test_a_run_that_is_lost_without_a_new_checkpoint_is_given_up(tmp_path: Path) -> None:
    trouble: list[str] = []

    def note(run: PlannedRun, problem: str) -> None:
        trouble.append(problem)
        assert len(trouble) <= 3, "it would go on for ever"

    done = fedfloor.compare(
        "quick", ["tests.workers.crew_work:Dies"], seeds=1, overrides=SMALL, out=tmp_path, watch=Watch(on_trouble=note)
    )
    assert len(trouble) == 3
    assert checkpoint_round(done.runs[0]) == 2
    assert "SIGKILL" in str(done.failed[done.runs[0].name])


@pytest.mark.slow
def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    trouble: list[str] = []
    done = fedfloor.compare(
        "quick",
        ["random", "tests.workers.crew_work:Refuses"],
        seeds=1,
        rounds=2,
        overrides=SMALL[1:],
        out=tmp_path / "mixed",
        watch=Watch(on_trouble=lambda run, problem: trouble.append(problem)),
    )
    assert list(done.failed) == [path.name for path in done.runs if "random" not in path.name]
    assert "refuses" in trouble[0]
    assert len(fedfloor.read(tmp_path / "mixed" / "quick-random-7")["round"]) == 2


@pytest.mark.slow
def test_a_damaged_run_does_not_stop_the_others(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(whole, folder)
    (folder / "quick-random-7" / "checkpoint" / "state.json").write_text('{"round": 6, "wei')
    shutil.rmtree(folder / "quick-random-8")
    done = comparison(folder)
    assert list(done.failed) == ["quick-random-7"]
    assert "state.json: is damaged" in str(done.failed["quick-random-7"])
    assert_equal_runs(folder / "quick-random-8", whole / "quick-random-8")
    assert done.report is not None


def test_a_second_comparison_in_the_same_folder_is_kept_out(whole: Path) -> None:
    with only_writer(whole, again=""), pytest.raises(RunLogError, match="another process is writing to it"):
        comparison(whole)


@pytest.mark.slow
def test_a_comparison_that_ends_badly_gives_up_the_folders_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise FailedRunError("no room")

    with monkeypatch.context() as patched:
        patched.setattr("fedfloor.runs.compare.write_changes", full)
        with pytest.raises(FailedRunError, match="no room"):
            comparison(tmp_path / "all")
    assert not comparison(tmp_path / "all").failed


def test_missing_data_is_named_before_anything_runs(tmp_path: Path) -> None:
    asked = ["compare", "paper-cifar10", "--policy", "random", "--seeds", "1", "--data-dir", str(tmp_path)]
    command = [sys.executable, "-m", "fedfloor", *asked, "--out", str(tmp_path / "out")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cifar10" in done.stderr
    assert str(tmp_path) in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_scenario_is_refused_before_anything_runs(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    with pytest.raises(RunLogError, match=r"quick-ddsra-v1-exact-7: .*training.learning_rate"):
        comparison(folder, "training.learning_rate=0.02")
    (tmp_path / "other" / "quick-random-7").mkdir(parents=True)
    (tmp_path / "other" / "quick-random-7" / "letter.txt").write_text("mine")
    with pytest.raises(RunLogError, match="is not empty"):
        comparison(tmp_path / "other")


@pytest.mark.slow
def test_more_rounds_than_before_go_on_from_the_end(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "longer"
    shutil.copytree(whole, folder)
    seen: list[bool] = []

    def look(run: PlannedRun, done: int) -> None:
        seen.append((known(run.folder) / "bounds.json").exists())

    fedfloor.compare(
        "quick", ["random"], seeds=1, rounds=8, overrides=SMALL[1:], out=folder, watch=Watch(on_round=look)
    )
    assert seen == [False, False], "while a run goes on, the bounds of its shorter self are gone"
    assert len(fedfloor.read(folder / "quick-random-7")["round"]) == 8


def test_a_policy_given_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="policy 'random': is given twice"):
        fedfloor.compare("quick", ["random", "random"], seeds=1, out=tmp_path)


@pytest.mark.parametrize(
    ("policies", "more", "expected"),
    [
        (
            ["random"],
            ("model.name=__main__:network",),
            "model '__main__:network': is defined in the program itself, which the processes of a comparison cannot "
            "import. Move it into a module of its own",
        ),
        (
            ["random", "__main__:Mine"],
            (),
            "policy '__main__:Mine': sending it to the processes of a comparison needs the extra 'notebook'. Install "
            "it with: pip install 'fedfloor[notebook]'",
        ),
    ],
    ids=["model", "policy"],
)
def test_what_the_started_program_defines_is_refused_without_a_traceback(
    policies: list[str], more: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "sys.modules['cloudpickle'] = None  # as if it were not installed\n"
        "import fedfloor\n"
        "from fedfloor.errors import FedfloorError\n"
        "from fedfloor.scheduling.policies.random import RandomScheduler as Mine\n"
        "from tests.training.networks import logistic as network\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        f"        fedfloor.compare('quick', {policies}, seeds=1, rounds=1, overrides={[*more]}, out='out')\n"
        "    except FedfloorError as error:\n"
        "        print(error)\n"
    )
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == f"{expected}\n"
    assert (done.stderr, done.returncode) == ("", 0)
    assert not (tmp_path / "out").exists()
