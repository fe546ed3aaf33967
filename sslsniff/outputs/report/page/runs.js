"use strict";
// Calls of models, and runs of agents: calls of which each continues the one before.

const MOST_RUNS = 50;

// Returns the columns that tables of calls have in common, by name; `calls` are those of the table.
function callColumns(calls) {
  const { currency } = capture.total;
  const tokens = (title, name) => ({ title, kind: "number", value: (row) => row.model[name], show: (row) => row.model[name] ?? "?" });
  return {
    time: { title: "Time", kind: "nowrap", value: (row) => row.startUs, show: (row) => timeOfDay(row.startUs) },
    model: { title: "Model", value: (row) => row.model.name ?? row.model.api, show: (row) => button(row.model.name ?? row.model.api, () => openDetail(row.number, calls)) },
    tokens: [tokens("Tokens in", "inputTokens"), tokens("Tokens out", "outputTokens")],
    cost: currency ? [{ title: "Cost", kind: "number", value: (row) => row.model.cost, show: (row) => money(row.model.cost, currency) }] : [],
    duration: { title: "Duration", kind: "number", value: (row) => row.ms, show: (row) => duration(row.ms) },
    tools: { title: "Tools called", value: (row) => row.model.tools.join(", ") },
  };
}

// Returns for how long tools ran before a call, and for how long of that servers of MCP worked.
function toolsTime({ toolsMs, mcpMs }) {
  return `${duration(toolsMs)}${mcpMs === null ? "" : ` (${duration(mcpMs)} of it by MCP)`}`;
}

// Returns the sums of times, of calls of which they are known; null: of none.
function sumOf(rows, valueOf) {
  const known = rows.map(valueOf).filter((value) => value !== null);
  return known.length ? d3.sum(known) : null;
}

// Returns the runs of several calls; how many tokens and how long, of the calls that are in the page.
function runsOf(calls) {
  const grouped = d3.flatGroup(calls.filter((row) => row.model.run), (row) => row.model.run.id);
  return grouped.filter(([, rows]) => rows.length > 1).map(([id, rows]) => ({
    id,
    rows: sortRows(rows, { column: { value: (row) => row.model.run.position } }),
    names: [...new Set(rows.map((row) => row.model.name ?? row.model.api))].join(", "),
    inputTokens: d3.sum(rows, (row) => row.model.inputTokens),
    outputTokens: d3.sum(rows, (row) => row.model.outputTokens),
    withTokens: rows.filter((row) => row.model.inputTokens !== null || row.model.outputTokens !== null).length,
    cost: d3.sum(rows, (row) => row.model.cost),
    withCost: rows.filter((row) => row.model.cost !== null).length,
    modelMs: d3.sum(rows, (row) => row.ms),
    toolsMs: d3.sum(rows, (row) => row.model.run.toolsMs),
    tools: d3.rollup(rows.filter((row) => row.model.run.toolsMs !== null), (of) => ({ toolsMs: sumOf(of, (row) => row.model.run.toolsMs), mcpMs: sumOf(of, (row) => row.model.run.mcpMs) }), (row) => row.model.run.tools.join(", ")),
    unread: rows.some((row) => row.model.cachedTokens) ? 0 : d3.sum(rows, (row) => row.model.writtenTokens),
  }));
}

function runsPart(calls) {
  const runs = runsOf(calls);
  if (!runs.length) return null;
  const { currency } = capture.total;
  const alone = calls.filter((row) => row.model.run).length - d3.sum(runs, (run) => run.rows.length);
  return [
    element("h3", null, "Runs of agents"),
    element("p", { class: "note" }, "Each call of a run continues the conversation of one before. Time in tools: from an answer that calls them to the request with their results."),
    sortableTable({
      rows: runs,
      columns: [
        { title: "Run", kind: "number", value: (run) => run.id, show: (run) => searchButton("run", run.id) },
        { title: "Process", value: (run) => [...new Set(run.rows.map(processOf))].join(", ") },
        { title: "Model", value: (run) => run.names },
        { title: "Calls", kind: "number", value: (run) => run.rows.length },
        { title: "Tokens in", kind: "number", value: (run) => run.inputTokens, show: (run) => ofCalls(run.inputTokens.toLocaleString("en"), run.withTokens, run.rows.length) },
        { title: "Tokens out", kind: "number", value: (run) => run.outputTokens, show: (run) => run.outputTokens.toLocaleString("en") },
        ...(currency ? [{ title: "Cost", kind: "number", value: (run) => run.cost, show: (run) => (run.withCost ? ofCalls(money(run.cost, currency), run.withCost, run.rows.length) : "") }] : []),
        { title: "In the model", kind: "number", value: (run) => run.modelMs, show: (run) => duration(run.modelMs) },
        { title: "In tools", kind: "number", value: (run) => run.toolsMs, show: (run) => (run.tools.size ? duration(run.toolsMs) : "") },
        { title: "Tools", value: (run) => [...run.tools].map(([name, times]) => `${name} ${toolsTime(times)}`).join(", ") },
      ],
    }),
    runs.filter((run) => run.unread).map((run) => element("p", { class: "note" }, `Run ${run.id}: cache written ${run.unread.toLocaleString("en")} tokens, never read in this capture.`)),
    d3.sort(runs, (run) => -run.rows.length).slice(0, MOST_RUNS).map(runDetails),
    alone ? element("p", { class: "note" }, `${counted(alone, "other call")}: no call continues them, and they continue none.`) : null,
  ];
}

// The calls of a run in order, shown when it is opened.
function runDetails(run) {
  const details = element("details", null, element("summary", null, `Run ${run.id}: ${counted(run.rows.length, "call")} of ${run.names}`));
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) details.append(runTable(run));
  });
  return details;
}

function runTable({ id, rows }) {
  const { time, model, tokens, cost, duration: lasted, tools } = callColumns(rows);
  return sortableTable({
    caption: `Calls of run ${id}`,
    rows,
    columns: [
      { title: "Call", kind: "number", value: (row) => row.model.run.position },
      time,
      { title: "Tools before it", value: (row) => row.model.run.toolsMs, show: (row) => (row.model.run.toolsMs === null ? "" : `${row.model.run.tools.join(", ")}: ${toolsTime(row.model.run)}`) },
      ...[model, ...tokens, ...cost, lasted, tools],
    ],
  });
}
