"use strict";
// Asks /state every second and /figures as rounds end, and keeps what the reader has chosen, zoomed and scrolled to.
(() => {
  const EVERY = 1000; // [ms] between two questions
  const HIDDEN = 10000; // [ms] the same while nobody sees the page
  const KEPT = 60; // rounds
  const byId = (id) => document.getElementById(id);
  const memory = { id: "", log: 0, rounds: [], floors: [], tested: [] };
  const figures = { version: "", html: "", busy: false, due: 0 };
  let chosen = null; // the run that the reader has chosen; null: the one that goes
  let answered = performance.now(); // when the last answer came
  let last = null; // that answer
  let timer = 0;
  let turns = 0; // questions so far

  async function ask(path) {
    const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(60000) });
    if (answer.status === 403) throw new Error("This page is no longer accepted. Open the address that fedfloor watch has printed.");
    if (!answer.ok) throw new Error(`fedfloor watch answered ${answer.status}.`);
    return answer.json();
  }

  async function look() {
    clearTimeout(timer);
    const turn = ++turns;
    let next = document.hidden ? HIDDEN : EVERY;
    try {
      const wanted = chosen ?? (memory.id && last?.runs.some((run) => run.id === memory.id && run.status !== "ended") ? memory.id : "");
      const query = new URLSearchParams({ run: wanted, log: memory.log, after: (memory.rounds.at(-1)?.[0] ?? -1) + 1 });
      const state = await ask(`/state?${query}`);
      if (turn !== turns) return; // another question was asked meanwhile
      answered = performance.now();
      last = state;
      take(state);
      if (state.runs.some((run) => run.status === "reading")) next = 50;
    } catch (error) {
      if (turn !== turns) return;
      lost(error);
    }
    timer = setTimeout(look, next);
  }

  function take(state) {
    const shown = state.shown;
    const run = shown && state.runs.find((entry) => entry.id === shown.id);
    let isNew = false;
    if (shown && (shown.id !== memory.id || shown.log !== memory.log)) {
      Object.assign(memory, { id: shown.id, log: shown.log, rounds: [], floors: shown.floors ?? [], tested: [] });
      isNew = true;
    }
    if (shown && shown.rounds.length) {
      const follows = memory.rounds.length && shown.rounds[0][0] === memory.rounds.at(-1)[0] + 1;
      memory.rounds = (follows ? [...memory.rounds, ...shown.rounds] : shown.rounds).slice(-KEPT);
      isNew = true;
    }
    if (shown?.tested) memory.tested = shown.tested;
    head(state, run);
    fedfloorNow.runs(state.runs, memory.id, choose);
    fedfloorNow.show(run ?? null, memory, isNew);
    if (state.version !== figures.version) draw();
  }

  function choose(id) {
    chosen = id;
    look();
  }

  // The state in words.

  function words(state, run) {
    if (!run) return ["waiting", "No run in this folder yet."];
    const rounds = (run.rounds ?? 0).toLocaleString("en");
    const texts = {
      waiting: "Waiting for the first round.",
      reading: `Reading the log: ${Math.ceil(run.unread / 1e6).toLocaleString("en")} MB left.`,
      going: "Running.",
      late: "No round for a while.",
      ended: run.rounds >= run.of ? `Ended after ${rounds} rounds.` : `Ended early, after ${rounds} of ${run.of} rounds.`,
      problem: "The log cannot be read now.",
    };
    return [run.status, texts[run.status]];
  }

  function say(place, text) { // a screen reader speaks when the text changes
    if (place.textContent !== text) place.textContent = text;
  }

  function head(state, run) {
    const [status, text] = words(state, run);
    byId("status").dataset.status = status;
    say(byId("status"), text);
    say(byId("name"), run?.scenario ?? state.name);
    const size = run?.floors === undefined ? "" : `${run.floors} floors, ${run.devices} devices`;
    say(byId("lead"), [run?.policy, run?.seed === undefined ? "" : `seed ${run.seed}`, size, run?.folder ?? ""].filter(Boolean).join(" · "));
    const round = run?.rounds === undefined ? "" : `${run.rounds}/${run.of} `;
    document.title = `${round}${run?.scenario ?? state.name}: fedfloor watch`;
    const problem = run?.problem || state.problems[0] || "";
    byId("problem").hidden = !problem;
    say(byId("problem"), problem);
    tick();
  }

  function tick() { // once a second, also while no answer comes
    const run = last?.runs.find((entry) => entry.id === memory.id);
    const silence = (performance.now() - answered) / 1000;
    const since = run?.age === null || run?.age === undefined ? null : run.age + silence;
    const usual = run?.gap && run.status !== "ended" ? `; usually one every ${fedfloorNow.duration(run.gap)}` : "";
    byId("age").textContent = run?.rounds === undefined || since === null ? "" : `last round ${fedfloorNow.ago(since)} ago${usual}`;
  }

  function lost(error) {
    const silence = (performance.now() - answered) / 1000;
    const text = error instanceof TypeError || error.name === "TimeoutError"
      ? "fedfloor watch does not answer. The page shows the last state and asks again."
      : error.message;
    if (silence < 3 && error instanceof TypeError) return; // a restart, or a network that changes
    byId("status").dataset.status = "problem";
    say(byId("status"), "No connection.");
    byId("problem").hidden = false;
    say(byId("problem"), text);
  }

  // The figures of the report.

  async function draw() {
    if (figures.busy || performance.now() < figures.due || document.hidden) return;
    figures.busy = true;
    try {
      const next = await ask("/figures");
      figures.due = performance.now() + 1000 * next.pause;
      figures.version = next.version;
      say(byId("figures-note"), next.note);
      if (next.data) {
        const html = next.picker + next.sections;
        const anchor = [...document.querySelectorAll("#figures .plot")].find((plot) => plot.getBoundingClientRect().bottom > 0);
        const top = anchor?.getBoundingClientRect().top;
        if (html !== figures.html) replace(next);
        figures.html = html;
        fedfloorPage.show(next.data, { follow: true });
        if (top < innerHeight && anchor.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - top);
      }
    } catch (error) {
      figures.due = performance.now() + 3000;
      if (!(error instanceof TypeError)) console.warn(`figures: ${error.message}`);
    } finally {
      figures.busy = false;
    }
  }

  function replace(next) { // figures that are there already move into the new text with their zoom
    const focused = document.activeElement?.id;
    const selected = new Map([...document.querySelectorAll("#figures select")].map((select) => [select.id, select.selectedOptions[0]?.text]));
    const unticked = new Set([...document.querySelectorAll("#picker input:not(:checked)")].map((box) => box.parentNode.title));
    const kept = new Map([...document.querySelectorAll("#figures .plot[id], #round-choice")].map((part) => [part.id, part]));
    byId("figures").innerHTML = next.sections;
    for (const place of document.querySelectorAll("#figures .plot[id], #round-choice")) {
      const old = kept.get(place.id);
      if (!old) continue;
      if (place.hasAttribute("aria-label")) old.setAttribute("aria-label", place.getAttribute("aria-label"));
      old.style.minHeight = place.style.minHeight;
      place.replaceWith(old);
    }
    for (const select of document.querySelectorAll("#figures select")) {
      const option = [...select.options].find((entry) => entry.text === selected.get(select.id));
      if (option) option.selected = true;
    }
    byId("picker-place").innerHTML = next.picker;
    for (const box of document.querySelectorAll("#picker input")) box.checked = !unticked.has(box.parentNode.title);
    if (focused && byId(focused) !== document.activeElement) byId(focused)?.focus({ preventScroll: true });
  }

  document.addEventListener("visibilitychange", () => document.hidden || look());
  setInterval(tick, 1000);
  look();
})();
