"""What figures show, against hand-made logs with known answers and against the log's own sums."""

import copy
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import fedfloor
from fedfloor.reports import measures
from fedfloor.reports.arrays import RunArrays, SeriesArrays, lay_out_run
from fedfloor.reports.reading import Collection, ReadRun, Series, collect
from fedfloor.reports.statistics import final_accuracy
from fedfloor.rounds.summary import summarise
from fedfloor.theory.participation import participation_rates
from tests.conftest import small_table
from tests.reports.made_up import made_up

POLICIES = ["round_robin", "ddsra:v=1", "random"]
Record = dict[str, Any]


def simulated(folder: Path, policy: str, rounds: int = 6, seed: int = 1, cut: int = 1) -> ReadRun:
    table = small_table() | {"rounds": rounds}
    table["radio"] = {"channels": 1}
    table["baseline"] = {"cut": cut, "frequency_share": 0.5}
    file = folder / f"plant-{cut}.toml"
    file.write_text(tomli_w.dumps(table), encoding="utf-8")
    out = folder / f"{policy.replace(':', '-')}-{seed}-{cut}"
    fedfloor.simulate(file, policy=policy, seed=seed, out=out)
    return collect([out]).runs[0]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> ReadRun:
    return simulated(tmp_path_factory.mktemp("real"), "round_robin")


def changed(run: ReadRun, change: Callable[[int, Record], None], rounds: int | None = None) -> ReadRun:
    """The same run with other records."""
    records = [copy.deepcopy(dict(record)) for record in run.records[:rounds]]
    for t, record in enumerate(records):
        change(t, record)
    return dataclasses.replace(run, records=tuple(records), summary=summarise(records))


def with_columns(run: ReadRun, **columns: Sequence[Any]) -> ReadRun:
    """Other values for keys of the rounds, as many rounds as there are values."""

    def change(t: int, record: Record) -> None:
        record.update({key: values[t] for key, values in columns.items()})

    return changed(run, change, min(len(values) for values in columns.values()))


def series_of(*runs: ReadRun) -> SeriesArrays:
    return SeriesArrays("one", tuple(lay_out_run(run) for run in runs))


def collection_of(*runs: ReadRun, tradeoff: tuple[Mapping[str, Any], ...] = ()) -> Collection:
    return Collection("small", tuple(Series(run.label, (run,)) for run in runs), (), tradeoff)


def test_accuracy_over_rounds_is_mean_least_and_greatest_of_the_seeds(real: ReadRun) -> None:
    one = with_columns(real, accuracy=[None, 0.2, None, 0.6])
    other = with_columns(real, accuracy=[None, 0.4])
    curve = measures.accuracy_over_rounds(series_of(one, other))
    assert curve is not None
    assert curve.x.tolist() == [2, 4]
    assert np.allclose(curve.mean, [0.3, 0.6])
    assert np.allclose(curve.low, [0.2, 0.6])
    assert np.allclose(curve.high, [0.4, 0.6])
    assert curve.runs.tolist() == [2, 1]  # the second run has not got further


def test_accuracy_over_time_keeps_the_last_tested_value(real: ReadRun) -> None:
    clock = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    one = with_columns(real, accuracy=[0.1, None, 0.5, None, None, None], clock_s=clock)
    other = with_columns(real, accuracy=[None, 0.3, None, None, None, None], clock_s=clock)
    curve = measures.accuracy_over_time(series_of(one, other))
    assert curve is not None
    assert curve.x.tolist() == [2, 3, 6]  # from where both are known
    assert np.allclose(curve.mean, [0.2, 0.4, 0.4])


def test_an_unfinished_run_counts_as_far_as_it_has_come(real: ReadRun) -> None:
    one = with_columns(real, accuracy=[0.2] * 6, clock_s=[1.0, 2, 3, 4, 5, 6])
    going = with_columns(real, accuracy=[0.4, 0.4], clock_s=[1.0, 2.0])
    curve = measures.accuracy_over_time(series_of(one, going))
    assert curve is not None
    assert curve.runs.tolist() == [2, 2, 1, 1, 1, 1]
    assert np.allclose(curve.mean, [0.3, 0.3, 0.2, 0.2, 0.2, 0.2])


def test_seeds_are_averaged_until_the_first_of_them_ends(real: ReadRun) -> None:
    slow = with_columns(real, accuracy=[0.2] * 6, clock_s=[2.0, 4, 6, 8, 10, 12])
    fast = with_columns(real, accuracy=[0.4] * 6, clock_s=[1.0, 2, 3, 4, 5, 6])
    curve = measures.accuracy_over_time(series_of(slow, fast))
    assert curve is not None
    assert curve.x.tolist() == [2, 3, 4, 5, 6]
    assert curve.runs.tolist() == [2] * 5


def test_a_run_that_ended_early_is_averaged_like_a_finished_one(real: ReadRun) -> None:
    whole = with_columns(real, accuracy=[0.2] * 6, clock_s=[1.0, 2, 3, 4, 5, 6])
    early = with_columns(real, accuracy=[0.4, 0.4], clock_s=[1.0, 2.0])
    assert not early.finished
    curve = measures.accuracy_over_time(series_of(whole, dataclasses.replace(early, bounds=())))
    assert curve is not None
    assert curve.x.tolist() == [1, 2]
    assert np.allclose(curve.mean, 0.3)


def test_seeds_that_were_never_going_together_have_no_mean_over_time(real: ReadRun) -> None:
    early = with_columns(real, accuracy=[0.4] * 6, clock_s=[1.0, 2, 3, 4, 5, 6])
    late = with_columns(real, accuracy=[None, *[0.2] * 5], clock_s=[3.0, 7, 8, 9, 10, 11])
    assert measures.accuracy_over_time(series_of(early, late)) is None


def test_long_curves_over_time_are_put_on_a_grid(real: ReadRun) -> None:
    run = with_columns(real, accuracy=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], clock_s=[1.0, 2, 3, 4, 5, 6])
    curve = measures.accuracy_over_time(series_of(run), points=3)
    assert curve is not None
    assert curve.x.tolist() == [1, 3.5, 6]
    assert np.allclose(curve.mean, [0.1, 0.3, 0.6])


def test_there_is_no_accuracy_without_training(real: ReadRun) -> None:
    assert measures.accuracy_over_rounds(series_of(real)) is None
    assert measures.accuracy_over_time(series_of(real)) is None
    assert measures.data_held(lay_out_run(real)) is None


def test_cumulative_delay_is_the_clock_and_endless_is_inf(real: ReadRun) -> None:
    one = with_columns(real, clock_s=[1.0, 3.0, None], delay_s=[1.0, 2.0, None])
    other = with_columns(real, clock_s=[2.0, 4.0])
    curve = measures.delay_over_rounds(series_of(one, other))
    assert np.allclose(curve.mean[:2], [1.5, 3.5])
    assert math.isinf(curve.mean[2])
    assert math.isinf(lay_out_run(one).delay[2])


@pytest.mark.parametrize("policy", POLICIES)
def test_participation_is_that_of_the_summary(policy: str, tmp_path: Path) -> None:
    run = simulated(tmp_path, policy)
    found = measures.participation(series_of(run))
    assert found.floors == ("press", "paint")
    assert np.allclose(found.achieved, [floor.completed_rate for floor in run.summary.floors])
    assert np.allclose(found.target, [floor.target_rate for floor in run.summary.floors])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_phases_and_spenders_add_up_to_what_was_logged(policy: str, cut: int, tmp_path: Path) -> None:
    run = lay_out_run(simulated(tmp_path, policy, cut=cut))
    phases, series = measures.phase_times(run), SeriesArrays("one", (run,))
    assert np.all(phases >= 0.0)
    delay = np.array([[entry["delay_s"] for entry in record["gateways"]] for record in run.run.records])
    assert np.allclose(phases.sum(axis=0), delay)
    energy = measures.energy_split(series)
    picked = energy.picked > 0
    total = float((energy.values[:, picked].sum(axis=0) * energy.picked[picked]).sum())
    assert np.isclose(total, run.run.summary.mean_energy * run.run.summary.rounds)


def test_the_cut_decides_who_trains(tmp_path: Path) -> None:
    for cut, device, gateway in ((0, False, True), (2, True, False), (1, True, True)):
        run = lay_out_run(simulated(tmp_path, "round_robin", cut=cut))
        split = measures.time_split(SeriesArrays("one", (run,)))
        times = dict(zip(split.parts, split.values, strict=True))
        assert (np.nanmin(times["device"]) > 0.0) == device
        assert (np.nanmax(times["gateway"]) > 1e-15) == gateway


def test_a_floor_that_never_was_picked_has_no_split(real: ReadRun) -> None:
    def never(t: int, record: Record) -> None:
        record["gateways"][1] |= {"selected": False, "completed": False, "failure": None}

    split = measures.time_split(series_of(changed(real, never)))
    assert np.isnan(split.values[:, 1]).all()
    assert not np.isnan(split.values[:, 0]).any()


def test_a_timeline_goes_from_phase_to_phase(real: ReadRun) -> None:
    run = lay_out_run(real)
    for index in range(run.rounds.size):
        shown = measures.timeline(run, index)
        assert shown.round == index + 1
        assert list(shown.floors) == [entry["name"] for entry in real.records[index]["gateways"] if entry["selected"]]
        assert np.all(np.diff(shown.end, axis=0, prepend=0.0) >= 0.0)
        assert np.isclose(shown.end[-1].max(initial=0.0), run.delay[index])


def test_a_dead_link_has_no_end(real: ReadRun) -> None:
    def dead(t: int, record: Record) -> None:
        for entry in record["gateways"]:
            if entry["selected"]:
                entry["upload_s"] = None

    run = lay_out_run(changed(real, dead))
    assert np.isinf(measures.timeline(run, 0).end[-1]).all()
    assert np.isfinite(measures.energy_split(SeriesArrays("one", (run,))).values).all()


def test_cuts_are_unknown_where_a_floor_was_not_picked(real: ReadRun) -> None:
    run = lay_out_run(real)
    found = measures.cuts(run)
    picked = run.selected[:, run.plant.devices.floor].T
    assert found.cut.shape == (3, 6)
    assert np.array_equal(np.isnan(found.cut), ~picked)
    assert np.allclose(found.mean, 1.0)


def observed(run: ReadRun, divergence: Mapping[int, list[float | None]], bound: list[float]) -> ReadRun:
    def change(t: int, record: Record) -> None:
        for m, entry in enumerate(record["gateways"]):
            entry |= {"divergence": divergence.get(t, [None, None])[m], "divergence_bound": bound[m]}
            entry["target_rate"] = [0.8, 0.2][m]

    return changed(run, change)


def test_observed_rates_follow_the_formula_of_the_derived_ones(real: ReadRun) -> None:  # Eq. (13), paper Fig. 2
    run = observed(real, {0: [1.0, 3.0], 3: [2.0, 2.0]}, [5.0, 9.0])
    found = measures.rates(series_of(run))
    assert found is not None
    wanted = (participation_rates(np.array([1.0, 3.0]), 1) + participation_rates(np.array([2.0, 2.0]), 1)) / 2
    assert np.allclose(found.observed, wanted)
    assert np.allclose(found.derived, [0.8, 0.2])


def test_without_observation_there_are_neither_rates_nor_divergence(real: ReadRun) -> None:
    assert measures.rates(series_of(real)) is None
    assert measures.divergence(series_of(real)) is None
    bound_only = observed(real, {}, [5.0, 9.0])
    assert measures.rates(series_of(bound_only)) is None
    assert measures.divergence(series_of(bound_only)) is None


def test_seeds_without_observation_do_not_count(real: ReadRun) -> None:
    run = observed(real, {0: [1.0, 3.0]}, [5.0, 9.0])
    alone, both = measures.rates(series_of(run)), measures.rates(series_of(run, real))
    assert alone is not None
    assert both is not None
    assert np.allclose(alone.derived, both.derived)


def test_divergence_stands_beside_its_bound(real: ReadRun) -> None:  # Theorem 1
    found = measures.divergence(series_of(observed(real, {0: [1.0, 10.0], 2: [None, 3.0]}, [5.0, 9.0])))
    assert found is not None
    assert found.measured.tolist() == [1.0, 10.0, 3.0]
    assert found.bound.tolist() == [5.0, 9.0, 9.0]
    assert found.round.tolist() == [1, 1, 3]
    assert [found.floors[m] for m in found.floor] == ["press", "paint", "paint"]
    assert found.broken == 1


def test_failures_are_counted_over_all_seeds(real: ReadRun) -> None:
    def fail(t: int, record: Record) -> None:
        for entry in record["gateways"]:
            if entry["selected"]:
                entry |= {"completed": False, "failure": "energy" if t else "lost"}

    failing = changed(real, fail)
    found = measures.failures(series_of(failing, failing))
    assert dict(found.counts) == {"energy": 10, "lost": 2}
    assert found.selected == 12


def test_runs_with_several_v_make_a_tradeoff(tmp_path: Path) -> None:
    runs = [simulated(tmp_path, f"ddsra:v={v}") for v in (10, 0)] + [simulated(tmp_path, "random")]
    (found,) = measures.tradeoffs(collection_of(*runs))
    assert found.v.tolist() == [0, 10]
    assert np.allclose(found.delay, [runs[1].summary.mean_delay, runs[0].summary.mean_delay])
    assert found.labels == (runs[1].label, runs[0].label)
    assert np.isnan(found.delay_bound).all()


def test_one_v_is_no_tradeoff_and_a_measured_one_is_kept(tmp_path: Path) -> None:
    run = simulated(tmp_path, "ddsra:v=1")
    assert measures.tradeoffs(collection_of(run)) == ()
    point = {"v": 1.0, "mean_delay_s": 2.0, "shortfall": 0.1, "delay_bound_s": None, "shortfall_bound": 0.4}
    first = {**point, "v": 0.0, "shortfall_bound": None}
    (found,) = measures.tradeoffs(collection_of(run, tradeoff=(point, first)))
    assert found.v.tolist() == [0, 1]
    assert np.isnan(found.delay_bound).all()
    assert found.shortfall_bound[1] == 0.4


def test_holdings_become_a_table_of_counts(real: ReadRun) -> None:
    entry = {"floor": "press", "name": "p1", "asked": 3, "held": 3, "classes": [1, 2]}
    held = measures.data_held(lay_out_run(dataclasses.replace(real, holding={"devices": [entry]})))
    assert held is not None
    assert held.counts.tolist() == [[1, 2]]
    assert (held.devices, held.floors) == (("p1",), ("press",))


@pytest.mark.parametrize("scenario", ["quick", "campus"])
def test_the_map_keeps_true_distances_and_devices_near_their_floor(scenario: str) -> None:
    found = measures.plant_map(fedfloor.load(scenario))
    assert np.allclose(np.hypot(*found.floor_xy.T), found.distance)
    from_own = np.hypot(*(found.device_xy - found.floor_xy[found.floor_of]).T)
    assert np.all(from_own <= 0.2 * found.distance.max() + 1e-9)
    assert len(np.unique(found.device_xy.round(6), axis=0)) == len(found.devices)


def test_floors_are_matched_by_name_where_seeds_differ(real: ReadRun) -> None:
    floors = tuple(
        floor.model_copy(update={"name": {"press": "mill"}.get(floor.name, floor.name)})
        for floor in real.scenario.floors
    )
    other = dataclasses.replace(real, scenario=real.scenario.model_copy(update={"floors": floors}))
    found = measures.participation(series_of(real, other))
    assert found.floors == ("press", "paint", "mill")
    assert np.allclose(found.achieved[0], found.achieved[2])


def test_a_single_round_is_enough(real: ReadRun) -> None:
    run: RunArrays = lay_out_run(changed(real, lambda *_: None, 1))
    series = SeriesArrays("one", (run,))
    assert measures.delay_over_rounds(series).x.tolist() == [1]
    assert measures.participation(series).achieved.shape == (2,)
    assert measures.timeline(run, 0).round == 1


def test_lines_of_long_runs_show_what_the_final_accuracy_is_a_mean_of() -> None:
    values = [0.1] * 20 + [0.2, 0.4, 0.6, 0.8] + [0.5] * 6
    run = made_up("random", rounds=30, accuracies=values)
    curve = measures.accuracy_over_rounds(SeriesArrays("one", (lay_out_run(run),)))
    assert curve is not None
    assert curve.mean[0] == pytest.approx(0.1)
    assert curve.mean[22] == pytest.approx((0.2 + 0.4 + 0.6) / 3)
    assert curve.mean[-1] == pytest.approx(final_accuracy(run))
