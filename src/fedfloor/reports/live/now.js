"use strict";
// Shows what /state says: the run in a few numbers, its floors over the last rounds, and its last round.
globalThis.fedfloorNow = (() => {
  const { cause, isKnown } = fedfloorWords; // of failures
  const CELL = 19; // [px]
  const ROWS = 300; // floors that have a row each
  const byId = (id) => document.getElementById(id);
  const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
  const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;
  const result = (run, value) => (value === null ? "endless" : run.error ? String(Number(value.toPrecision(4))) : percent(value)); // of a test
  const digits = (value) => (value >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3))));

  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "endless";
    const [unit, name] = seconds < 120 ? [1, "s"] : seconds < 7200 ? [60, "min"] : [3600, "h"];
    return `${digits(seconds / unit)}\u00a0${name}`;
  }

  const ago = (seconds) => (seconds < 120 ? `${Math.floor(seconds)} s` : seconds < 7200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`);

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  const hidden = (text) => element("span", { class: "sr" }, text);

  // The few numbers.

  function tile(name, value, ...about) {
    return element("div", { class: "tile" }, element("dt", {}, name), element("dd", { class: "value" }, ...value),
      ...about.filter(Boolean).map((part) => (typeof part === "string" ? element("dd", { class: "about" }, part) : element("dd", {}, part))));
  }

  function spark(tested) {
    const points = tested.filter((point) => point[1] !== null); // an error may be endless
    if (points.length < 2) return null;
    const [first, last] = [points[0][0], points.at(-1)[0]];
    const values = points.map((point) => point[1]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const place = ([x, y]) => `${((100 * (x - first)) / (last - first || 1)).toFixed(2)},${(30 - (28 * (y - low)) / (high - low || 1) - 1).toFixed(2)}`;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    for (const [name, value] of [["class", "spark"], ["viewBox", "0 0 100 30"], ["preserveAspectRatio", "none"], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
    path.setAttribute("d", `M${points.map(place).join("L")}`);
    svg.append(path);
    return svg;
  }

  function apart(real, predicted) {
    if (!real || !predicted) return "";
    const share = (100 * (real - predicted)) / predicted;
    return ` (${share < 0 ? "−" : "+"}${Math.abs(share).toFixed(1)}\u00a0%)`;
  }

  function tiles(run, tested) {
    const bar = element("progress", { max: run.of, value: Math.min(run.rounds, run.of), "aria-label": `${run.rounds} of ${run.of} rounds` });
    const left = run.status === "going" && run.gap && run.rounds < run.of ? `about ${ago(run.gap * (run.of - run.rounds))} left` : "";
    const missed = Object.entries(run.failures).sort((a, b) => b[1] - a[1]).map(([name, number]) => `${number.toLocaleString("en")} ${cause(name)}`);
    const entries = [
      tile("Rounds done", [run.rounds.toLocaleString("en"), element("small", {}, ` of ${run.of.toLocaleString("en")}`)], bar, left || (run.rounds >= run.of ? "all rounds done" : "")),
      tile(run.error ? "Test error" : "Test accuracy", run.tested ? [result(run, run.tested[1])] : [element("small", {}, "not tested")],
        run.tested ? `after ${count(run.tested[0], "round")}; ${run.error ? "least" : "best"} ${result(run, run.best[1])} after ${count(run.best[0], "round")}` : "", spark(tested)),
      tile("Delay of the last round", [duration(run.delay)],
        run.predicted ? `predicted ${duration(run.predicted)}${apart(run.delay, run.predicted)}` : "", `mean ${duration(run.mean)}`),
      tile(run.measured ? "Time of all rounds" : run.modelled ? "Modelled time" : "Simulated time", [duration(run.clock)], run.measured ? "measured" : "of all rounds so far"),
      tile("Completed", [run.selected ? percent(run.completed / run.selected) : "none"],
        `${run.completed.toLocaleString("en")} of ${count(run.selected, "selected floor-round")}`, missed.length ? `failed: ${missed.join(", ")}` : "no failure"),
    ];
    byId("tiles").replaceChildren(...entries);
  }

  // Floors over the last rounds.

  const grid = { run: null, rounds: [], floors: [], rows: [], columns: 0, cursor: null };

  function describe(round, m) {
    const [number, delay, predicted, value, selected] = round;
    if (m === null) {
      const tested = value === null ? "" : `; test ${grid.run.error ? "error" : "accuracy"} ${result(grid.run, value)}`;
      return `Round ${number}: ${duration(delay)}${predicted === null ? "" : `, predicted ${duration(predicted)}`}; ${count(selected.length, "floor")} selected${tested}.`;
    }
    const entry = selected.find((floor) => floor[0] === m);
    const head = `Round ${number}, ${grid.floors[m]}: `;
    if (!entry) return `${head}not selected.`;
    const [, channel, failure, completed, real, expected] = entry;
    const outcome = completed ? "completed" : `failed, ${cause(failure || "no reason logged")}`;
    return `${head}${outcome}; ${duration(real)}${expected === null ? "" : `, predicted ${duration(expected)}`}${channel === null ? "" : `; channel ${channel}`}.`;
  }

  function cell(entry) {
    if (!entry) return element("td", {}, element("i", { class: "idle" }));
    const [, , failure, completed] = entry;
    const letter = completed ? "" : isKnown(failure) ? failure[0].toUpperCase() : "!";
    const mark = element("i", { class: completed ? "done" : "failed", "aria-hidden": "true" }, letter);
    return element("td", {}, mark, hidden(completed ? "done" : `failed: ${cause(failure || "")}`));
  }

  function delayCell(round, longest) {
    const [, delay, predicted] = round;
    const bar = element("span", { class: "bar", "aria-hidden": "true" });
    const real = element("u");
    real.style.height = `${delay === null ? 100 : (100 * delay) / longest}%`;
    bar.append(real);
    if (predicted !== null) {
      const mark = element("s");
      mark.style.bottom = `calc(${(100 * predicted) / longest}% - 1.5px)`;
      bar.append(mark);
    }
    return element("td", {}, bar, hidden(`${duration(delay)}${predicted === null ? "" : `, predicted ${duration(predicted)}`}`));
  }

  function key(rounds) {
    const failures = [...new Set(rounds.flatMap((round) => round[4].filter((floor) => !floor[3]).map((floor) => floor[2] || "")))].sort();
    const entry = (kind, text, letter = "") => element("span", {}, element("i", { class: kind, "aria-hidden": "true" }, letter), text);
    byId("key").replaceChildren(
      entry("done", "completed"),
      ...failures.slice(0, 6).map((name) => entry("failed", `failed: ${cause(name) || "no reason logged"}`, isKnown(name) ? name[0].toUpperCase() : "!")),
      entry("idle", "not selected"),
      ...(rounds.some((round) => round[2] !== null) ? [entry("predicted", "predicted delay")] : []),
    );
  }

  function drawGrid(force = false) {
    const scroll = byId("grid-scroll");
    const name = byId("grid").querySelector("tbody th")?.offsetWidth || 130;
    const share = matchMedia("(max-width: 600px)").matches ? 4 : 90;
    const columns = Math.max(6, Math.min(60, Math.floor((scroll.clientWidth - name - share) / CELL)));
    if (!force && columns === grid.columns) return;
    grid.columns = columns;
    const rounds = grid.rounds.slice(-columns);
    const selected = new Set(rounds.flatMap((round) => round[4].map((floor) => floor[0])));
    const every = grid.floors.map((_, m) => m);
    grid.rows = every.length <= ROWS ? every : every.filter((m) => selected.has(m)).slice(0, ROWS);
    const longest = Math.max(...rounds.flatMap((round) => [round[1] ?? 0, round[2] ?? 0])) || 1;
    const heads = rounds.map(([number], at) => {
      const shown = number % 5 === 0 || (rounds.length < 5 && at === rounds.length - 1);
      return element("th", { scope: "col" }, hidden(`round ${number}`), shown ? element("b", { "aria-hidden": "true" }, String(number)) : null);
    });
    const rows = grid.rows.map((m) => {
      const entries = rounds.map((round) => round[4].find((floor) => floor[0] === m));
      const part = entries.filter(Boolean);
      const share = part.length ? `${part.filter((floor) => floor[3]).length} of ${part.length}` : "";
      return element("tr", {}, element("th", { scope: "row", title: grid.floors[m] }, grid.floors[m]), ...entries.map(cell),
        element("td", { class: "share" }, share));
    });
    byId("grid").replaceChildren(
      element("thead", {}, element("tr", {}, element("td", {}, hidden("floor")), ...heads, element("td", { class: "share" }, "completed"))),
      element("tbody", {}, element("tr", { class: "bars" }, element("th", { scope: "row" }, "delay", element("small", {}, `up to ${duration(longest)}`)),
        ...rounds.map((round) => delayCell(round, longest)), element("td", { class: "share" })), ...rows),
    );
    const omitted = grid.floors.length - grid.rows.length;
    byId("grid-hint").textContent = `Point at a cell, or move with the arrow keys, to read about it.${omitted ? ` ${count(omitted, "floor")} that ${omitted === 1 ? "is" : "are"} not shown had no part in these rounds, or there are too many.` : ""}`;
    key(rounds);
    mark();
  }

  function cellAt(row, column) { // the row of delays is the first
    return byId("grid").querySelectorAll("tbody tr")[row]?.children[column + 1];
  }

  function mark() {
    byId("grid").querySelector(".cursor")?.classList.remove("cursor");
    if (!grid.cursor) return void (byId("grid-detail").textContent = "");
    const rounds = grid.rounds.slice(-grid.columns);
    const column = rounds.findIndex((round) => round[0] === grid.cursor.round);
    const row = grid.cursor.floor === null ? 0 : grid.rows.indexOf(grid.cursor.floor) + 1;
    const place = column < 0 ? null : cellAt(row, column);
    if (!place) return void (byId("grid-detail").textContent = "");
    place.classList.add("cursor");
    const text = describe(rounds[column], grid.cursor.floor);
    if (byId("grid-detail").textContent !== text) byId("grid-detail").textContent = text;
    return place;
  }

  function pointAt(event) {
    const place = event.target.closest("td");
    const row = place?.closest("tbody tr");
    const round = place && grid.rounds.slice(-grid.columns)[[...row?.children ?? []].indexOf(place) - 1];
    if (!row || !round) return;
    const at = [...row.parentNode.children].indexOf(row);
    grid.cursor = { round: round[0], floor: at ? grid.rows[at - 1] : null };
    mark();
  }

  function move(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const rounds = grid.rounds.slice(-grid.columns);
    if (!step || !rounds.length || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const old = grid.cursor && rounds.findIndex((round) => round[0] === grid.cursor.round);
    const column = old === null || old < 0 ? rounds.length - 1 : Math.max(0, Math.min(rounds.length - 1, old + step[1]));
    const before = !grid.cursor || grid.cursor.floor === null ? 0 : grid.rows.indexOf(grid.cursor.floor) + 1;
    const row = Math.max(0, Math.min(grid.rows.length, before + step[0]));
    grid.cursor = { round: rounds[column][0], floor: row ? grid.rows[row - 1] : null };
    mark()?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // The last round.

  const PARTS = ["download", "train", "upload"];

  function headOf(name) {
    const swatch = PARTS.includes(name) ? element("span", { class: `swatch ${name}`, "aria-hidden": "true" }) : null;
    return element("th", { scope: "col" }, swatch, name);
  }

  function lastRound(round, measured) {
    const [number, delay, predicted, , floors] = round;
    byId("h-last").textContent = `Round ${number.toLocaleString("en")}, the last so far`;
    const longest = Math.max(...floors.map((floor) => floor[4] ?? 0)) || 1;
    const rows = floors.slice(0, ROWS).map(([m, channel, failure, completed, real, expected, download, train, upload, energy]) => {
      const parts = element("div", { class: "parts", "aria-hidden": "true" });
      for (const [name, seconds] of [download, train, upload].map((time, at) => [PARTS[at], time])) {
        const part = element("span", { class: name });
        part.style.width = `${(100 * (seconds ?? 0)) / longest}%`;
        parts.append(part);
      }
      const outcome = completed ? "completed" : `failed: ${cause(failure || "no reason logged")}`;
      return element("tr", {}, element("th", { scope: "row" }, grid.floors[m]), element("td", completed ? {} : { class: "failed" }, outcome),
        ...(predicted === null ? [] : [element("td", {}, expected === null ? "" : duration(expected))]),
        element("td", {}, duration(real), expected === null ? null : apart(real, expected)),
        ...[download, train, upload].map((seconds) => element("td", {}, duration(seconds))),
        element("td", {}, `${digits(energy)} J`), element("td", {}, channel === null ? "" : String(channel)), element("td", {}, parts));
    });
    const heads = ["floor", "outcome", ...(predicted === null ? [] : ["predicted"]), measured ? "real" : "delay", "download", "train", "upload", "energy", "channel", "how the time divides"];
    byId("last-table").replaceChildren(element("thead", {}, element("tr", {}, ...heads.map(headOf))), element("tbody", {}, ...rows));
    byId("last-note").textContent = floors.length
      ? `The round took ${duration(delay)}${predicted === null ? "" : `; ${duration(predicted)} were predicted`}. It lasts as long as its slowest floor.`
      : "No floor was selected.";
  }

  // Several runs.

  const WORDS = { waiting: "waiting", reading: "reading the log", going: "running", late: "no round for a while", ended: "ended", problem: "problem" };

  function runs(all, shown, choose) {
    byId("runs").hidden = all.length < 2;
    if (all.length < 2) return;
    const kinds = ["accuracy", "error"].filter((_, at) => all.some((run) => Boolean(run.error) === Boolean(at)));
    const heads = ["run", "seed", "rounds", kinds.join(" or "), "best", "time", "completed", "state"];
    const focused = document.activeElement?.dataset?.run;
    const rows = all.map((run) => {
      const button = element("button", { type: "button", "data-run": run.id }, run.policy || run.id);
      button.addEventListener("click", () => choose(run.id));
      const begun = run.rounds !== undefined;
      return element("tr", run.id === shown ? { "aria-current": "true" } : {}, element("th", { scope: "row", title: run.folder }, button),
        ...[run.seed ?? "", begun ? `${run.rounds} of ${run.of}` : "", run.tested ? result(run, run.tested[1]) : "", run.best ? result(run, run.best[1]) : "",
          begun ? duration(run.clock) : "", begun && run.selected ? percent(run.completed / run.selected) : "", run.problem || WORDS[run.status]]
          .map((text) => element("td", {}, String(text))));
    });
    byId("runs-table").replaceChildren(element("thead", {}, element("tr", {}, ...heads.map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, ...rows));
    if (focused !== undefined) document.querySelector(`#runs-table button[data-run="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  function start() {
    byId("grid").addEventListener("mouseover", pointAt);
    byId("grid").addEventListener("click", pointAt);
    byId("grid-scroll").addEventListener("keydown", move);
    addEventListener("resize", () => grid.rounds.length && drawGrid());
  }

  function show(run, memory, isNew) {
    const begun = run !== null && run.rounds !== undefined && memory.rounds.length > 0;
    for (const id of ["now", "floors", "last"]) byId(id).hidden = !begun;
    if (!begun) return;
    tiles(run, memory.tested);
    if (!isNew) return;
    grid.run = run;
    grid.rounds = memory.rounds;
    grid.floors = memory.floors;
    drawGrid(true);
    lastRound(memory.rounds.at(-1), run.measured);
  }

  start();
  return { show, runs, ago, duration };
})();
