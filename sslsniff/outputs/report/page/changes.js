"use strict";
// What changed and when: sentences, and for each group its times and errors over time; raw paths.

const OVER_TIME = { p50: "p50", p90: "p90", p99: "p99" };
const CAUSES = { only: ["only ", ""], more: ["more of ", ""], new: ["by ", ", not seen before"], mostly: ["nearly all of ", ""] };
const CUT = "…";

// Returns a number with two digits: more are not known.
function twoDigits(value) {
  return value > 0 && value < 9.95 ? value.toFixed(1) : Number(value.toPrecision(2)).toLocaleString("en");
}

function changedFigure(change, value) {
  if (change.what === "errors") return `${twoDigits(100 * value)} %`;
  const [unit, name] = value >= 1000 ? [1000, "s"] : value >= 1 ? [1, "ms"] : [0.001, "us"];
  return `${twoDigits(value / unit)} ${name}`;
}

// Returns a time as exactly as it is known.
function sliceTime(us, sliceUs) {
  const text = timeOfDay(us);
  if (sliceUs < 1e6) return text.slice(0, -2);
  if (sliceUs < 60e6) return text.slice(0, -4);
  return sliceUs < 240e6 ? text.slice(0, -7) : new Date(us / 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

function timesOf(change) {
  const since = sliceTime(change.since_us, change.slice_us);
  return change.until_us === null ? `since ${since}` : `from ${since} until ${sliceTime(change.until_us, change.slice_us)}`;
}

// Returns what a group is: a statement begins with its method.
function groupLabel({ comm, role, host, method, path }, hops = []) {
  const what = path?.startsWith(`${method} `) ? path : [method, path].filter(Boolean).join(" ");
  const seen = hops.length ? `seen by ${hops.join(", ")}` : [comm, role].filter(Boolean).join(", ");
  return [what, host && `at ${host}`, seen && `(${seen})`].filter(Boolean).join(" ");
}

// A button that lists the exchanges with this raw path; of one that was cut the text alone.
function rawPathButton(path) {
  return path.includes(CUT) ? path : button(path, () => list.search(JSON.stringify(path)));
}

function changeItem(change, drawLine) {
  const label = groupLabel(change.group, change.hops);
  const named = change.line === null ? label : button(label, () => drawLine(change.line));
  if (change.what === "new" || change.what === "gone") {
    return element("li", null, `${timesOf(change)}: `, element("b", null, change.before), named, change.after);
  }
  const [before, after] = CAUSES[change.cause] ?? [];
  const paths = change.paths.flatMap((path, index) => [index ? ", " : "", rawPathButton(path)]);
  const quantile = change.what === "errors" ? "errors " : change.quantile === "p50" ? "" : `${change.quantile} `;
  return element("li", { class: change.worse ? "worse" : null },
    `${timesOf(change)}: `, named, " ",
    element("b", null, `${quantile}${changedFigure(change, change.before)} → ${changedFigure(change, change.after)}`),
    change.cause ? [" (", before, paths, after, ")"] : null);
}

function lineCharts(line) {
  const label = groupLabel(line.group);
  const rows = line.slices.map(([us, count, errors, p50, p90, p99]) => ({ at: new Date(us / 1000), end: new Date((us + line.slice_us) / 1000), count, errors, p50, p90, p99 }));
  const timed = rows.flatMap((row) => Object.keys(OVER_TIME).filter((name) => row[name] !== null).map((name) => ({ at: row.at, quantile: name, ms: row[name] })));
  const changed = capture.changes.said.filter((change) => change.line === capture.changes.lines.indexOf(line));
  const rules = changed.flatMap((change) => [change.since_us, change.until_us]).filter((us) => us !== null).map((us) => new Date(us / 1000));
  const isShort = rows.length && rows.at(-1).end - rows[0].at < 10e3;
  const x = { type: "time", label: null, ticks: 8, tickFormat: d3.timeFormat(isShort ? "%H:%M:%S.%L" : "%H:%M:%S"), domain: [rows[0].at, rows.at(-1).end] };
  const marker = Plot.ruleX(rules, { stroke: "var(--ink)", strokeDasharray: "4 3" });
  const size = { width: 1240, marginRight: 20 };
  return [
    timed.length ? chart(`Times of ${label}, by slices of ${duration(line.slice_us / 1000)}, in milliseconds`, OVER_TIME, {
      ...size, height: 190, x, y: { type: "log", label: "ms", grid: true, tickFormat: "~r" },
      color: { domain: Object.keys(OVER_TIME), range: Object.keys(OVER_TIME).map((name) => `var(--${name})`) },
      marks: [marker,
        Plot.lineY(timed, { x: "at", y: "ms", stroke: "quantile", z: "quantile", curve: "step-after", strokeWidth: 1.5 }),
        Plot.dot(timed, { x: "at", y: "ms", fill: "quantile", r: 1.5, tip: true })],
    }) : null,
    chart(`Exchanges and errors of ${label}, in each slice`, { counted: "exchanges", failed: "errors" }, {
      ...size, height: 110, x, y: counts,
      marks: [Plot.rectY(rows, { x1: "at", x2: "end", y: "count", fill: "var(--none)", inset: 0 }),
        Plot.rectY(rows, { x1: "at", x2: "end", y: "errors", fill: "var(--server-error)", inset: 0 }), marker, Plot.ruleY([0])],
    }),
  ];
}

function changesSection() {
  const { said, lines, left_out: leftOut, unsearched } = capture.changes;
  if (!lines.length) return null;
  const drawing = element("div", null);
  const choice = element("select", null, lines.map((line, index) => element("option", { value: index }, groupLabel(line.group))));
  const draw = () => drawing.replaceChildren(...lineCharts(lines[choice.value || 0]).filter(Boolean));
  const drawLine = (index) => {
    choice.value = index;
    draw();
    choice.scrollIntoView();
    choice.focus();
  };
  choice.addEventListener("input", draw);
  draw();
  return [
    said.length ? element("ul", { class: "changes" }, said.map((change) => changeItem(change, drawLine)))
      : element("p", null, "No group became slower or faster, failed more or less often, appeared or vanished, by more than chance does."),
    leftOut ? element("p", { class: "note" }, `${counted(leftOut, "more change")} left out: sslsniff stats --json has all.`) : null,
    unsearched ? element("p", { class: "note" }, unsearched) : null,
    element("form", { on: { submit: (event) => event.preventDefault() } }, element("label", null, "Over time", choice)),
    drawing,
  ];
}

// The raw paths of a path pattern, to open below its row; nothing if there are not several.
function rawPathsPart(pattern) {
  const found = Object.hasOwn(capture.raw_paths, pattern) ? capture.raw_paths[pattern] : null;
  if (!found) return null;
  const number = (title, index, show) => ({ title, kind: "number", value: (row) => row[index], show: (row) => show(row[index]) });
  const whole = (count) => count.toLocaleString("en");
  const table = sortableTable({
    rows: found.rows,
    columns: [
      { title: "Raw path", kind: "wide", value: (row) => row[0], show: (row) => rawPathButton(row[0]) },
      number("Exchanges", 1, whole), number("Errors", 2, whole), number("Time in all", 3, duration),
      number("p50", 4, duration), number("max", 5, duration),
    ],
  });
  return element("details", { class: "paths" }, element("summary", null, "raw paths"), table,
    found.others ? element("p", { class: "note" }, `${counted(found.others, "exchange")} of other raw paths`) : null);
}
