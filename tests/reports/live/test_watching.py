"""The live page in a real browser: what people see while a run goes, and what must never happen."""

import itertools
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedfloor.reports.live import watched as watched_module
from fedfloor.reports.live.serving import WatchServer
from tests.reports.live.growing import ROUNDS, Growing, as_of_a_real_plant
from tests.reports.test_page import browser as browser  # noqa: PLC0414  # the fixture
from tests.reports.test_page import complaints, emulate, requested, until

pytest.importorskip("plotly", reason="plotly is not installed")

HOSTILE = "<img src=x onerror=window.hit=1>&amp;\"'"
Watch = Callable[..., WatchServer]


@pytest.fixture
def watch(browser: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Serve a folder and open its page; figures are drawn as often as rounds come."""
    monkeypatch.setattr(watched_module, "_LEAST", 0.1)
    monkeypatch.setattr(watched_module, "_PAUSE", 0.0)
    servers: list[WatchServer] = []

    def start(path: Path, *, width: int = 1200, scheme: str = "light", **options: Any) -> WatchServer:
        server = WatchServer(path, **options)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        emulate(browser, scheme=scheme)
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(server.url)
        return server

    yield start
    browser.get("about:blank")
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def real(growing: Growing) -> Growing:
    """A run that will look like one of a real plant."""
    growing.change(as_of_a_real_plant)
    return growing


def text_of(browser: Any, part: str) -> str:
    words: str = browser.execute_script("return document.querySelector(arguments[0]).innerText", part)
    return words


def until_round(browser: Any, number: int) -> None:
    until(browser, f"return document.querySelector('#tiles .value')?.innerText.startsWith('{number} ')")


def until_drawn(browser: Any, number: int, figure: str = "fig-delay") -> None:
    """Wait until a figure shows so many rounds."""
    until(browser, f"return document.getElementById('{figure}')?.data?.[0]?.x?.at(-1) === {number}")


def scroll_to(browser: Any, figure: str = "fig-delay") -> None:
    """Bring a figure into sight; those that are far from it are not drawn."""
    until(browser, f"return Boolean(document.getElementById('{figure}'))")
    browser.execute_script("document.getElementById(arguments[0]).scrollIntoView()", figure)


def test_a_run_is_seen_as_it_goes(browser: Any, watch: Watch, real: Growing) -> None:
    server = watch(real.folder)
    until(browser, "return document.querySelector('#status').innerText === 'Waiting for the first round.'")
    real.write(0, 3)
    until_round(browser, 3)
    until_drawn(browser, 3)
    assert text_of(browser, "#status") == "Running."
    assert "last round" in text_of(browser, "#age")
    assert browser.title.startswith("3/40 small")
    assert not browser.execute_script("return document.getElementById('fig-accuracy-rounds')")
    real.write(3, 12)
    until_round(browser, 12)
    until_drawn(browser, 12)
    until_drawn(browser, 10, "fig-accuracy-rounds")  # the first test has come: a new figure
    tiles = text_of(browser, "#tiles").replace("\u00a0", " ")
    assert "59.0 %" in tiles
    assert "best 59.0 % after 10 rounds" in tiles
    assert "predicted" in tiles
    heads = "return [...document.querySelectorAll('#last-table thead th')].map((cell) => cell.innerText)"
    assert browser.execute_script(heads)[:4] == ["floor", "outcome", "predicted", "real"]
    real.write(12, ROUNDS)
    until(browser, "return document.querySelector('#status').innerText === 'Ended after 40 rounds.'")
    until_drawn(browser, ROUNDS)
    assert complaints(browser) == []
    origin = server.url.rstrip("/")
    assert {url for url in requested(browser) if not url.startswith(("data:", "blob:", origin))} == set()


@pytest.mark.slow
def test_a_run_that_predicts_numbers_shows_its_error(
    browser: Any, watch: Watch, growing: Growing, finished: Path
) -> None:
    growing.predict_numbers([9.0, 4.0, 6.25])
    growing.write(0, 15)
    watch(growing.folder)
    until_round(browser, 15)
    tiles = text_of(browser, "#tiles").replace("\u00a0", " ")
    assert "Test error\n2.5\nafter 15 rounds; least 2 after 10 rounds" in tiles
    assert "accuracy" not in tiles
    browser.execute_script("document.querySelector('#grid tr.bars td:nth-last-child(2)').click()")
    assert text_of(browser, "#grid-detail").endswith("test error 2.5.")
    shutil.copytree(finished, growing.folder.parent / "runs" / "simulated")
    growing.folder.rename(growing.folder.parent / "runs" / "numbers")
    watch(growing.folder.parent / "runs")
    until(browser, "return document.querySelectorAll('#runs-table tbody tr').length === 2")
    rows = text_of(browser, "#runs-table")
    assert "accuracy or error" in rows
    assert "15 of 40\t2.5\t2\t" in rows
    assert complaints(browser) == []


def test_the_grid_tells_who_was_done_who_failed_and_who_was_not_selected(
    browser: Any, watch: Watch, real: Growing
) -> None:
    real.write(0, 30)
    watch(real.folder)
    until_round(browser, 30)
    rows: list[list[str]] = browser.execute_script(
        "return [...document.querySelectorAll('#grid tbody tr:not(.bars)')].map((row) =>"
        " [...row.querySelectorAll('td:not(.share)')].map((cell) => (cell.querySelector('.sr')?.textContent ?? '')))"
    )
    words = {True: "done", False: "failed: short of energy"}
    for m, row in enumerate(rows):
        gateways = [json.loads(line)["gateways"][m] for line in real.lines[:30]]
        assert row == [words[entry["completed"]] if entry["selected"] else "" for entry in gateways]
    assert set(itertools.chain(*rows)) == {"done", "failed: short of energy", ""}
    assert "failed: short of energy" in text_of(browser, "#key")


@pytest.mark.slow
def test_the_grid_is_read_with_the_keyboard(browser: Any, watch: Watch, real: Growing) -> None:
    real.write(0, 8)
    watch(real.folder)
    until_round(browser, 8)
    press = (
        "const grid = document.querySelector('#grid-scroll'); grid.focus();"
        "for (const key of arguments[0]) grid.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));"
        "return document.querySelector('#grid-detail').innerText"
    )
    assert browser.execute_script(press, ["ArrowUp"]).startswith("Round 7: ")
    assert browser.execute_script(press, ["ArrowDown", "ArrowLeft"]).startswith("Round 6, press: ")
    real.write(8, 9)
    until_round(browser, 9)
    assert text_of(browser, "#grid-detail").startswith("Round 6, press: ")  # what was pointed at stays
    assert browser.execute_script("return document.querySelectorAll('#grid .cursor').length") == 1


def test_zoom_scroll_and_choices_stay_when_rounds_come(browser: Any, watch: Watch, real: Growing) -> None:
    real.write(0, 4)
    watch(real.folder)
    until_drawn(browser, 4)
    browser.execute_script(
        "document.querySelector('#fig-map-choice').value = '1';"
        "Plotly.relayout('fig-delay', { 'xaxis.range[0]': 1, 'xaxis.range[1]': 3 });"
        "const slider = document.querySelector('#round-choice'); slider.value = 1;"
        "slider.dispatchEvent(new Event('input', { bubbles: true }));"
        "document.querySelector('#fig-participation').scrollIntoView()"
    )
    place = "return document.querySelector('#fig-participation').getBoundingClientRect().top"
    top = browser.execute_script(place)
    real.write(4, 5)  # the first evaluation: new figures above this one
    until(browser, "return Boolean(document.getElementById('fig-accuracy-rounds'))")
    until_drawn(browser, 5)
    real.write(5, 9)
    until_drawn(browser, 9)
    assert browser.execute_script("return document.querySelector('#fig-delay').layout.xaxis.range") == [1, 3]
    assert browser.execute_script("return document.querySelector('#fig-map-choice').value") == "1"
    assert text_of(browser, "#round-shown") == "round 1"  # from 0, as in the log
    assert abs(browser.execute_script(place) - top) < 40
    assert complaints(browser) == []


@pytest.mark.slow
def test_the_slider_follows_the_latest_round_until_it_is_moved(browser: Any, watch: Watch, real: Growing) -> None:
    real.write(0, 4)
    watch(real.folder)
    until_drawn(browser, 4)
    assert text_of(browser, "#round-shown") == "round 3"
    real.write(4, 9)
    until_drawn(browser, 9)
    assert text_of(browser, "#round-shown") == "round 8"


def test_damage_and_a_lost_folder_are_told_and_pass(browser: Any, watch: Watch, real: Growing) -> None:
    real.write(0, 3)
    watch(real.folder)
    until_round(browser, 3)
    real.append(b"damage\n")
    until(browser, "return document.querySelector('#problem').innerText.includes('line 4: is not JSON')")
    assert text_of(browser, "#tiles").startswith("Rounds done\n3 of ")
    real.cut(2)  # and resumed
    real.write(2, 6)
    until_round(browser, 6)
    until(browser, "return document.querySelector('#problem').hidden")
    aside = real.folder.with_name("aside")
    real.folder.rename(aside)
    until(browser, "return document.querySelector('#problem').innerText.includes('has disappeared')")
    aside.rename(real.folder)
    until(browser, "return document.querySelector('#status').innerText === 'Running.'")
    assert complaints(browser) == []


@pytest.mark.slow
def test_a_server_that_ends_is_told_of_and_the_page_recovers(browser: Any, watch: Watch, real: Growing) -> None:
    real.write(0, 3)
    server = watch(real.folder)
    until_round(browser, 3)
    server.shutdown()
    server.server_close()
    until(browser, "return document.querySelector('#problem').innerText.includes('does not answer')")
    assert text_of(browser, "#status") == "No connection."
    real.write(3, 5)
    again = WatchServer(real.folder, port=server.server_port)
    threading.Thread(target=again.serve_forever, args=(0.05,), daemon=True).start()
    try:
        until_round(browser, 5)
        until(browser, "return document.querySelector('#problem').hidden")
    finally:
        browser.get("about:blank")
        again.shutdown()
        again.server_close()


@pytest.mark.slow
def test_several_runs_are_chosen_from_a_table(browser: Any, watch: Watch, finished: Path, tmp_path: Path) -> None:
    one, other = Growing(finished, tmp_path / "one"), Growing(finished, tmp_path / "other")
    one.change(lambda _, record: record.update(policy="round_robin"))
    one.write(0, ROUNDS)
    other.write(0, 6)
    watch(tmp_path)
    until_round(browser, 6)  # the one that goes
    until(browser, "return document.querySelectorAll('#runs-table tbody tr').length === 2")
    until(browser, "return document.querySelectorAll('#picker input').length === 2")
    browser.execute_script("document.querySelector('#runs-table button').click()")
    until_round(browser, ROUNDS)
    browser.execute_script("document.querySelectorAll('#picker input')[1].click()")
    other.write(6, 9)
    until(browser, "return document.querySelector('#runs-table tbody').innerText.includes('9 of 40')")
    assert browser.execute_script("return document.querySelectorAll('#picker input')[1].checked") is False
    assert complaints(browser) == []


def test_the_token_leaves_the_address_bar_and_opens_the_page(browser: Any, watch: Watch, real: Growing) -> None:
    real.write(0, 3)
    server = watch(real.folder, token=True)
    until_round(browser, 3)
    assert "token" not in browser.current_url
    assert browser.execute_script("return document.cookie") == ""  # scripts cannot read it
    assert complaints(browser) == []
    browser.delete_all_cookies()
    until(browser, "return document.querySelector('#problem').innerText.includes('Open the address')")
    browser.get(server.url.partition("?")[0])
    assert "it has the token" in text_of(browser, "body")


def test_hostile_words_of_a_log_stay_text(browser: Any, watch: Watch, real: Growing) -> None:
    def rename(_: int, record: dict[str, Any]) -> None:
        record["policy"] = HOSTILE
        for gateway in record["gateways"]:
            gateway["failure"] = gateway["failure"] and HOSTILE

    real.change(rename)
    real.write(0, 20)
    watch(real.folder)
    until_drawn(browser, 20)
    browser.execute_script("scrollTo(0, document.body.scrollHeight)")
    assert text_of(browser, "#lead").startswith(HOSTILE)
    assert f"failed: {HOSTILE}" in text_of(browser, "#key")
    assert browser.execute_script("return window.hit === undefined && !document.querySelector('img')")
    assert complaints(browser) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 768])
def test_no_width_makes_the_page_scroll_sideways(width: int, browser: Any, watch: Watch, real: Growing) -> None:
    real.write(0, 25)
    watch(real.folder, width=width)
    scroll_to(browser)
    until_drawn(browser, 25)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_the_page_is_in_order_for_those_who_listen_to_it(browser: Any, watch: Watch, real: Growing) -> None:
    real.write(0, 25)
    watch(real.folder, scheme="dark")
    until_drawn(browser, 25)
    levels = browser.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3')].filter((part) => !part.closest('[hidden]'))"
        ".map((part) => Number(part.tagName[1]))"
    )
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('[role=region], .plot, progress, section')].filter((part) =>"
        " !part.getAttribute('aria-label') && !document.getElementById(part.getAttribute('aria-labelledby'))).length"
    )
    assert unnamed == 0
    dark = browser.execute_script("return document.querySelector('#fig-delay').layout.paper_bgcolor")
    assert dark == "#181c20"
