"""Tests that measure an error go through the same tables, figures and texts as those that measure an accuracy."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfloor.api.runs import _telling
from fedfloor.reports.answers import answers
from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.cells import LAST_TESTS
from fedfloor.reports.figures import accuracy_rounds, accuracy_time, error_rounds, error_time
from fedfloor.reports.live.recent import recent_round
from fedfloor.reports.making import Report
from fedfloor.reports.reading import Collection, ReadRun
from fedfloor.reports.results import results_of
from fedfloor.reports.tables import against, headline, tables
from fedfloor.rounds.events import Event
from fedfloor.rounds.summary import result_of_test
from fedfloor.runs.shown import run_card
from tests.conftest import known
from tests.reports.made_up import gathered, made_up


def numbers(policy: str = "random", seed: int = 1, **values: Any) -> ReadRun:
    """A run that predicts numbers, tested in every round."""
    return made_up(
        policy, seed, errors=values.pop("errors", [4.0, 3.0, 2.0, 1.5, 1.5, 1.5, 1.5, 1.5, 2.0, 1.0]), **values
    )


def classes(policy: str = "random", seed: int = 1, **values: Any) -> ReadRun:
    """A run that predicts classes."""
    return made_up(policy, seed, accuracies=[0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5, 0.5, 0.4, 0.6], **values)


def column(table: Any, name: str) -> list[str]:
    return [row[table.columns.index(name)] for row in table.rows]


def test_the_first_table_explains_what_it_shows() -> None:
    table = headline(gathered(numbers()))
    assert table.columns[1:4] == ("final error", "least error", "mean delay [s]")
    assert (column(table, "final error"), column(table, "least error")) == (["1.5"], ["1"])
    assert f"Final error is {LAST_TESTS}" in table.note
    assert "root mean square error" in table.note
    assert "accuracy" not in table.note
    assert "error" not in headline(gathered(classes())).note


def test_columns_without_any_value_and_their_note_are_left_out() -> None:
    long = [1.0 + 0.1 * (at % 2) for at in range(20)]
    short, steady = headline(gathered(numbers())), headline(gathered(numbers(errors=long, rounds=20)))
    assert "steadiness of the error" not in short.columns
    assert "steadiness" not in short.note
    assert column(steady, "steadiness of the error") != [""]
    assert "; steadiness is their standard deviation" in steady.note


def test_the_first_table_is_titled_for_what_it_has() -> None:
    assert headline(gathered(classes(), classes(seed=2))).title == "paper-cifar10: results of random"
    assert headline(gathered(classes(), classes("round_robin"))).title == "paper-cifar10: policies side by side"


def test_errors_and_accuracies_never_share_a_column() -> None:
    both = gathered(numbers(variant="training.task=regression"), classes())
    table = headline(both)
    assert column(table, "final error") == ["1.5", ""]
    assert column(table, "final accuracy") == ["", "50 %"]
    assert "Final accuracy and final error are" in table.note
    differences = known(against(both))
    assert column(differences, "final accuracy [points]") == [""]
    assert column(differences, "final error") == [""]
    assert all("accura" not in text and "error" not in text for text in answers(both))


def test_differences_of_errors_are_shares_of_the_other_error() -> None:
    worse = numbers(errors=[4.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0])
    table = known(against(gathered(numbers("ddsra:v=1"), worse)))
    assert "final accuracy [points]" not in table.columns
    assert column(table, "final error") == ["+100.0 %"]
    assert column(table, "last error") == ["+200.0 %"]


def report_of(collection: Collection) -> Report:
    return Report(collection, (), tables(collection), Path("report.html"), (), None)


def test_programs_get_both() -> None:
    runs = gathered(numbers(), classes("round_robin"))
    found: Any = json.loads(json.dumps(report_of(runs).as_json()))["runs"]
    keys = ("final_accuracy", "last_accuracy", "final_error", "last_error")
    assert [[run[key] for key in keys] for run in found] == [[None, None, 1.5, 1.0], [0.5, 0.6, None, None]]


def test_notebooks_draw_errors() -> None:
    shown = report_of(gathered(numbers()))._repr_html_()
    assert "aria-label='error, mean over seeds over rounds'" in shown
    assert "accuracy" not in shown
    both = report_of(gathered(numbers(), classes("round_robin")))._repr_html_()
    assert both.count("<svg") == 2
    run = numbers()
    assert "aria-label='error over rounds'" in run_card("run", run.summary, run.records, predicts_numbers=True)
    assert "aria-label='accuracy over rounds'" in run_card("run", run.summary, classes().records)


@pytest.mark.parametrize("over", ["rounds", "time"])
def test_figures_of_errors_are_those_of_accuracies(over: str) -> None:
    ours = {"rounds": error_rounds, "time": error_time}[over].FIGURE
    theirs = {"rounds": accuracy_rounds, "time": accuracy_time}[over].FIGURE
    assert (
        ours.caption.replace("Root mean square error of", "Accuracy of").replace(
            "lower is better. Error", "higher is better. Accuracy"
        )
        == theirs.caption
    )
    one, other = results_of(gathered(numbers(), numbers(seed=2))), results_of(gathered(classes(), classes(seed=2)))
    (mine,), (yours,) = known(ours.plot)(one), known(theirs.plot)(other)
    assert known(mine.plot).layout["xaxis"] == known(yours.plot).layout["xaxis"]
    assert mine.note == yours.note
    assert mine.note.startswith("Models were tested on the test set. Bands span the seeds.")
    assert (ours.applies(one), ours.applies(other), theirs.applies(one), theirs.applies(other)) == (1, 0, 0, 1)


def test_each_figure_of_runs_of_both_kinds_has_its_own_series() -> None:
    results = results_of(gathered(numbers(variant="training.task=regression"), classes()))
    assert error_rounds.FIGURE.applies(results)
    assert accuracy_rounds.FIGURE.applies(results)
    for figure, label in (
        (error_rounds.FIGURE, "random [training.task=regression]"),
        (accuracy_rounds.FIGURE, "random"),
    ):
        (panel,) = known(figure.plot)(results)
        assert [trace["name"] for trace in known(panel.plot).data] == [label]


def test_progress_in_python_shows_what_was_tested_last() -> None:
    notes: list[str] = []

    class Shown:
        def show(self, done: int, note: str = "") -> None:
            notes.append(note)

    for run in (numbers(errors=[0.5, None], rounds=2), classes(rounds=1), with_losses(1.5, rounds=1)):
        tell = _telling(Shown(), run.scenario, lambda _: None)
        for record in run.records:
            tell(Event(record=record))
    assert notes == ["error 0.5", "error 0.5", "accuracy 10.0%", "loss 1.5"]


def with_losses(loss: float, **values: Any) -> ReadRun:
    """A run that predicts classes, as an app of Flower logs it that reports a loss alone."""
    run = made_up("random", **values)
    return replace(run, records=tuple(replace(record, loss=loss) for record in run.records))


@pytest.mark.parametrize("loss", [1.5, -0.3])
def test_a_loss_of_classes_is_no_error(loss: float) -> None:
    run = with_losses(loss)
    assert run.tests == ([], [])
    assert np.isnan(lay_out_run(run).tested).all()
    assert column(headline(gathered(run)), "final accuracy") == ["no training"]
    assert "error" not in run_card("run", run.summary, run.records)
    assert recent_round(run.records[0], predicts_numbers=False).result is None


def test_a_loss_below_zero_is_no_squared_error() -> None:
    run = numbers()
    run = replace(run, records=tuple(replace(record, loss=-0.3) for record in run.records))
    assert run.tests == ([], [])
    assert result_of_test(run.records[0], predicts_numbers=True) == "loss -0.3"
