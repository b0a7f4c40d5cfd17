"""What goes wrong around a run folder: a second process, damage, files of another run, a disk without room."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fedfloor
from fedfloor.api import evaluate
from fedfloor.errors import FailedRunError, RunLogError
from fedfloor.files import only_writer, write_whole
from fedfloor.rounds.listeners.checkpoint import Origin, load_checkpoint, save_checkpoint, signed
from fedfloor.rounds.plants.contract import PlantState
from fedfloor.runs.mirror import kept_of, write_changes
from tests.runs.small import assert_equal_runs, small_run

UNIFORM = "participation.rates=uniform"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    small_run(folder, UNIFORM, rounds=2)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount: list[str | Path] = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("making a small file system needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# Two processes


@pytest.mark.parametrize("state", [None, b"half a sta"], ids=["whole", "being written"])
def test_a_folder_is_locked_before_anything_in_it_is_read(run: Path, state: bytes | None) -> None:
    if state is not None:
        (run / "checkpoint" / "state.json").write_bytes(state)
    before = contents(run)
    with only_writer(run, again=""), pytest.raises(RunLogError, match="another process is writing to it"):
        small_run(run, UNIFORM, resume=True)
    assert contents(run) == before


def test_a_comparison_leaves_a_run_alone_that_another_process_writes(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "all" / "quick-random-7"
    folder.parent.mkdir()
    run.rename(folder)
    before = contents(folder)
    overrides = ["rounds=6", "training.batch_fraction=0.05", "training.evaluate_every=1", UNIFORM]
    overrides += ["training.checkpoint_every=2", "participation.estimate_every=3", "participation.estimate_samples=8"]
    with only_writer(folder, again=""):
        done = fedfloor.compare("quick", ["random"], seeds=1, overrides=overrides, out=tmp_path / "all", workers=1)
    assert "another process is writing to it" in str(done.failed["quick-random-7"])
    assert {path: content for path, content in contents(folder).items() if path in before} == before


def test_a_reader_never_sees_a_checkpoint_that_is_being_replaced(tmp_path: Path) -> None:
    done = threading.Event()

    def write() -> None:
        for index in range(1, 300):
            save_checkpoint(tmp_path, PlantState(index, {"queue": [0.0] * index}, {}), clock=0.0, origin=Origin())
        done.set()

    save_checkpoint(tmp_path, PlantState(0, {}, {}), clock=0.0, origin=Origin())
    writer, reads = threading.Thread(target=write), 0
    writer.start()
    while not done.is_set():
        checkpoint = load_checkpoint(tmp_path)
        assert checkpoint is not None
        assert len(checkpoint.state.values.get("queue", [])) == checkpoint.round  # type: ignore[arg-type]
        reads += 1
    writer.join()
    assert reads > 10


# Damage


@pytest.mark.parametrize("name", ["checkpoint/weights-000002.safetensors", "checkpoint/state.json", "rounds.jsonl"])
def test_a_flipped_bit_is_noticed_before_anything_is_trained(run: Path, name: str) -> None:
    content = (run / name).read_bytes()
    for place in range(7, len(content), len(content) // 9):
        if content[place : place + 1].isspace():  # between two values of JSON it changes nothing
            continue
        damaged = bytearray(content)
        damaged[place] ^= 1
        (run / name).write_bytes(damaged)
        before = contents(run)
        with pytest.raises(RunLogError, match=r"state\.json|safetensors|rounds\.jsonl"):
            small_run(run, UNIFORM, resume=True)
        assert contents(run) == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("seed=8", "random"), "is the checkpoint of another run"),
        (("seed=7", "round_robin"), "is the checkpoint of another run"),
        (("training.learning_rate=0.02", "random"), "is the checkpoint of another run"),
    ],
)
def test_the_checkpoint_of_another_run_is_not_continued_from(
    change: tuple[str, str], expected: str, run: Path, tmp_path: Path
) -> None:
    override, policy = change
    small_run(tmp_path / "other", UNIFORM, override, policy=policy, rounds=2)
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(tmp_path / "other" / "checkpoint", run / "checkpoint")
    with pytest.raises(RunLogError, match=expected):
        small_run(run, UNIFORM, resume=True)


def unsigned(run: Path) -> None:
    """Make a checkpoint what it was before there were checksums."""
    path = run / "checkpoint" / "state.json"
    new = ("run", "log_sha256", "weights_sha256", "sha256")
    state = {key: value for key, value in json.loads(path.read_text()).items() if key not in new}
    path.write_text(json.dumps({**state, "version": 1}))


def test_a_checkpoint_without_checksums_is_still_continued_from(run: Path, tmp_path: Path) -> None:
    unsigned(run)
    small_run(run, UNIFORM, rounds=3, resume=True)
    small_run(tmp_path / "whole", UNIFORM, rounds=3)
    assert_equal_runs(run, tmp_path / "whole")


def test_without_checksums_the_log_must_still_be_that_of_the_checkpoint(run: Path) -> None:
    unsigned(run)
    lines = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    lines[1]["clock_s"] *= 2.0
    (run / "rounds.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(RunLogError, match=r"state\.json: clock_s: must be .*, as in rounds\.jsonl, got"):
        small_run(run, UNIFORM, resume=True)
    for line in lines:
        line["policy"] = "round_robin"
    (run / "rounds.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(RunLogError, match=r"which another policy than 'random' has written"):
        small_run(run, UNIFORM, resume=True)


def test_a_signature_names_what_it_signs() -> None:
    state = json.loads(signed({"version": 2, "queue": [0.1, 1e300], "sha256": "old"}))
    assert list(state) == ["version", "queue", "sha256"]
    assert signed(state) == signed({"version": 2, "queue": [0.1, 1e300]})


def test_a_process_that_trains_cannot_write_outside_of_its_folder(tmp_path: Path) -> None:
    for name in ("../elsewhere", "/tmp/elsewhere", "checkpoint/../../elsewhere", "checkpoint/weights-1.safetensors"):
        with pytest.raises(FailedRunError, match="which is no file of a run"):
            write_changes(tmp_path / "run", ((name, 0, b"content"),))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["scenario.toml", "rounds.jsonl"])
def test_a_lost_file_does_not_make_a_run_start_from_the_beginning(run: Path, name: str) -> None:
    (run / name).unlink()
    before = contents(run)
    with pytest.raises(RunLogError, match=rf"{name}: is missing, but the checkpoint needs it"):
        small_run(run, UNIFORM, resume=True)
    assert contents(run) == before


def test_the_model_of_another_run_is_not_evaluated(run: Path, tmp_path: Path) -> None:
    small_run(tmp_path / "other", UNIFORM, "seed=8", rounds=2)
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(tmp_path / "other" / "checkpoint", run / "checkpoint")
    with pytest.raises(RunLogError, match="is the checkpoint of another run"):
        evaluate(run)


def test_a_damaged_last_round_is_not_taken_for_one_that_is_being_written(run: Path) -> None:
    content = (run / "rounds.jsonl").read_bytes()
    (run / "rounds.jsonl").write_bytes(content[:-2] + b"\n")
    with pytest.raises(RunLogError, match=r"rounds\.jsonl: line 2: is not JSON"):
        fedfloor.read(run)
    (run / "rounds.jsonl").write_bytes(content[:-2])
    assert fedfloor.read(run)["round"] == [0]


def test_checksums_are_compared_whatever_version_a_state_claims(run: Path) -> None:
    path = run / "checkpoint" / "state.json"
    for version in (1, True):
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
        with pytest.raises(RunLogError, match=r"state\.json: is damaged: its content is not what was written"):
            small_run(run, UNIFORM, resume=True)


def test_a_folder_of_somebody_elses_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "weights-best.safetensors").write_bytes(b"theirs")
    (tmp_path / "holding.json").write_text("theirs")
    before = contents(tmp_path)
    with pytest.raises(RunLogError, match="is not empty"):
        small_run(tmp_path, UNIFORM, rounds=1, resume=True)
    assert contents(tmp_path) == before


def test_a_refused_resumption_cuts_no_log(run: Path) -> None:
    for name in ("rounds.jsonl", "timings.jsonl"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content + content[: content.index(b"\n") + 1])
    weights = run / "checkpoint" / "weights-000002.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    before = contents(run)
    with pytest.raises(RunLogError, match=r"safetensors: is damaged"):
        small_run(run, UNIFORM, resume=True)
    assert contents(run) == before


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("longer") / "run"
    small_run(folder, UNIFORM, rounds=4)
    return folder


#: what damage leaves of the times of two rounds, and the rounds whose times are kept
DAMAGED_TIMES: dict[str, tuple[Callable[[bytes], bytes | None], list[int]]] = {
    "missing": (lambda _: None, []),
    "empty": (lambda _: b"", []),
    "cut": (lambda content: content[:-9], [0]),
    "first line lost": (lambda content: content[content.index(b"\n") + 1 :], [1]),
    "lines twice": (lambda content: content * 3, [0, 1]),
    "flipped": (lambda content: content.replace(b'"round": 0', b'"ro5nd": 0'), [1]),
    "a number that is too long": (lambda content: content.replace(b'"round": 0', b'"round": ' + b"9" * 5000), [1]),
    "of another run": (lambda content: content.replace(b'"round": ', b'"round": 7'), []),
    "no text": (lambda _: bytes(range(256)) * 99, []),
}


@pytest.mark.parametrize("damage", DAMAGED_TIMES)
def test_damaged_times_neither_stop_nor_change_a_resumed_run(damage: str, run: Path, longer: Path) -> None:
    change, kept = DAMAGED_TIMES[damage]
    path = run / "timings.jsonl"
    content = change(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    small_run(run, UNIFORM, rounds=4, resume=True)
    assert_equal_runs(run, longer)
    assert (run / "bounds.json").read_bytes() == (longer / "bounds.json").read_bytes()
    assert [json.loads(line)["round"] for line in path.read_text().splitlines()] == [*kept, 2, 3]


@pytest.mark.parametrize("damage", ["missing", "cut", "no text"])
def test_damaged_times_neither_stop_nor_change_a_comparison(damage: str, run: Path, longer: Path) -> None:
    change, kept = DAMAGED_TIMES[damage]
    content = change((run / "timings.jsonl").read_bytes())
    (run / "timings.jsonl").unlink()
    if content is not None:
        (run / "timings.jsonl").write_bytes(content)
    with tempfile.TemporaryDirectory() as elsewhere:
        mirror = kept_of(run).unpack(Path(elsewhere) / "run")
        small_run(mirror.folder, UNIFORM, rounds=4, resume=True)
        write_changes(run, mirror.changes())
    assert_equal_runs(run, longer)
    assert [json.loads(line)["round"] for line in (run / "timings.jsonl").read_text().splitlines()] == [*kept, 2, 3]


# Files


def test_what_a_killed_process_left_half_written_is_removed(run: Path) -> None:
    for part in (run / ".bounds.json.1f.part", run / "checkpoint" / ".weights-000002.safetensors.2e.part"):
        part.write_bytes(b"half")
    small_run(run, UNIFORM, rounds=3, resume=True)
    assert not list(run.rglob("*.part"))


def test_only_the_user_can_read_a_run(finished: Path) -> None:
    for folder in (finished, finished / "checkpoint"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "state.json").symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "state.json", b"{}")
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "state.json").is_symlink()


@pytest.mark.parametrize("name", ["rounds.jsonl", "timings.jsonl", "scenario.toml", "checkpoint"])
def test_a_link_in_a_run_folder_is_refused_and_what_it_names_stays(name: str, run: Path, tmp_path: Path) -> None:
    (run / name).rename(tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path)
    with pytest.raises(RunLogError, match=rf"{name}: is a symbolic link"):
        small_run(run, UNIFORM, resume=True)
    assert contents(tmp_path) == before


# Disks without room


def fill(disk: Path, leave: int) -> Path:
    """Fill a disk but for some bytes."""
    room = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - leave)))
    return disk / "filler"


@pytest.mark.parametrize("leave", [0, 4096, 8192, 16384, 32768])
def test_a_disk_that_is_full_at_the_start_leaves_nothing_in_the_way(leave: int, small_disk: Path) -> None:
    filler = fill(small_disk, leave)
    with pytest.raises(FailedRunError, match=r"No space left on device\. Make room"):
        fedfloor.simulate("quick", "random", rounds=50, out=small_disk / "run")
    if (small_disk / "run").exists():  # some rounds were logged
        assert fedfloor.read(small_disk / "run")["round"]
        return
    filler.unlink()
    fedfloor.simulate("quick", "random", rounds=2, out=small_disk / "run")


@pytest.mark.parametrize("leave", [0, 8192, 16384])
def test_a_training_run_on_a_full_disk_is_repeated_or_resumed_once_there_is_room(leave: int, small_disk: Path) -> None:
    filler = fill(small_disk, leave)
    with pytest.raises(FailedRunError, match=r"No space left on device\. Make room"):
        small_run(small_disk / "run", UNIFORM, "model.name=mlp", rounds=6)
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True)
    resume = (small_disk / "run").exists()
    done = small_run(small_disk / "run", UNIFORM, "model.name=mlp", rounds=2, resume=resume)
    assert len(done.records) == 2


@pytest.mark.parametrize("names", [["checkpoint"], ["rounds.jsonl"], ["rounds.jsonl", "timings.jsonl", "holding.json"]])
def test_a_run_that_never_began_does_not_bar_its_folder(names: list[str], tmp_path: Path) -> None:
    for name in names:
        path = tmp_path / "run" / name
        path.parent.mkdir(exist_ok=True)
        path.mkdir() if "." not in name else path.write_text("")
    assert len(fedfloor.simulate("quick", "random", rounds=1, out=tmp_path / "run").records) == 1


@pytest.mark.parametrize("name", ["scenario.toml", "holding.json", "notes.txt"])
def test_a_file_of_the_users_bars_a_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(RunLogError, match="is not empty"):
        fedfloor.simulate("quick", "random", rounds=1, out=tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_is_no_run_to_evaluate(tmp_path: Path) -> None:
    (tmp_path / "rounds.jsonl").write_text("", encoding="utf-8")
    problem = r"rounds\.jsonl: is a file, not a run folder\. Name a folder that a run has written"
    for read in (evaluate, fedfloor.read):
        with pytest.raises(RunLogError, match=problem):
            read(tmp_path / "rounds.jsonl")
