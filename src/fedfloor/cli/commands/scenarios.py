"""Commands about what there is: list, init, schema, check, profile."""

__all__ = ["check", "init", "list_", "profile", "schema"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.options import (
    CostModel,
    DataDirOption,
    Format,
    FormatOption,
    ProfileFormat,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
)
from fedfloor.errors import FedfloorError


@app.command("list")
def list_(form: FormatOption = Format.TABLE) -> None:
    """Show presets, policies, models, data sets and cost models.

    Example:  fedfloor list --format json
    """
    from fedfloor.cli.show import print_json, print_listing
    from fedfloor.scenario import preset_names, preset_summary
    from fedfloor.scenario.catalogue import COST_MODELS, DATASETS, NETWORKS
    from fedfloor.scheduling.registry import policy_summaries

    groups = {
        "presets": {name: preset_summary(name) for name in preset_names()},
        "policies": policy_summaries(),
        "models": {name: facts.summary for name, facts in NETWORKS.items()},
        "data sets": {name: facts.summary for name, facts in DATASETS.items()},
        "cost models": dict(COST_MODELS),
    }
    print_json(groups) if form is Format.JSON else print_listing(groups)


@app.command()
def init(file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; must not exist yet.")]) -> None:
    """Write a commented scenario to start from.

    Example:  fedfloor init plant.toml
    """
    from fedfloor.scenario import starter

    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(starter())
    except FileExistsError:
        raise FedfloorError(f"{file}: exists already. Name another file, or remove it") from None
    except OSError as error:
        raise FedfloorError(f"{file}: cannot be written: {error.strerror}. Name another place") from None
    print(f"wrote {file}; next: fedfloor check {file}")


@app.command()
def schema() -> None:
    """Print the JSON schema of a scenario, for editors that complete and check TOML.

    Example:  fedfloor schema > scenario.schema.json
    """
    from fedfloor.cli.show import print_json
    from fedfloor.scenario import ScenarioFile

    print_json(ScenarioFile.model_json_schema())


@app.command()
def check(
    scenario: ScenarioArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    data_dir: DataDirOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Validate a scenario and show what it resolves to.

    Example:  fedfloor check paper-cifar10 --set radio.channels=2
    """
    from dataclasses import asdict

    from fedfloor.api import load, shortage
    from fedfloor.cli.show import print_check, print_json, print_short
    from fedfloor.costs.headline import headline
    from fedfloor.scheduling.registry import PolicySpec, make_policy
    from fedfloor.weather.draws import climate_of

    plant = load(scenario, overrides or (), seed=seed)
    climate_of(plant)  # reads the traces, so that their mistakes show here
    make_policy(PolicySpec(plant.policy.name, tuple(plant.policy.settings.items())))
    summary, short = headline(plant), shortage(plant, data_dir)
    if form is Format.JSON:
        print_json({"scenario": plant.model_dump(mode="json"), "figures": asdict(summary), "shortage": short})
    else:
        print_check(plant, summary)
        print_short(short)


@app.command()
def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="vgg11, cnn, mlp, or package.module:callable.")],
    shape: Annotated[
        str | None, typer.Option("--input", metavar="C,H,W", help="Shape of one sample; what the model is made for.")
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=10**9, help="Samples in a batch, for the totals per cut.")
    ] = 50,
    costs: Annotated[CostModel, typer.Option("--costs", help="How to count.")] = CostModel.EXACT,
    overrides: SetOption = None,
    form: Annotated[
        ProfileFormat, typer.Option("--format", help="Table, JSON, or the TOML layer list of a scenario.")
    ] = ProfileFormat.TABLE,
) -> None:
    """Show FLOPs and bytes of every layer, and the totals for every cut. Needs the extra 'train'.

    Example:  fedfloor profile vgg11 --batch 50 --costs paper --set model.head=4096-4096
    """
    from fedfloor.cli.show import print_json, print_profile
    from fedfloor.runs import profile as profiling

    network = profiling.profile(model, shape, batch=batch, costs=costs.value, overrides=overrides or ())
    if form is ProfileFormat.JSON:
        print_json(network.table())
    elif form is ProfileFormat.TOML:
        print(profiling.layers_toml(network.layers))
    else:
        print_profile(network)
