"""How links move the best cuts of the preset `line`: `python -m benchmarks.links`, about a minute.

Every floor is decided on its own, by the exact solver on its best channel, in rounds of seeds that nothing else uses.
Links are those of the preset except for what a table varies. Where all devices have one cut, the solver still decides
frequencies and power; every other cut then needs more memory than any device has.

Prints the tables of docs/links.md and draws its figure.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

import fedfloor
from fedfloor.arrays import Floats, Ints
from fedfloor.costs.compute import split_of
from fedfloor.costs.plant import MeasuredCosts, PlantArrays
from fedfloor.reports.drawing.paper import PAGE, STYLE, blank, in_percent, line_style
from fedfloor.reports.palette import COLOURS, look_of
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scenario import Scenario
from fedfloor.scheduling.solver.exact import exact_plan, least_delays
from fedfloor.scheduling.solver.packing import pack
from fedfloor.scheduling.state import RoundState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRESET = "line"
CUTS = (2, 4, 6)  #: that are drawn as the only cut
COLOUR_OF_CUT = MappingProxyType({1: 5, 2: 0, 3: 3, 4: 2, 5: 1, 6: 4})  #: place in COLOURS, the same in all panels
NOT_ABLE = "#d9d9d9"
SEEDS = (91_001, 91_002, 91_003)
RUN_SEEDS = range(1, 11)  #: of whole runs
RATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, np.inf)  #: [Mbit/s]
ENERGIES = (0, 1, 3, 10, 30, 100, 200, 300)  #: [nJ/bit]
BOUNDARIES = (32, 16, 8)  #: [bit]
NOBODY = -1  #: cut of a device whose floor cannot take part
LEGENDS: tuple[Literal["outside upper center", "outside lower center"], ...] = (
    "outside upper center",
    "outside lower center",
)
PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "links.png"


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """Every floor's best decision in T rounds, with N devices on M floors."""

    cut: Ints  #: (T, N) NOBODY where the floor cannot take part
    delay: Floats  #: (T, M) [s] inf where it cannot

    def shares(self, layers: int) -> Floats:
        """Shares of devices with cut 0..L, and of those whose floor cannot take part, (L+2,)."""
        counts = np.bincount(np.where(self.cut == NOBODY, layers + 1, self.cut).ravel(), minlength=layers + 2)
        return counts / self.cut.size

    @property
    def able(self) -> float:
        """Share of floors that can take part."""
        return float(np.isfinite(self.delay).mean())


@dataclass(frozen=True, slots=True, eq=False)
class Varied:
    """Decisions for every value of something that is varied."""

    values: Sequence[float]
    best: Sequence[Decided]
    single: Mapping[int, Sequence[Decided]]  #: where all devices have this cut

    def common_delays(self, results: Sequence[Decided]) -> Floats:
        """Mean delay [s] for every value, of the floors that can take part whatever the cut."""
        alternatives = [self.best, *self.single.values()]
        able = np.all([np.isfinite(result.delay) for results in alternatives for result in results], axis=0)
        return np.array([result.delay[able].mean() for result in results])


def varied(values: Sequence[float], rounds: Sequence[Sequence[RoundState]]) -> Varied:
    """Decide the rounds of every value, with the best cuts and with single ones."""
    single = {cut: [decided(with_cut(states, cut)) for states in rounds] for cut in CUTS}
    return Varied(values, [decided(states) for states in rounds], single)


def rounds_of(scenario: Scenario) -> list[RoundState]:
    """Rounds with the weather of a scenario; what was decided in one does not change the next."""
    driver, states = SimulatedPlant(scenario, simulated_rates(scenario)), []
    for index in range(scenario.rounds):
        driver.index = index
        states.append(driver.observe())
    return states


def decided(states: Sequence[RoundState]) -> Decided:
    """Best decision for every floor, each on its best channel."""
    cuts, delays = [], []
    for state in states:
        packed, download = pack(state)
        best = least_delays(packed, download).best  # (M, J)
        cut = np.full(state.plant.devices.floor.size, NOBODY)
        for m in np.flatnonzero(np.isfinite(best.min(axis=1))):
            rows = slice(int(packed.first[m]), int(packed.first[m + 1]))
            exact_plan(packed, int(m), int(best[m].argmin()), cut[rows], np.zeros(cut[rows].size))
        cuts.append(cut)
        delays.append(best.min(axis=1))
    return Decided(np.array(cuts), np.array(delays))


def with_links(states: Sequence[RoundState], keys: Sequence[str], value: float) -> list[RoundState]:
    """The same rounds where all devices' links have this value, in SI units, for these keys."""
    changed = []
    for state in states:
        devices = state.plant.devices
        assert devices.links is not None
        links = dataclasses.replace(devices.links, **dict.fromkeys(keys, np.full(devices.batch.size, value)))
        plant = dataclasses.replace(state.plant, devices=dataclasses.replace(devices, links=links))
        changed.append(dataclasses.replace(state, plant=plant))
    return changed


def with_cut(states: Sequence[RoundState], cut: int) -> list[RoundState]:
    """The same rounds where all devices have this cut."""
    return [dataclasses.replace(state, plant=_with_cut(state.plant, cut)) for state in states]


def _with_cut(plant: PlantArrays, cut: int) -> PlantArrays:
    devices, cuts = plant.devices, np.arange(plant.workload.layers + 1)
    split = split_of(plant, np.repeat(cuts[:, None], devices.batch.size, axis=1))  # (L+1, N)
    measured = MeasuredCosts(
        bottom_cycles=(split.bottom_flop / devices.flops_per_cycle).T,
        top_cycles=(split.top_flop / plant.gateways.flops_per_cycle[devices.floor]).T,
        bottom_bytes=np.where(cuts == cut, split.bottom_bytes.T, np.inf),
        top_bytes=split.top_bytes.T,
    )
    return dataclasses.replace(plant, measured=measured)


def slower(one: Decided, best: Decided) -> float:
    """How much longer floors take, in the rounds in which they can take part: ratio of the sums."""
    both = np.isfinite(one.delay)
    return float(one.delay[both].sum() / best.delay[both].sum())


def times(states: Sequence[RoundState], best: Decided) -> tuple[float, float]:
    """Mean times that a device computes and is on its link [s], where its floor can take part."""
    computing, sending = [], []
    for state, cut in zip(states, best.cut, strict=True):
        plant, able = state.plant, cut != NOBODY
        assert plant.link_costs is not None
        speed = plant.devices.flops_per_cycle * plant.devices.frequency
        computing.append((split_of(plant, cut).bottom_flop / speed)[able])
        sending.append(plant.link_costs.at(cut).time[able])
    return float(np.concatenate(computing).mean()), float(np.concatenate(sending).mean())


def per_second(policy: str, rounds: int) -> Floats:
    """Completed floor-rounds per simulated second, one value per seed."""
    summaries = [fedfloor.simulate(PRESET, policy, seed=seed, rounds=rounds).summary for seed in RUN_SEEDS]
    return np.array([summary.completed / summary.clock for summary in summaries])


def print_table(title: str, results: Mapping[str, Decided], layers: Sequence[str]) -> None:
    """Print shares of cuts, and the mean delay of floors that can take part."""
    heads = [*(f"cut {cut}" for cut in range(1, len(layers) + 1)), "none", "delay"]
    print(f"\n{title}\n{'':>14}" + "".join(f"{head:>8}" for head in heads))
    for name, result in results.items():
        delay = result.delay[np.isfinite(result.delay)].mean()
        print(f"{name:>14}" + "".join(f"{share:8.1%}" for share in result.shares(len(layers))[1:]) + f"{delay:6.2f} s")


def draw(rates: Varied, energies: Varied, layers: Sequence[str], out: Path) -> None:
    """Cuts above; below what a single cut costs, in time over the rate and in floors over the energy."""
    import matplotlib as mpl  # noqa: PLC0415

    with mpl.rc_context(STYLE):
        figure = blank(4.8, PAGE)
        panels = figure.subplots(2, 2, sharex="col")
        _draw_cuts(panels[0, 0], rates, layers)
        _draw_cuts(panels[0, 1], energies, layers)
        _draw_lines(panels[1, 0], rates, rates.common_delays)
        _draw_lines(panels[1, 1], energies, lambda results: np.array([result.able for result in results]))
        panels[0, 0].set(title="Slow links: late cuts, with little to send", ylabel="devices")
        panels[0, 1].set(title="Costly bits: fewer floors can take part")
        panels[1, 0].set(xlabel="rate of every link [Mbit/s]", ylabel="mean delay of a floor [s]", yscale="log")
        panels[1, 1].set(xlabel="energy of every link [nJ/bit]", ylabel="floors that can take part", ylim=(0, 1.02))
        panels[1, 0].yaxis.set_major_formatter("{x:g}")
        in_percent(panels[1, 1].yaxis)
        for row, place in enumerate(LEGENDS):
            handles, labels = panels[row, 0].get_legend_handles_labels()
            figure.legend(handles, labels, loc=place, ncols=len(labels))
        figure.savefig(out, dpi=200)


def _draw_cuts(axes: "Axes", results: Varied, layers: Sequence[str]) -> None:
    shares = np.array([result.shares(len(layers)) for result in results.best]).T  # (L+2, values)
    names = [f"cut {cut}, after {layer}" for cut, layer in enumerate(layers, start=1)] + ["floor cannot take part"]
    colours = [COLOURS[COLOUR_OF_CUT[cut]] for cut in range(1, len(layers) + 1)] + [NOT_ABLE]
    shown = np.flatnonzero(shares[1:].max(axis=1) > 0.0)
    axes.stackplot(
        range(len(results.values)),
        shares[1:][shown],
        colors=[colours[at] for at in shown],
        labels=[names[at] for at in shown],
        linewidth=0,
    )
    axes.set(xlim=(0, len(results.values) - 1), ylim=(0, 1))
    in_percent(axes.yaxis)


def _draw_lines(axes: "Axes", results: Varied, measure: Callable[[Sequence[Decided]], Floats]) -> None:
    at = range(len(results.values))
    axes.plot(at, measure(results.best), color="black", linewidth=2.2, label="every device its best cut")
    for cut, single in results.single.items():
        axes.plot(at, measure(single), label=f"all devices cut {cut}", **line_style(look_of(COLOUR_OF_CUT[cut])))
    axes.set_xticks(at, ["∞" if np.isinf(value) else f"{value:g}" for value in results.values])


def main() -> None:
    """Print the tables and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="rounds per seed")
    parser.add_argument("--out", type=Path, default=PICTURE, help="where the figure is written")
    arguments = parser.parse_args()

    def rounds(*overrides: str) -> list[RoundState]:
        plants = [fedfloor.load(PRESET, seed=seed, rounds=arguments.rounds, overrides=[*overrides]) for seed in SEEDS]
        return [state for plant in plants for state in rounds_of(plant)]

    states, scenario = rounds(), fedfloor.load(PRESET)
    layers = [layer.name for layer in scenario.layers]
    best = decided(states)
    print(f"{PRESET}: {len(states)} rounds, {len(scenario.floors)} floors, each on its best channel")
    clock = np.array([f"{device.frequency / 1e9:g} GHz" for device in scenario.devices])
    classes = {name: Decided(best.cut[:, clock == name], best.delay) for name in dict.fromkeys(clock)}
    print_table("by clock of the device; delays are of all floors", {**classes, "all": best}, layers)
    print("a device computes for {:.2f} s and is on its link for {:.2f} s".format(*times(states, best)))
    print(f"\nthe same cut for all devices; with the best cuts {best.able:.1%} of floors can take part")
    for cut in range(scenario.training.min_cut, len(layers) + 1):
        one = decided(with_cut(states, cut))
        print(f"{f'cut {cut}':>14}: {one.able:6.1%} can, and then take {slower(one, best):.2f} times as long")
    by_bits = {f"{bits} bits": decided(rounds(f"precision.boundary={bits}")) for bits in BOUNDARIES}
    print_table("by precision of the boundary", by_bits, layers)

    rates = varied(RATES, [with_links(states, ("rate_up", "rate_down"), 1e6 * rate) for rate in RATES])
    sides = ("device_up", "device_down", "gateway_up", "gateway_down")
    energies = varied(ENERGIES, [with_links(states, sides, 1e-9 * energy) for energy in ENERGIES])
    for title, unit, found in (
        ("by rate, the same in both directions for every device", "Mbit/s", rates),
        ("by energy per bit, the same for sending and receiving on devices and gateways", "nJ/bit", energies),
    ):
        named = {f"{value:g} {unit}": result for value, result in zip(found.values, found.best, strict=True)}
        print_table(title, named, layers)
    print("\nby rate, mean delay of floors that can take part whatever the cut [s]")
    print(f"{'':>14}" + "".join(f"{rate:8g}" for rate in RATES))
    for name, results in {"best": rates.best, **{f"cut {cut}": rates.single[cut] for cut in CUTS}}.items():
        print(f"{name:>14}" + "".join(f"{delay:8.2f}" for delay in rates.common_delays(results)))
    print("\nby energy per bit, share of floors that can take part")
    print(f"{'':>14}" + "".join(f"{energy:8g}" for energy in ENERGIES))
    for name, results in {"best": energies.best, **{f"cut {cut}": energies.single[cut] for cut in CUTS}}.items():
        print(f"{name:>14}" + "".join(f"{result.able:8.1%}" for result in results))
    ours, fixed = per_second("ddsra:v=1", arguments.rounds), per_second("random", arguments.rounds)
    ratio = ours / fixed
    print(f"\nwhole runs, {ratio.size} seeds, completed floor-rounds per simulated second")
    print(f"ddsra {ours.mean():.2f}, random with the best fixed allocation {fixed.mean():.2f}", end=": ")
    print(f"{ratio.mean():.1f} times ({ratio.min():.1f} to {ratio.max():.1f})")
    draw(rates, energies, layers, arguments.out)
    print(f"\nfigure: {arguments.out}")


if __name__ == "__main__":
    main()
