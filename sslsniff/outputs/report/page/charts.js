"use strict";
// The charts, by Observable Plot: SVG with real text, in the colours of the page's style.

const KIND_COLOURS = { domain: KINDS, range: KINDS.map((kind) => `var(--${kind})`) };
const PHASES = { send: "request sent", wait: "waiting for the response", receive: "response received", stall: "stalled by flow control" };
const PHASE_COLOURS = { domain: Object.keys(PHASES), range: Object.keys(PHASES).map((phase) => `var(--${phase})`) };
const BINS_A_DECADE = 8;
const FEWEST = 5;
const WATERFALL_ROWS = 60;
const LABEL_CHARACTERS = 38;

const counts = { label: "exchanges", grid: true, nice: true, tickFormat: (count) => (Number.isInteger(count) ? count.toLocaleString("en") : "") };

function chart(caption, names, options) {
  const svg = Plot.plot({ className: "chart", ariaLabel: caption, width: 640, height: 220, marginLeft: 55, ...options });
  svg.setAttribute("role", svg.querySelector("a") ? "group" : "img");
  nameLinks(svg);
  return element("figure", null, element("figcaption", null, caption), svg, colourKey(names));
}

// Plot labels groups of marks, which may have no name, and the marks inside links, not the links.
function nameLinks(svg) {
  for (const link of svg.querySelectorAll("a")) link.setAttribute("aria-label", link.firstChild.getAttribute("aria-label"));
  for (const inner of svg.querySelectorAll("g[aria-label], a > [aria-label]")) inner.removeAttribute("aria-label");
}

function colourKey(names) {
  return element("ul", { class: "key" }, Object.entries(names).map(([name, text]) => element("li", { class: `swatch-${name}` }, text)));
}

// Returns the classes of status in `rows` by their kinds, such as { ok: "2xx, ok" }.
function kindsIn(rows) {
  const classes = d3.group([...new Set(rows.map(statusClass))].sort(), (name) => KIND_OF_CLASS[name] ?? "none");
  return Object.fromEntries(KINDS.filter((kind) => classes.has(kind)).map((kind) => [kind, classes.get(kind).join(", ")]));
}

// How many exchanges began when, by status.
function activityChart() {
  const dated = exchanges.filter((row) => row.startUs !== null);
  const [first, last] = d3.extent(dated, (row) => row.startUs);
  const isShort = last - first < 10e6;
  const stacked = Plot.binX({ y: "count" }, { x: (row) => new Date(row.startUs / 1000), fill: kindOf, thresholds: 60, order: KINDS });
  return chart("Exchanges over time, by status", kindsIn(exchanges), {
    width: 1240,
    height: 150,
    x: { type: "time", label: null, ticks: 8, tickFormat: d3.timeFormat(isShort ? "%H:%M:%S.%L" : "%H:%M:%S") },
    y: counts,
    color: KIND_COLOURS,
    marks: [Plot.rectY(dated, { ...stacked, tip: true }), Plot.ruleY([0])],
  });
}

// How many exchanges have which value, on a logarithmic axis, by status; null for very few of them.
function distributionChart(caption, valueOf, label, least) {
  const rows = exchanges.filter((row) => valueOf(row) !== null);
  if (rows.length < FEWEST) return null;
  const values = rows.map((row) => Math.max(least, valueOf(row)));
  const [low, high] = d3.extent(values).map((value) => Math.log10(value) * BINS_A_DECADE);
  const thresholds = d3.range(Math.floor(low), Math.floor(high) + 2).map((step) => 10 ** (step / BINS_A_DECADE));
  const stacked = Plot.binX({ y: "count" }, { x: (row) => Math.max(least, valueOf(row)), fill: kindOf, thresholds, order: KINDS });
  return chart(caption, kindsIn(rows), {
    x: { type: "log", label, domain: [thresholds[0], thresholds.at(-1)], tickFormat: label === "bytes" ? "~s" : "~r" },
    y: counts,
    color: KIND_COLOURS,
    marks: [Plot.rectY(rows, { ...stacked, tip: true }), Plot.ruleY([0])],
  });
}

// The exchanges of a connection, one below the other: when each part began and ended, if that is known.
function waterfallChart(caption, rows, stalls) {
  const began = d3.min(rows, (row) => row.startUs);
  const dated = rows.filter((row) => row.startUs !== null);
  const at = (row, ms) => (row.startUs - began) / 1000 + ms;
  const names = new Map(rows.map((row) => [row.number, waterfallLabel(row)]));
  const parts = dated.flatMap((row) => phasesOf(row).map((part) => ({ ...part, row, from: at(row, part.from), to: at(row, part.to) })));
  const ofStreams = stalls.filter((stall) => stall.since_us !== null).flatMap((stall) => stalledParts(dated, stall, began));
  return chart(caption, ofStreams.length ? PHASES : (({ stall, ...rest }) => rest)(PHASES), {
    width: 1100,
    height: 40 + rows.length * 18,
    marginLeft: 300,
    marginTop: 30,
    marginBottom: 4,
    x: { axis: "top", label: "milliseconds since the first of them", grid: true, domain: [0, d3.max(parts, (part) => part.to) || 1] },
    y: { type: "band", domain: rows.map((row) => row.number), label: null, tickFormat: (number) => names.get(number), padding: 0.25, tickSize: 0 },
    color: PHASE_COLOURS,
    marks: [
      Plot.barX(parts, { x1: "from", x2: "to", y: (part) => part.row.number, fill: "phase", href: (part) => `#e${part.row.number}`,
        ariaLabel: (part) => `${names.get(part.row.number)}: ${PHASES[part.phase]}, ${duration(part.to - part.from)}`,
        channels: { part: (part) => `${PHASES[part.phase]}: ${duration(part.to - part.from)}` },
        tip: { format: { x: false, x1: false, x2: false, y: false, fill: false, href: false, part: true } } }),
      Plot.barX(ofStreams, { x1: "from", x2: "to", y: (part) => part.row.number, fill: "phase", insetTop: 9 }),
    ],
  });
}

function waterfallLabel(row) {
  const stream = row.stream === null ? "" : `${row.stream}  `;
  const title = titleOf(row, row.target ?? "?");
  // Its middle is cut: the end of a statement has its parameters.
  const cut = title.length > LABEL_CHARACTERS ? `${title.slice(0, LABEL_CHARACTERS - 16)}…${title.slice(-15)}` : title;
  return shown(`${stream}${cut} ${row.status ?? "-"}`);
}

// The parts of an exchange whose times are known, in milliseconds from its beginning.
function phasesOf(row) {
  const end = row.ms ?? row.firstByteMs ?? row.sentMs ?? 0;
  const first = Math.min(row.firstByteMs ?? end, end);
  const sent = Math.min(row.sentMs ?? first, first);
  return [
    { phase: "send", from: 0, to: sent },
    { phase: "wait", from: sent, to: first },
    { phase: "receive", from: first, to: end },
  ];
}

// The parts of exchanges in which a stall held up a body: only what the waiting side had begun to send.
// A stall of stream 0 holds up all streams of its connection.
function stalledParts(rows, stall, began) {
  const since = (stall.since_us - began) / 1000;
  return rows.filter((row) => row.stream !== null && (stall.stream === 0 || row.stream === stall.stream)).map((row) => {
    const started = (row.startUs - began) / 1000;
    const [from, to] = stall.sends === "server" ? [row.firstByteMs, row.ms] : [0, row.sentMs ?? row.ms];
    return { phase: "stall", row, from: Math.max(since, started + (from ?? Infinity)), to: Math.min(since + stall.ms, started + (to ?? Infinity)) };
  }).filter((part) => part.to > part.from);
}
