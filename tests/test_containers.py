"""The image and the compose file: keys of the Compose specification, commands that work, and no loose ends."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedfloor.runs.planned import load
from tests.command_line import commands_in, parsed

ROOT = Path(__file__).parents[1]
PLANT = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = PLANT["services"]

#: keys of https://github.com/compose-spec/compose-spec that the file uses or may come to use
SERVICE_KEYS = frozenset(
    re.findall(
        r"\w+",
        """
    annotations attach build cap_add cap_drop command configs container_name cpus cpuset depends_on
    deploy devices dns entrypoint env_file environment expose extra_hosts group_add healthcheck
    hostname image init ipc labels logging mem_limit network_mode networks pid pids_limit platform
    ports privileged profiles pull_policy read_only restart secrets security_opt shm_size
    stop_grace_period stop_signal sysctls tmpfs tty ulimits user volumes working_dir
    """,
    )
)
TOP_KEYS = frozenset({"name", "include", "services", "networks", "volumes", "secrets", "configs"})
CONDITIONS = frozenset({"service_started", "service_healthy", "service_completed_successfully"})
MOUNT_KEYS = frozenset({"type", "source", "target", "read_only", "consistency", "bind", "volume", "tmpfs", "image"})
NETWORK_KEYS = frozenset({"name", "driver", "driver_opts", "ipam", "external", "internal", "attachable", "labels"})
VOLUME_KEYS = frozenset({"name", "driver", "driver_opts", "external", "labels"})
RESTARTS = re.compile(r"no|always|unless-stopped|on-failure(:\d+)?")


def words_of(service: dict[str, Any]) -> list[list[str]]:
    """The fedfloor commands of a container."""
    if service.get("entrypoint") == ["/bin/sh", "-c"]:
        (script,) = service["command"]
        return commands_in(script)
    assert "entrypoint" not in service
    return [service["command"]]


@pytest.mark.parametrize("name", SERVICES)
def test_the_command_of_every_container_is_understood(name: str) -> None:
    commands = words_of(SERVICES[name])
    assert commands
    for words in commands:
        assert parsed(words)


def test_the_compose_file_has_only_keys_of_the_specification() -> None:
    assert {key for key in PLANT if not key.startswith("x-")} <= TOP_KEYS
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", PLANT["name"])
    for name, service in SERVICES.items():
        assert re.fullmatch(r"[a-zA-Z0-9._-]+", name)
        assert set(service) <= SERVICE_KEYS, name
        assert "image" in service or "build" in service, name
        for key in ("command", "entrypoint", "cap_drop", "security_opt", "networks", "tmpfs"):
            words = service.get(key, [])
            assert isinstance(words, list), (name, key)
            assert all(isinstance(word, str) for word in words), (name, key)
        for key in ("cap_drop", "security_opt", "networks", "tmpfs", "volumes"):
            entries = [str(entry) for entry in service.get(key, [])]
            assert len(set(entries)) == len(entries), (name, key)
        assert RESTARTS.fullmatch(service.get("restart", "no")), name
        assert not ({"networks", "network_mode"} <= set(service)), name
    for kind, keys in (("networks", NETWORK_KEYS), ("volumes", VOLUME_KEYS)):
        for name, entry in PLANT[kind].items():
            assert set(entry or {}) <= keys, name


def test_containers_wait_for_others_that_exist_and_not_in_a_circle() -> None:
    waits: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        entries = service.get("depends_on", {})
        assert isinstance(entries, dict), name
        for other, entry in entries.items():
            assert other in SERVICES, name
            assert set(entry) <= {"condition", "restart", "required"}, name
            assert entry["condition"] in CONDITIONS, name
            if entry["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], name
        waits[name] = set(entries)
    while waits:
        free = {name for name, others in waits.items() if not others & set(waits)}
        assert free, f"these wait for each other: {sorted(waits)}"
        waits = {name: others for name, others in waits.items() if name not in free}


def mounts_of(service: dict[str, Any]) -> list[dict[str, Any]]:
    """The mounts of a container, all in the long form."""
    mounts = []
    for entry in service.get("volumes", []):
        if isinstance(entry, str):
            source, target, *mode = entry.split(":")
            kind = "bind" if source.startswith(".") else "volume"
            assert mode in ([], ["ro"], ["rw"])
            mounts.append({"type": kind, "source": source, "target": target, "read_only": mode == ["ro"]})
        else:
            mounts.append(entry)
    return mounts


def test_mounts_lead_to_volumes_and_folders_that_exist() -> None:
    used = set()
    for name, service in SERVICES.items():
        mounts = mounts_of(service)
        targets = [mount["target"] for mount in mounts]
        assert len(set(targets)) == len(targets), name
        for mount in mounts:
            assert set(mount) <= MOUNT_KEYS, name
            assert mount["target"].startswith("/"), name
            if mount["type"] == "bind":
                assert (ROOT / mount["source"]).is_dir(), name
            else:
                assert mount["type"] == "volume", name
                assert set(mount.get("volume", {})) <= {"nocopy", "subpath", "labels"}, name
                assert mount["source"] in PLANT["volumes"], name
                used.add(mount["source"])
        for network in service.get("networks", []):
            assert network in PLANT["networks"], name
    assert used == set(PLANT["volumes"])


def test_every_path_of_a_container_lies_on_a_mount() -> None:
    for name, service in SERVICES.items():
        targets = [mount["target"] for mount in mounts_of(service)]
        for words in words_of(service):
            for path in re.findall(r"(?:^|(?<=[ :]))/\S+", " ".join(words)):
                assert any(path == target or path.startswith(f"{target}/") for target in targets), (name, path)


def test_the_containers_are_the_machines_of_the_scenario_with_their_own_certificates() -> None:
    scenario = load(str(ROOT / "examples" / "plant.toml"))
    expected = {"server/base-station"} | {f"gateway/{floor.name}" for floor in scenario.floors}
    expected |= {f"device/{device.name}" for device in scenario.devices}
    folders = [
        mount["volume"]["subpath"]
        for name, service in SERVICES.items()
        for mount in mounts_of(service)
        if name != "certs" and mount["source"] == "certs"
    ]
    assert sorted(folders) == sorted(expected)


def test_every_machine_dials_a_container_on_a_network_that_both_have() -> None:
    for name, service in SERVICES.items():
        if name == "certs":
            continue
        parameters = parsed(service["command"])
        address = {"gateway": parameters.get("server"), "device": parameters.get("gateway")}.get(service["command"][0])
        if address is None:
            continue
        host, _, port = address.partition(":")
        assert parsed(SERVICES[host]["command"])["listen"].rpartition(":")[2] == port, name
        assert set(service["networks"]) & set(SERVICES[host]["networks"]), name


def test_the_image_runs_fedfloor_as_a_user_without_rights() -> None:
    lines = [
        line for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    assert lines[0] == "FROM python:3.11-slim"
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["fedfloor"]
    assert 'ENTRYPOINT ["fedfloor"]' in lines
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line.startswith("COPY "):
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in ignored, source


class Plant:
    """The containers as processes of this machine: mounts are folders, and hosts are ports."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._ports = {name: free_port() for name, service in SERVICES.items() if "--listen" in service["command"]}

    def command(self, name: str) -> list[str]:
        """The fedfloor command of a container, with the paths and addresses of this machine."""
        (words,) = words_of(SERVICES[name])
        folders = {mount["target"]: self._folder(name, mount) for mount in mounts_of(SERVICES[name])}
        return [sys.executable, "-m", "fedfloor", *(self._here(word, name, folders) for word in words)]

    def _here(self, word: str, name: str, folders: dict[str, Path]) -> str:
        host, _, port = word.partition(":")
        if port.isdigit():
            return f"127.0.0.1:{self._ports[name if host == '0.0.0.0' else host]}"
        before, slash, path = word.partition("/")
        target = next((target for target in folders if f"{slash}{path}/".startswith(f"{target}/")), None)
        return word if target is None else f"{before}{folders[target]}{slash}{path}".replace(target, "", 1)

    def _folder(self, name: str, mount: dict[str, Any]) -> Path:
        if mount["type"] == "bind":
            return ROOT / str(mount["source"])
        return self.place / str(mount["source"]) / str(mount.get("volume", {}).get("subpath", ""))

    @contextlib.contextmanager
    def started(self, name: str) -> Iterator["subprocess.Popen[str]"]:
        """The process of a container, which has ended when the block ends."""
        with (self.place / f"{name}.log").open("w") as log:
            process = subprocess.Popen(self.command(name), cwd=self.place, stdout=log, stderr=log, text=True)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log(self, name: str) -> str:
        """What a container has said."""
        return (self.place / f"{name}.log").read_text()


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


@pytest.mark.slow
def test_the_commands_of_the_containers_train_stop_and_resume(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    subprocess.run(plant.command("certs"), check=True, capture_output=True, timeout=120)
    rounds = tmp_path / "runs" / "plant" / "rounds.jsonl"
    with contextlib.ExitStack() as machines:
        for name in SERVICES:
            if name not in ("certs", "base-station"):
                machines.enter_context(plant.started(name))
        with plant.started("base-station") as station:
            end = time.monotonic() + 240
            while not (rounds.exists() and rounds.read_text().count("\n") >= 2) and time.monotonic() < end:
                assert station.poll() is None, plant.log("base-station")
                time.sleep(0.1)
            station.send_signal(getattr(signal, SERVICES["base-station"]["stop_signal"]))
            assert station.wait(60) == 130, plant.log("base-station")
            assert "interrupted: " in plant.log("base-station")
        with plant.started("base-station") as station:
            assert station.wait(300) == 0, plant.log("base-station")
            assert "resuming after" in plant.log("base-station")
            assert "10 rounds, test accuracy" in plant.log("base-station")
    assert rounds.read_text().count("\n") == 10
