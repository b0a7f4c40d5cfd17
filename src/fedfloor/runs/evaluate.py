"""`fedfloor evaluate`: the model of a run's last checkpoint on its test set."""

__all__ = ["Evaluation", "evaluate_run", "model_of_run"]

from pathlib import Path

from fedfloor.errors import RunLogError, named
from fedfloor.notebooks.cards import card, html_table, number
from fedfloor.notebooks.frames import DataFrame, frame_of
from fedfloor.rounds.plants.global_model import GlobalModel, inputs_of, served_weights
from fedfloor.rounds.summary import accuracy_of, root_mean_square
from fedfloor.runs.answers import Answer
from fedfloor.runs.driving import checkpoint_of
from fedfloor.runs.export import export_model, facts_of, refuse_export
from fedfloor.runs.folder import SCENARIO, refuse_collection, scenario_of
from fedfloor.runs.train import fingerprint, job_of, scaled_as
from fedfloor.runs.trust import refuse_code
from fedfloor.training.aggregation.rules.mean import Mean
from fedfloor.training.data.holding import gather
from fedfloor.training.data.recorded import OnStep
from fedfloor.training.network.built import network_of
from fedfloor.training.network.exported import ScaledModel, scaled_model
from fedfloor.training.network.weights import Layout
from fedfloor.training.work import undisturbed
from fedfloor.workers.engine import engine_for


class Evaluation(Answer):
    """A run's last checkpoint on its test set, as `fedfloor evaluate --format json` prints it."""

    __slots__ = ()

    run: str
    rounds: int  #: of the checkpoint
    data: str  #: where the data comes from
    same_data: bool  #: whether it is the data that the run was trained on
    samples: int
    accuracy: float | None  #: null if numbers are predicted
    error: float  #: root mean square error; absent unless numbers are predicted
    loss: float  #: mean
    confusion: list[list[int]] | None  #: (C, C) true, predicted; null if numbers are predicted
    labels: list[str]  #: names of the classes by number; absent if they have none
    exported: str | None

    def to_pandas(self) -> DataFrame:
        """The confusion matrix as a data frame: rows are true classes, columns predicted ones.

        If numbers are predicted, one row with the error and the loss.
        """
        if self.confusion is None:
            return frame_of({"error": [self.error], "loss": [self.loss]})
        return frame_of({name: [row[at] for row in self.confusion] for at, name in enumerate(self.classes)})

    @property
    def classes(self) -> list[str]:
        """Names of the classes, or their numbers as texts; empty if numbers are predicted."""
        return self.get("labels") or [str(number) for number in range(len(self.confusion or ()))]

    def _repr_html_(self) -> str:
        if self.confusion is None:
            return card(f"{self.run}: error {number(self.error)} ({self.samples:,} samples), loss {number(self.loss)}")
        rows = [(f"true {name}", *row) for name, row in zip(self.classes, self.confusion, strict=True)]
        title = f"test accuracy {self.accuracy:.1%} ({self.samples:,} samples), loss {number(self.loss)}"
        return card(f"{self.run}: {title}", html_table(("", *(f"predicted {name}" for name in self.classes)), rows))


@undisturbed()
def evaluate_run(
    run: Path,
    *,
    data_dir: Path | None = None,
    export: Path | None = None,
    own: bool = False,
    on_step: OnStep = lambda _: None,
) -> Evaluation:
    """Test the model of a run's last checkpoint, with inputs scaled as in training; write it to a file if asked.

    `own` allows the run folder to name the code of its model and its data, which is called. `on_step` is told what is
    being done.
    """
    if export is not None:
        refuse_export(export, run)
    refuse_collection(run)
    checkpoint = checkpoint_of(run)
    if checkpoint is None:
        raise _no_model(run)
    scenario = scenario_of(run)
    refuse_code(scenario, "model", "data", file=run / SCENARIO, own=own)
    reading = f"reading {named(scenario.data.name)}"
    on_step(reading)
    holding = gather(scenario, data_dir, on_step=lambda step: on_step(f"{reading}: {step}"))
    samples = scaled_as(holding.samples, checkpoint)
    with engine_for(job_of(holding.scenario, "cpu"), samples, 1) as engine:
        model = GlobalModel(holding.scenario, engine, Mean(), feedback=False)  # which makes no step
        try:
            model.load(checkpoint.state)
        except ValueError as error:
            raise checkpoint.misfit(error) from None
        on_step(f"testing the model on {samples.test_labels.size:,} samples")
        confusion, loss = model.evaluate()
        weights = engine.work.layout.named(model.served)
    if export is not None:
        facts = facts_of(scenario.model, samples.mean, samples.deviation, scenario.training.task)
        export_model(export, weights, facts)
    evaluation = Evaluation(
        run=str(run),
        rounds=checkpoint.round,
        data=holding.origin,
        same_data=checkpoint.origin.data == fingerprint(holding.samples),
        samples=int(samples.test_labels.size),
        accuracy=accuracy_of(confusion),
        loss=loss,
        confusion=None if confusion is None else confusion.tolist(),
        exported=None if export is None else str(export),
    )
    if confusion is None:
        evaluation["error"] = root_mean_square(loss)
    elif holding.classes:
        evaluation["labels"] = list(holding.classes)
    return evaluation


def model_of_run(run: Path, *, own: bool = False) -> ScaledModel:
    """The network of a run's last checkpoint, with averaged weights if the scenario asks for them.

    `own` allows the run folder to name the code of its model, which is called.
    """
    refuse_collection(run)
    checkpoint = checkpoint_of(run)
    if checkpoint is None:
        raise _no_model(run)
    scenario = scenario_of(run)
    refuse_code(scenario, "model", file=run / SCENARIO, own=own)
    layout = Layout(network_of(scenario.model, scenario.seed))
    try:
        inputs = inputs_of(checkpoint.state, scenario.model.input[0])
        if inputs is None:
            raise ValueError("it does not say how inputs are scaled; use `evaluate` with export")
        weights = layout.named(served_weights(checkpoint.state, layout, scenario))
        return scaled_model(scenario.model, weights, inputs.mean, inputs.deviation)
    except ValueError as error:
        raise checkpoint.misfit(error) from None


def _no_model(run: Path) -> RunLogError:
    problem = "has no checkpoint, so there is no model" if run.exists() else "does not exist"
    return RunLogError(f"{run}: {problem}. Name the folder of a training run")
