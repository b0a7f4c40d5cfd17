"""Shell completion: what bash, zsh and fish offer, and that it is quick."""

import os
import subprocess
import sys

import pytest

from fedfloor.cli.completing import complete_key, complete_policy, complete_preset, named_command
from fedfloor.scenario.reading import preset_names, read
from fedfloor.scheduling.registry import policy_summaries

#: completes as the program does, and then says on standard error what it has imported
CODE = """
import sys, fedfloor.cli
try:
    fedfloor.cli.main()
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def completed(shell: str, *words: str) -> tuple[list[str], set[str]]:
    """What a shell offers for the last word of a line, and the modules that were imported for it."""
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    env |= {"_FEDFLOOR_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        env |= {"COMP_WORDS": "\n".join(["fedfloor", *words]), "COMP_CWORD": str(len(words))}
    else:
        env |= {"_TYPER_COMPLETE_ARGS": " ".join(["fedfloor", *words]), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), set(done.stderr.split())


def test_bash_completes_commands_presets_policies_and_keys() -> None:
    for words, expected in (
        (("si",), ["simulate"]),
        (("data", "f"), ["fetch"]),
        (("simulate", "qui"), ["quick"]),
        (("init", "--preset", "fac"), ["factory"]),
        (("compare", "quick", "--policy", "ro"), ["round_robin"]),
        (("run", "quick", "--set", "radio.ch"), ["radio.channels="]),
        (("simulate", "quick", "--vary", "radio.ch"), ["radio.channels="]),
        (("run", "quick", "--until-a"), ["--until-accuracy"]),
    ):
        offered, modules = completed("bash", *words)
        assert offered == expected
        assert not modules & {"torch", "numba", "scipy", "matplotlib", "grpc"}
        assert "fedfloor.cli.commands.server" not in modules or words == ("si",), "only the named command is imported"


@pytest.mark.parametrize(("shell", "expected"), [("zsh", '"round_robin"'), ("fish", "round_robin")])
def test_zsh_and_fish_complete_too(shell: str, expected: str) -> None:
    offered, modules = completed(shell, "simulate", "quick", "--policy", "round")
    assert expected in "\n".join(offered)
    assert not modules & {"torch", "numba", "scipy"}


def test_names_are_those_that_the_program_knows() -> None:
    assert complete_preset("") == preset_names()
    assert set(complete_policy("")) == set(policy_summaries())
    assert complete_preset("./plant") == complete_policy("mine:Nea") == []


def test_keys_are_those_of_a_scenario_with_dots_between() -> None:
    keys = complete_key("")
    assert {"rounds=", "radio.channels=", "training.learning_rate=", "policy.settings=", "floors.0.name="} <= set(keys)
    assert complete_key("radio.chan") == ["radio.channels="]
    assert len(keys) == len(set(keys))
    assert read("quick", [f"{complete_key('radio.chan')[0]}2"]).radio.channels == 2


def test_the_named_command_is_found_on_the_line_that_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fedfloor", "plan", "round.json"])
    assert named_command() == "plan"
    monkeypatch.setenv("_FEDFLOOR_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "fedfloor run qui")
    assert named_command() == "run"
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "fedfloor ")
    assert named_command() == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    env = {**os.environ, "_FEDFLOOR_COMPLETE": f"source_{shell}"}
    done = subprocess.run([sys.executable, "-m", "fedfloor"], env=env, capture_output=True, text=True, check=True)
    assert f"_FEDFLOOR_COMPLETE=complete_{shell}" in done.stdout
