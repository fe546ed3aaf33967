"use strict";
// The data of the report: parsed once, except what is shown only on demand.

function textOf(id) {
  return document.getElementById(id).textContent;
}

const capture = JSON.parse(textOf("capture"));

// The columns of report.py's rows. Times are in milliseconds here, the beginning in microseconds.
const exchanges = JSON.parse(textOf("rows")).map((row, index) => ({
  number: capture.dropped.rows + index,
  connection: capture.connections[row[0]],
  startUs: row[1],
  ms: milliseconds(row[2]),
  firstByteMs: milliseconds(row[3]),
  sentMs: milliseconds(row[4]),
  stream: row[5],
  method: row[6],
  host: row[7],
  target: row[8],
  path: row[9],
  status: row[10],
  protocol: row[11],
  requestBytes: row[12],
  responseBytes: row[13],
  missingBytes: row[14],
  error: row[15],
  isFailed: row[16],
  model: row[17] && {
    name: row[17][0],
    api: row[17][1],
    inputTokens: row[17][2],
    outputTokens: row[17][3],
    firstOutputMs: milliseconds(row[17][4]),
    tools: row[17][5],
    cachedTokens: row[17][6],
    writtenTokens: row[17][7],
    cost: row[17][8],
    run: row[17][9] && { id: row[17][9][0], position: row[17][9][1], tools: row[17][9][2], toolsMs: milliseconds(row[17][9][3]), mcpMs: milliseconds(row[17][9][4]) },
  },
  isStatement: row[18],
  tree: row[19]?.[0] ?? null,
  depth: row[19]?.[1] ?? 0,
  isOtherEnd: row[19]?.[2] ?? false,
}));

function milliseconds(us) {
  return us === null ? null : us / 1000;
}

const lines = new Map();

// Returns what the element `id` has of an exchange; null if it was left out or there is none.
function partOf(id, exchange) {
  if (!lines.has(id)) lines.set(id, textOf(id).split("\n"));
  const line = lines.get(id)[exchange.number - capture.dropped[id]];
  return line ? JSON.parse(line) : null;
}

const NO_STATUS = "no status";
// The kinds of exchanges, each with a colour, by the class of their status.
const KINDS = ["ok", "redirect", "client-error", "server-error", "none"];
const KIND_OF_CLASS = { "2xx": "ok", "3xx": "redirect", "4xx": "client-error", "5xx": "server-error", ok: "ok", failed: "server-error" };

// Returns such as 2xx; of a statement to a database ok or failed.
function statusClass(exchange) {
  const { status } = exchange;
  return typeof status === "number" ? `${Math.floor(status / 100)}xx` : (status ?? NO_STATUS);
}

function kindOf(exchange) {
  return KIND_OF_CLASS[statusClass(exchange)] ?? "none";
}

// Returns the method and the target; the text of a statement already has its method.
function titleOf(exchange, target) {
  return exchange.isStatement ? target : `${exchange.method ?? "?"} ${target}`;
}
