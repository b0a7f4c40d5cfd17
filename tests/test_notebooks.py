"""Results in a notebook: data frames, cards, bars, models and the tour."""

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import fedfloor
from fedfloor.errors import FedfloorError, MissingExtraError, ModelError, RunLogError
from fedfloor.notebooks.cards import Curve, card, curves, html_table
from fedfloor.notebooks.cards import bars as drawn_bars
from fedfloor.policies import Decision, RandomScheduler, RoundState
from fedfloor.reports.cells import Cell, Table, change, duration, with_interval
from fedfloor.reports.statistics import interval
from fedfloor.runs.compare import Watch
from tests.runs.small import small_run

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def run() -> fedfloor.Run:
    return fedfloor.simulate("quick", "random", rounds=4)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run whose model is averaged, so that it differs from the weights that training goes on from."""
    out = tmp_path_factory.mktemp("trained") / "run"
    return small_run(out, "rounds=3", "participation.rates=uniform", "aggregation.averaged_decay=0.9")


def parsed(markup: str) -> ElementTree.Element:
    """Markup that is well formed, as XML."""
    return ElementTree.fromstring(f"<all>{markup}</all>")


@pytest.mark.parametrize("per", ["round", "gateway", "device"])
def test_a_data_frame_has_the_columns_of_the_log(run: fedfloor.Run, per: Any) -> None:
    frame, columns = run.to_pandas(per), fedfloor.read(run, per)
    assert list(frame.columns) == list(columns)
    assert frame["round"].tolist() == columns["round"]
    assert len(frame) == len(columns["round"])


def test_a_plan_and_a_profile_have_frames_for_their_parts() -> None:
    plan, profile = fedfloor.plan("quick", "random"), fedfloor.profile(scenario="quick")
    selected = [entry["name"] for entry in plan.gateways if entry["channel"] is not None]
    assert plan.to_pandas()["name"].tolist() == [entry["name"] for entry in plan["gateways"]]
    assert sorted(set(plan.to_pandas("device")["gateway"])) == sorted(selected)
    assert (len(profile.to_pandas()), len(profile.to_pandas("cut"))) == (len(profile.layers), len(profile.layers) + 1)
    with pytest.raises(RunLogError, match="per must be gateway or device, got 'round'"):
        plan.to_pandas("round")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="per must be layer or cut, got 'x'"):
        profile.to_pandas("x")  # type: ignore[arg-type]


def test_a_comparison_is_one_frame_of_all_runs(tmp_path: Path) -> None:
    for seed in (7, 8):
        fedfloor.simulate("quick", "random", rounds=2, seed=seed, out=tmp_path / f"run-{seed}")
    runs = (tmp_path / "run-7", tmp_path / "run-8")
    comparison = fedfloor.Comparison(tmp_path, runs, {"run-9": RunLogError("<lost>")}, None)
    frame = comparison.to_pandas("gateway")
    assert frame[["run", "seed"]].drop_duplicates().to_numpy().tolist() == [["run-7", 7], ["run-8", 8]]
    assert len(frame) == 2 * 2 * 6
    assert comparison._repr_html_() == "<p>run-9: &lt;lost&gt;</p>"
    with pytest.raises(FedfloorError, match="progress: a watch shows it already"):
        fedfloor.compare("quick", progress=True, watch=Watch())


def test_a_trade_off_is_a_tuple_of_points_with_a_frame(capfd: pytest.CaptureFixture[str]) -> None:
    points = fedfloor.tradeoff("quick", rounds=2, progress=True)
    assert isinstance(points, tuple)
    assert points.to_pandas()["v"].tolist() == [point.v for point in points]
    assert parsed(points._repr_html_()).find(".//table") is not None
    assert capfd.readouterr().err.splitlines()[-1] == f"V: {2 * len(points)} of {2 * len(points)}"


def test_without_pandas_the_message_says_what_to_install(run: fedfloor.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        MissingExtraError, match=r"to_pandas\(\) needs the extra 'notebook'.* pip install 'fedfloor\[noteb"
    ):
        run.to_pandas()


def test_an_answer_is_a_dict_whose_keys_are_attributes() -> None:
    plan = fedfloor.plan("quick", "random")
    assert isinstance(plan, dict)
    assert (plan.delay_s, plan.policy) == (plan["delay_s"], "random")
    assert "delay_s" in dir(plan)
    with pytest.raises(AttributeError, match=r"PlanAnswer has no dely_s\. It has policy, settings"):
        _ = plan.dely_s


def test_cards_are_well_formed_and_show_a_table_and_a_picture(run: fedfloor.Run, trained: Any) -> None:
    for result, kind in ((run, "polyline"), (trained, "polyline"), (fedfloor.plan(run, round=1), "rect")):
        tree = parsed(result._repr_html_())
        assert tree.find(".//table") is not None
        svg = "{http://www.w3.org/2000/svg}"
        assert tree.find(f".//{svg}{kind}") is not None
        assert tree.find(".//script") is None
    assert "delay [s]" in run._repr_html_()
    assert f"{trained.accuracy:.1%}" in trained._repr_html_()


def test_what_users_name_is_escaped_in_cards() -> None:
    markup = card(
        "<b>", html_table(["<i>"], [["<u>", 1.5, None]]), curves([Curve([0, 1], [1, 2], "<s>")], "<x>", "'y'")
    )
    markup += drawn_bars([("<a>", 1.0)], "<unit>")
    for tag in "<b>", "<i>", "<u>", "<s>", "<x>", "<a>", "<unit>":
        assert tag not in markup.removeprefix("<div>")
    parsed(markup)


def test_curves_leave_out_what_is_endless_and_thin_out_what_is_long() -> None:
    assert curves([Curve([0, 1], [float("inf"), float("nan")])], "x", "y") == ""
    assert drawn_bars([("a", float("inf"))], "s") == ""
    markup = curves([Curve(range(10_000), [float(value % 7) for value in range(10_000)])], "x", "y")
    line = parsed(markup).find(".//{http://www.w3.org/2000/svg}polyline")
    assert line is not None
    points = line.attrib["points"].split()
    assert 250 <= len(points) <= 301
    assert "nan" not in markup
    assert "circle" in curves([Curve([3], [0.0])], "x", "y")  # a single point


def test_cells_know_their_numbers_and_tables_become_frames() -> None:
    several, single = interval([0.4, 0.5, 0.6, 0.5]), interval([90.0])
    rows = (
        ("a", with_interval(several, " %", scale=0.01), duration(single), change(several, " %"), "none"),
        ("b", "no training", duration(interval([300.0])), "", "none"),
    )
    table = Table("t", ("policy", "accuracy", "time", "change", "failures"), rows, "")
    assert rows[0][1] == "50 ± 13 %"
    assert isinstance(rows[0][1], Cell)
    assert table.values[0] == ("a", several, single, several, "none")
    frame = table.to_pandas()
    assert [*frame.columns] == [
        "policy", "accuracy", "accuracy, low", "accuracy, high", "time [s]", "change [%]", "change [%], low",
        "change [%], high", "failures",
    ]  # fmt: skip
    assert frame["time [s]"].tolist() == [90.0, 300.0]
    assert frame["accuracy"].tolist() == [0.5, "no training"]
    parsed(table._repr_html_())


def test_the_tables_of_a_report_are_numbers_too(trained: Any, tmp_path: Path) -> None:
    report = fedfloor.report(trained, out=tmp_path)
    frame = report.tables[0].to_pandas()
    assert frame["mean delay [s]"].tolist() == [trained.summary.mean_delay]
    assert frame["completed"].tolist() == [trained.summary.completed / trained.summary.selected]
    assert report.as_json()["tables"][0]["rows"][0][0] == "random"  # type: ignore[index]
    assert parsed(report._repr_html_()).find(".//table") is not None


def test_the_model_of_a_run_is_the_one_that_was_tested_and_exported(trained: Any, tmp_path: Path) -> None:
    import torch

    evaluation = fedfloor.evaluate(trained, export=tmp_path / "model.safetensors")
    samples = trained.holding.samples
    images, labels = torch.from_numpy(samples.test_images), torch.from_numpy(samples.test_labels)
    models = [trained.model, fedfloor.load_model(trained.folder), fedfloor.load_model(tmp_path / "model.safetensors")]
    with torch.no_grad():
        scores = [model(images) for model in models]
    assert not any(model.training for model in models)
    assert all(torch.equal(scores[0], other) for other in scores[1:])
    right = int((scores[0].argmax(dim=1) == labels).sum())
    assert right / len(labels) == trained.accuracy == evaluation.accuracy == evaluation["accuracy"]
    assert trained.model is trained.model
    assert evaluation.to_pandas().to_numpy().tolist() == trained.confusion.tolist()


def test_changing_the_model_does_not_change_the_result(trained: Any) -> None:
    before = {name: value.copy() for name, value in trained.served.weights.items()}
    for parameter in trained.model.parameters():
        parameter.data.zero_()
    assert all((before[name] == value).all() for name, value in trained.served.weights.items())
    del trained.__dict__["model"]  # the next test builds its own


def test_a_folder_without_a_checkpoint_has_no_model(tmp_path: Path) -> None:
    fedfloor.simulate("quick", "random", rounds=1, out=tmp_path / "run")
    with pytest.raises(RunLogError, match="has no checkpoint, so there is no model"):
        fedfloor.load_model(tmp_path / "run")
    with pytest.raises(ModelError, match=r"none: does not exist\. Name a run folder, or a file of `fedfloor evaluate"):
        fedfloor.load_model(tmp_path / "none")


def test_a_trained_run_is_a_scenario_to_go_on_with(trained: Any) -> None:
    assert fedfloor.simulate(trained.scenario, "round_robin", rounds=1).scenario.rounds == 1


class Fixed:
    """Decides like random."""

    def schedule(self, state: RoundState) -> Decision:
        return RandomScheduler().schedule(state)


def test_a_run_with_an_object_is_resumed_with_an_equal_one(tmp_path: Path) -> None:
    more = ("participation.rates=uniform", "training.checkpoint_every=1")
    small_run(tmp_path / "run", "rounds=1", *more, policy=Fixed())  # type: ignore[arg-type]
    resumed = small_run(tmp_path / "run", "rounds=2", *more, policy=Fixed(), resume=True)  # type: ignore[arg-type]
    assert (resumed.resumed, len(resumed.records)) == (1, 2)
    assert resumed.records[-1].policy == "tests.test_notebooks:Fixed"


def test_progress_is_a_line_per_tenth_in_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    fedfloor.simulate("quick", "random", rounds=20, progress=True)
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"rounds of random: {done} of 20" for done in range(2, 21, 2)]
    fedfloor.simulate("quick", "random", rounds=2)
    assert capfd.readouterr().err == ""


def test_progress_is_a_bar_on_a_terminal() -> None:
    code = "import fedfloor; fedfloor.simulate('quick', 'random', rounds=3, progress=True)"
    terminal, other_end = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", code], stderr=other_end, env=env, check=True)
    os.close(other_end)
    shown = ""
    with contextlib.suppress(OSError):  # which ends a terminal that nobody writes to any more
        while part := os.read(terminal, 100_000):  # a slow machine draws more than one reading gives
            shown += part.decode(errors="replace")
    os.close(terminal)
    assert "random" in shown
    assert "3/3" in shown
    assert "clock" in shown


def test_nothing_heavy_is_loaded_without_need() -> None:
    code = "import sys, fedfloor; run = fedfloor.simulate('quick', 'random', 2); run._repr_html_(); "
    code += "fedfloor.plan(run, round=1)._repr_html_(); "
    code += "print([name for name in ('torch', 'pandas', 'IPython', 'matplotlib', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_first_example_of_the_page_about_python_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_tour_runs_from_its_first_cell_to_its_last(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    tour = nbformat.read(ROOT / "examples" / "tour.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in tour.cells), "it is stored without outputs"
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(tour, timeout=900, kernel_name="python3", resources=resources).execute()
    shown = [
        output for cell in tour.cells for output in cell.get("outputs", ()) if "text/html" in output.get("data", {})
    ]
    assert sum("<table" in output["data"]["text/html"] for output in shown) >= 7
    assert list(tmp_path.iterdir()) == []
