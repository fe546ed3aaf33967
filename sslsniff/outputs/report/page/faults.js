"use strict";
// What is wrong: errors, stalls, the slowest exchanges; or one line that nothing is.

const SLOWEST = 5;

// Says that nothing failed, as far as that is known; nothing where something did.
function calmLine() {
  const { summary, total } = capture;
  if (!exchanges.length || total.errors || summary?.failed_handshakes || capture.stalls.length) return null;
  const handshakes = summary?.handshakes ? ", and no TLS handshake" : "";
  return element("p", { class: "calm" }, `No exchange failed${handshakes}.`);
}

function errorsSection() {
  const failed = exchanges.filter((row) => row.isFailed);
  if (!failed.length) return null;
  const groups = d3.flatGroup(failed, (row) => row.error ?? `status ${row.status}`, (row) => row.host)
    .map(([reason, host, rows]) => ({ reason, host, rows: sortRows(rows, { column: COLUMNS[0] }) }))
    .sort((one, other) => other.rows.length - one.rows.length);
  const newest = (group) => group.rows.at(-1);
  return [sortableTable({
    caption: `${counted(failed.length, "exchange")} failed`,
    rows: groups,
    columns: [
      { title: "Error", kind: "wide", value: (row) => row.reason, show: (row) => searchButton(row.rows[0].error ? "error" : "status", row.rows[0].error ?? row.rows[0].status, row.reason) },
      { title: "Host", value: (row) => row.host ?? "?" },
      { title: "Exchanges", kind: "number", value: (row) => row.rows.length, show: (row) => row.rows.length.toLocaleString("en") },
      { title: "First", kind: "nowrap", value: (row) => row.rows[0].startUs, show: (row) => timeOfDay(row.rows[0].startUs) },
      { title: "Last", kind: "nowrap", value: (row) => newest(row).startUs, show: (row) => timeOfDay(newest(row).startUs) },
      { title: "The last one", kind: "wide", value: (row) => nameOf(newest(row)), show: (row) => button(nameOf(newest(row)), () => openDetail(newest(row).number, row.rows)) },
    ],
  })];
}

function nameOf(row) {
  return titleOf(row, row.target ?? "(request not seen)");
}

function stallsSection() {
  const { stalls } = capture;
  if (!stalls.length) return null;
  const waited = { title: "Waited", kind: "number", value: (row) => row.ms, show: (row) => duration(row.ms) };
  return [element("p", { class: "note" }, "A side may not send, because a flow-control window is 0 (RFC 9113 section 5.2), for 10 ms or more. Of a second or more it is said who does not read."),
    sortableTable({
      rows: stalls,
      sortedBy: waited,
      columns: [
        waited,
        { title: "Why", kind: "wide", value: (row) => row.text },
        { title: "Connection", value: (row) => row.connection, show: (row) => searchButton("connection", row.connection) },
        { title: "Stream", kind: "number", value: (row) => row.stream, show: (row) => row.stream || "all" },
        { title: "Waiting side", kind: "nowrap", value: (row) => row.sends },
        { title: "Since", kind: "nowrap", value: (row) => row.since_us, show: (row) => timeOfDay(row.since_us) },
        { title: "Ended", value: (row) => (row.over ? "yes" : "no: it lasted to the end of the connection or capture") },
      ],
    }),
    capture.stalls_left_out ? element("p", { class: "note" }, `${counted(capture.stalls_left_out, "earlier stall")} left out.`) : null];
}

function slowestSection() {
  const rows = mostOf((row) => row.ms);
  return rows.length ? [exchangeTable(rows)] : null;
}

// Returns the few exchanges with the most of a value.
function mostOf(value) {
  const known = exchanges.filter((row) => value(row) !== null);
  return sortRows(known, { column: { value }, down: true }).slice(0, SLOWEST);
}

function exchangeTable(rows, columns = COLUMNS) {
  const own = columns.map((column) => (column.title === "Path" ? { ...column, show: (row) => [button(row.target ?? "(request not seen)", () => openDetail(row.number, rows)), remarksOf(row)] } : column));
  return sortableTable({ columns: own, rows });
}
