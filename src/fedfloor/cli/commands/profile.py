"""`fedfloor profile`."""

__all__ = ["profile"]

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.completing import complete_preset
from fedfloor.cli.options import CostModel, OwnOption, ProfileFormat, QuietOption, app
from fedfloor.errors import ProfileError, shown


@app.command()
def profile(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="vgg11, cnn, mlp, or package.module:callable.")
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More hardware profiles, after --compare FILE.")
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option("--input", metavar="C,H,W", help="Shape of one sample. Default: what the built-in model expects."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="N[,N...]",
            help="Samples in a batch. Default: 50; with --costs measured 10,50 or batches of the scenario.",
        ),
    ] = None,
    costs: Annotated[
        CostModel | None,
        typer.Option("--costs", help="Count FLOPs and bytes, or measure both on this machine. Default: exact."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="With --costs measured: its model, in place of MODEL.",
            autocompletion=complete_preset,
        ),
    ] = None,
    frequency_ghz: Annotated[
        float | None,
        typer.Option(
            "--frequency-ghz", min=1e-6, max=1e3, help="With --costs measured: clock of the processor, if not read."
        ),
    ] = None,
    power_w: Annotated[
        str | None,
        typer.Option(
            "--power-w",
            metavar="WATTS|FILE|rapl",
            help="With --costs measured: power under load, a file with a reading per line, or RAPL counters.",
        ),
    ] = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option("--compare", metavar="FILE...", help="Show shares of layers by both cost models and by profiles."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Hardware profile of --costs measured, or PNG of --compare."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="MODEL.KEY=VALUE", help="Override one model setting, as in model.width=0.5; repeatable."
        ),
    ] = None,
    own: OwnOption = False,
    quiet: QuietOption = False,
    form: Annotated[
        ProfileFormat, typer.Option("--format", help="Table, JSON, or the TOML layer list of a scenario.")
    ] = ProfileFormat.TABLE,
) -> None:
    """Show FLOPs and bytes of every layer and every cut. Needs the extra 'train'.

    With --costs measured, time every layer on this machine and write a hardware profile.

    Example:  fedfloor profile vgg11 --batch 50 --costs paper --set model.head=4096-4096

    Example:  fedfloor profile cnn --costs measured --batch 10,50 --out machine.json
    """
    from fedfloor import api

    batches = _batches(batch)
    is_measured = costs is CostModel.MEASURED
    if not is_measured:
        of_measuring = {"--scenario": scenario, "--frequency-ghz": frequency_ghz, "--power-w": power_w}
        _refuse_idle(of_measuring, "--costs measured")
    if not is_measured and not compare:
        _refuse_idle({"--out": out}, "--costs measured or --compare")
    if not compare:
        _refuse_idle({"FILE": files and files[0]}, "--compare")
    _refuse_modes(form, costs, is_comparing=bool(compare))
    if is_measured:
        from fedfloor.cli.show.bare import own_code_on_stderr, print_result
        from fedfloor.cli.show.hardware import measuring, print_hardware

        frequency = _hertz(frequency_ghz)
        with own_code_on_stderr(), measuring(scenario or model or "", quiet=quiet) as progress:
            machine = api.measure(
                model, shape, batches=batches, scenario=scenario, overrides=overrides or (), own=own,
                frequency=frequency, power=power_w, out=out, on_plan=progress.on_plan, on_step=progress.on_step,
            )  # fmt: skip
        print_result(
            machine,
            form,
            lambda done: print_hardware(done, out),
            lambda done: done.model_dump(mode="json", exclude_none=True),
        )
        return
    if model is None:
        raise ProfileError("MODEL: is missing. Name one, as in `fedfloor profile cnn`")
    if len(batches) > 1:
        raise ProfileError(f"--batch: must be one number without --costs measured, got {shown(batch)}. Give one")
    samples = batches[0] if batches else 50
    if compare:
        _compare(model, shape, samples, [*compare, *(files or ())], overrides or (), out, form)
    else:
        _count(model, shape, samples, costs or CostModel.EXACT, overrides or (), form)


def _refuse_idle(options: Mapping[str, object], needed: str) -> None:
    """Refuse options that have no effect without another one."""
    for option, value in options.items():
        if value:
            raise ProfileError(f"{option}: has an effect only with {needed}, got {shown(str(value))}. Leave it out")


def _refuse_modes(form: ProfileFormat, costs: CostModel | None, *, is_comparing: bool) -> None:
    """Refuse modes that exclude each other, and formats that a mode lacks."""
    is_measured = costs is CostModel.MEASURED
    if is_measured and is_comparing:
        raise ProfileError("--compare: cannot be used with --costs measured. Measure first, then compare")
    if is_comparing and costs is not None:
        problem = "has no effect with --compare, which shows all of them"
        raise ProfileError(f"--costs: {problem}, got {shown(costs.value)}. Leave it out")
    if form is ProfileFormat.TOML and (is_comparing or is_measured):
        mode = "--compare" if is_comparing else "--costs measured"
        raise ProfileError(f"--format: must be table or json with {mode}, got 'toml'. Choose one of them")


def _hertz(frequency_ghz: float | None) -> float | None:
    """The clock of the processor [Hz]."""
    if frequency_ghz is not None and not math.isfinite(frequency_ghz):  # typer lets nan through
        problem = f"must be a number from 1e-6 to 1000, got {frequency_ghz}"
        raise ProfileError(f"--frequency-ghz: {problem}. Give the clock of the processor in GHz")
    return None if frequency_ghz is None else 1e9 * frequency_ghz


def _compare(
    model: str,
    shape: str | None,
    samples: int,
    profiles: Sequence[Path],
    overrides: Sequence[str],
    out: Path | None,
    form: ProfileFormat,
) -> None:
    """Show shares of the layers by both cost models and by hardware profiles."""
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.hardware import print_shares

    with own_code_on_stderr():
        shares = api.compare_profiles(model, profiles, shape, batch=samples, overrides=overrides, out=out)
    print_result(shares, form, lambda done: print_shares(done, out), lambda done: done.table())


def _count(
    model: str, shape: str | None, samples: int, costs: CostModel, overrides: Sequence[str], form: ProfileFormat
) -> None:
    """Show FLOPs and bytes of every layer and every cut."""
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.scenarios import print_profile

    with own_code_on_stderr():
        network = api.profile(model, shape, batch=samples, costs=costs.value, overrides=overrides)
    if form is ProfileFormat.TOML:
        print(network.layers_toml)
    else:
        print_result(network, form, print_profile, lambda done: done.table())


def _batches(text: str | None) -> list[int]:
    """Numbers of samples with commas between; empty if none are given."""
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    for part in parts:
        if not (part.isascii() and part.isdigit() and len(part) <= 10 and 1 <= int(part) <= 10**9):
            raise ProfileError(f"--batch: must be whole numbers from 1 to 1,000,000,000, got {shown(text)}. Correct it")
    return [int(part) for part in parts]
