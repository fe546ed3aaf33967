"use strict";
// The charts, by Observable Plot: SVG with real text, in the colours of the page's style.

const KIND_COLOURS = { domain: KINDS, range: KINDS.map((kind) => `var(--${kind})`) };
const BINS_A_DECADE = 8;
const FEWEST = 5;

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
