"""`FedFloor` over a real SuperLink: SuperNodes that are registered by name, and one that is killed."""

import json
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import fedfloor
from fedfloor.flower.writing import app_files
from tests.flower.superlinks import superlink


@pytest.mark.slow
def test_a_supernode_that_is_killed_is_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    for place, text in app_files("my-app").items():
        (tmp_path / "app" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "app" / place).write_text(text)
    plant = tmp_path / "app" / "my_app" / "plant.toml"
    small = plant.read_text().replace("count = 4", "count = 1").replace("count = 2", "count = 1")
    plant.write_text("limits = false\n" + small.replace("channels = 3", "channels = 2"))
    floors = [floor.name for floor in fedfloor.load(plant).floors]
    assert len(floors) == 2
    folder, rounds = tmp_path / "run", 8
    config = f'policy="random" num-server-rounds={rounds} out="{folder}"'
    with superlink(tmp_path, plant, [], floors, named=True) as link:
        run = str(link.flwr("run", "app", "test", "--run-config", config)["run-id"])
        link.wait_for(folder, 2)
        link.processes[floors[1]].kill()
        link.processes[floors[1]].wait()
        assert link.wait_for_end(run) == "finished:completed", link.logs()
    assert link.left == {}
    records = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    kept, killed = ([record["gateways"][m] for record in records] for m in (0, 1))
    assert len(records) == rounds
    assert [entry["failure"] for entry in kept] == [None] * rounds
    assert killed[0]["completed"]
    assert killed[1]["completed"]
    # Flower takes it for present for a while; its message is lost then, and later it has no link and is lost as well.
    assert [entry["failure"] for entry in killed[4:]] == ["lost"] * (rounds - 4)
    assert killed[-1]["delay_s"] == 0.0
