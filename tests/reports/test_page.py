"""The report page in a real browser: what people see, and what must never happen."""

import dataclasses
import itertools
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.beside import Held, Holding
from fedfloor.reports.cells import Table
from fedfloor.reports.drawing.plots import plain
from fedfloor.reports.page import write_page
from fedfloor.reports.palette import DARK_TURN_COLOURS, RAW_COLOUR
from fedfloor.reports.reading import Collection, ReadRun, Series, collect
from fedfloor.reports.results import results_of
from fedfloor.reports.tables import tables
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import summarise
from fedfloor.scenario.file import Policy
from tests.reports.logs import changed, collection_of

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
HOSTILE = '</script><script>window.hit=1</script><img src=x onerror="window.hit=1"> & "\'<b>`$title %{y} &lt;'
#: of every page, whatever it holds
ALWAYS = {"delay", "participation", "time-0", "energy-0", "timeline", "map", "cuts", "turns"}
FAILED = {"failures"}
TRAINED = {"accuracy-rounds", "accuracy-time", "rates", "data", "bound"}
Shell = Callable[..., Any]


HEADLINE = Table("at a glance", ("policy", "accuracy"), (("ddsra", "65.1 % ± 2.0 %"), ("other", "1")), "a `note`")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=service.Service(driver))
    opened.set_script_timeout(120)
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two policies on two seeds, trained for a moment."""
    pytest.importorskip("torch", reason="torch is not installed")
    folder = tmp_path_factory.mktemp("runs")
    small = ["training.local_iterations=1", "training.evaluate_every=2", "participation.estimate_samples=20"]
    small += ["participation.observe_every=2", "floors.0.gateway.max_energy_j=0.0"]  # which always fails
    for policy in ("ddsra:v=0.01", "round_robin"):
        for seed in (1, 2):
            out = folder / f"{policy.replace(':', '-')}-{seed}"
            fedfloor.run("quick", policy=policy, rounds=4, seed=seed, overrides=small, out=out, workers=1)
    points = [
        {"v": v, "mean_delay_s": 2.0 - v / 10, "shortfall": v / 20, "delay_bound_s": None, "shortfall_bound": 0.4}
        for v in (0.0, 0.1, 1.0, 10.0)
    ]
    (folder / "tradeoff.json").write_text(json.dumps(points), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "run"
    fedfloor.simulate("quick", policy="random", rounds=5, seed=3, out=out)
    return out


@pytest.fixture(scope="module")
def full_page(runs: Path) -> Path:
    path = runs / "report.html"
    collection = collect([runs])
    with_claims = dataclasses.replace(collection, name="paper-cifar10")  # which has a table of claims
    write_page(results_of(with_claims), tables(with_claims), path)
    return path


def visit(
    browser: Any, page: Path, *, width: int = 1200, media: str = "", scheme: str = "light", wait: float = 120.0
) -> None:
    """Open a page and wait until its figures are drawn."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    emulate(browser, media=media, scheme=scheme)
    browser.get("about:blank")
    browser.get_log("browser")  # what was before is forgotten
    browser.get_log("performance")
    browser.get(page.as_uri())
    until(browser, "return document.body.dataset.ready === 'yes'", wait)


def emulate(browser: Any, *, media: str = "", scheme: str = "light") -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [feature]})


def until(browser: Any, script: str, wait: float = 30.0) -> None:
    end = time.monotonic() + wait
    while not browser.execute_script(script):
        assert time.monotonic() < end, script
        time.sleep(0.1)


def plots_on(browser: Any) -> dict[str, bool]:
    """Figures that are there, and whether each is seen with data in it."""
    plots: dict[str, bool] = browser.execute_script(
        """
        const held = (trace) => ["x", "y", "z"].some((key) => trace[key] && trace[key].length > 0);
        const shown = (plot) => {
          const picture = plot.querySelector(".main-svg");
          const box = picture ? picture.getBoundingClientRect() : { width: 0, height: 0 };
          const marks = plot.querySelectorAll(".trace path, .hm image");
          return box.width > 100 && box.height > 100 && marks.length > 0;
        };
        return Object.fromEntries([...document.querySelectorAll(".plot[id]")].map((plot) => [
          plot.id.slice(4),
          Boolean(plot.data && plot.data.some((trace) => trace.visible !== false && held(trace)) && shown(plot)),
        ]));
        """
    )
    return plots


def complaints(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def requested(browser: Any) -> set[str]:
    entries = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {
        entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"
    } - {"about:blank"}


def tick(browser: Any, series: int) -> None:
    browser.execute_script("document.querySelectorAll('#picker input')[arguments[0]].click()", series)


def visible_series(browser: Any) -> list[int]:
    """Series of which anything is seen in any figure."""
    series: list[int] = browser.execute_script(
        """
        const traces = [...document.querySelectorAll(".plot")].filter((plot) => !plot.closest("[hidden]"))
          .flatMap((plot) => plot.data || []);
        const seen = traces.filter((trace) => trace.visible !== false && trace.meta && trace.meta.s !== undefined);
        const panels = [...document.querySelectorAll("[data-series]:not([hidden])")];
        const indices = [...seen.map((trace) => trace.meta.s), ...panels.map((part) => Number(part.dataset.series))];
        return [...new Set(indices)].sort();
        """
    )
    return series


def renamed(run: ReadRun, name: str) -> ReadRun:
    """The same run in a plant whose names somebody has thought about."""
    floors = tuple(
        floor.model_copy(
            update={
                "name": f"{name}{floor.name}",
                "devices": tuple(part.model_copy(update={"name": f"{name}{part.name}"}) for part in floor.devices),
            }
        )
        for floor in run.scenario.floors
    )
    records = tuple(
        dataclasses.replace(
            record,
            gateways=tuple(
                dataclasses.replace(
                    gateway,
                    name=f"{name}{gateway.name}",
                    failure=gateway.failure and name,
                    devices=tuple(dataclasses.replace(part, name=f"{name}{part.name}") for part in gateway.devices),
                )
                for gateway in record.gateways
            ),
        )
        for record in run.records
    )
    devices = () if run.holding is None else run.holding.devices
    held = tuple(Held(name, f"{name}{device.name}", device.classes) for device in devices)
    holding = Holding(held, tuple(f"{name}{at}" for at in range(len(held[0].classes)))) if held else None
    scenario = run.scenario.model_copy(update={"floors": floors, "name": name})
    changed = dataclasses.replace(run, records=records, scenario=scenario, holding=holding, policy=name)
    return dataclasses.replace(changed, summary=summarise(records))


def test_everything_is_drawn_without_complaint_or_request(browser: Any, full_page: Path) -> None:
    visit(browser, full_page)
    plots = plots_on(browser)
    assert set(plots) >= ALWAYS | FAILED | TRAINED | {"tradeoff-delay", "tradeoff-shortfall", "time-1", "energy-1"}
    assert all(plots.values()), plots
    assert complaints(browser) == []
    urls = requested(browser)
    assert {url for url in urls if not url.startswith(("data:", "blob:"))} == {full_page.as_uri()}
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in fetched if not name.startswith(("data:", "blob:"))] == []


def test_headings_are_in_order_and_figures_have_words(browser: Any, full_page: Path) -> None:
    visit(browser, full_page)
    script = "return [...document.querySelectorAll('h1, h2, h3')].map((part) => Number(part.tagName[1]))"
    levels = browser.execute_script(script)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    labels = "return [...document.querySelectorAll('.plot')].map((plot) => plot.getAttribute('aria-label') || '')"
    assert all(len(label) > 20 for label in browser.execute_script(labels))
    assert "policies side by side" in browser.execute_script("return document.querySelector('main section').innerText")
    titles = browser.execute_script("return [...document.querySelectorAll('#tables h3')].map((part) => part.innerText)")
    assert [title.split(" ddsra")[0] for title in titles] == [
        "Time to an accuracy that all reach", "The paper's claims", "Against", "Theory",
    ]  # fmt: skip


def test_the_picker_hides_and_shows_a_policy_everywhere(browser: Any, full_page: Path) -> None:
    visit(browser, full_page)
    assert visible_series(browser) == [0, 1]
    tick(browser, 0)
    until(browser, "return document.querySelector('#fig-delay').data.some((trace) => trace.visible === false)")
    assert visible_series(browser) == [1]
    chosen = "return document.querySelector('#run-choice').selectedOptions[0].text"
    assert browser.execute_script(chosen).startswith("round_robin")
    tick(browser, 1)
    assert browser.execute_script("return !document.querySelector('#nothing').hidden")
    assert visible_series(browser) == []
    tick(browser, 0)
    tick(browser, 1)
    assert visible_series(browser) == [0, 1]
    assert all(plots_on(browser).values())
    assert complaints(browser) == []


def test_the_slider_moves_timeline_and_map(browser: Any, full_page: Path) -> None:
    visit(browser, full_page)
    browser.execute_script(
        "const slider = document.querySelector('#round-choice'); slider.value = 2;"
        "slider.dispatchEvent(new Event('input', { bubbles: true }))"
    )
    until(browser, "return document.querySelector('#fig-timeline').layout.xaxis.title.text.endsWith('round 2')")
    assert browser.execute_script("return document.querySelector('#round-shown').textContent") == "round 2"
    browser.execute_script(
        "const cuts = document.querySelector('#fig-map-choice'); cuts.value = '1';"
        "cuts.dispatchEvent(new Event('change', { bubbles: true }))"
    )
    assert plots_on(browser)["map"]
    assert complaints(browser) == []


def test_the_map_marks_every_device_that_sent_raw_samples(browser: Any, simulation: Path, tmp_path: Path) -> None:
    def mostly_raw(t: int, record: dict[str, Any]) -> None:
        for gateway in record["gateways"]:
            for device, cut in zip(gateway.get("devices", ()), (0 if t else 2, 0 if t == 0 else 2, 2), strict=False):
                device["cut"] = cut

    page = tmp_path / "report.html"
    results = results_of(collection_of(changed(collect([simulation]).runs[0], mostly_raw)))
    write_page(results, (), page)
    visit(browser, page)
    script = """
        const plot = document.querySelector("#fig-map");
        const dots = plot.data.find((trace) => trace.name === "device");
        const { color, line } = dots.marker;
        const marked = dots.text.map((text, at) => [text.split("<br>")[0], [color[at], line.color[at], text]]);
        const named = plot.data.filter((trace) => trace.showlegend !== false && trace.visible !== false);
        return [Object.fromEntries(marked), named.map((trace) => trace.name)];
    """
    dots, legend = browser.execute_script(script)
    cuts = lay_out_run(results.collection.runs[0]).cut
    assert any((cuts == 0).sum(axis=0) > (cuts == 2).sum(axis=0))
    for name, cut in zip(results.series[0].runs[0].devices, cuts.T, strict=True):
        served = cut[~np.isnan(cut)]
        if not served.size:
            assert name not in dots
            continue
        raw = (served == 0).mean()
        usual, rim, text = dots[name]
        assert usual == (0 if raw >= 0.5 else 2)
        assert (rim == RAW_COLOUR) == (raw > 0)
        assert f"{100 * raw:.3g} % of its rounds" in text
    assert "yellow rim: cut 0 in some rounds" in legend
    assert "floor selected in round 0" in legend
    assert len(legend) == len(set(legend))
    assert complaints(browser) == []


def choose(browser: Any, run: int, number: int) -> None:
    """Choose a run and a round; the page of these tests shows every round."""
    browser.execute_script(
        """
        const [run, slider] = [document.querySelector("#run-choice"), document.querySelector("#round-choice")];
        run.value = arguments[0];
        run.dispatchEvent(new Event("change", { bubbles: true }));
        slider.value = arguments[1];
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        """,
        run,
        number,
    )


def panel_of(browser: Any) -> dict[str, dict[str, Any]]:
    """Values in the cells of the panel, by floor or device and then by key; the table of other policies apart."""
    cells: dict[str, dict[str, Any]] = browser.execute_script(
        """
        const tables = [...document.querySelectorAll("#decision table")].slice(0, 2);
        const rows = tables.flatMap((table) => [...table.querySelectorAll("tbody tr")]);
        return Object.fromEntries(rows.map((row) => [row.dataset.floor ?? row.dataset.device, Object.fromEntries(
          [...row.querySelectorAll("[data-key]")].map((cell) => [cell.dataset.key, JSON.parse(cell.dataset.value)]))]));
        """
    )
    return cells


def energies_of(browser: Any) -> dict[str, str]:
    """Energy of the budget of every floor that is selected and of its devices, as people read it."""
    texts: dict[str, str] = browser.execute_script(
        """
        const cells = [...document.querySelectorAll("#decision [data-key=energy]")];
        const nameOf = (cell) => cell.closest("tr").dataset.floor ?? cell.closest("tr").dataset.device;
        return Object.fromEntries(cells.map((cell) => [nameOf(cell), cell.textContent]));
        """
    )
    return texts


def energies_in(answer: dict[str, Any]) -> dict[str, str]:
    """The same from the answer of `fedfloor plan`."""
    floors = [floor for floor in answer["gateways"] if floor["channel"] is not None]
    parts = [*floors, *(device for floor in floors for device in floor["devices"])]
    texts = {}
    for part in parts:
        used, budget = part["energy_j"], part["energy_budget_j"]
        scale, unit = next(entry for entry in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")) if (budget or used) >= entry[0])
        texts[part["name"]] = f"{used / scale:.3g} of {budget / scale:.3g} {unit}"
    return texts


def shown_values(answer: dict[str, Any], record: RoundRecord) -> dict[str, dict[str, Any]]:
    """What the cells of the panel must hold, from the answer of `fedfloor plan` and from the log."""
    values: dict[str, dict[str, Any]] = {}
    for floor, logged in zip(answer["gateways"], record.gateways, strict=True):
        state = {"queue": plain(logged.queue), "target_rate": plain(logged.target_rate)}
        if floor["channel"] is None:
            values[floor["name"]] = {key: floor[key] for key in ("reason", "energy_budget_j")} | state
            continue
        values[floor["name"]] = {
            **{key: floor[key] for key in ("failure", "channel", "delay_s", "power_w", "memory_bytes")},
            "parts": [floor["download_s"], floor["train_s"], floor["upload_s"]],
            "energy": [floor["energy_j"], floor["energy_budget_j"]],
            **state,
        }
        for device in floor["devices"]:
            kept = {key: device[key] for key in ("cut", "gateway_frequency_hz", "memory_bytes")}
            values[device["name"]] = {**kept, "energy": [device["energy_j"], device["energy_budget_j"]]}
    return values


def test_the_panel_of_every_round_is_what_plan_answers(browser: Any, full_page: Path, runs: Path) -> None:
    visit(browser, full_page)
    kinds = set[str]()
    for at, run in list(enumerate(collect([runs]).runs))[::2]:  # the first seed of either policy
        for record in run.records:
            answer: dict[str, Any] = dict(fedfloor.plan(run.folder, round=record.round))
            del answer["solve_s"]  # it differs every time
            expected = json.loads(json.dumps(plain(answer)))
            choose(browser, at, record.round)
            script = "return fedfloorDecision.answer(JSON.parse(document.getElementById('report-data').textContent), "
            assert browser.execute_script(f"{script}{at}, {record.round})") == expected
            assert panel_of(browser) == shown_values(expected, record)
            assert energies_of(browser) == energies_in(expected)
            kinds |= {floor["failure"] or floor["reason"] or "served" for floor in expected["gateways"]}
    assert {"served", "energy", "not selected"} <= kinds  # the runs show more than floors that succeed
    assert any(kind.startswith("infeasible: energy") for kind in kinds)
    assert complaints(browser) == []


def test_the_panel_says_what_other_policies_would_decide(browser: Any, full_page: Path, runs: Path) -> None:
    visit(browser, full_page)
    run = collect([runs]).runs[0]
    choose(browser, 0, 2)
    heads = browser.execute_script(
        "return [...document.querySelectorAll('#decision table:last-of-type')].at(-1).querySelector('thead').innerText"
    )
    assert "round_robin" in heads
    answer = fedfloor.plan(run.folder, "round_robin", round=2)
    delays = browser.execute_script(
        """
        const cells = [...document.querySelectorAll("#decision .total [data-key]")];
        return cells.map((cell) => JSON.parse(cell.dataset.value));
        """
    )
    assert delays == [plain(run.records[2].delay_s), plain(answer["delay_s"])]
    served = [floor["name"] for floor in answer["gateways"] if floor["channel"] is not None]
    rows = browser.execute_script(
        """
        const rows = [...[...document.querySelectorAll("#decision table")].at(-1).querySelectorAll("tr[data-floor]")];
        return rows.filter((row) => row.children[2].dataset.key === "other").map((row) => row.dataset.floor);
        """
    )
    assert rows == served


def said(browser: Any) -> str:
    text: str = browser.execute_script("return document.querySelector('#decision .said').innerText")
    return text


def test_a_lost_floor_is_shown_with_what_the_log_says(browser: Any, tmp_path: Path) -> None:
    quick = fedfloor.load("quick")
    links = itertools.product(range(3), enumerate(floor.name for floor in quick.floors), range(quick.radio.channels))
    lines = [f"{t},{floor},{channel},{0.0 if m < 3 else 1e-9}" for t, (m, floor), channel in links]
    (tmp_path / "gains.csv").write_text("\n".join(["round,floor,channel,gain", *lines, ""]), encoding="utf-8")
    traced = [f"traces.uplink_gain={json.dumps(str(tmp_path / 'gains.csv'))}"]
    fedfloor.simulate("quick", policy="round_robin", rounds=3, overrides=traced, out=tmp_path / "run")
    run = collect([tmp_path / "run"]).runs[0]
    assert run.summary.failures["lost"] > 0
    page = tmp_path / "report.html"
    write_page(results_of(collection_of(run)), (), page)
    visit(browser, page)
    for record in run.records:
        choose(browser, 0, record.round)
        assert fedfloor.plan(run.folder, round=record.round).delay_s in (np.inf, record.delay_s)
        lasts = f"{record.delay:.3g} s"
        assert f"made the round last {lasts}" in said(browser), record
        lost = [floor.name for floor in record.gateways if floor.failure == "lost"]
        for name in lost:
            row = browser.execute_script(
                "return document.querySelector(`#decision tr[data-floor='${arguments[0]}']`).innerText", name
            )
            assert "failed: link lost" in row
            assert "endless" in row
            assert "no limit" not in row
        if lost:
            assert "queues of the selected floors: no finite number at V" in said(browser)
    assert all(plots_on(browser).values())
    assert complaints(browser) == []


def test_a_log_with_other_decisions_than_are_made_now_is_shown_and_told_of(
    browser: Any, simulation: Path, tmp_path: Path
) -> None:
    run = collect([simulation]).runs[0]
    scenario = run.scenario.model_copy(update={"policy": Policy(name="round_robin")})
    page = tmp_path / "report.html"
    write_page(results_of(collection_of(dataclasses.replace(run, scenario=scenario))), (), page)
    visit(browser, page)
    told = set()
    for record in run.records:
        choose(browser, 0, record.round)
        decided = fedfloor.plan(run.folder, "round_robin", round=record.round)
        differs = any(a["channel"] != b.channel for a, b in zip(decided.gateways, record.gateways, strict=True))
        assert ("The log has another decision for this round" in said(browser)) == differs
        rows = browser.execute_script(
            "return [...document.querySelector('#decision tbody').children].map((row) => row.innerText)"
        )
        for row, ours, logged in zip(rows, decided.gateways, record.gateways, strict=True):
            assert ("not selected in the log" in row) == (ours["channel"] is not None and not logged.selected)
            assert ("; selected in the log" in row) == (ours["channel"] is None and logged.selected)
        told.add(differs)
    assert True in told
    assert complaints(browser) == []


def test_a_round_is_chosen_by_click_and_by_key(browser: Any, full_page: Path) -> None:
    visit(browser, full_page)
    title = "return document.querySelector('#decision h3').textContent"
    assert browser.execute_script(title).startswith("Round 0:")
    # A pointer over the middle of the cell of round 2, as Plotly hears it.
    browser.execute_script(
        """
        const plot = document.querySelector("#fig-turns");
        plot.scrollIntoView({ block: "center" });
        const box = plot.querySelector(".nsewdrag").getBoundingClientRect();
        const place = [box.left + plot._fullLayout.xaxis.l2p(2), box.top + plot._fullLayout.yaxis.l2p(1)];
        for (const kind of ["mousemove", "mousedown", "mouseup", "click"])
          document.elementFromPoint(...place).dispatchEvent(
            new MouseEvent(kind, { clientX: place[0], clientY: place[1], bubbles: true, view: window }));
        """
    )
    until(browser, "return document.querySelector('#decision h3').textContent.startsWith('Round 2:')")
    event = "new KeyboardEvent('keydown', { key: arguments[1], bubbles: true })"
    key = f"document.querySelector(arguments[0]).dispatchEvent({event})"
    browser.execute_script(key, "#fig-turns", "ArrowRight")
    assert browser.execute_script(title).startswith("Round 3:")
    browser.execute_script(key, "#fig-cuts", "ArrowLeft")
    assert browser.execute_script(title).startswith("Round 2:")
    browser.execute_script("document.querySelector('#round-back').click()")
    assert browser.execute_script(title).startswith("Round 1:")
    marked = "return document.querySelector('#fig-turns').layout.shapes.map((shape) => (shape.x0 + shape.x1) / 2)"
    assert browser.execute_script(marked) == [1]
    assert complaints(browser) == []


def test_everything_that_can_be_used_is_reached_by_keyboard_and_shows_it(browser: Any, full_page: Path) -> None:
    visit(browser, full_page)
    unseen = browser.execute_script(
        """
        const kinds = "a[href], button:not(:disabled), select, input, summary, .scroll[tabindex], .plot[tabindex]";
        const parts = [...document.querySelectorAll(kinds)].filter((part) => part.offsetParent);
        return parts.filter((part) => {
          part.focus({ focusVisible: true, preventScroll: true });
          const hasOutline = (node) => node !== null && getComputedStyle(node).outlineStyle !== "none";
          return document.activeElement !== part || !(hasOutline(part) || hasOutline(part.closest("label")));
        }).map((part) => part.outerHTML.slice(0, 80));
        """
    )
    assert unseen == []


def test_every_figure_has_a_legend_or_a_scale(browser: Any, full_page: Path) -> None:
    visit(browser, full_page)
    without = browser.execute_script(
        """
        return [...document.querySelectorAll(".plot")].filter((plot) => !plot.closest("[hidden]"))
          .filter((plot) => !plot.querySelector(".legend .traces, .colorbar")).map((plot) => plot.id);
        """
    )
    assert without == []


def test_raw_samples_are_counted_for_every_run(browser: Any, full_page: Path, runs: Path) -> None:
    visit(browser, full_page)
    for at, run in enumerate(collect([runs]).runs):
        choose(browser, at, 0)
        cuts = [part.cut for record in run.records for gateway in record.gateways for part in gateway.devices]
        said = browser.execute_script("return document.querySelector('#run-raw').textContent")
        assert f"in {cuts.count(0)} of {len(cuts)} device-rounds" in said


def test_figures_follow_the_colour_scheme_while_one_looks(browser: Any, full_page: Path) -> None:
    visit(browser, full_page)
    look = """
        const plot = document.querySelector("#fig-delay");
        return [getComputedStyle(document.body).backgroundColor, plot.layout.paper_bgcolor, plot.layout.font.color,
          plot.querySelector(".main-svg").style.background];
    """
    light = browser.execute_script(look)
    emulate(browser, scheme="dark")
    until(browser, f"return document.querySelector('#fig-delay').layout.paper_bgcolor !== '{light[1]}'")
    night = browser.execute_script(look)
    turns = "return document.querySelector('#fig-turns').data.slice(1).map((key) => key.marker.color)"
    assert browser.execute_script(turns) == list(DARK_TURN_COLOURS.values())
    marks = browser.execute_script(
        "return [...document.querySelectorAll('#decision .turn')].map((mark) => getComputedStyle(mark).backgroundColor)"
    )
    dark = {f"rgb({', '.join(str(int(c[at : at + 2], 16)) for at in (1, 3, 5))})" for c in DARK_TURN_COLOURS.values()}
    assert set(marks) <= dark
    assert all(one != other for one, other in zip(light, night, strict=True))
    emulate(browser, scheme="light")
    until(browser, f"return document.querySelector('#fig-delay').layout.paper_bgcolor === '{light[1]}'")


@pytest.mark.parametrize(
    "width", [pytest.param(360, marks=pytest.mark.slow), 375, pytest.param(768, marks=pytest.mark.slow)]
)
def test_no_width_makes_the_page_scroll_sideways(width: int, browser: Any, full_page: Path) -> None:
    visit(browser, full_page, width=width)
    sizes = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert sizes[0] <= width
    assert sizes[1] == width
    assert all(plots_on(browser).values())
    sticking_out = """
        const scrolls = (part) => part.closest(".scroll, .picker fieldset, .plot");
        return [...document.querySelectorAll("body *")].filter((part) => !scrolls(part))
          .filter((part) => part.getBoundingClientRect().right > window.innerWidth + 0.5).map((part) => part.outerHTML);
    """
    assert browser.execute_script(sticking_out) == []
    held = "return [...document.querySelectorAll('.scroll')].map((part) => part.getBoundingClientRect().right)"
    assert max(browser.execute_script(held)) <= width
    unhinted = """
        return [...document.querySelectorAll(".scroll")].filter((part) => part.scrollWidth > part.clientWidth + 1)
          .filter((part) => !getComputedStyle(part, "::before").content.includes("scroll sideways")).length;
    """
    assert browser.execute_script(unhinted) == 0


@pytest.mark.slow
def test_every_floor_is_named_below_its_bars(browser: Any, tmp_path: Path) -> None:
    run = fedfloor.simulate("factory", policy="random", rounds=3, out=tmp_path / "run")
    page = fedfloor.report(tmp_path / "run").page
    script = """
        return [...document.querySelectorAll(`${arguments[0]} .xtick text`)]
          .map((name) => [name.textContent, getComputedStyle(name).display]);
    """
    for width in (1200, 700, 400):
        visit(browser, page, width=width)
        for figure in ("#fig-energy-0", "#fig-participation"):
            names = browser.execute_script(script, figure)
            assert [name for name, display in names if display == "none"] == [], (figure, width)
            assert run.scenario.floors[-1].name in [name for name, _ in names], (figure, width)


@pytest.mark.slow
def test_print_is_light_and_without_controls(browser: Any, full_page: Path) -> None:
    visit(browser, full_page, scheme="dark")
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    widths = "return [...document.querySelectorAll('.main-svg')].map((part) => part.getBoundingClientRect().width)"
    assert max(browser.execute_script(widths)) <= 680  # A4 and Letter between their margins
    emulate(browser, media="print", scheme="dark")
    shown = "return getComputedStyle(document.querySelector(arguments[0])).display"
    assert browser.execute_script(shown, ".picker") == "none"
    assert browser.execute_script(shown, ".controls") == "none"
    assert browser.execute_script(shown, ".printed") == "block"
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.execute_script("return document.querySelector('#fig-delay').layout.paper_bgcolor") == "#ffffff"
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script("return document.querySelector('#fig-delay').layout.paper_bgcolor") != "#ffffff"


def test_hostile_names_stay_text(browser: Any, runs: Path, tmp_path: Path) -> None:
    collection = collect([runs])
    series = tuple(
        Series(f"{HOSTILE}{index}", tuple(renamed(run, HOSTILE) for run in one.runs))
        for index, one in enumerate(collection.series)
    )
    table = Table(HOSTILE, (HOSTILE, "b"), ((HOSTILE, HOSTILE),), HOSTILE)
    page = tmp_path / "hostile.html"
    write_page(results_of(Collection(HOSTILE, series, (HOSTILE,), ())), (table, table), page)
    visit(browser, page)
    assert browser.execute_script("return window.hit === undefined")
    assert browser.execute_script("return document.querySelector('h1').textContent") == HOSTILE
    assert browser.execute_script("return document.querySelector('td').textContent") == HOSTILE
    assert browser.execute_script("return document.querySelector('#picker label span').textContent") == f"{HOSTILE}0"
    assert browser.execute_script("return document.querySelector('#run-choice option').text").startswith("</script>")
    assert browser.execute_script("return document.scripts.length") == 3
    assert browser.execute_script("return document.querySelectorAll('img, .plot a[href], .plot b').length") == 0
    ticks = "return document.querySelector('#fig-timeline .yaxislayer-above').textContent"
    assert "</script>" in browser.execute_script(ticks)
    assert all(plots_on(browser).values())
    assert complaints(browser) == []


class Tags(HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {key for key, _ in attrs}


@pytest.mark.parametrize(
    "name", ["<script>hit()</script>", '"><img src=x onerror=hit()>', "'><b\u2028</title>", HOSTILE]
)
def test_names_add_no_element_and_no_attribute(name: str, runs: Path, tmp_path: Path) -> None:
    def tags_of(name: str) -> Tags:
        series = tuple(
            Series(f"{name}{index}", tuple(renamed(run, name) for run in one.runs))
            for index, one in enumerate(collect([runs]).series)
        )
        table = Table(name, (name, "b"), ((name, name),), name)
        page = tmp_path / "page.html"
        write_page(results_of(Collection(name, series, (name,), ())), (table, table), page)
        text, tags = page.read_text(encoding="utf-8"), Tags()
        data = text.split('id="report-data">')[1].split("</script>")[0]
        assert data.isascii()
        assert not set("<>&") & set(data)
        tags.feed(text)
        return tags

    hostile, plain = tags_of(name), tags_of("plain")
    added = Counter(hostile.elements) - Counter(plain.elements)
    assert set(added) <= {"code", "wbr"}  # our own, between backquotes and after commas
    assert hostile.attributes == plain.attributes


def test_a_simulation_says_what_training_would_add(browser: Any, simulation: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(results_of(collect([simulation])), (), page)
    visit(browser, page)
    plots = plots_on(browser)
    assert set(plots) - FAILED == ALWAYS
    assert all(plots.values()), plots
    text = browser.execute_script("return document.querySelector('footer details').textContent")
    for words in ("fedfloor run", "participation.observe_every", "holding.json", "fedfloor tradeoff"):
        assert words in text
    assert complaints(browser) == []


def test_a_run_that_is_still_going_is_shown_and_told_of(browser: Any, runs: Path, tmp_path: Path) -> None:
    going = tmp_path / "going"
    shutil.copytree(next(path for path in sorted(runs.iterdir()) if path.is_dir()), going)
    lines = (going / "rounds.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (going / "rounds.jsonl").write_text(lines[0], encoding="utf-8")
    (going / "bounds.json").unlink()
    page = tmp_path / "report.html"
    write_page(results_of(collect([going, tmp_path / "nowhere"])), (HEADLINE,), page)
    visit(browser, page)
    told = browser.execute_script("return document.querySelector('header').innerText")
    assert "1 of 4 rounds" in told
    assert "nowhere: does not exist" in told
    plots = plots_on(browser)
    assert set(plots) >= ALWAYS
    assert all(plots.values()), plots
    assert complaints(browser) == []


@pytest.mark.slow
def test_a_large_plant_is_thinned_and_says_so(browser: Any, tmp_path: Path) -> None:
    fedfloor.simulate("campus", policy="random", rounds=2, out=tmp_path / "run")
    run = collect([tmp_path / "run"]).runs[0]
    records = [dataclasses.replace(run.records[t % 2], round=t, clock_s=float(t)) for t in range(300)]
    long = dataclasses.replace(run, records=tuple(records))
    page = tmp_path / "report.html"
    labels: Sequence[str] = ("one", "other")
    series = tuple(Series(label, (long,)) for label in labels)
    write_page(results_of(Collection("campus", series, (), ())), (), page)
    assert page.stat().st_size < 15e6
    visit(browser, page, wait=300.0)
    plots = plots_on(browser)
    assert all(plots.values()), plots
    assert "evenly spread" in browser.execute_script("return document.querySelector('#run').innerText")
    assert complaints(browser) == []


def test_equal_runs_give_equal_pages(simulation: Path, tmp_path: Path) -> None:
    pages = [tmp_path / "one.html", tmp_path / "deep" / "other.html"]
    for page in pages:
        write_page(results_of(collect([simulation])), (HEADLINE,), page)
    assert pages[0].read_bytes() == pages[1].read_bytes()
