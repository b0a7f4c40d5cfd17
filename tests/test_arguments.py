"""Whatever Python passes to a public function, it ends in a result or in one of our errors."""

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import fedfloor
from fedfloor import api
from fedfloor import flower as fedfloor_flower
from fedfloor.arguments import CHECKS, checked
from fedfloor.errors import ArgumentError, FailedRunError, FedfloorError
from fedfloor.runs.options import CompareOptions, RunOptions, declared_options
from tests.runs.test_plan import EXAMPLE

FUNCTIONS = {name: getattr(api, name) for name in api.__all__ if inspect.isfunction(getattr(api, name))}
#: arguments that functions look at themselves
BY_HAND = {"scenario", "run", "runs", "snapshot", "source", "planned", "watch", "options", "seeds", "settings"}
#: arguments that only `fedfloor.flower.FedFloor` and its `start` have, of those that the table lists
FLOWER = {"num_rounds", "timeout", "evaluate_fn", "train_loss_key", "accuracy_key", "loss_key", "check_replies"}
#: valid values, for arguments that have no default
GIVEN: dict[str, object] = {
    "scenario": "nowhere.toml",
    "planned": None,
    "policies": ["random"],
    "rounds": 1,
    "seed": 1,
    "overrides": [],
    "own": False,
    "out": None,
    "options": CompareOptions(),
    "folder": "nowhere",
    "run": "nowhere",
    "runs": "nowhere",
    "path": "nowhere",
    "source": "nowhere",
    "snapshot": "nowhere",
    "model": "cnn",
    "name": "nowhere",
    "role": "device",
    "profiles": ["nowhere.json"],
    "settings": {"radio.channels": [1]},
}
ANY, API = cast("tuple[Any, Any]", (fedfloor, api))  #: without types, which forbid what is tried here
LONG = 10**5000
BAD: tuple[Any, ...] = (
    5, -1, True, 1.5, math.nan, LONG, -LONG, 1j, "x", "", "\0", "x" * 300, "\ud800", b"x", [5], [None], [[]], [LONG],
    {}, {"x": LONG}, {5}, object(), Path("x" * 300), np.arange(3), np.float64(2.0), (value for value in "ab"),
)  # fmt: skip


def table() -> Iterator[Any]:
    """Every argument of every function, with every bad value."""
    for name, function in FUNCTIONS.items():
        for argument, parameter in inspect.signature(function).parameters.items():
            names = [argument]
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                names = [entry for entry, _, _ in declared_options(RunOptions if name == "run" else CompareOptions)]
            yield from (pytest.param(function, entry, id=f"{name}-{entry}") for entry in dict.fromkeys(names))


@pytest.mark.parametrize(("function", "argument"), [*table()])
def test_a_bad_argument_ends_in_our_error(
    function: Callable[..., object], argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    needed = [entry for entry in inspect.signature(function).parameters.values() if entry.default is entry.empty]
    arguments = {entry.name: GIVEN[entry.name] for entry in needed if entry.kind is not entry.VAR_KEYWORD}
    messages = []
    for bad in BAD:
        try:
            function(**{**arguments, argument: bad})
        except (FedfloorError, FailedRunError) as error:
            messages.append(str(error))
    assert len(messages) > len(BAD) / 2
    assert max(map(len, messages)) < 1000
    assert "".join(messages).isprintable()
    assert list(tmp_path.iterdir()) == []


def test_arguments_of_the_strategy_for_flower_are_its_own() -> None:
    strategy = pytest.importorskip("flwr") and fedfloor_flower.FedFloor
    assert {*inspect.signature(strategy).parameters, *inspect.signature(strategy.start).parameters} >= FLOWER


def test_every_argument_is_checked_somewhere() -> None:
    names = {name for function in FUNCTIONS.values() for name in inspect.signature(function).parameters}
    assert names.isdisjoint(FLOWER)
    assert names | FLOWER == {*CHECKS, *BY_HAND}
    assert all(hasattr(function, "__wrapped__") or not inspect.signature(function).parameters
               for function in FUNCTIONS.values())  # fmt: skip


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: ANY.simulate("quick", rounds="3"), "rounds: must be a whole number, got '3'"),
        (lambda: ANY.simulate("quick", rounds=True), "rounds: must be a whole number, got True"),
        (lambda: ANY.simulate("quick", seed=LONG), "seed: must be a whole number, got a number that is too long"),
        (lambda: ANY.simulate("quick", seed=-1), "quick: seed: must be >= 0, got -1"),
        (lambda: ANY.simulate("quick", own="no"), "own: must be True or False, got 'no'"),
        (lambda: ANY.simulate("quick", on_round=3), "on_round: must be a function, got 3"),
        (lambda: ANY.simulate("quick", out="x" * 300), "out: must be a path that can exist, got 'xx"),
        (lambda: ANY.run("quick", loggers=5), "loggers: must be a list of names, got 5"),
        (lambda: ANY.run("quick", loggers=[[]]), r"loggers: must be a list of names, got [[]]"),
        (lambda: ANY.run("quick", workers=LONG), "workers: must be a whole number from 1 to 256, got a number"),
        (lambda: ANY.run("quick", data_dir=5), "data_dir: must be a string or a Path, got 5"),
        (
            lambda: ANY.compare("quick", [None]),
            "policies: must be NAME[:key=value,...] or an object with schedule(state)",
        ),
        (
            lambda: ANY.compare("quick", "random"),
            "policies: must be a list of policies, got a string. Write ['random']",
        ),
        (lambda: ANY.compare("quick", seeds=LONG), "seeds: must be a whole number from 1 to 1000, got a number"),
        (lambda: ANY.plan(EXAMPLE, round=1.5), "round: must be a whole number, got 1.5"),
        (lambda: ANY.report(None), "runs: must be run folders, or runs that have one, got None"),
        (lambda: ANY.tradeoff(5), "scenario: must be a path or a preset's name, a dict or a Scenario, got 5"),
        (lambda: ANY.profile(batch=5), "profile: must be given either a model or a scenario"),
        (lambda: ANY.compare("quick", progress=1), "progress: must be True or False, got 1"),
        (lambda: API.profile("cnn", batch=LONG), "batch: must be a whole number from 1 to 1,000,000,000, got a number"),
        (lambda: API.profile("cnn", costs="cheap"), "costs: unknown cost model, got 'cheap'. Known: exact, paper."),
        (lambda: API.fetch_data(5), "name: must be a string, got 5"),
        (lambda: API.measure("cnn", batches=[0]), "batches: must be a list of whole numbers from 1 to 1,000,000,000"),
        (lambda: API.measure("cnn", frequency=0), "frequency: must be a number of hertz > 0, got 0"),
        (lambda: API.measure("cnn", power=5), "power: must be watts as text, a file or 'rapl', got 5"),
        (lambda: API.compare_profiles("cnn", "a.json"), "profiles: must be a list of paths, got 'a.json'"),
        (lambda: API.compare_profiles("cnn", ["\0"]), "profiles: must be a path that can exist, got"),
    ],
)
def test_the_message_names_argument_and_value(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(FedfloorError) as caught:
        call()
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000, "1e999", "nan", "1" * 4000])
def test_no_number_in_text_is_too_long(text: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: fedfloor.simulate("quick", f"ddsra:v={text}", rounds=1),
        lambda: fedfloor.simulate("quick", rounds=1, overrides=[f"policy.settings={{v={text}}}"]),
        lambda: fedfloor.simulate("quick", rounds=1, overrides=[f"seed={text}"]),
        lambda: fedfloor.simulate("quick", rounds=1, overrides=[f"floors.0.gateway.memory_gb={text}"]),
        lambda: fedfloor.simulate("quick", rounds=1, overrides=[f"floors.{text}.gateway.memory_gb=1"]),
        lambda: fedfloor.simulate("quick", rounds=1, overrides=[f"training.learning_rate={text}"]),
        lambda: fedfloor.plan(EXAMPLE, f"ddsra:v={text}"),
        lambda: api.profile("cnn", f"1,{text},28"),
    ]
    messages = []
    for call in calls:
        try:
            call()
        except FedfloorError as error:
            messages.append(str(error))
    assert len(messages) > 2
    assert max(map(len, messages)) < 1000


def replaced(value: Any, bad: object) -> Iterator[Any]:
    """The value with one entry after the other replaced by a bad one, and with a bad key in every table."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        for changed in (bad, *replaced(entry, bad)):
            other = copy.copy(value)
            other[key] = changed
            yield other
    if isinstance(value, dict):
        yield {**value, 5: 1}
        yield {**value, None: 1}


@pytest.mark.parametrize("bad", [LONG, -LONG, True, math.nan, math.inf, "x", b"x", object(), [LONG], {5: 5}], ids=type)
def test_whatever_a_snapshot_in_python_holds_it_is_decided_or_refused(bad: object) -> None:
    refused = 0
    for changed in replaced(EXAMPLE, bad):
        try:
            fedfloor.plan(changed, "random")
        except FedfloorError:
            refused += 1
    assert refused > 10


def test_numbers_of_numpy_are_whole_numbers() -> None:
    run = fedfloor.simulate("quick", "random", rounds=np.int64(2), seed=np.uint8(3))  # type: ignore[arg-type]
    assert (run.summary.rounds, run.scenario.seed) == (2, 3)


def test_a_checked_function_keeps_its_name_signature_and_answer() -> None:
    @checked
    def doubled(rounds: int, *, own: bool = False) -> int:
        """Twice the rounds."""
        return 2 * rounds

    assert (doubled(3), doubled.__name__, doubled.__doc__) == (6, "doubled", "Twice the rounds.")
    assert str(inspect.signature(doubled)) == "(rounds: int, *, own: bool = False) -> int"
    with pytest.raises(TypeError, match="rounds"):
        doubled()  # type: ignore[call-arg]


def test_for_an_argument_that_there_is_not_the_nearest_is_suggested() -> None:
    with pytest.raises(ArgumentError, match=r"^simulate: has no argument 'polcy'\. Did you mean 'policy'\?$"):
        fedfloor.simulate("quick", polcy="random")  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match=r"^simulate: missing a required argument: 'scenario'$"):
        fedfloor.simulate()  # type: ignore[call-arg]
