"use strict";
// The panel of one round: what was decided and why, as `fedfloor plan RUN --round N` answers, and what others would decide.
globalThis.fedfloorDecision = (() => {
  const MANY = 40; // floors or devices beyond which only those are listed that something happened to
  const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"]];
  const { cause } = fedfloorWords; // of failures

  // A null on the page is a number without end: the time and the energy that a dead link would need.
  const finite = (value, text) => (value === null ? "endless" : text(value));
  const digits = (value, most = 3) => finite(value, () => (Math.abs(value) >= 10 ** most ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(most)))));
  const seconds = (value) => finite(value, () => `${digits(value)} s`);
  const listed = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);
  const count = (number, one) => `${number} ${number === 1 ? one : `${one}s`}`;

  const scaleOf = (value) => PREFIXES.find(([scale]) => Number(Math.abs(value).toPrecision(3)) >= scale) ?? [1, ""];

  function amount(value, unit) {
    const [scale, prefix] = scaleOf(value);
    return finite(value, () => `${digits(value / scale)} ${prefix}${unit}`);
  }

  function amountOf(used, limit, unit) { // both in the same unit
    if (limit === null) return amount(used, unit);
    const [scale, prefix] = scaleOf(limit || used);
    return `${finite(used, () => digits(used / scale))} of ${digits(limit / scale)} ${prefix}${unit}`;
  }

  function element(name, attributes = {}, ...parts) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
    made.append(...parts.flat().filter((part) => part !== null && part !== ""));
    return made;
  }

  // The answer of `fedfloor plan`, put together again from the lists that the page contains.

  const named = (keys, values) => Object.fromEntries(keys.map((key, at) => [key, values[at]]).filter(([, value]) => value !== undefined));

  function entryOf(report, run, round) {
    return report.runs[run].decisions?.rounds?.find((entry) => entry[0] === round);
  }

  function answer(report, run, round) {
    const { head, round: keys, floor, leftOut, device } = report.answer;
    const entry = entryOf(report, run, round);
    if (!entry) return null;
    const { decisions, plant } = report.runs[run];
    const { floors, devices, of } = report.plants[plant];
    const idle = Object.fromEntries(floor.map((key) => [key, key === "channel" || key === "failure" ? null : 0]));
    const gateways = entry[keys.length].map((row, m) => {
      const isLeftOut = row.length === leftOut.length;
      const first = of.indexOf(m);
      const values = isLeftOut ? { ...idle, ...named(leftOut, row) } : named(floor, row);
      const own = isLeftOut ? [] : row[floor.length].map((part, at) => ({ name: devices[first + at], ...named(device, part) }));
      const weight = isLeftOut ? {} : named(["weight"], row.slice(floor.length + 1));
      return { name: floors[m], ...values, devices: own, ...weight };
    });
    return { ...Object.fromEntries(head.map((key) => [key, decisions[key]])), ...named(keys, entry), gateways };
  }

  function stateOf(report, run, round) { // what the decision was based on, and what others would have decided
    const entry = entryOf(report, run, round);
    const at = report.answer.round.length + 1;
    return entry && { queue: entry[at], target: entry[at + 1], others: entry[at + 2] };
  }

  // The panel.

  const cell = (key, value, ...text) => element("td", { "data-key": key, "data-value": JSON.stringify(value) }, ...text);

  function budget(key, used, limit, unit) { // a small bar beside the numbers, full if the budget is spent
    const share = limit === null ? 0 : used === null ? Infinity : limit > 0 ? used / limit : used > 0 ? Infinity : 0;
    const bar = limit === null ? null : element("span", { class: share > 1 ? "meter over" : "meter", "aria-hidden": "true" }, element("i", { style: `width:${Math.min(100, 100 * share)}%` }));
    return element("td", { "data-key": key, "data-value": JSON.stringify([used, limit]) }, amountOf(used, limit, unit), bar);
  }

  function phases(report, ends, longest) { // download, device, link, gateway and upload as one bar
    const bar = element("span", { class: "phases", "aria-hidden": "true" });
    for (const [name, colour, k] of report.phases) {
      const from = k ? ends[k - 1] : 0;
      if (ends[k] === null || !longest) continue;
      bar.append(element("i", { title: `${name}: ${seconds(ends[k] - from)}`, style: `width:${(100 * (ends[k] - from)) / longest}%;background:${colour}` }));
    }
    return bar;
  }

  function table(title, head, rows, note = "") { // heads that are a list of one name stand above words
    const columns = head.map((name, at) => element("th", { scope: "col", class: at === 0 ? "stays" : Array.isArray(name) ? "words" : null }, name));
    const scroll = element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": title },
      element("table", {}, element("thead", {}, element("tr", {}, columns)), element("tbody", {}, rows)));
    return [element("h4", {}, title), scroll, note && element("p", { class: "note" }, note)];
  }

  const isClose = (one, other) => one === other || (one !== null && other !== null && Math.abs(one - other) <= 1e-3 * Math.max(one, other));
  const rowHead = (text, attributes = {}) => element("th", { scope: "row", class: "stays", ...attributes }, text);
  const turnMark = (turn) => element("i", { class: "turn", style: `background:var(--turn-${turn})`, "aria-hidden": "true" });

  function floorRow(report, at, run, decided, state, m, differs) {
    const floor = decided.gateways[m];
    const turn = run.turns[m][at];
    const queue = [cell("queue", state.queue[m], digits(state.queue[m])), cell("target_rate", state.target[m], digits(state.target[m]))];
    const [, selected, , failures, ends] = run.timeline[at];
    const place = selected.indexOf(m); // -1 if the log has another decision
    if (floor.channel === null) {
      const reason = element("td", { class: "words", colspan: differs ? 6 : 5, "data-key": "reason", "data-value": JSON.stringify(floor.reason) }, `left out: ${floor.reason}${place < 0 ? "" : "; selected in the log"}`);
      const has = floor.energy_budget_j === null ? "no limit" : `has ${amount(floor.energy_budget_j, "J")}`;
      const energy = element("td", { "data-key": "energy_budget_j", "data-value": JSON.stringify(floor.energy_budget_j) }, has);
      return element("tr", { class: "left-out", "data-floor": floor.name }, rowHead([turnMark(turn), floor.name]), reason, energy, element("td"), ...queue);
    }
    const longest = Math.max(...ends.map((end) => end.at(-1) ?? 0));
    const parts = place < 0 ? null : phases(report, ends[place], longest);
    const weight = floor.weight === undefined ? "" : `, weight ${digits(floor.weight)}`;
    const outcome = place < 0 ? "not selected in the log" : failures[place] ? `failed: ${cause(failures[place])}` : `done${weight}`;
    return element("tr", { "data-floor": floor.name }, rowHead([turnMark(turn), floor.name]),
      element("td", { class: "words", "data-key": "failure", "data-value": JSON.stringify(floor.failure) }, outcome), cell("channel", floor.channel, String(floor.channel)),
      differs ? element("td", { class: "delay" }, place < 0 ? "" : seconds(ends[place].at(-1)), parts) : null,
      element("td", { class: "delay", "data-key": "delay_s", "data-value": JSON.stringify(floor.delay_s) }, seconds(floor.delay_s), differs ? null : parts),
      element("td", { "data-key": "parts", "data-value": JSON.stringify([floor.download_s, floor.train_s, floor.upload_s]) },
        `${[floor.download_s, floor.train_s, floor.upload_s].map((value) => digits(value)).join(" + ")} s`),
      cell("power_w", floor.power_w, amount(floor.power_w, "W")),
      budget("energy", floor.energy_j, floor.energy_budget_j, "J"), cell("memory_bytes", floor.memory_bytes, amount(floor.memory_bytes, "B")), ...queue);
  }

  function floorsTable(report, at, run, decided, state) {
    const all = decided.gateways.map((_, m) => m);
    const shown = all.length <= MANY ? all : [...all.filter((m) => decided.gateways[m].channel !== null), ...all.filter((m) => decided.gateways[m].channel === null && decided.gateways[m].reason !== "not selected")].slice(0, 2 * MANY);
    const hidden = all.length - shown.length;
    const [, selected, , , ends] = run.timeline[at];
    const differs = selected.some((m, place) => !isClose(decided.gateways[m].delay_s, ends[place].at(-1)));
    const rows = shown.map((m) => floorRow(report, at, run, decided, state, m, differs));
    const why = decided.solver
      ? "Not selected: the floor could have taken part, but others make the objective lower."
      : "Not selected: this policy chose others; it does not check whether a floor has enough energy and memory.";
    const more = hidden ? ` ${count(hidden, "more floor")} ${hidden === 1 ? "was" : "were"} left out.` : "";
    const hasIdle = decided.gateways.some((floor) => floor.reason === "not selected");
    const took = differs ? "Took: by the log. Delay: what the decision leads to if nothing fails. " : "";
    return table("Floors", ["floor", ["outcome"], "channel", ...(differs ? ["took"] : []), "delay", "download + train + upload", "power", "gateway energy", "memory", "queue", "target rate"], rows,
      `${hasIdle ? `${why} ` : ""}${took}Queue: rounds that the floor was owed when the round began.${more}`);
  }

  function devicesTable(run, decided) {
    const all = decided.gateways.flatMap((floor) => floor.devices.map((device) => [floor.name, device]));
    if (!all.length) return [];
    const hasLinks = all.some(([, device]) => device.link_s !== undefined);
    const rows = all.slice(0, 2 * MANY).map(([floor, device]) => element("tr", { "data-device": device.name }, rowHead(device.name),
      element("td", { class: "words" }, floor),
      element("td", { class: device.cut === 0 ? "words raw" : "words", "data-key": "cut", "data-value": JSON.stringify(device.cut) },
        device.cut === 0 ? "0: raw samples sent" : `${device.cut} of ${count(run.layers, "layer")} on the device`),
      cell("gateway_frequency_hz", device.gateway_frequency_hz, amount(device.gateway_frequency_hz, "Hz")),
      budget("energy", device.energy_j, device.energy_budget_j, "J"), cell("memory_bytes", device.memory_bytes, amount(device.memory_bytes, "B")),
      hasLinks ? cell("link_s", device.link_s ?? null, device.link_s === undefined ? "" : seconds(device.link_s)) : null));
    const more = all.length - rows.length;
    return table("Devices of the selected floors", ["device", ["floor"], ["cut"], "gateway frequency", "energy", "memory", ...(hasLinks ? ["link"] : [])], rows,
      [more ? `${count(more, "more device")} are not listed.` : "", hasLinks ? "" : fedfloorWords.noLinks].filter(Boolean).join(" "));
  }

  function othersTable(report, own, run, decided, state) {
    const { others } = run.decisions;
    if (!others.length) return [];
    const title = "What other policies would have decided";
    if (!state.others) return [element("h4", {}, title), element("p", { class: "note" }, "This page contains it for some rounds only, to stay small. ", command(run, decided.round, others[0]), " shows it for this one.")];
    const asked = others.map((name, at) => [name, state.others[at]]);
    const columns = [[own, [decided.delay_s, decided.gateways.flatMap((floor, m) => (floor.channel === null ? [] : [[m, floor.channel, floor.delay_s, floor.failure, floor.devices.map((device) => device.cut)]]))]], ...asked];
    const selected = new Set(columns.flatMap(([, entry]) => (entry ? entry[1].map(([m]) => m) : [])));
    const floors = decided.gateways.map((_, m) => m).filter((m) => decided.gateways.length <= MANY || selected.has(m));
    const delay = element("tr", { class: "total" }, rowHead("delay of the round"), columns.map(([, entry]) => (entry ? cell("delay_s", entry[0], seconds(entry[0])) : element("td", {}, "cannot decide"))));
    const done = element("tr", { class: "total" }, rowHead("floors that complete it"), columns.map(([, entry]) => element("td", {}, entry ? `${entry[1].filter(([, , , failure]) => !failure).length} of ${entry[1].length}` : "")));
    const rows = floors.map((m) => element("tr", { "data-floor": decided.gateways[m].name }, rowHead(decided.gateways[m].name), columns.map(([, entry]) => {
      const found = entry?.[1].find(([floor]) => floor === m);
      if (!found) return element("td", { class: "left-out" }, entry ? "left out" : "");
      const [, channel, delay, failure, cuts] = found;
      const cut = [...new Set(cuts)].sort((a, b) => a - b).join(", ");
      return element("td", { "data-key": "other", "data-value": JSON.stringify(found.slice(1)) }, `channel ${channel}, ${seconds(delay)}`, element("br"), element("small", {}, `cut ${cut}${failure ? `; fails: ${cause(failure)}` : ""}`));
    })));
    const omissions = run.decisions.omissions.length ? ` ${run.decisions.omissions.join(" ")}` : "";
    return table(title, ["", ...columns.map(([name], at) => (at ? name : `${name} (this run)`))], [delay, done, ...rows],
      `Each policy decides this round from the same state: same weather, energy and queues. Cut: layers on the devices of a floor.${omissions}`);
  }

  function command(run, round, policy = "") {
    return element("code", {}, `fedfloor plan ${quoted(run.decisions.folder)} --round ${round}${policy ? ` --policy ${quoted(policy)}` : ""}`);
  }

  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

  function sentences(run, at, decided, own) {
    const [round, selected, , failures, ends, delay] = run.timeline[at];
    const names = selected.slice(0, 8).map((m) => decided.gateways[m].name);
    const more = selected.length > 8 ? ` and ${selected.length - 8} more` : "";
    const chosen = selected.length ? `: ${more ? names.join(", ") + more : listed(names)}` : "";
    const times = ends.map((end) => end.at(-1) ?? Infinity);
    const slowest = decided.gateways[selected[times.indexOf(Math.max(...times))]];
    const lasts = slowest ? ` The slowest, ${slowest.name}, made the round last ${seconds(delay)}.` : " The round took no time.";
    const gap = decided.optimality_gap;
    const proof = gap === null ? "" : gap <= 1e-9 ? ", which is proven to be the least" : `, proven within ${digits(gap, 1)} of V × delay`;
    const lines = [[`${own} selected ${selected.length} of ${count(decided.gateways.length, "floor")}${chosen}.${lasts}`]];
    if (run.decisions.differing.includes(round)) lines.push([`The log has another decision for this round than ${own} makes now: the policy's code, the log or the scenario has changed since. The sentences above and below on who was selected, who failed and how long it took, the outcomes and the figures are from the log; the rest is what is decided now.`]);
    const failed = selected.filter((_, place) => failures[place]).map((m) => decided.gateways[m].name);
    if (failed.length) lines.push([`${failed.length > 8 ? `${failed.length} floors` : listed(failed)} failed.`]);
    const infeasible = decided.gateways.filter((floor) => floor.reason?.startsWith("infeasible"));
    if (infeasible.length) lines.push([`${infeasible.length > 8 ? `${infeasible.length} floors` : listed(infeasible.map((floor) => floor.name))} could not take part.`]);
    lines.push([`Objective, V × delay − queues of the selected floors: ${decided.objective === null ? "no finite number" : digits(decided.objective, 4)} at V = ${digits(decided.tradeoff_v, 4)}${proof}.`]);
    const raw = decided.gateways.flatMap((floor) => floor.devices).filter((device) => device.cut === 0).length;
    if (raw) lines.push([`${count(raw, "device")} at cut 0: raw samples go to the gateway.`]);
    return element("ul", { class: "said" }, lines.map((parts) => element("li", {}, ...parts)));
  }

  function show(place, report, choice, goTo) {
    const run = report.runs[choice.run];
    const own = report.series[run.s];
    const round = run.timeline[choice.at][0];
    const title = element("h3", {}, `Round ${round}: what was decided, and why`);
    const { decisions } = run;
    if (decisions.problem) return place.replaceChildren(title, element("p", { class: "note" }, `The decision is not shown. ${decisions.problem}`));
    const decided = answer(report, choice.run, round);
    if (!decided) {
      const near = decisions.rounds.map(([number]) => number).sort((a, b) => Math.abs(a - round) - Math.abs(b - round))[0];
      const jump = element("button", { type: "button" }, `Show round ${near}`);
      jump.addEventListener("click", () => goTo(near));
      return place.replaceChildren(title, element("p", { class: "note" }, `To stay small, this page contains the decisions of ${decisions.rounds.length} rounds of this run, evenly spread. `, command(run, round), ` shows this one.`), jump);
    }
    const state = stateOf(report, choice.run, round);
    place.replaceChildren(title, sentences(run, choice.at, decided, own), ...[
      ...floorsTable(report, choice.at, run, decided, state), ...devicesTable(run, decided), ...othersTable(report, own, run, decided, state),
    ].filter(Boolean), element("p", { class: "note" }, "The same in a terminal: ", command(run, round), ". Numbers on this page have up to five digits."));
  }

  return { show, answer };
})();
