"""Hardware profiles: the progress of a measurement, its tables, and shares of layers side by side."""

__all__ = ["Measuring", "measuring", "print_hardware", "print_shares"]

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedfloor.cli.show.terminal import OUT, amount, print_table, progress, table_of
from fedfloor.costs.hardware import HardwareProfile
from fedfloor.runs.shares import LayerShares


@dataclass(frozen=True, slots=True)
class Measuring:
    """What to call while layers are measured."""

    on_plan: Callable[[int], None]  #: with the number of steps
    on_step: Callable[[], None]  #: after each of them


@contextmanager
def measuring(name: str, *, quiet: bool) -> Iterator[Measuring]:
    """The progress of a measurement: a live bar on standard error."""
    with progress(name, 1, quiet=quiet) as (bar, task):
        bar.update(task, note="warming up")
        yield Measuring(
            on_plan=lambda total: bar.update(task, total=total, note="timing layers"),
            on_step=lambda: bar.update(task, advance=1),
        )


def print_hardware(profile: HardwareProfile, out: Path | None) -> None:
    """Print the times of every layer, the speed of every kind of layer, and where the profile is."""
    machine = f"{profile.machine.cpu}, {amount(profile.frequency_hz, 'Hz')} ({profile.frequency_source})"
    for b, batch in enumerate(profile.batches):
        title = f"{profile.model} with a batch of {batch} on {machine}, one thread, {profile.repeats} steps"
        table = table_of(title, "layer", "forward", "+-", "backward", "+-", "speed", "device memory", "gateway memory")
        for entry in profile.layers:
            timing = entry.timings[b]
            speed = entry.flop_per_sample * batch / (timing.forward_s + timing.backward_s)
            table.add_row(
                entry.layer.name,
                amount(timing.forward_s, "s"),
                _spread(timing.forward_s, timing.forward_quartiles_s),
                amount(timing.backward_s, "s"),
                _spread(timing.backward_s, timing.backward_quartiles_s),
                amount(speed, "FLOP/s"),
                amount(timing.device_bytes, "B"),
                amount(timing.gateway_bytes, "B"),
            )
        table.add_section()
        forward = sum(entry.timings[b].forward_s for entry in profile.layers)
        backward = sum(entry.timings[b].backward_s for entry in profile.layers)
        table.add_row("all layers", amount(forward, "s"), "", amount(backward, "s"), "", "", "", "")
        step = profile.steps[b]
        table.add_row("beside them", amount(step.seconds, "s"), _spread(step.seconds, step.quartiles_s), *[""] * 5)
        print_table(table)
    OUT.print(
        "+-: half the distance between the quartiles. Memory: a device whose half ends with the layer, a gateway whose "
        "half begins with it.",
        soft_wrap=True,
    )
    speeds = table_of("speed of layers that were not measured", "kind", "speed", "median error", "from layers")
    for kind, rate in profile.rates.items():
        speeds.add_row(kind, amount(rate.flop_per_s, "FLOP/s"), f"{100 * rate.error:.0f} %", str(rate.layers))
    print_table(speeds)
    if profile.power is not None:
        power = profile.power
        value = f"switched_capacitance = {power.switched_capacitance:.3g}"
        OUT.print(
            f"{amount(power.watts, 'W')} ({power.source}) at this frequency: {value}, v = P / f^3", soft_wrap=True
        )
    if out is not None:
        OUT.print(f"profile: {out}", soft_wrap=True)


def _spread(median: float, quartiles: tuple[float, float]) -> str:
    """Half the distance between the quartiles, in percent of the median."""
    return f"{50 * (quartiles[1] - quartiles[0]) / median:.0f} %" if median > 0 else ""


def print_shares(shares: LayerShares, out: Path | None) -> None:
    """Print the shares of layers by every cost model and profile."""
    title = f"{shares.model}, shares of a step; measured with a batch of {shares.batch}"
    table = table_of(title, "layer", *shares.labels)
    for index, layer in enumerate(shares.layers):
        table.add_row(layer, *(f"{100 * share:.1f} %" for share in shares.shares[:, index]))
    table.add_section()
    table.add_row("whole step", *("" if math.isnan(total) else amount(total, "s") for total in shares.totals.tolist()))
    print_table(table)
    depth = len(shares.layers)
    for label, count in list(zip(shares.labels, shares.measured, strict=True))[2:]:
        if count < depth:
            text = f"{label}: {count} of {depth} layers were measured, the others follow from the speed of their kind."
            OUT.print(text, soft_wrap=True)
    if out is not None:
        OUT.print(f"figure: {out}", soft_wrap=True)
