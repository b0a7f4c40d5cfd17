"""Commands about decisions: simulate, plan, tradeoff."""

__all__ = ["plan", "simulate", "tradeoff"]

from pathlib import Path
from typing import Annotated, Any

import typer

from fedfloor.cli.options import (
    Format,
    FormatOption,
    OutOption,
    PoliciesOption,
    QuietOption,
    RoundsOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
    first_time,
)


@app.command()
def simulate(
    scenario: ScenarioArgument,
    policies: PoliciesOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Run rounds of scheduling on the simulated network, without training.

    Example:  fedfloor simulate quick --policy random --policy round_robin --rounds 200
    """
    from statistics import median

    from fedfloor import api
    from fedfloor.cli import show as console
    from fedfloor.rounds.summary import summarise
    from fedfloor.scheduling.registry import short_name

    runs = []
    chosen: list[str | None] = list(policies or ()) or [None]
    planned = [api.prepare(scenario, policy, rounds, seed=seed, overrides=overrides or ()) for policy in chosen]
    folders = api.run_folders(planned, out)
    for prepared, folder in zip(planned, folders, strict=True):
        total, note = prepared.scenario.rounds, first_time(str(prepared.policy))
        with console.progress(short_name(prepared.policy), total, quiet=quiet, note=note) as (bar, task):

            def show(entry: dict[str, Any], bar: Any = bar, task: Any = task) -> None:
                bar.update(task, advance=1, note=f"clock {entry['clock_s'] or 0.0:.0f} s")

            runs.append(api.carry_out(prepared, folder, on_round=show))
    summaries = [summarise(run.records) for run in runs]
    seconds = [median(entry["solve_s"] for entry in run.timings) for run in runs]  # the first round may compile
    if form is Format.JSON:
        entries = zip(summaries, seconds, folders, strict=True)
        console.print_json([console.as_json(*entry) for entry in entries])
    else:
        console.print_simulation(summaries, seconds, [str(run.folder) for run in runs])


@app.command()
def plan(
    source: Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Snapshot file, or a run folder with --round.")],
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME[:KEY=VALUE,...]", help="Who decides; default what the round says."),
    ] = None,
    solver: Annotated[str | None, typer.Option("--solver", metavar="exact|paper", help="Solver of ddsra.")] = None,
    index: Annotated[int | None, typer.Option("--round", min=0, help="Round of a run folder, from 0.")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write the round as a snapshot.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Decide one round: who is served, on which channel, with which cuts, frequencies and powers.

    Example:  fedfloor plan runs/demo --round 17 --policy ddsra:v=10 --export round.json
    """
    from fedfloor.api import round_to_plan
    from fedfloor.cli.show import print_json, print_plan, working
    from fedfloor.runs.plan import answer, export_snapshot, policy_for

    wanted = round_to_plan(source, index)
    spec, scheduler = policy_for(wanted, policy, solver)
    with working(first_time(str(spec))):
        decided = answer(wanted, spec, scheduler)
    if export is not None:
        export_snapshot(wanted, export)
    print_json(decided) if form is Format.JSON else print_plan(decided)


@app.command()
def tradeoff(
    scenario: ScenarioArgument,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Rounds per V.")] = None,
    seed: SeedOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Measure how delay and participation trade against each other over V, beside the bounds of Theorem 2.

    Example:  fedfloor tradeoff paper-cifar10 --rounds 300
    """
    from dataclasses import asdict

    from fedfloor.api import load
    from fedfloor.cli import show as console
    from fedfloor.runs.tradeoff import STEPS, measure

    plant = load(scenario, overrides or (), seed=seed, rounds=rounds)
    total = len(STEPS) * plant.rounds
    with console.progress("V", total, quiet=quiet, note=first_time("ddsra")) as (bar, task):
        points = measure(plant, on_round=lambda: bar.update(task, advance=1, note=""))
    if form is Format.JSON:
        console.print_json([asdict(point) for point in points])
    else:
        console.print_tradeoff(plant, points)
