"""The strategy: a policy decides each round of a Flower run which nodes take part, on a simulated plant."""

__all__ = ["FedFloor"]

from collections.abc import Iterable, Sequence
from dataclasses import replace
from logging import INFO, WARNING
from pathlib import Path
from typing import NoReturn

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from fedfloor.arguments import checked, class_problem, path_or_none, refuse_other
from fedfloor.errors import FedfloorError, PolicyError, RunLogError, ScenarioError, counted, shown
from fedfloor.flower.describing import model_remarks
from fedfloor.flower.errors import logged_errors
from fedfloor.flower.evaluating import MetricKeys
from fedfloor.flower.memory import layers_of
from fedfloor.flower.nodes import FloorNodes
from fedfloor.flower.plant import Evaluate, FlowerExchange, FlowerPlant, refuse_arrays, refuse_sampling
from fedfloor.rounds.listeners.stop import Until
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import result_of_test
from fedfloor.runs.about import About
from fedfloor.runs.copies import copies_of, folder_toml
from fedfloor.runs.driving import claimed_folder, drive, earlier_rounds
from fedfloor.runs.options import RunOptions
from fedfloor.runs.planned import (
    PlannedRun,
    ScenarioSource,
    as_begun,
    label_of,
    planned_run,
    refuse_unnamed,
    with_every_checkpoint,
)
from fedfloor.scenario import Scenario
from fedfloor.scheduling.objects import PolicySource
from fedfloor.scheduling.traits import needs_sample_losses, needs_training


class FedFloor(Strategy):
    """Wraps a Flower strategy: a fedfloor policy decides which nodes train, and a scenario says what that costs.

    The wrapped strategy still makes the messages, aggregates the replies and configures evaluations. Weather, delays,
    energy, queues and the clock are those of `fedfloor simulate` with the same scenario, seed and policy.

    Parameters
    ----------
    strategy
        Any strategy of Flower's message API that trains all nodes of its grid, such as `FedAvg()`.
    scenario
        A TOML file, the name of a preset, a dict, or what `fedfloor.load` returns. Its floors are the nodes: floor i is
        `partition-id` i in the simulation runtime, and a SuperNode is the floor whose name it was registered with.
    policy
        `NAME[:key=value,...]` or an object such as `Ddsra(v=1)`; the scenario's own if left out.
    seed, overrides, own
        As in `fedfloor.simulate`.
    out
        The run folder, which `fedfloor report`, `fedfloor watch` and `fedfloor plan` read; none if left out.
    resume
        Continue from the last checkpoint in `out`.
    until_accuracy, until_clock, until_loss
        End the run before its last round once an evaluation reaches an accuracy or a loss, or after so many simulated
        seconds.
    train_loss_key, accuracy_key, loss_key
        Keys of the metrics to be logged: in the replies of nodes that have trained, and in evaluations, which are those
        of `evaluate_fn` if there is one. Left out, those of Flower's quickstarts: `train_loss`; `accuracy` or
        `eval_acc`; `loss` or `eval_loss`.
    check_replies
        Count a floor as lost if its reply lacks the arrays that it was sent, by name and shape, or has other metrics
        than most replies. Pass False for a strategy that expects other replies. Numbers that would spoil the
        model, such as nan, are refused in any case.
    """

    @logged_errors()
    @checked
    def __init__(
        self,
        strategy: Strategy,
        scenario: ScenarioSource,
        policy: PolicySource | None = None,
        *,
        seed: int | None = None,
        overrides: Sequence[str] = (),
        own: bool = False,
        out: str | Path | None = None,
        resume: bool = False,
        until_accuracy: float | None = None,
        until_clock: float | None = None,
        until_loss: float | None = None,
        train_loss_key: str | None = None,
        accuracy_key: str | None = None,
        loss_key: str | None = None,
        check_replies: bool = True,
    ) -> None:
        _refuse_strategy(strategy)
        if resume and out is None:
            raise RunLogError("resume: needs the run folder. Pass out=FOLDER")
        self.strategy, self.scenario, self.policy = strategy, scenario, policy
        self.seed, self.overrides, self.own = seed, tuple(overrides), own
        self.out, self.check_replies = path_or_none(out), check_replies
        self.options = RunOptions(
            resume=resume, until_accuracy=until_accuracy, until_clock=until_clock, until_loss=until_loss
        )
        self.keys = MetricKeys(
            train_loss=("train_loss",) if train_loss_key is None else (train_loss_key,),
            accuracy=("accuracy", "eval_acc") if accuracy_key is None else (accuracy_key,),
            loss=("loss", "eval_loss") if loss_key is None else (loss_key,),
            awaited=tuple(
                name for name, end in (("accuracy", until_accuracy), ("loss", until_loss)) if end is not None
            ),
        )

    @logged_errors()
    @checked
    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run the rounds, as `start` of any Flower strategy does, and return the same kind of result.

        The result has the metrics of the rounds that this call ran. Wrong input is logged in one line and raised.
        """
        refuse_other("grid", grid, Grid, "Pass on the grid that main of your ServerApp is given")
        refuse_other("initial_arrays", initial_arrays, ArrayRecord, "Write ArrayRecord(network.state_dict())")
        for name, config in (("train_config", train_config), ("evaluate_config", evaluate_config)):
            if config is not None:
                refuse_other(name, config, ConfigRecord, "Write ConfigRecord({...})")
        refuse_arrays(initial_arrays)
        self._refuse_useless_end(evaluate_fn)
        planned = self._planned(num_rounds)
        names = [floor.name for floor in planned.scenario.floors]
        nodes = FloorNodes(grid, names, label_of(self.scenario), timeout)
        nodes.wait_for_all()
        exchange = FlowerExchange(
            nodes=nodes,
            timeout=timeout,
            train_config=ConfigRecord() if train_config is None else train_config,
            evaluate_config=ConfigRecord() if evaluate_config is None else evaluate_config,
            evaluate_fn=evaluate_fn,
        )
        return self._run(planned if nodes.are_simulated else with_every_checkpoint(planned), exchange, initial_arrays)

    def _refuse_useless_end(self, evaluate_fn: Evaluate | None) -> None:
        """Refuse to wait for a metric if nobody evaluates."""
        shares = [getattr(layer, "fraction_evaluate", None) for layer in layers_of(self.strategy)]
        if self.keys.awaited and evaluate_fn is None and 0.0 in shares:
            problem = f"until_{self.keys.awaited[0]}: nobody evaluates, so no metric can reach it"
            raise FedfloorError(f"{problem}. Pass evaluate_fn to start, or set fraction_evaluate above 0")

    def _planned(self, rounds: int) -> PlannedRun:
        """The run, checked before anything is sent or written."""
        planned = planned_run(
            self.scenario,
            self.policy,
            rounds,
            seed=self.seed,
            overrides=self.overrides,
            own=self.own,
            losses=True,
        )
        label, extra = label_of(self.scenario), planned.scenario.training.extra_iterations
        if needs_sample_losses(planned.scheduler):
            problem = "needs the losses of single samples, which replies of nodes do not have"
            raise PolicyError(f"policy {shown(str(planned.policy))}: {problem}. Choose another policy")
        if extra > 0:
            problem = f"training.extra_iterations: must be 0 with Flower, got {extra}"
            raise ScenarioError(
                f"{label}: {problem}, because a ClientApp decides itself how long it trains. Leave it out"
            )
        if self.options.resume and self.out is not None:
            refuse_unnamed(planned)
            planned = as_begun(planned, self.out)
        return replace(planned, folder=self.out)

    def _run(self, planned: PlannedRun, exchange: FlowerExchange, arrays: ArrayRecord) -> Result:
        scenario, options = planned.scenario, self.options
        self._describe(planned)
        for remark in model_remarks(arrays, scenario):
            log(WARNING, "fedfloor: %s", remark)
        with claimed_folder(planned, checkpoints=True, resume=options.resume) as folder:
            text = folder_toml(planned.file, scenario)
            earlier = earlier_rounds(planned, text) if options.resume else None
            losses = needs_training(planned.scheduler)
            plant = FlowerPlant(
                scenario,
                self.strategy,
                exchange,
                self.keys,
                arrays,
                needs_losses=losses,
                must_match=self.check_replies,
            )
            if earlier is None:
                if options.resume:
                    log(WARNING, "fedfloor: %s has no checkpoint yet, so the run starts again", planned.folder)
                plant.evaluate_centrally(0)
            else:
                earlier.checkpoint.restore(plant)
                log(INFO, "fedfloor: resumed after %s", counted(plant.index, "round"))
            if folder is not None:
                for name in plant.forgets:
                    log(WARNING, "fedfloor: checkpoints do not keep %s of the strategy", name)
                folder.begin(text, plant.index, copies=copies_of(scenario), about=self._about(exchange))
            until = Until.of(options)
            missing = set(self.keys.awaited)
            for record in () if earlier is None else earlier.records:
                missing &= self.keys.missing_in(record)
            for ended in drive(plant, planned, folder, earlier=earlier, until=until):
                missing &= self.keys.missing_in(ended.record)
                _show(ended.record, scenario)
            for remark in self.keys.absence_remarks(sorted(missing), plant.index):
                log(WARNING, "fedfloor: %s", remark)
        if planned.folder is not None:
            log(INFO, "fedfloor: next: fedfloor report %s", planned.folder.absolute())
        return plant.result

    def _about(self, exchange: FlowerExchange) -> About:
        """What a report needs to know of the run that scenario and log do not say."""
        names = [type(layer).__name__ for layer in layers_of(self.strategy)]
        name = "(".join(names) + ")" * (len(names) - 1)  # one that wraps another is written like a call
        return About(strategy=name, tests="nodes" if exchange.evaluate_fn is None else None)

    def _describe(self, planned: PlannedRun) -> None:
        """Say what is going to happen, in the form of Flower's own strategies."""
        scenario = planned.scenario
        log(INFO, "Starting FedFloor strategy around %s:", type(self.strategy).__name__)
        log(INFO, "\t├── Scenario: %s, %d floors, seed %d", scenario.name, len(scenario.floors), scenario.seed)
        log(INFO, "\t├── Policy: %s", planned.label)
        log(INFO, "\t├── Number of rounds: %d", scenario.rounds)
        log(INFO, "\t├── Run folder: %s", "(none)" if planned.folder is None else planned.folder.absolute())
        self.summary()
        if planned.first_delay:
            log(INFO, "fedfloor: the first round takes longer: %s", planned.first_delay)
        for layer in layers_of(self.strategy):
            if type(layer).start is not Strategy.start:
                log(WARNING, "fedfloor: start of %s is not called: FedFloor runs the rounds", type(layer).__name__)

    def summary(self) -> None:
        """Log the settings of the wrapped strategy."""
        self.strategy.summary()

    def configure_train(
        self,
        server_round: int,  # noqa: ARG002
        arrays: ArrayRecord,  # noqa: ARG002
        config: ConfigRecord,  # noqa: ARG002
        grid: Grid,  # noqa: ARG002
    ) -> Iterable[Message]:
        """Refused: see `start`."""
        _refuse_outer()

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002
        replies: Iterable[Message],  # noqa: ARG002
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Refused: see `start`."""
        _refuse_outer()

    def configure_evaluate(
        self,
        server_round: int,  # noqa: ARG002
        arrays: ArrayRecord,  # noqa: ARG002
        config: ConfigRecord,  # noqa: ARG002
        grid: Grid,  # noqa: ARG002
    ) -> Iterable[Message]:
        """Refused: see `start`."""
        _refuse_outer()

    def aggregate_evaluate(
        self,
        server_round: int,  # noqa: ARG002
        replies: Iterable[Message],  # noqa: ARG002
    ) -> MetricRecord | None:
        """Refused: see `start`."""
        _refuse_outer()


def _refuse_strategy(strategy: object) -> None:
    """Refuse what is no strategy that can be wrapped."""
    advice = "Wrap one of flwr.serverapp.strategy, such as FedAvg()"
    if isinstance(strategy, type):
        raise FedfloorError(f"strategy: {class_problem(strategy)}")
    if any(kind.__module__.startswith("flwr.server.strategy") for kind in type(strategy).__mro__):
        problem = f"strategy: {type(strategy).__name__} is a strategy of Flower's older API, flwr.server.strategy"
        raise FedfloorError(f"{problem}. {advice}, in a ServerApp with @app.main()")
    refuse_other("strategy", strategy, Strategy, advice)
    assert isinstance(strategy, Strategy)
    if isinstance(strategy, FedFloor):
        raise FedfloorError("strategy: is a FedFloor already. Wrap the strategy that is in it")
    refuse_sampling(strategy)


def _refuse_outer() -> NoReturn:
    """Rounds are those of our loop, so no other strategy can call the steps of one."""
    problem = "FedFloor: runs its rounds itself and cannot be wrapped by another strategy"
    raise FedfloorError(f"{problem}. Wrap the other strategy in it instead: FedFloor(other, scenario)")


def _show(record: RoundRecord, scenario: Scenario) -> None:
    """Log a round, counted from 0 as in all our files, in one line."""
    names = [floor.name for floor in record.gateways if floor.completed]
    failed = [f"{floor.name} ({floor.failure})" for floor in record.gateways if floor.failure]
    energy = sum(floor.floor_energy for floor in record.gateways)
    costs = f"{record.delay:.1f} s, {energy:.3g} J, clock {record.clock:.1f} s"
    chosen = any(floor.selected for floor in record.gateways)
    nobody = "nobody, because all chosen floors failed" if chosen else "nobody, because the policy chose no floor"
    parts = [f"trained {', '.join(names) or nobody}", *([f"failed {', '.join(failed)}"] if failed else []), costs]
    tested = result_of_test(record, predicts_numbers=scenario.training.predicts_numbers)
    said = "; ".join([*parts, *([tested] if tested else [])])
    log(INFO, "fedfloor: round %d (%d of %d done): %s", record.round, record.round + 1, scenario.rounds, said)
