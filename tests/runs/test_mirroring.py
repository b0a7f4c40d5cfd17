"""A run folder told to another process: only what is new, in an order that leaves a whole checkpoint at any moment."""

import json
import resource
from pathlib import Path

import pytest

from fedfloor.errors import FailedRunError, RunLogError
from fedfloor.runs.mirror import Kept, Mirror, kept_of, write_changes

FILES = {
    "scenario.toml": b"rounds = 4\n",
    "rounds.jsonl": b'{"round": 0}\n{"round": 1}\n{"round": 2}\n',
    "timings.jsonl": b"{}\n{}\n{}\n",
    "checkpoint/weights-000002.safetensors": b"weights",
    "checkpoint/state.json": json.dumps({"round": 2, "weights": "weights-000002.safetensors"}).encode(),
    "bounds.json": b"[]\n",
}


def filled(folder: Path) -> Path:
    Kept(FILES).unpack(folder)
    return folder


def test_a_mirror_tells_what_is_new_once(tmp_path: Path) -> None:
    mirror = Mirror(filled(tmp_path))
    names = [name for name, _, _ in mirror.changes()]
    assert names.index("checkpoint/weights-000002.safetensors") < names.index("checkpoint/state.json")
    assert names.index("rounds.jsonl") < names.index("checkpoint/state.json")
    assert names[-1] == "bounds.json"
    assert mirror.changes() == ()
    with (tmp_path / "rounds.jsonl").open("ab") as log:
        log.write(b"more\n")
    assert mirror.changes() == (("rounds.jsonl", len(FILES["rounds.jsonl"]), b"more\n"),)


def test_a_folder_becomes_the_one_that_was_told(tmp_path: Path) -> None:
    assert write_changes(tmp_path / "copy", Mirror(filled(tmp_path / "run")).changes())
    copied = {str(path.relative_to(tmp_path / "copy")): path for path in (tmp_path / "copy").rglob("*.*")}
    assert {name: path.read_bytes() for name, path in copied.items()} == FILES


def test_a_run_goes_on_from_its_checkpoint_and_its_log_up_to_there(tmp_path: Path) -> None:
    kept = kept_of(filled(tmp_path / "run"))
    assert kept.files["rounds.jsonl"] == b'{"round": 0}\n{"round": 1}\n'
    mirror = kept.unpack(tmp_path / "elsewhere")
    assert mirror.changes() == ()
    with (tmp_path / "elsewhere" / "rounds.jsonl").open("ab") as log:
        log.write(b'{"round": 2, "again": true}\n')
    assert not write_changes(tmp_path / "run", mirror.changes()), "no new checkpoint has come"
    lines = (tmp_path / "run" / "rounds.jsonl").read_bytes().splitlines()
    assert lines == [b'{"round": 0}', b'{"round": 1}', b'{"round": 2, "again": true}']


def test_a_full_disk_never_takes_what_the_checkpoint_relies_on(tmp_path: Path) -> None:
    kept = kept_of(filled(tmp_path / "run"))
    mirror = kept.unpack(tmp_path / "elsewhere")
    with (tmp_path / "elsewhere" / "rounds.jsonl").open("ab") as log:
        log.write(b"x" * 1000 + b"\n")
    changes = mirror.changes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
    try:
        with pytest.raises(FailedRunError, match="run: cannot be written: File too large"):
            write_changes(tmp_path / "run", changes)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert kept_of(tmp_path / "run") == kept


def test_a_log_that_somebody_removed_is_noticed(tmp_path: Path) -> None:
    mirror = Mirror(filled(tmp_path / "run"))
    write_changes(tmp_path / "copy", mirror.changes())
    (tmp_path / "copy" / "rounds.jsonl").unlink()
    with (tmp_path / "run" / "rounds.jsonl").open("ab") as log:
        log.write(b"more\n")
    with pytest.raises(FailedRunError, match=r"rounds.jsonl: another process has removed what was written to it"):
        write_changes(tmp_path / "copy", mirror.changes())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("checkpoint/state.json", b'{"round": 2, "wei', r"state.json: is damaged: "),
        (
            "checkpoint/state.json",
            b'{"version": 1}',
            r"damaged: weights and round do not match: got None and None",
        ),
        ("checkpoint/state.json", b"[3]", r"state.json: is damaged: "),
        ("checkpoint/weights-000002.safetensors", None, r"weights-000002.safetensors: is missing"),
        ("rounds.jsonl", None, r"rounds\.jsonl: is missing"),
    ],
)
def test_a_damaged_checkpoint_is_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = filled(tmp_path) / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(RunLogError, match=message):
        kept_of(tmp_path)


def test_a_folder_without_a_checkpoint_begins(tmp_path: Path) -> None:
    assert kept_of(tmp_path) == Kept()
