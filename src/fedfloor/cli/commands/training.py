"""Commands about learning: run, evaluate, compare."""

__all__ = ["compare", "evaluate", "run", "what_is_left"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.options import (
    DataDirOption,
    Device,
    Engine,
    EngineOption,
    Format,
    FormatOption,
    OutOption,
    PoliciesOption,
    QuietOption,
    RayAddressOption,
    RoundsOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
    first_time,
)
from fedfloor.errors import StoppedRunError


@app.command()
def run(
    scenario: ScenarioArgument,
    policies: PoliciesOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint of the run folder.")] = False,
    until_accuracy: Annotated[
        float | None,
        typer.Option("--until-accuracy", metavar="A", min=0, max=1, help="End when an evaluation reaches it."),
    ] = None,
    until_clock: Annotated[
        float | None,
        typer.Option("--until-clock", metavar="SECONDS", min=0, help="End when so much simulated time has passed."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, max=256, help="Training processes; one per core if left out. The result is the same."
        ),
    ] = None,
    device: Annotated[Device, typer.Option("--device", help="Where tensors live.")] = Device.CPU,
    engine: EngineOption = Engine.LOCAL,
    ray_address: RayAddressOption = None,
    data_dir: DataDirOption = None,
    loggers: Annotated[
        list[str] | None,
        typer.Option(
            "--logger",
            metavar="NAME",
            help="Also show every round in tensorboard or mlflow; repeatable. Each needs the extra of its name.",
        ),
    ] = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Train: rounds of scheduling and real split learning on the simulated network. Needs the extra 'train'.

    Example:  fedfloor run quick --policy ddsra:v=1 --policy random --out runs/first
    """
    from statistics import median

    from fedfloor import api
    from fedfloor.cli import show as console
    from fedfloor.rounds.summary import summarise
    from fedfloor.scheduling.registry import short_name

    chosen: list[str | None] = list(policies or ()) or [None]
    planned = [
        api.prepare(scenario, policy, rounds, seed=seed, overrides=overrides or (), training=True) for policy in chosen
    ]
    folders = api.run_folders(planned, out, resume=resume)
    runs = []
    for prepared, folder in zip(planned, folders, strict=True):
        label, total, note = short_name(prepared.policy), prepared.scenario.rounds, first_time(str(prepared.policy))
        with console.training(label, total, folder, quiet=quiet, note=note) as view:
            try:
                done = api.carry_out_training(
                    prepared,
                    folder,
                    resume=resume,
                    until_accuracy=until_accuracy,
                    until_clock=until_clock,
                    workers=workers,
                    device=device.value,
                    engine=engine.value,
                    ray_address=ray_address,
                    data_dir=data_dir,
                    loggers=loggers or (),
                    on_event=view.show,
                )
            except KeyboardInterrupt:
                raise StoppedRunError(what_is_left(folder, view.done)) from None
            runs.append(done)
    summaries = [summarise(done.records) for done in runs]
    seconds = [median(entry["solve_s"] for entry in done.timings) if done.timings else None for done in runs]
    if form is Format.JSON:
        entries = zip(summaries, seconds, folders, runs, strict=True)
        console.print_json([console.as_json(*entry) for entry in entries])
    else:
        console.print_training(summaries, seconds, [str(folder) for folder in folders], runs)


def what_is_left(folder: Path, done: int) -> str:
    """What became of a run that was stopped after so many rounds, and how it goes on."""
    from fedfloor.runs.folder import checkpoint_round

    kept = checkpoint_round(folder)
    if kept is not None:
        after = f"stopped after round {max(done, kept)}, checkpoint at round {kept} in {folder}"
        return f"{after}; go on with the same command and --resume"
    if done:
        return f"stopped after round {done}, no checkpoint in {folder} yet; --resume starts anew there"
    return "stopped before the first round ended; nothing is left of it"


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run.")],
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Also write the model, as safetensors.")
    ] = None,
    data_dir: DataDirOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Test the model of a run's last checkpoint: accuracy and who is taken for whom. Needs the extra 'train'.

    Example:  fedfloor evaluate runs/demo --export model.safetensors
    """
    from fedfloor import api
    from fedfloor.cli import show as console

    found = api.evaluate(folder, export=export, data_dir=data_dir)
    console.print_json(found) if form is Format.JSON else console.print_evaluation(found)


@app.command()
def compare(
    scenario: ScenarioArgument,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Who decides; repeatable. The scenario's own, random, round_robin, loss_driven and delay_driven if "
            "left out; settings left out are the policy's defaults, as ddsra's v=1000, not the scenario's.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each policy, from --seed upwards.")] = 3,
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where every run gets a folder; default runs/compare-SCENARIO."),
    ] = None,
    engine: EngineOption = Engine.LOCAL,
    ray_address: RayAddressOption = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, max=4096, help="Runs at the same time; one per core if left out."),
    ] = None,
    data_dir: DataDirOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Train several policies x seeds on the same weather, data and first weights, then write one report.

    The same command again goes on where it stopped. Needs the extras 'train' and 'report'.

    Example:  fedfloor compare quick --policy ddsra:v=1 --policy random --seeds 2
    """
    from fedfloor.cli.show import print_json
    from fedfloor.cli.show.comparisons import comparing
    from fedfloor.cli.show.reports import print_problems, print_report
    from fedfloor.errors import FailedRunError, FedfloorError
    from fedfloor.runs.compare import compare as compare_policies

    with comparing(quiet=quiet, note=next(filter(None, map(first_time, policies or ["ddsra"])), "")) as watch:
        try:
            done = compare_policies(
                scenario,
                policies or (),
                seeds,
                rounds,
                seed=seed,
                overrides=overrides or (),
                out=out,
                engine=engine.value,
                ray_address=ray_address,
                workers=workers,
                data_dir=data_dir,
                watch=watch,
            )
        except KeyboardInterrupt:
            raise StoppedRunError("the same command again goes on from the last checkpoints") from None
    if done.report is not None:
        print_problems(done.report)
        print_json(done.report.as_json()) if form is Format.JSON else print_report(done.report)
    if done.failed:
        name, reason = next(iter(done.failed.items()))
        more = f" and {len(done.failed) - 1} more" if len(done.failed) > 1 else ""
        wrong = all(isinstance(error, FedfloorError) for error in done.failed.values())
        told = f"{done.folder / name}{more}: {str(reason).rstrip('.')}"
        raise FedfloorError(told) if wrong else FailedRunError(f"{told}. The same command again tries once more")
