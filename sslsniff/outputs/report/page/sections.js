"use strict";
// The sections of the page, in their order. One without content is left out.

const GROUPINGS = { host: "Host", path: "Path", comm: "Process", role: "Side", server: "Server", sni: "Server name", status: "Status", protocol: "Protocol", model: "Model" };
// With one value, a table of these says no more than the summary.
const OF_SEVERAL = ["role", "server", "sni"];
const LEAST_LARGE_BYTES = 1000;
const LARGEST_COLUMNS = COLUMNS.flatMap((column) => (column.title !== "Size" ? [column] : [
  { title: "Request", kind: "number", value: (row) => row.requestBytes, show: (row) => size(row.requestBytes) },
  { title: "Response", kind: "number", value: (row) => row.responseBytes, show: (row) => size(row.responseBytes) },
]));

function figure(name, value, isBad) {
  return element("div", { class: isBad ? "bad" : null }, element("dt", null, name), element("dd", null, value));
}

const FILTERED = "A figure “of” another one is what the filter let through, of all. A connection counts, with all of its plaintext, if an exchange on it matches. "
  + "Duration, bytes lost and libraries that were not probed are of the whole capture. All other figures are of the exchanges that match.";

// Returns a figure of what is shown; with a filter, of how much in all: `whole`.
function ofAll(part, whole, text) {
  return capture.summary?.shown == null ? text(whole) : `${text(part)} of ${text(whole)}`;
}

function tokensOf(figures, text) {
  return ofCalls(text, figures.calls_with_tokens, figures.model_calls);
}

function costOf(figures) {
  if (figures.cost === null) return "";
  return ofCalls(money(figures.cost, figures.currency), figures.calls_with_cost, figures.model_calls);
}

function summarySection() {
  const { summary, total } = capture;
  const lost = summary ? d3.sum(summary.losses, (loss) => loss.bytes) : null;
  const failed = total.errors;
  const number = (count) => count.toLocaleString("en");
  const figures = [
    figure("Exchanges", ofAll(total.count, summary?.exchanges ?? total.count, number)),
    total.rate ? figure("Exchanges/s", total.rate.toFixed(total.rate < 10 ? 2 : 0)) : null,
    figure("Errors", failed.toLocaleString("en"), failed > 0),
    summary?.failed_handshakes ? figure("Failed handshakes", summary.failed_handshakes.toLocaleString("en"), true) : null,
    summary && figure("Connections", ofAll(summary.shown_connections, summary.connections, number)),
    summary && figure("Plaintext", ofAll(summary.shown_bytes, summary.bytes, size)),
    summary && figure("Duration", duration(summary.duration_ns / 1e6)),
    figure("Median time", duration(total.total.p50)),
    figure("p99 time", duration(total.total.p99)),
    total.model_calls ? figure("Model calls", total.model_calls.toLocaleString("en")) : null,
    total.model_calls ? figure("Tokens in, out", tokensOf(total, `${total.input_tokens.toLocaleString("en")}, ${total.output_tokens.toLocaleString("en")}`)) : null,
    total.cost !== null ? figure("Cost of model calls", costOf(total)) : null,
    summary?.secrets ? figure("Redacted secrets", summary.secrets.toLocaleString("en")) : null,
    lost === null ? null : figure("Bytes lost", lost.toLocaleString("en"), lost > 0),
    summary?.not_probed?.length ? figure("Not probed", counted(summary.not_probed.length, "library", "libraries"), true) : null,
  ];
  const warning = summary ? null : element("p", { class: "warning" }, "The capture ended by an error: what was lost is not known.");
  const filtered = summary?.shown == null ? null : element("p", { class: "note" }, FILTERED);
  return [warning, element("dl", { class: "figures" }, figures), filtered, calmLine()];
}

function activitySection() {
  return exchanges.length ? [activityChart()] : null;
}

function handshakesSection() {
  const { rows, left_out: leftOut } = capture.handshakes;
  if (!rows.length) return null;
  const failed = d3.sum(rows, (row) => row.count) + leftOut;
  const more = leftOut ? element("p", { class: "note" }, `${counted(leftOut, "failure")} more, for other reasons, are not listed.`) : null;
  return [sortableTable({
    caption: counted(failed, "handshake"),
    rows,
    columns: [
      { title: "Handshakes", kind: "number", value: (row) => row.count, show: (row) => row.count.toLocaleString("en") },
      { title: "Process", value: (row) => row.process },
      { title: "Side", value: (row) => row.role },
      { title: "Server", value: (row) => row.server },
      { title: "Server name", value: (row) => row.name },
      { title: "Why", kind: "wide", value: (row) => row.text },
      { title: "First", kind: "nowrap", value: (row) => row.first_us, show: (row) => timeOfDay(row.first_us) },
      { title: "Last", kind: "nowrap", value: (row) => row.last_us, show: (row) => timeOfDay(row.last_us) },
    ],
  }), more];
}

function secretsSection() {
  const { rows, left_out: leftOut } = capture.secrets;
  if (!rows.length) return null;
  const blanked = d3.sum(rows, (row) => row.count) + leftOut;
  const more = leftOut ? element("p", { class: "note" }, `${counted(leftOut, "secret")} more, in other places, are not listed.`) : null;
  return [element("p", { class: "note" }, "Rows with the same fingerprint are of the same secret. Fingerprints of two captures cannot be compared."), sortableTable({
    caption: counted(blanked, "secret"),
    rows,
    columns: [
      { title: "Name", value: (row) => row.name },
      { title: "Pattern", value: (row) => row.pattern },
      { title: "Fingerprint", kind: "nowrap", value: (row) => row.fingerprint },
      { title: "Rows with it", kind: "number", value: (row) => row.places },
      { title: "Where", kind: "nowrap", value: (row) => row.where },
      { title: "Process", value: (row) => row.process },
      { title: "Side", value: (row) => row.role },
      { title: "Server", value: (row) => row.server },
      { title: "Host", value: (row) => row.host },
      { title: "Secrets", kind: "number", value: (row) => row.count, show: (row) => row.count.toLocaleString("en") },
      { title: "First", kind: "nowrap", value: (row) => row.first_us, show: (row) => timeOfDay(row.first_us) },
      { title: "Last", kind: "nowrap", value: (row) => row.last_us, show: (row) => timeOfDay(row.last_us) },
    ],
  }), more];
}

function modelsSection() {
  const calls = exchanges.filter((row) => row.model);
  if (!calls.length) return null;
  const { time, model, tokens, cost, duration: lasted, tools } = callColumns(calls);
  const noPrice = Object.entries(capture.total.calls_without_price).map(([model, count]) => `${counted(count, "call")} of ${model}`).join(", ");
  return [noPrice ? element("p", { class: "warning" }, `No price for ${noPrice}.`) : null, sortableTable({
    caption: counted(calls.length, "call"),
    rows: calls,
    columns: [
      time,
      { title: "Process", value: processOf },
      model,
      { title: "API", kind: "nowrap", value: (row) => row.model.api },
      ...tokens,
      { title: "Cached", kind: "number", value: (row) => row.model.cachedTokens },
      { title: "Written", kind: "number", value: (row) => row.model.writtenTokens },
      ...cost,
      { title: "First output", kind: "number", value: (row) => row.model.firstOutputMs, show: (row) => duration(row.model.firstOutputMs) },
      ...[lasted, tools],
      { title: "Host", value: (row) => row.host ?? "?" },
    ],
  }), runsPart(calls)];
}

function groupTable(name, title) {
  const rows = capture.groups[name];
  if (!rows?.length || (rows.length < 2 && OF_SEVERAL.includes(name))) return null;
  const hasTokens = name === "model";
  const columns = [
    { title, kind: "wide", value: (row) => row.key, show: (row) => (row.rest ? "all others" : [searchButton(name, row.key, name === "status" ? (row.key ?? NO_STATUS) : row.key), name === "path" ? rawPathsPart(row.key) : null]) },
    ...(rows.some((row) => row.hop.length) ? [{ title: "Process, side", kind: "nowrap", value: (row) => row.hop.map((each) => each ?? "?").join(", ") }] : []),
    { title: "Exchanges", kind: "number", value: (row) => row.count, show: (row) => row.count.toLocaleString("en") },
    { title: "Exchanges/s", kind: "number", value: (row) => row.rate, show: (row) => row.rate?.toFixed(2) ?? "" },
    { title: "Errors", kind: "number", value: (row) => row.errors, show: (row) => element("span", { class: row.errors ? "server-error" : null }, row.errors.toLocaleString("en")) },
    ...["p50", "p90", "p99", "max"].map((key) => ({ title: key, kind: "number", value: (row) => row.total[key], show: (row) => duration(row.total[key]) })),
    { title: "First byte p50", kind: "number", value: (row) => row.first_byte.p50, show: (row) => duration(row.first_byte.p50) },
    ...(hasTokens ? [
      { title: "Tokens in", kind: "number", value: (row) => row.input_tokens, show: (row) => tokensOf(row, row.input_tokens.toLocaleString("en")) },
      { title: "Tokens out", kind: "number", value: (row) => row.output_tokens, show: (row) => row.output_tokens.toLocaleString("en") },
      { title: "Cached", kind: "number", value: (row) => row.cached_tokens, show: (row) => row.cached_tokens.toLocaleString("en") },
      { title: "Written", kind: "number", value: (row) => row.cache_written_tokens, show: (row) => row.cache_written_tokens.toLocaleString("en") },
      ...(capture.total.currency ? [{ title: "Cost", kind: "number", value: (row) => row.cost, show: costOf }] : []),
    ] : [
      { title: "Sent", kind: "number", value: (row) => row.request_bytes, show: (row) => size(row.request_bytes) },
      { title: "Received", kind: "number", value: (row) => row.response_bytes, show: (row) => size(row.response_bytes) },
    ]),
  ];
  return sortableTable({ caption: `By ${title.toLowerCase()}`, columns, rows });
}

function groupsSection() {
  if (!exchanges.length) return null;
  return [element("p", { class: "note" }, "p50 to max are times from the beginning of a request to the end of its response."),
    ...Object.entries(GROUPINGS).map(([name, title]) => groupTable(name, title))];
}

function latencySection() {
  if (!exchanges.some((row) => row.ms !== null)) return null;
  const { total } = capture;
  const quantiles = (title, key) => ({ title, kind: "number", value: (row) => row[1][key], show: (row) => duration(row[1][key]) });
  return [element("div", { class: "beside" },
    distributionChart("Duration, by status", (row) => row.ms, "milliseconds", 0.001),
    distributionChart("Time to the first byte of the response, by status", (row) => row.firstByteMs, "milliseconds", 0.001)),
    sortableTable({
      columns: [{ title: "Time", value: (row) => row[0] }, quantiles("p50", "p50"), quantiles("p90", "p90"), quantiles("p99", "p99"), quantiles("max", "max")],
      rows: [["until the end", total.total], ["until the first byte", total.first_byte]],
    })];
}

// Bodies of a few bytes, such as answers to a health check, have no distribution worth a chart.
function sizesSection() {
  const largest = d3.max(exchanges, (row) => Math.max(row.requestBytes, row.responseBytes));
  if (!(largest >= LEAST_LARGE_BYTES)) return null;
  return [element("div", { class: "beside" },
    distributionChart("Size of response bodies, by status", (row) => row.responseBytes || null, "bytes", 1),
    distributionChart("Size of request bodies, by status", (row) => row.requestBytes || null, "bytes", 1)),
    element("h3", null, "Largest"), exchangeTable(mostOf((row) => row.requestBytes + row.responseBytes), LARGEST_COLUMNS)];
}

function ledgerSection() {
  const { summary } = capture;
  const causes = (missing) => Object.entries(missing).map(([cause, bytes]) => `${bytes.toLocaleString("en")} (${cause})`).join(", ");
  const columns = (...pairs) => pairs.map(([title, value, kind]) => ({ title, value, kind }));
  const parts = [];
  if (summary) {
    parts.push(element("h3", null, "Lost"), summary.losses.length
      ? sortableTable({ rows: summary.losses, columns: columns(["Cause", (row) => row.cause], ["Times", (row) => row.events, "number"], ["Bytes", (row) => row.bytes, "number"]) })
      : element("p", null, "No byte was lost."));
    if (summary.lossy.length) {
      parts.push(sortableTable({ caption: "Connections that lost bytes", rows: summary.lossy, columns: columns(["Connection", (row) => row.connection], ["Process", (row) => row.process], ["Peer", (row) => row.remote], ["Bytes", (row) => causes(row.missing)]) }));
    }
    const remarks = [
      summary.lossy_unlisted && `${counted(summary.lossy_unlisted, "more connection")} lost bytes.`,
      summary.unplaced_bytes && `${summary.unplaced_bytes.toLocaleString("en")} bytes were of connections that were never seen.`,
      summary.joined && `${counted(summary.joined, "connection")} joined in the middle: what passed before is not known.`,
      summary.evictions && `${counted(summary.evictions, "connection")} evicted to free memory: what was open on them is not whole.`,
      ...summary.idle.map((each) => `${each}.`),
      summary.without_request && `${summary.without_request}.`,
      summary.without_text && `${summary.without_text}.`,
      summary.left_out !== null && `${counted(summary.left_out, "connection")} left out by --sample.`,
      summary.shown !== null && `The filter let ${summary.shown.toLocaleString("en")} of ${counted(summary.exchanges, "exchange")} pass.`,
    ].filter(Boolean);
    parts.push(remarks.map((each) => element("p", null, each)));
    parts.push(element("h3", null, "Not probed"), notProbedPart(summary.not_probed));
  }
  if (capture.undecoded.length) {
    parts.push(sortableTable({ caption: "Not decoded", rows: capture.undecoded, columns: columns(["Reason", (row) => row.reason, "wide"], ["Times", (row) => row.times, "number"], ["Bytes", (row) => row.bytes, "number"]) }));
  }
  return [...parts, element("h3", null, "Not in this page"), ...leftOutParts()];
}

function notProbedPart(found) {
  if (found === null) return element("p", null, "This is not known of a capture file.");
  if (!found.length) return element("p", null, "No TLS library of a watched process was left out.");
  return sortableTable({
    rows: found,
    columns: [
      { title: "Library", value: (row) => [row.library, row.version].filter(Boolean).join(" ") },
      { title: "Process", value: (row) => row.first ?? "none yet", show: (row) => (row.processes > 1 ? `${row.first} and ${row.processes - 1} more` : (row.first ?? "none yet")) },
      { title: "File", value: (row) => row.file },
      { title: "Why", value: (row) => row.reason },
      { title: "Remedy", value: (row) => row.remedy || "none" },
    ],
  });
}

function leftOutParts() {
  const { rows, heads, bodies } = capture.dropped;
  const said = [
    rows && `The list is without the oldest ${counted(rows, "exchange")}; the statistics count them.`,
    heads > rows && `Headers of the oldest ${counted(heads - rows, "exchange")} of the list are left out (--report-size).`,
    capture.body_bytes && bodies > rows && `Bodies and conversations of the oldest ${counted(bodies - rows, "exchange")} of the list are left out (--report-size).`,
    capture.body_bytes ? `Of each body the first ${size(capture.body_bytes)} are here (--report-bodies).` : "Bodies and conversations are not here (--report-bodies 0).",
  ].filter(Boolean);
  return said.map((each) => element("p", null, each));
}

// What is wrong comes first: who opens a report at night looks for it. Then come the figures.
const SECTIONS = [
  ["summary", "Summary", summarySection],
  ["errors", "Errors", errorsSection],
  ["handshakes", "Failed TLS handshakes", handshakesSection],
  ["stalls", "Flow-control stalls", stallsSection],
  ["slowest", "Slowest", slowestSection],
  ["waterfall", "Waterfall", waterfallSection],
  ["changes", "What changed", changesSection],
  ["trees", "Requests", treesSection],
  ["activity", "Over time", activitySection],
  ["models", "Model calls", modelsSection],
  ["groups", "Statistics", groupsSection],
  ["latency", "Latency", latencySection],
  ["sizes", "Sizes", sizesSection],
  ["secrets", "Redacted secrets", secretsSection],
  ["exchanges", "Exchanges", exchangesSection],
  ["ledger", "What is missing", ledgerSection],
];

function openLinked() {
  const found = /^#e(\d+)$/.exec(location.hash);
  if (found) openDetail(Number(found[1]), list.found);
}

function start() {
  const about = [capture.source, capture.filter && `filter ${capture.filter}`];
  const began = d3.min(exchanges, (row) => row.startUs);
  if (began) about.push(new Date(began / 1000).toLocaleString("en-GB", { timeZoneName: "short" }));
  document.getElementById("source").append(shown(about.filter(Boolean).join(" · ")));
  document.getElementById("made-by").append(`Made by sslsniff ${shown(capture.version)}. This page loads nothing and sends nothing. Times are local.`);
  document.title = `sslsniff report: ${shown(capture.source)}`;
  for (const [id, title, make] of SECTIONS) {
    const content = make();
    if (!content) continue;
    const heading = `${id}-title`;
    document.getElementById("main").append(element("section", { id, "aria-labelledby": heading }, element("h2", { id: heading }, title), content));
    document.getElementById("contents").append(element("li", null, element("a", { href: `#${id}` }, title)));
  }
  window.addEventListener("hashchange", openLinked);
  openLinked();
  document.documentElement.dataset.ready = "yes";
}

start();
