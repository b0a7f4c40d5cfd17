"""`fedfloor evaluate`: the model of a run's last checkpoint on its test set."""

__all__ = ["Evaluation", "evaluate_run"]

from pathlib import Path
from typing import NotRequired, TypedDict

from fedfloor.errors import RunLogError
from fedfloor.rounds.plants.global_model import GlobalModel
from fedfloor.rounds.summary import root_mean_square
from fedfloor.runs.driving import checkpoint_of
from fedfloor.runs.export import export_model, facts_of, refuse_export
from fedfloor.runs.folder import SCENARIO, refuse_collection, scenario_of
from fedfloor.runs.train import fingerprint, job_of, scaled_as
from fedfloor.runs.trust import refuse_code
from fedfloor.training.aggregation.rules.mean import Mean
from fedfloor.training.data.holding import gather
from fedfloor.training.work import undisturbed
from fedfloor.workers.engine import engine_for


class Evaluation(TypedDict):
    """A run's last checkpoint on its test set, as `fedfloor evaluate --format json` prints it."""

    run: str
    rounds: int  #: of the checkpoint
    data: str  #: where the data comes from
    same_data: bool  #: whether it is the data that the run was trained on
    samples: int
    accuracy: float | None  #: null if numbers are predicted
    error: NotRequired[float]  #: root mean square error, if numbers are predicted
    loss: float  #: mean
    confusion: list[list[int]] | None  #: (C, C) true, predicted; null if numbers are predicted
    exported: str | None


@undisturbed()
def evaluate_run(
    run: Path, *, data_dir: Path | None = None, export: Path | None = None, own: bool = False
) -> Evaluation:
    """Test the model of a run's last checkpoint, with inputs scaled as in training; write it to a file if asked.

    `own` allows the run folder to name the code of its model and its data, which is called.
    """
    if export is not None:
        refuse_export(export, run)
    refuse_collection(run)
    checkpoint = checkpoint_of(run)
    if checkpoint is None:
        raise RunLogError(f"{run}: has no checkpoint, so there is no model. Name the folder of a training run")
    scenario = scenario_of(run)
    refuse_code(scenario, "model", "data", file=run / SCENARIO, own=own)
    holding = gather(scenario, data_dir)
    samples = scaled_as(holding.samples, checkpoint)
    with engine_for(job_of(holding.scenario, "cpu"), samples, 1) as engine:
        model = GlobalModel(holding.scenario, engine, Mean(), feedback=False)  # which makes no step
        try:
            model.load(checkpoint.state)
        except ValueError as error:
            raise checkpoint.misfit(error) from None
        confusion, loss = model.evaluate()
        weights = engine.work.layout.named(model.served)
    if export is not None:
        facts = facts_of(scenario.model, samples.mean, samples.deviation, scenario.training.task)
        export_model(export, weights, facts)
    evaluation: Evaluation = {
        "run": str(run),
        "rounds": checkpoint.round,
        "data": holding.origin,
        "same_data": checkpoint.origin.data == fingerprint(holding.samples),
        "samples": int(samples.test_labels.size),
        "accuracy": None if confusion is None else float(confusion.trace() / confusion.sum()),
        "loss": loss,
        "confusion": None if confusion is None else confusion.tolist(),
        "exported": None if export is None else str(export),
    }
    if confusion is None:
        evaluation["error"] = root_mean_square(loss)
    return evaluation
