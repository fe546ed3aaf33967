"use strict";
// The waterfall: the exchanges of a connection in time, that with the slowest one first.

const PHASES = { send: "request sent", wait: "waiting for the response", receive: "response received", stall: "stalled by flow control", fold: "quick exchanges on one line" };
const PHASE_COLOURS = { domain: Object.keys(PHASES), range: Object.keys(PHASES).map((phase) => `var(--${phase})`) };
const MOST_CONNECTIONS = 300;
const WATERFALL_ROWS = 60;
const LABEL_CHARACTERS = 38;
const FEWEST_FOLDED = 4;
// What takes a smaller part of the time of its connection is a mark of one pixel.
const QUICK_SHARE = 1 / 800;

function waterfallSection() {
  const stalls = d3.group(capture.stalls, (stall) => stall.connection);
  const connections = d3.flatGroup(exchanges, (row) => row.connection).map(([connection, rows]) => ({
    connection,
    rows: sortRows(rows, { column: { value: (row) => row.startUs } }),
    stalls: stalls.get(connection.id) ?? [],
    slowestMs: d3.max(rows, (row) => row.ms) ?? 0,
  })).sort((one, other) => other.slowestMs - one.slowestMs);
  if (!connections.length) return null;
  const listed = connections.slice(0, MOST_CONNECTIONS);
  const drawing = element("div", { class: "scroll" });
  const note = element("p", { class: "note", role: "status" });
  const choice = element("select", null, listed.map((each, index) => element("option", { value: index }, choiceText(each))));
  const folds = element("input", { type: "checkbox", checked: true });
  let lines = [];
  let from = 0;
  const previous = button("Previous", () => { from -= WATERFALL_ROWS; draw(); }, { class: "button" });
  const next = button("Next", () => { from += WATERFALL_ROWS; draw(); }, { class: "button" });
  const turning = element("div", { class: "pages" }, note, previous, next);
  const folding = element("label", { class: "inline" }, folds, "quick exchanges on one line");

  // Chooses what the lines are, and turns to the slowest exchange.
  function choose() {
    const { rows, slowestMs } = listed[choice.value || 0];
    const folded = foldedLines(rows);
    folding.hidden = folded.length === rows.length;
    lines = folds.checked ? folded : rows.map((row) => [row]);
    const slowest = lines.findIndex((line) => line.some((row) => row.ms === slowestMs));
    from = Math.max(0, slowest - (slowest % WATERFALL_ROWS));
    draw();
  }

  function draw() {
    const { connection, rows, stalls: ofConnection } = listed[choice.value || 0];
    const part = lines.slice(from, from + WATERFALL_ROWS);
    drawing.replaceChildren(waterfallChart(`Exchanges of connection ${connection.id}: stream, method, path, status`, part, ofConnection));
    note.textContent = lines.length > WATERFALL_ROWS ? `${from + 1} to ${from + part.length} of ${counted(lines.length, lines.length < rows.length ? "line" : "exchange")}` : "";
    previous.disabled = from === 0;
    next.disabled = from + WATERFALL_ROWS >= lines.length;
    turning.hidden = lines.length <= WATERFALL_ROWS;
  }

  choice.addEventListener("input", choose);
  folds.addEventListener("input", choose);
  choose();
  const unlisted = connections.length - listed.length;
  return [element("form", { on: { submit: (event) => event.preventDefault() } }, element("label", null, "Connection, that with the slowest exchange first", choice), folding),
    unlisted > 0 ? element("p", { class: "note" }, `${counted(unlisted, "connection")} with quicker exchanges are not listed here.`) : null,
    drawing, turning];
}

function choiceText({ connection, rows, stalls, slowestMs }) {
  const failed = rows.filter((row) => row.isFailed).length;
  return [
    `${connection.id}: ${counted(rows.length, "exchange")}`,
    `slowest ${duration(slowestMs)}`,
    failed ? `${failed.toLocaleString("en")} failed` : null,
    stalls.length ? `stalled ${duration(d3.max(stalls, (stall) => stall.ms))}` : null,
    connection.sni ?? connection.remote ?? "?",
  ].filter(Boolean).join(", ");
}

// Returns the lines of a waterfall, each a list of exchanges: runs of quick ones share a line, if all need several pages.
function foldedLines(rows) {
  const dated = rows.filter((row) => row.startUs !== null);
  if (rows.length <= WATERFALL_ROWS || !dated.length) return rows.map((row) => [row]);
  const began = dated[0].startUs;
  const quickMs = QUICK_SHARE * (d3.max(dated, (row) => row.startUs - began + 1000 * (row.ms ?? 0)) / 1000);
  const isQuick = (row) => row.startUs !== null && row.ms !== null && row.ms <= quickMs && !row.isFailed;
  const lines = [];
  for (let at = 0; at < rows.length;) {
    let end = at;
    while (end < rows.length && isQuick(rows[end])) end++;
    if (end - at >= FEWEST_FOLDED) {
      lines.push(rows.slice(at, end));
    } else {
      end = Math.max(end, at + 1);
      for (const row of rows.slice(at, end)) lines.push([row]);
    }
    at = end;
  }
  return lines;
}

// The lines of a connection, one below the other: when each part of an exchange began and ended, if that is known.
function waterfallChart(caption, lines, stalls) {
  const rows = lines.map(([first]) => first);
  const began = d3.min(rows, (row) => row.startUs);
  const single = lines.filter((line) => line.length === 1 && line[0].startUs !== null).map(([row]) => row);
  const at = (row, ms) => (row.startUs - began) / 1000 + ms;
  const names = new Map(lines.map((line) => [line[0].number, line.length === 1 ? waterfallLabel(line[0]) : foldLabel(line)]));
  const parts = single.flatMap((row) => phasesOf(row).map((part) => ({ ...part, row, from: at(row, part.from), to: at(row, part.to) })));
  const end = Math.max(d3.max(parts, (part) => part.to) ?? 0, d3.max(lines, (line) => at(line.at(-1), line.at(-1).ms ?? 0)) ?? 0);
  const folded = lines.filter((line) => line.length > 1).flatMap((line) => foldedParts(line, at, end * QUICK_SHARE));
  const ofStreams = stalls.filter((stall) => stall.since_us !== null).flatMap((stall) => stalledParts(single, stall, began));
  const used = Object.entries(PHASES).filter(([phase]) => (phase !== "stall" || ofStreams.length) && (phase !== "fold" || folded.length));
  return chart(caption, Object.fromEntries(used), {
    width: 1100,
    height: 40 + lines.length * 18,
    marginLeft: 300,
    marginTop: 30,
    marginBottom: 4,
    x: { axis: "top", label: "milliseconds since the first of them", grid: true, domain: [0, end || 1] },
    y: { type: "band", domain: rows.map((row) => row.number), label: null, tickFormat: (number) => names.get(number), padding: 0.25, tickSize: 0 },
    color: PHASE_COLOURS,
    marks: [
      Plot.barX(folded, { x1: "from", x2: "to", y: "number", fill: "phase" }),
      Plot.barX(parts, { x1: "from", x2: "to", y: (part) => part.row.number, fill: "phase", href: (part) => `#e${part.row.number}`,
        ariaLabel: (part) => `${names.get(part.row.number)}: ${PHASES[part.phase]}, ${duration(part.to - part.from)}`,
        channels: { part: (part) => `${PHASES[part.phase]}: ${duration(part.to - part.from)}` },
        tip: { format: { x: false, x1: false, x2: false, y: false, fill: false, href: false, part: true } } }),
      Plot.barX(ofStreams, { x1: "from", x2: "to", y: (part) => part.row.number, fill: "phase", insetTop: 9 }),
    ],
  });
}

function foldLabel(line) {
  return `${counted(line.length, "exchange")} of at most ${duration(d3.max(line, (row) => row.ms))}`;
}

// One mark for all exchanges of a line that begin in the same pixel.
function foldedParts(line, at, pixelMs) {
  const [{ number }] = line;
  const places = new Set(line.map((row) => Math.floor(at(row, 0) / pixelMs)));
  return [...places].map((place) => ({ phase: "fold", number, from: place * pixelMs, to: (place + 1) * pixelMs }));
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
