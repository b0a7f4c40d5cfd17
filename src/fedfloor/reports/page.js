"use strict";
// Draws the figures of the report and redraws them for the policy picker, the colour scheme and the choice of a run.
// On the page of a run that is still going, `fedfloorPage.show` is called again with new data: figures keep their zoom.
(() => {
  let report = null;
  let following = false; // whether the latest round is shown until the reader chooses another
  const visible = new Set(); // series
  const drawn = new Map(); // id -> what was drawn there, as JSON; while following
  const stale = new Set(); // ids of figures that are out of sight, and older than their data
  const bound = new WeakSet(); // controls that have their listener
  const clickable = new WeakSet(); // grids that have their listener
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 600px)");
  const makers = new Map(); // id -> function that returns {data, layout, height}
  let printing = false;
  const config = {
    displaylogo: false, displayModeBar: narrow.matches ? false : "hover", responsive: true, showTips: false, scrollZoom: false,
    showSendToCloud: false, plotlyServerURL: "", // nothing leaves this page
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "sendDataToCloud", "sendChartToCloud"],
  };

  const byId = (id) => document.getElementById(id);
  const isDark = () => dark.matches && !printing;
  const text = (name) => String(name).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const short = (name) => text(name.length > 22 ? name.slice(0, 21) + "…" : name);
  const number = (value) => (value === null ? "endless" : Number(value.toPrecision(3)).toString());

  const turnColour = (turn) => report.turns[turn][isDark() ? 2 : 1];

  function theme() {
    return isDark()
      ? { ink: "#e8ebee", soft: "#a3adb7", line: "#2f373f", card: "#181c20", plot: "#1c2126", idle: "#4a535c",
          cuts: ["#1d5a4b", "#c4f5e3"], scales: { count: [[0, "#23465c"], [1, "#8fd3fa"]] } }
      : { ink: "#1d2329", soft: "#5b6570", line: "#e4e8ec", card: "#ffffff", plot: printing ? "#ffffff" : "#fbfbfc", idle: "#c3c9cf",
          cuts: ["#c2e3d7", "#00523e"], scales: { count: [[0, "#d3e6f2"], [1, "#005a8d"]] } };
  }

  function axisOf(colours, axis) {
    const options = axis || {};
    return {
      gridcolor: colours.line, linecolor: colours.line, zerolinecolor: colours.line, tickcolor: colours.line, zeroline: false,
      automargin: true, tickfont: { color: colours.soft }, ...options,
      title: { standoff: 8, ...options.title, font: { color: colours.soft, size: 13 } },
    };
  }

  function withTheme(figure) {
    const colours = theme();
    const data = figure.data.map((trace) => {
      const meta = trace.meta || {};
      const copy = { ...trace };
      if (meta.s !== undefined && !visible.has(meta.s)) copy.visible = false;
      if (meta.ink) copy.marker = { ...trace.marker, line: { ...trace.marker.line, color: colours.ink } };
      if (meta.scale && trace.type === "heatmap") copy.colorscale = colours.scales[meta.scale];
      if (meta.scale && trace.marker) copy.marker = { ...trace.marker, colorscale: colours.scales[meta.scale] };
      if (copy.colorbar) copy.colorbar = barOf(copy.colorbar, colours);
      if (copy.marker && copy.marker.colorbar) copy.marker = { ...copy.marker, colorbar: barOf(copy.marker.colorbar, colours) };
      return copy;
    });
    const layout = {
      paper_bgcolor: colours.card, plot_bgcolor: colours.plot, dragmode: narrow.matches ? false : "zoom",
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 12.5, color: colours.ink },
      hoverlabel: { bgcolor: colours.card, bordercolor: colours.line, font: { color: colours.ink }, namelength: -1, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colours.soft, activecolor: colours.ink },
      showlegend: false, hovermode: "closest", uirevision: figure.revision ?? "same",
      ...figure.layout,
      margin: { l: 10, r: 12, t: 26, b: 10, ...figure.layout.margin },
      legend: { orientation: "h", x: 0, y: 0, xanchor: "left", yref: "container", yanchor: "bottom", traceorder: "normal", font: { color: colours.soft }, ...figure.layout.legend },
      height: figure.height, xaxis: axisOf(colours, figure.layout.xaxis), yaxis: axisOf(colours, figure.layout.yaxis),
    };
    delete layout.width;
    return { data, layout };
  }

  function barOf(bar, colours) {
    return { thickness: 12, outlinewidth: 0, ...bar, tickfont: { color: colours.soft }, title: { ...bar.title, font: { color: colours.soft, size: 12 } } };
  }

  function draw(id) {
    const place = byId(id);
    const figure = makers.get(id)();
    if (!place || place.closest("[hidden]") || !figure) return;
    if (following) {
      const input = JSON.stringify([figure, [...visible], isDark(), printing, narrow.matches]);
      if (drawn.get(id) === input && place.data) return;
      if (!isNear(place)) return void stale.add(id);
      drawn.set(id, input);
    }
    stale.delete(id);
    const { data, layout } = withTheme(figure);
    if (printing) layout.width = place.clientWidth; // resizing comes too late for printing
    place.style.minWidth = figure.width && narrow.matches && !printing ? `${figure.width}px` : "";
    Plotly.react(place, data, layout, config);
    if (GRIDS.includes(id) && !clickable.has(place)) {
      clickable.add(place);
      place.on("plotly_click", (event) => goTo(event.points[0].x));
    }
  }

  const isNear = (place) => {
    const box = place.getBoundingClientRect();
    return printing || (box.bottom > -innerHeight && box.top < 2 * innerHeight);
  };
  const observer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => entry.isIntersecting && stale.has(entry.target.id) && draw(entry.target.id)),
    { rootMargin: "100% 0px" },
  );

  const drawAll = () => makers.forEach((_, id) => draw(id));

  // One run, round by round.
  const choice = { run: 0, at: 0, round: null }; // round: that the reader has chosen; null: the latest one while following

  function timelineFigure() {
    const run = report.runs[choice.run];
    const colours = theme();
    const names = report.plants[run.plant].floors;
    const [round, floors, channels, failures, ends] = run.timeline[choice.at];
    const rows = names.length <= 30 ? names.map((_, m) => m) : floors;
    const row = new Map(rows.map((m, at) => [m, at]));
    const data = report.phases.map(([phase, colour, k]) => {
      const starts = ends.map((end) => (k ? end[k - 1] : 0));
      return {
        type: "bar", orientation: "h", name: phase, marker: { color: colour }, base: starts, y: floors.map((m) => row.get(m)),
        x: ends.map((end, at) => (end[k] === null ? 0 : end[k] - starts[at])), width: 0.62,
        text: floors.map((m, at) => `${text(names[m])}, channel ${channels[at]}<br>${phase}: ${number(starts[at])} to ${number(ends[at][k])} s`),
        textposition: "none", hovertemplate: "%{text}<extra></extra>",
      };
    });
    const failed = floors.map((m, at) => at).filter((at) => failures[at]);
    data.push({
      type: "scatter", mode: "text", x: failed.map((at) => ends[at].at(-1) ?? 0), y: failed.map((at) => row.get(floors[at])),
      text: failed.map((at) => ` failed: ${text(fedfloorWords.cause(failures[at]))}`), textposition: "middle right", hoverinfo: "skip",
      textfont: { color: colours.ink }, showlegend: false, cliponaxis: false,
    });
    const step = Math.max(1, Math.ceil(rows.length / 40));
    const ticks = rows.map((_, at) => at).filter((at) => at % step === 0);
    return {
      data, revision: `run ${choice.run}`, height: Math.min(900, 130 + 26 * Math.max(rows.length, 3)),
      layout: {
        barmode: "overlay", showlegend: true,
        xaxis: { title: { text: `seconds since the start of round ${round}` }, range: [0, Math.max(run.longest, ...ends.map((end) => end.at(-1) ?? 0)) * 1.14 || 1], separatethousands: true },
        yaxis: { tickmode: "array", tickvals: ticks, ticktext: ticks.map((at) => short(names[rows[at]])), range: [rows.length - 0.4, -0.6], showgrid: false },
      },
    };
  }

  function mapFigure() {
    const run = report.runs[choice.run];
    const plant = report.plants[run.plant];
    const colours = theme();
    const [round, floors, , failures] = run.timeline[choice.at];
    const ofRound = byId("fig-map-choice").value === "1";
    const row = (n) => (run.byFloor ? plant.of[n] : n);
    const value = (n) => (ofRound ? run.cuts[row(n)][choice.at] : run.usual[row(n)]);
    const rawShare = (n) => (ofRound ? Number(value(n) === 0) : run.rawShare[row(n)]);
    const hasCut = (n) => value(n) !== null && value(n) >= 0;
    const when = ofRound ? `in round ${round}` : "in this run";
    const whose = run.byFloor ? " (least on its floor)" : "";
    const describe = (n) => {
      if (!hasCut(n)) return `not selected ${when}`;
      const sent = ofRound ? "" : `<br>cut 0, raw samples sent: ${number(100 * rawShare(n))} % of its rounds`;
      return `${ofRound ? "cut" : "most frequent cut"} ${value(n)} of ${run.layers}${whose}${sent}`;
    };
    const active = plant.devices.map((_, n) => n).filter(hasCut);
    const idle = plant.devices.map((_, n) => n).filter((n) => !hasCut(n));
    const size = plant.devices.length > 400 ? 6 : plant.devices.length > 100 ? 8 : 12;
    const dots = (list, marker, name) => ({
      type: "scatter", mode: "markers", x: list.map((n) => plant.dx[n]), y: list.map((n) => plant.dy[n]), marker, name,
      text: list.map((n) => `${text(plant.devices[n])}<br>${describe(n)}`), hovertemplate: "%{text}<extra></extra>",
    });
    const selected = new Set(floors);
    const lines = (list, dash, colour, name) => ({
      type: "scatter", mode: "lines", hoverinfo: "skip", line: { color: colour, width: 2, dash }, name, showlegend: list.length > 0,
      x: list.flatMap((m) => [0, plant.fx[m], null]), y: list.flatMap((m) => [0, plant.fy[m], null]),
    });
    const failing = floors.filter((_, at) => failures[at]);
    const label = plant.floors.length <= 30;
    const squares = (list, colour, name) => ({
      type: "scatter", mode: label ? "markers+text" : "markers", x: list.map((m) => plant.fx[m]), y: list.map((m) => plant.fy[m]), name,
      textposition: list.map((m) => (plant.fy[m] >= 0 ? "top center" : "bottom center")),
      textfont: { color: colours.ink, size: 11.5 }, text: list.map((m) => short(plant.floors[m])),
      marker: { symbol: "square", size: label ? 9 : 5, color: colour }, showlegend: list.length > 0,
      customdata: list.map((m) => `${text(plant.floors[m])}: ${number(plant.distance[m])} m away<br>${name}`),
      hovertemplate: "%{customdata}<extra></extra>",
    });
    const everyFloor = plant.floors.map((_, m) => m);
    const rim = active.map((n) => rawShare(n) > 0);
    const data = [
      { ...lines(floors.filter((m) => !failing.includes(m)), "solid", colours.soft), showlegend: false },
      lines(failing, "dot", turnColour(report.turns.length - 1), `floor fails in round ${round}`),
      dots(idle, { size, color: colours.plot, line: { width: 1.5, color: colours.idle } }, `device not selected ${when}`),
      { ...dots(active, {
          size, color: active.map(value), ...scaleOfCuts(run, colours), colorbar: barOfCuts(run, { len: 0.8 }),
          line: { width: rim.map((raw) => (raw ? 3.5 : 1)), color: rim.map((raw) => (raw ? report.raw : colours.soft)) } }, "device"), showlegend: false },
      keyOf(ofRound ? RAW_TEXT : "cut 0 most often: raw samples leave the device", report.raw, "circle", active.some((n) => value(n) === 0)),
      keyOf("yellow rim: cut 0 in some rounds", colours.plot, "circle", active.some((n, at) => rim[at] && value(n) > 0), { width: 3, color: report.raw }),
      squares(everyFloor.filter((m) => selected.has(m)), colours.ink, `floor selected in round ${round}`),
      squares(everyFloor.filter((m) => !selected.has(m)), colours.idle, `floor not selected in round ${round}`),
      { type: "scatter", mode: "markers", x: [0], y: [0], marker: { symbol: "star", size: 17, color: colours.ink }, name: "base station",
        text: ["base station"], hovertemplate: "%{text}<extra></extra>" },
    ];
    const reach = plant.reach * 1.14;
    const metres = { showgrid: true, range: [-reach, reach], ticksuffix: " m", nticks: 5, separatethousands: true };
    return {
      data, height: narrow.matches ? 470 : 560,
      layout: { showlegend: true, xaxis: metres, yaxis: { ...metres, scaleanchor: "x" }, margin: { t: 14 } },
    };
  }

  // Cut 0 has a colour of its own, because raw samples then leave the device; deeper cuts have a scale.
  const RAW_TEXT = "cut 0: raw samples leave the device";

  function mixed(ends, share) {
    const [from, to] = ends.map((end) => [1, 3, 5].map((at) => parseInt(end.slice(at, at + 2), 16)));
    return `rgb(${from.map((value, at) => Math.round(value + share * (to[at] - value))).join(",")})`;
  }

  function scaleOfCuts(run, colours, names = ["cmin", "cmax"]) {
    const bins = run.layers + 1;
    const colour = (cut) => (cut ? mixed(colours.cuts, run.layers > 1 ? (cut - 1) / (run.layers - 1) : 1) : report.raw);
    const colorscale = Array.from({ length: bins }, (_, cut) => [[cut / bins, colour(cut)], [(cut + 1) / bins, colour(cut)]]).flat();
    return { colorscale, [names[0]]: -0.5, [names[1]]: run.layers + 0.5 };
  }

  function barOfCuts(run, more = {}) {
    return { title: { text: "cut" }, tickmode: "linear", tick0: 0, dtick: Math.max(1, Math.ceil(run.layers / 8)), ...more };
  }

  const keyOf = (name, colour, symbol = "square", occurs = true, line = {}) => ({ // an entry of a legend for what a grid shows as colours
    type: "scatter", mode: "markers", x: [null], y: [null], name, marker: { symbol, size: 11, color: colour, line }, visible: occurs, hoverinfo: "skip", showlegend: true,
  });

  function gridFigure(names, trace, keys, height) { // a row for every name and a column for every round
    const rounds = report.runs[choice.run].timeline.map((entry) => entry[0]);
    const step = Math.max(1, Math.ceil(names.length / 40));
    const ticks = names.map((_, at) => at).filter((at) => at % step === 0);
    return {
      data: [{
        type: "heatmap", x: rounds, y: names.map((_, at) => at), ygap: names.length <= 60 ? 1 : 0, xgap: rounds.length <= 60 ? 1 : 0,
        hovertemplate: "round %{x}<br>%{text}<extra></extra>", showlegend: false, ...trace,
      }, ...keys],
      height, width: widthOf(rounds),
      layout: {
        shapes: markOf(rounds), showlegend: true, xaxis: { title: { text: "round" }, showgrid: false, range: [rounds[0] - 0.5, rounds.at(-1) + 0.5] },
        yaxis: { tickmode: "array", tickvals: ticks, ticktext: ticks.map((at) => short(names[at])), range: [names.length - 0.5, -0.5], showgrid: false },
      },
    };
  }

  function cutsFigure() {
    const run = report.runs[choice.run];
    const colours = theme();
    const plant = report.plants[run.plant];
    const names = run.byFloor ? plant.floors : plant.devices;
    const cuts = run.cuts.flat();
    return gridFigure(names, {
      z: run.cuts.map((row) => row.map((cut) => (cut < 0 ? null : cut))), hoverongaps: false,
      ...scaleOfCuts(run, colours, ["zmin", "zmax"]), colorbar: barOfCuts(run),
      text: run.cuts.map((row, at) => row.map((cut) => `${text(names[at])}: ${cut} of ${run.layers} layers on the device<br>cut 0 in ${number(100 * run.rawShare[at])} % of its rounds in this run`)),
    }, [
      keyOf(RAW_TEXT, report.raw, "square", cuts.includes(0)),
      keyOf("not selected", colours.plot, "square", cuts.some((cut) => cut < 0), { width: 1.5, color: colours.idle }),
    ], Math.min(1000, 150 + 17 * names.length));
  }

  function turnsFigure() {
    const run = report.runs[choice.run];
    const names = report.plants[run.plant].floors;
    const count = report.turns.length;
    const met = new Set(run.turns.flat());
    return gridFigure(names, {
      z: run.turns, zmin: -0.5, zmax: count - 0.5, showscale: false,
      colorscale: report.turns.flatMap((_, at) => [[at / count, turnColour(at)], [(at + 1) / count, turnColour(at)]]),
      text: run.turns.map((row, m) => row.map((turn) => `${text(names[m])}: ${report.turns[turn][0]}`)),
    }, report.turns.map(([name], at) => keyOf(name, turnColour(at), "square", met.has(at))), Math.min(900, 150 + 20 * names.length));
  }

  const EXPLORED = { "fig-turns": turnsFigure, "fig-timeline": timelineFigure, "fig-map": mapFigure, "fig-cuts": cutsFigure };
  const GRIDS = ["fig-turns", "fig-cuts"]; // in which the reader can choose a round

  function chooseRun() {
    const select = byId("run-choice");
    for (const option of select.options) option.hidden = option.disabled = !visible.has(report.runs[option.value].s);
    if (!visible.has(report.runs[select.value]?.s)) {
      const next = [...select.options].find((option) => !option.disabled);
      if (next) select.value = next.value;
    }
    const empty = visible.size === 0;
    for (const id of Object.keys(EXPLORED)) byId(id).closest("figure").hidden = empty;
    if (byId("decision")) byId("decision").hidden = empty;
    if (empty) return;
    choice.run = Number(select.value);
    const slider = byId("round-choice");
    const last = report.runs[choice.run].timeline.length - 1;
    slider.max = last;
    if (following) slider.value = choice.round === null ? last : placeOf(choice.round);
    choice.at = Math.min(Number(slider.value), last);
    const [raw, of] = report.runs[choice.run].raw;
    byId("run-raw").textContent = of ? `In this run, raw samples left their device in ${raw.toLocaleString("en")} of ${of.toLocaleString("en")} device-rounds (${number((100 * raw) / of)} %).` : "";
    chooseRound();
    for (const id of GRIDS) draw(id);
  }

  const widthOf = (rounds) => Math.min(2400, 110 + 9 * rounds.length); // [px] on phones, where a finger has to hit a round

  function hintScrolling() { // tells which parts scroll sideways; a shadow at their edge shows it too
    document.querySelectorAll(".scroll").forEach((part) => part.classList.toggle("more", part.scrollWidth > part.clientWidth + 1));
  }

  function placeOf(round) { // of the rounds that are shown, the first that is not before this one
    const rounds = report.runs[choice.run].timeline.map((entry) => entry[0]);
    const at = rounds.findIndex((number) => number >= round);
    return at < 0 ? rounds.length - 1 : at;
  }

  function chooseRound() {
    const slider = byId("round-choice");
    choice.at = Number(slider.value);
    const round = report.runs[choice.run].timeline[choice.at][0];
    byId("round-shown").textContent = `round ${round}`;
    slider.setAttribute("aria-valuetext", `round ${round}`);
    byId("round-back").disabled = choice.at === 0;
    byId("round-on").disabled = choice.at === Number(slider.max);
    draw("fig-timeline");
    draw("fig-map");
    const panel = byId("decision");
    if (panel) fedfloorDecision.show(panel, report, choice, goTo);
    hintScrolling();
  }

  function goTo(round) {
    byId("round-choice").value = placeOf(round);
    slide();
  }

  function step(by) {
    byId("round-choice").value = choice.at + by; // the slider keeps within its ends
    slide();
  }

  function steps(event) { // arrow keys on the grid of rounds
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    step(by);
  }

  function markOf(rounds) { // a frame around the round that is shown
    const round = rounds[choice.at];
    const next = rounds[choice.at + 1] ?? 2 * round - (rounds[choice.at - 1] ?? round - 1);
    const half = Math.max(0.5, (next - round) / 2);
    return [{ type: "rect", xref: "x", yref: "paper", x0: round - half, x1: round + half, y0: 0, y1: 1, line: { color: theme().ink, width: 2 } }];
  }

  function pick() {
    visible.clear();
    document.querySelectorAll("#picker input").forEach((box) => box.checked && visible.add(Number(box.value)));
    if (!byId("picker")) report.series.forEach((_, at) => visible.add(at));
    else byId("nothing").hidden = visible.size > 0;
    document.querySelectorAll("[data-series]").forEach((part) => { part.hidden = !visible.has(Number(part.dataset.series)); });
    makers.forEach((_, id) => id in EXPLORED || draw(id));
    if (byId("run-choice")) chooseRun();
  }

  function listen(control, event, handler) {
    if (bound.has(control)) return;
    bound.add(control);
    control.addEventListener(event, handler);
  }

  function slide() {
    const slider = byId("round-choice");
    const atEnd = Number(slider.value) === Number(slider.max);
    choice.round = atEnd ? null : report.runs[choice.run].timeline[Number(slider.value)][0];
    chooseRound();
    const rounds = report.runs[choice.run].timeline.map((entry) => entry[0]);
    for (const id of GRIDS) if (byId(id).data) Plotly.relayout(byId(id), { shapes: markOf(rounds) }); // the cells stay
  }

  function show(data, { follow = false } = {}) {
    report = data;
    following = follow;
    makers.clear();
    for (const [id, figure] of Object.entries(report.figures)) {
      const select = byId(`${id}-choice`);
      makers.set(id, () => {
        const at = select ? Number(select.value) : 0;
        return Array.isArray(figure) ? { ...figure[at], revision: at } : figure;
      });
      if (select) listen(select, "change", () => draw(id));
    }
    document.querySelectorAll("#picker input").forEach((box) => listen(box, "change", pick));
    if (byId("run-choice")) {
      for (const [id, make] of Object.entries(EXPLORED)) makers.set(id, make);
      listen(byId("run-choice"), "change", chooseRun);
      listen(byId("round-choice"), "input", slide);
      listen(byId("round-back"), "click", () => step(-1));
      listen(byId("round-on"), "click", () => step(1));
      for (const id of GRIDS) {
        byId(id).tabIndex = 0;
        listen(byId(id), "keydown", steps);
      }
    }
    if (following) makers.forEach((_, id) => byId(id) && observer.observe(byId(id)));
    pick(); // the browser may remember which boxes were ticked
    hintScrolling();
    document.body.dataset.ready = "yes";
  }

  function start() {
    dark.addEventListener("change", drawAll);
    narrow.addEventListener("change", drawAll);
    addEventListener("resize", hintScrolling);
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
    const embedded = byId("report-data");
    if (embedded) show(JSON.parse(embedded.textContent));
  }

  function print(begins) {
    printing = begins;
    document.body.classList.toggle("printing", begins); // as wide as paper, before the figures are measured
    drawAll();
    if (!begins) resize();
  }

  const resize = () => makers.forEach((_, id) => { const place = byId(id); if (place && place.offsetParent && place.data) Plotly.Plots.resize(place); });

  globalThis.fedfloorPage = { show };
  start();
})();
