"use strict";
// Requests with what other processes did for them. Rows of a tree follow each other, each after the one it belongs to.

const MOST_TREES = 1000;

const treeOf = new Map();
for (const row of exchanges) {
  const before = treeOf.get(exchanges[row.number - capture.dropped.rows - 1]);
  const tree = before && row.tree !== null && before[0].tree === row.tree ? before : [];
  tree.push(row);
  treeOf.set(row, tree);
}

// Returns the server's view of the same exchange, where both ends of the connection were watched.
function otherEndOf(row) {
  const after = exchanges[row.number - capture.dropped.rows + 1];
  return !row.isOtherEnd && after?.isOtherEnd && after.tree === row.tree ? after : null;
}

// Returns the rows that belong to this one: those below it until the next one beside it.
function childrenOf(row, tree) {
  const after = tree.slice(tree.indexOf(row) + 1);
  const end = after.findIndex((each) => each.depth <= row.depth && !each.isOtherEnd);
  return (end < 0 ? after : after.slice(0, end)).filter((each) => each.depth === row.depth + 1 && !each.isOtherEnd);
}

// Returns who answered: the process where it was watched, else the host; of a statement what it does.
function answererOf(row) {
  const server = row.connection.role === "server" ? row : otherEndOf(row);
  if (row.isStatement) return row.method ?? row.protocol;
  return server?.connection.comm ?? row.host ?? "?";
}

// Returns the way of a request on which it took longest, such as "nginx 2.79 s > app 2.76 s > UPDATE 2.76 s".
function slowestChain(tree) {
  const steps = [];
  for (let row = tree[0]; row; [row] = sortRows(childrenOf(row, tree), { column: { value: (each) => each.ms }, down: true })) {
    steps.push(`${answererOf(row)} ${duration(row.ms)}`);
  }
  return steps.join(" > ");
}

function treesSection() {
  const joined = [...new Set(treeOf.values())].filter((tree) => tree.some((row) => row.depth));
  if (!joined.length) return null;
  const longest = d3.sort(joined, (tree) => -(tree[0].ms ?? 0)).slice(0, MOST_TREES);
  const roots = longest.map((tree) => tree[0]);
  const left = joined.length - longest.length;
  return [
    element("p", { class: "note" }, "Each request with what watched processes did for it. Only what is proved is joined: the ends of a connection, and requests with an id that a process received."),
    sortableTable({
      caption: counted(joined.length, "request"),
      rows: longest,
      columns: [
        { title: "Time", kind: "nowrap", value: (tree) => tree[0].startUs, show: (tree) => timeOfDay(tree[0].startUs) },
        { title: "Request", value: (tree) => tree[0].target, show: (tree) => button(titleOf(tree[0], tree[0].target ?? "(request not seen)"), () => openDetail(tree[0].number, roots)) },
        { title: "Status", kind: "number", value: (tree) => tree[0].status, show: (tree) => element("span", { class: kindOf(tree[0]) }, tree[0].status ?? "-") },
        { title: "Duration", kind: "number", value: (tree) => tree[0].ms, show: (tree) => duration(tree[0].ms) },
        { title: "Exchanges", kind: "number", value: (tree) => tree.filter((row) => !row.isOtherEnd).length },
        { title: "Slowest chain", kind: "wide", value: slowestChain },
      ],
    }),
    left ? element("p", { class: "note" }, `${counted(left, "faster request")} not listed here.`) : null,
  ];
}

// The tree of an exchange, for its detail; nothing if it is alone.
function treePart(exchange) {
  const tree = treeOf.get(exchange);
  if (tree.length < 2) return null;
  const nameOf = (row) => titleOf(row, row.target ?? "(request not seen)");
  return sortableTable({
    caption: "Tree of its request",
    rows: tree.filter((row) => !row.isOtherEnd),
    most: 100,
    columns: [
      { title: "Exchange", kind: "wide", value: nameOf, show: (row) => [row.depth ? `${"\u00a0\u00a0\u00a0".repeat(row.depth - 1)}└─ ` : "", button(nameOf(row), () => openDetail(row.number, tree))] },
      { title: "Process", value: processOf },
      { title: "Duration", kind: "number", value: (row) => row.ms, show: (row) => duration(row.ms) },
      { title: "Other end", value: (row) => otherEndOf(row) && processOf(otherEndOf(row)) },
      { title: "Duration there", kind: "number", value: (row) => otherEndOf(row)?.ms, show: (row) => (otherEndOf(row) ? duration(otherEndOf(row).ms) : "") },
      { title: "Status", kind: "number", value: (row) => row.status, show: (row) => element("span", { class: kindOf(row) }, row.status ?? "-") },
    ],
  });
}
