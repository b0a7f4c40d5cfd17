"""Policies as objects, and scenarios as dicts and objects: every function takes them as it takes names."""

import copy
import pickle
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor import api, policies
from fedfloor.errors import FedfloorError, PolicyError, ScenarioError
from fedfloor.policies import Ddsra, Decision, RandomScheduler, RoundState
from fedfloor.scheduling.objects import make_again, name_policy
from fedfloor.scheduling.registry import make_policy, parse_policy, policy_summaries
from fedfloor.scheduling.state import Scheduler

HERE = "tests.test_python"
PRESET = Path(fedfloor.__file__).parent / "scenario" / "presets" / "quick.toml"


@dataclass(frozen=True)
class Lazy:
    """Decides like random, with a few settings."""

    share: float = 0.5
    label: str = "slow"
    limit: int | None = None
    table: Any = None

    def schedule(self, state: RoundState) -> Decision:
        return RandomScheduler().schedule(state)


class Plain:
    """A policy without fields."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share
        self.helper = {"half": share / 2}

    def schedule(self, state: RoundState) -> Decision:
        return RandomScheduler().schedule(state)


class Forgetful(Plain):
    """Does not keep its argument under its name."""

    def __init__(self, amount: float = 0.5) -> None:
        super().__init__(amount)


def table() -> dict[str, Any]:
    return tomllib.loads(PRESET.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", policy_summaries())
def test_an_object_of_a_built_in_policy_has_the_name_of_its_text(name: str) -> None:
    spec, policy = make_policy(parse_policy(name))
    assert name_policy(policy).spec == spec
    assert type(policy).__name__ in policies.__all__


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Ddsra(v=1), "ddsra:v=1,solver=exact"),
        (Ddsra(v=np.float64(0.1), solver="paper"), "ddsra:v=0.1,solver=paper"),
        (RandomScheduler(allocation="exact"), "random:allocation=exact"),
        (Lazy(), f"{HERE}:Lazy:share=0.5,label=slow"),
        (Lazy(share=2, limit=3), f"{HERE}:Lazy:share=2,label=slow,limit=3"),
        (Plain(0.25), f"{HERE}:Plain:share=0.25"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_an_object_is_named_so_that_it_can_be_made_again(policy: Scheduler, expected: str) -> None:
    named = name_policy(policy)
    assert (str(named.spec), named.unnamed) == (expected, "")
    again = make_policy(parse_policy(expected))[1]
    assert vars(again) == vars(policy) if isinstance(policy, Plain) else again == policy


def changed() -> Plain:
    policy = Plain()
    policy.helper["half"] = 7.0
    return policy


def local() -> Scheduler:
    class Inner(Plain):
        pass

    return Inner()


@pytest.mark.parametrize(
    ("make", "name", "reason"),
    [
        (
            lambda: Lazy(table=np.ones(3)),
            "Lazy-object:share=0.5,label=slow",
            "setting 'table' is a ndarray, which cannot",
        ),
        (Forgetful, "Forgetful-object", "argument 'amount' is not kept as an attribute of that name"),
        (changed, "Plain-object:share=0.5", "attribute 'helper' is not that of a new object with the same settings"),
        (local, "Inner-object:share=0.5", "its class is defined inside a function or a class. Move the class"),
    ],
    ids=["array", "forgetful", "changed", "local"],
)
def test_an_object_that_cannot_be_made_again_runs_but_is_neither_resumed_nor_compared(
    make: Callable[[], Scheduler], name: str, reason: str, tmp_path: Path
) -> None:
    run = fedfloor.simulate("quick", make(), rounds=2, out=tmp_path / "run")
    assert str(run.policy) == name
    assert {record.policy for record in run.records} == {name}
    for call in (
        lambda: fedfloor.run("quick", make(), rounds=2, out=tmp_path / "other", resume=True),
        lambda: fedfloor.compare("quick", [make()], rounds=2, out=tmp_path / "other"),
    ):
        with pytest.raises(PolicyError) as refused:
            call()
        assert reason in str(refused.value)
        assert str(refused.value).startswith(f"policy '{name}': a run with this object cannot be resumed or compared: ")
    for source in (run, tmp_path / "run"):
        with pytest.raises(PolicyError, match=r"was a Python object, and no other one can be made .* Give the policy"):
            fedfloor.plan(source, round=1)
    assert fedfloor.plan(tmp_path / "run", make(), round=1)["delay_s"] == run.records[1].delay
    assert not (tmp_path / "other").exists()


def test_an_object_and_its_name_give_the_same_run_and_the_same_folder(tmp_path: Path) -> None:
    fedfloor.simulate("quick", Lazy(share=2), rounds=3, out=tmp_path / "object")
    fedfloor.simulate("quick", f"{HERE}:Lazy:share=2", rounds=3, out=tmp_path / "text")
    for file in ("scenario.toml", "rounds.jsonl"):
        assert (tmp_path / "object" / file).read_text() == (tmp_path / "text" / file).read_text()
    logged = fedfloor.plan(tmp_path / "object", round=2, own=True)
    assert logged["settings"] == {"share": 2, "label": "slow"}


def test_the_object_itself_decides() -> None:
    class Counting(Plain):
        rounds = 0

        def schedule(self, state: RoundState) -> Decision:
            type(self).rounds += 1
            return super().schedule(state)

    fedfloor.simulate("quick", Counting(), rounds=3)
    assert Counting.rounds == 3


def test_a_class_of_main_is_made_again_from_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plain, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Plain", Plain, raising=False)
    named = name_policy(Plain(0.75))
    assert (str(named.spec), named.unnamed) == ("__main__:Plain:share=0.75", "")
    monkeypatch.delattr(sys.modules["__main__"], "Plain")  # as in another process
    again = make_again(named.spec, Plain(0.75))
    assert isinstance(again, Plain)
    assert again.share == 0.75
    assert "__main__:Plain is now another class. Make the object again" in name_policy(Plain()).unnamed


def test_a_class_in_place_of_an_object_is_refused_with_what_to_write() -> None:
    with pytest.raises(PolicyError, match=r"policy: is the class Ddsra, not an object of it\. Write Ddsra\(\)"):
        fedfloor.simulate("quick", Ddsra)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"policies: must be a list of policies, got Ddsra\(.*\)\. Write \[Ddsra\("):
        fedfloor.compare("quick", Ddsra())  # type: ignore[arg-type]


def test_an_object_has_its_own_solver() -> None:
    with pytest.raises(PolicyError, match="solver exact: the policy Ddsra is an object, which has all its settings"):
        fedfloor.plan("quick", Ddsra(v=1), solver="exact")


def test_the_name_of_a_file_is_in_messages_about_its_policy(tmp_path: Path) -> None:
    path = tmp_path / "plant.toml"
    for before, after, expected in (
        ("v = 1", "v = -1", f"{path}: policy.settings of 'ddsra': v must be a number from 0 to 1e+30, got -1"),
        ("v = 1", "w = 1", f"{path}: policy.settings of 'ddsra': unknown setting 'w'. Known: solver, v."),
        ('name = "ddsra"', 'name = "ddsrb"', f"{path}: policy.name 'ddsrb': unknown. Did you mean 'ddsra'?"),
    ):
        text = PRESET.read_text(encoding="utf-8")
        head, _, tail = text.partition("[policy]")
        assert before in tail
        path.write_text(f"{head}[policy]{tail.replace(before, after, 1)}")
        for call in (api.check, fedfloor.simulate):
            with pytest.raises(PolicyError) as refused:
                call(path)
            assert str(refused.value).startswith(expected)


def test_a_dict_is_the_scenario_of_its_file_and_stays_as_it_is() -> None:
    values = table()
    before = copy.deepcopy(values)
    assert fedfloor.load(values) == fedfloor.load("quick")
    assert fedfloor.load(values, ["radio.channels=2"]).radio.channels == 2
    assert values == before


def test_numbers_of_numpy_tuples_and_paths_are_plain_values() -> None:
    values = table()
    values["rounds"], values["seed"] = np.int64(5), np.uint8(7)
    values["floors"] = tuple(values["floors"])
    values["training"]["learning_rate"] = np.float32(0.5)
    loaded = fedfloor.load(values)
    assert (loaded.rounds, loaded.seed, loaded.training.learning_rate) == (5, 7, 0.5)


def wrong_channels(values: dict[str, Any]) -> None:
    values["radio"]["channels"] = 0


def wrong_floor(values: dict[str, Any]) -> None:
    values["floors"][0]["gateway"]["max_power"] = 3


def wrong_key(values: dict[str, Any]) -> None:
    values["flors"] = []


def missing(values: dict[str, Any]) -> None:
    del values["name"]


@pytest.mark.parametrize("spoil", [wrong_channels, wrong_floor, wrong_key, missing])
def test_a_wrong_dict_has_the_message_of_the_file(spoil: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    import tomli_w

    values = table()
    spoil(values)
    path = tmp_path / "plant.toml"
    path.write_text(tomli_w.dumps(values))
    messages = []
    for source in (values, path):
        with pytest.raises(ScenarioError) as refused:
            fedfloor.load(source)
        messages.append(str(refused.value))
    assert messages[0].removeprefix("scenario: ") == messages[1].removeprefix(f"{path}: ")
    assert messages[0] != messages[1]


def test_a_dict_without_end_is_refused() -> None:
    values = table()
    values["radio"]["self"] = values["radio"]
    with pytest.raises(ScenarioError, match="scenario: is nested too deeply"):
        fedfloor.load(values)


def test_a_dict_that_names_code_needs_own_as_a_file_does() -> None:
    values = table()
    values["policy"] = {"name": f"{HERE}:Lazy"}
    with pytest.raises(ScenarioError, match=r"scenario: policy.name: names code that would run"):
        fedfloor.simulate(values, rounds=1)
    assert fedfloor.simulate(values, rounds=1, own=True).policy.name == f"{HERE}:Lazy"


def test_a_loaded_scenario_stands_for_what_it_was_loaded_from() -> None:
    loaded = fedfloor.load("quick", ["radio.channels=2"])
    assert fedfloor.load(loaded) == loaded
    assert fedfloor.load(loaded, seed=3) == fedfloor.load("quick", ["radio.channels=2"], seed=3)
    assert fedfloor.load(loaded, ["radio.channels=3"]) == fedfloor.load("quick", ["radio.channels=3"])
    stored = pickle.loads(pickle.dumps(loaded))
    assert fedfloor.load(stored, rounds=4).rounds == 4


def test_the_scenario_of_a_run_can_be_used_again() -> None:
    run = fedfloor.simulate("quick", "random", rounds=2, seed=5)
    again = fedfloor.simulate(run.scenario)
    assert [record.delay for record in again.records] == [record.delay for record in run.records]
    assert str(again.policy) == "random"


def test_sections_of_a_scenario_may_be_replaced_but_not_its_numbers() -> None:
    loaded = fedfloor.load("quick")
    shorter = loaded.model_copy(update={"training": loaded.training.model_copy(update={"local_iterations": 2})})
    assert fedfloor.load(shorter) == fedfloor.load("quick", ["training.local_iterations=2"])
    with pytest.raises(ScenarioError, match=r"scenario: floors: was changed after loading. Change it with overrides"):
        fedfloor.simulate(loaded.model_copy(update={"floors": loaded.floors[:2]}), rounds=1)
    bare = type(loaded)(**dict(loaded))
    with pytest.raises(ScenarioError, match=r"scenario: was not loaded from a file or a dict"):
        fedfloor.load(bare)


def test_every_function_takes_every_kind_of_scenario(tmp_path: Path) -> None:
    values = table()
    (tmp_path / "plant.toml").write_text(PRESET.read_text(encoding="utf-8"))
    sources: list[Any] = [
        "quick",
        tmp_path / "plant.toml",
        str(tmp_path / "plant.toml"),
        values,
        fedfloor.load("quick"),
    ]
    delays = {fedfloor.simulate(source, "random", rounds=2).summary.mean_delay for source in sources}
    plans = {fedfloor.plan(source, "random")["delay_s"] for source in sources}
    checks = {api.check(source).scenario.name for source in sources}
    assert (len(delays), len(plans), checks) == (1, 1, {"quick"})


def test_the_first_round_of_a_scenario_is_that_of_its_simulation() -> None:
    run = fedfloor.simulate("quick", "random", rounds=1)
    assert fedfloor.plan("quick", "random")["delay_s"] == run.records[0].delay
    assert fedfloor.plan("quick", "cs_ucb_q", round=0)["round"] == 0
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: fedfloor.plan("quick", "random", round=3), "only round 0 can be decided, got round 3. Simulate it"),
        (lambda: fedfloor.plan("quick", "loss_driven"), "decides by training, of which there is none before"),
        (lambda: fedfloor.plan(run), "snapshot: is a run, so the round is needed"),
        (lambda: fedfloor.plan(run, round=1), "run: has the rounds 0 to 0, got 1. Name one of them"),
    ]
    for call, expected in calls:
        with pytest.raises(FedfloorError) as refused:
            call()
        assert expected in str(refused.value)


def test_a_round_of_a_run_in_memory_is_decided_as_from_its_folder(tmp_path: Path) -> None:
    kept = fedfloor.simulate("quick", "random", rounds=3)
    fedfloor.simulate("quick", "random", rounds=3, out=tmp_path / "run")
    one, other = (fedfloor.plan(source, round=2) for source in (kept, tmp_path / "run"))
    assert {**one, "solve_s": 0} == {**other, "solve_s": 0}
