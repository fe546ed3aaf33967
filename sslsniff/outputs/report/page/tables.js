"use strict";
// Tables that can be sorted by their columns, and show only their first rows until asked.

const FIRST_ROWS = 10;

// A column has a `title` and `value(row)`. `show(row)` returns what is shown, else it is the value.
// `kind`: "number", "nowrap" or "wide". `most` is how many rows are shown at first.
function sortableTable({ caption, columns, rows, most = FIRST_ROWS, sortedBy = null }) {
  let order = sortedBy && { column: sortedBy, down: true };
  let showsAll = rows.length <= most + 2;
  const body = element("tbody");
  const heads = columns.map((column) =>
    element("th", { scope: "col", class: column.kind }, button(column.title, () => sort(column))),
  );
  const more = button(`Show all ${rows.length.toLocaleString("en")}`, () => {
    showsAll = true;
    fill();
  }, { class: "button more" });

  function sort(column) {
    order = { column, down: order?.column === column ? !order.down : column.kind === "number" };
    fill();
  }

  function fill() {
    const sorted = order ? sortRows(rows, order) : rows;
    body.replaceChildren(...(showsAll ? sorted : sorted.slice(0, most)).map((row) => tableRow(columns, row)));
    markSorted(heads, columns, order);
    more.hidden = showsAll;
  }

  fill();
  const table = element("table", null, caption && element("caption", null, caption),
    element("thead", null, element("tr", null, heads)), body);
  return element("div", null, element("div", { class: "scroll" }, table), more);
}

function tableRow(columns, row) {
  return element("tr", null, columns.map((column) => {
    const content = column.show ? column.show(row) : (column.value(row) ?? "");
    return element("td", { class: column.kind }, content);
  }));
}

// Unknown values come last in either direction.
function sortRows(rows, { column, down }) {
  const sign = down ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [column.value(one), column.value(other)];
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    return (typeof a === "string" || typeof b === "string" ? (String(a) < String(b) ? -1 : 1) : a - b) * sign;
  });
}

function markSorted(heads, columns, order) {
  heads.forEach((head, index) => {
    if (order?.column === columns[index]) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

// A table of names and values.
function factTable(caption, pairs) {
  return element("div", { class: "scroll" }, element("table", null,
    caption && element("caption", null, caption),
    element("tbody", null, pairs.map(([name, value]) =>
      element("tr", null, element("th", { scope: "row" }, name), element("td", null, value))))));
}
