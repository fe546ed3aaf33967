"use strict";
// The list of exchanges: searched, sorted, and shown a page at a time, so that any number is quick.

const ROWS_A_PAGE = 100;

const COLUMNS = [
  { title: "Time", kind: "nowrap", value: (row) => row.startUs, show: (row) => timeOfDay(row.startUs) },
  { title: "Process", value: (row) => processOf(row) },
  { title: "Method", kind: "nowrap", value: (row) => row.method ?? "?" },
  { title: "Status", kind: "number", value: (row) => row.status, show: (row) => element("span", { class: kindOf(row) }, row.status ?? "-") },
  { title: "Duration", kind: "number", value: (row) => row.ms, show: (row) => duration(row.ms) },
  { title: "Size", kind: "number", value: (row) => row.responseBytes, show: (row) => size(row.responseBytes) },
  { title: "Host", value: (row) => row.host ?? "?" },
  { title: "Path", kind: "wide", value: (row) => row.target ?? "?", show: (row) => [openButton(row), remarksOf(row)] },
];

// What a word `name:value` of the search compares with; a group's table writes such words.
const FIELDS = {
  host: (row) => row.host,
  path: (row) => row.path,
  comm: (row) => row.connection.comm,
  role: (row) => row.connection.role,
  server: (row) => ({ client: row.connection.remote, server: row.connection.local })[row.connection.role],
  sni: (row) => row.connection.sni,
  status: (row) => row.status,
  protocol: (row) => row.protocol,
  model: (row) => row.model?.name,
  run: (row) => row.model?.run?.id,
  connection: (row) => row.connection.id,
  error: (row) => row.error,
};

const list = { found: exchanges, page: 0, order: { column: COLUMNS[0], down: false } };

function processOf(row) {
  return row.connection.process ?? row.connection.local ?? "?";
}

function openButton(row) {
  return button(row.target ?? "(request not seen)", () => openDetail(row.number, list.found));
}

function remarksOf(row) {
  const remarks = [row.error, row.missingBytes ? `${size(row.missingBytes)} missing` : null, row.model && (row.model.name ?? row.model.api)];
  const text = remarks.filter(Boolean).join(", ");
  return text ? element("span", { class: row.error ? "server-error" : "note" }, ` ${text}`) : null;
}

// Returns tests of a row; all words must match. A word may be quoted as in JSON: host:"a b".
function testsOf(words) {
  return [...words.matchAll(/(?:([a-z]+):)?(?:("(?:[^"\\]|\\.)*")|(\S+))/g)].map(([whole, name, quoted, bare]) => {
    const wanted = bare ?? unquoted(quoted);
    if (name && Object.hasOwn(FIELDS, name)) return (row) => String(FIELDS[name](row) ?? "?") === wanted;
    const lowered = (name ? whole : wanted).toLowerCase();
    return (row) => searchText(row).includes(lowered);
  });
}

function unquoted(word) {
  try {
    return JSON.parse(word);
  } catch {
    return word.slice(1, -1);
  }
}

function searchText(row) {
  row.search ??= [processOf(row), row.method, row.status, row.host, row.target, row.protocol, row.error, row.model?.name, row.connection.id]
    .filter((part) => part !== null && part !== undefined).join(" ").toLowerCase();
  return row.search;
}

function exchangesSection() {
  const words = element("input", { type: "search", id: "search", autocomplete: "off", spellcheck: "false" });
  const failed = element("input", { type: "checkbox", id: "failed" });
  const form = element("form", { role: "search" },
    element("label", null, `Search: words, or ${Object.keys(FIELDS).map((name) => `${name}:`).join(" ")}`, words),
    element("label", { class: "inline" }, failed, "only errors"));
  const heads = COLUMNS.map((column) => element("th", { scope: "col", class: column.kind }, button(column.title, () => {
    list.order = { column, down: list.order.column === column ? !list.order.down : column.kind === "number" };
    find();
  })));
  const body = element("tbody");
  const count = element("p", { role: "status" });
  const previous = button("Previous page", () => turn(-1), { class: "button" });
  const next = button("Next page", () => turn(1), { class: "button" });

  function find() {
    const tests = testsOf(words.value);
    const found = exchanges.filter((row) => (!failed.checked || row.isFailed) && tests.every((test) => test(row)));
    list.found = sortRows(found, list.order);
    list.page = 0;
    fill();
  }

  function turn(by) {
    list.page += by;
    fill();
    form.scrollIntoView();
  }

  function fill() {
    const from = list.page * ROWS_A_PAGE;
    const rows = list.found.slice(from, from + ROWS_A_PAGE);
    body.replaceChildren(...rows.map((row) => tableRow(COLUMNS, row)));
    markSorted(heads, COLUMNS, list.order);
    const which = rows.length ? `${from + 1} to ${from + rows.length} of ` : "";
    count.textContent = `${which}${counted(list.found.length, "exchange")}`;
    previous.disabled = list.page === 0;
    next.disabled = from + ROWS_A_PAGE >= list.found.length;
  }

  let waiting = 0;
  words.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(find, 100);
  });
  failed.addEventListener("input", find);
  form.addEventListener("submit", (event) => event.preventDefault());
  list.search = (text) => {
    words.value = text;
    failed.checked = false;
    find();
    document.getElementById("exchanges").scrollIntoView();
    words.focus();
  };
  find();
  return [form, element("div", { class: "pages" }, count, previous, next),
    element("div", { class: "scroll" }, element("table", { id: "list" },
      element("thead", null, element("tr", null, heads)), body))];
}

// A button that lists the exchanges with this value.
function searchButton(name, value, text) {
  return button(text ?? value ?? "?", () => list.search(`${name}:${JSON.stringify(value ?? "?")}`));
}
