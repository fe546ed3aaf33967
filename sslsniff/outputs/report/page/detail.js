"use strict";
// The detail of an exchange, in a dialog: the browser keeps the focus in it, and Escape closes it.

const dialog = document.getElementById("detail");
const HEX_BYTES = 16;
const MOST_HEX_BYTES = 64 * 1024;

// Opens the exchange with this number; `neighbours` are those of the list, for "previous" and "next".
function openDetail(number, neighbours) {
  const exchange = exchanges[number - capture.dropped.rows];
  if (!exchange) return;
  const at = neighbours.findIndex((each) => each.number === number);
  const step = (by, text) => button(text, () => openDetail(neighbours[at + by].number, neighbours),
    { class: "button", disabled: at < 0 || !neighbours[at + by] });
  const head = partOf("heads", exchange);
  const bodies = partOf("bodies", exchange);
  const content = element("div", null,
    element("div", { class: "bar" },
      element("h2", { id: "detail-title", tabindex: "-1" }, titleOf(exchange, head?.request?.url ?? exchange.target ?? "(request not seen)")),
      step(-1, "Previous"), step(1, "Next"), button("Close", () => dialog.close(), { class: "button" })),
    factTable(null, exchangeFacts(exchange, head)),
    treePart(exchange),
    head ? null : element("p", { class: "warning" }, "Headers and bodies of this exchange were left out, to limit the page's size."),
    bodies?.llm ? conversation(bodies.llm) : null,
    head?.request ? messagePart("Request", head.request, bodies?.request, exchange) : null,
    (head?.informational ?? []).map((each) => headerTable(`Informational response ${each.status}`, each.headers)),
    head?.response ? messagePart("Response", head.response, bodies?.response, exchange) : null,
  );
  dialog.replaceChildren(content);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  document.getElementById("detail-title").focus();
  history.replaceState(null, "", `#e${number}`);
}

dialog.addEventListener("close", () => history.replaceState(null, "", "#exchanges"));

function secretText(secret) {
  const pattern = secret.pattern && secret.pattern !== secret.name ? ` (${secret.pattern})` : "";
  const times = secret.count > 1 ? `, ${secret.count} times` : "";
  return `${secret.where}: ${secret.name}${secret.fingerprint ? ` #${secret.fingerprint}` : ""}${pattern}${times}`;
}

function exchangeFacts(exchange, head) {
  const connection = exchange.connection;
  const times = [`${duration(exchange.ms)} in all`, exchange.firstByteMs === null ? null : `first byte after ${duration(exchange.firstByteMs)}`];
  const grpc = head?.grpc, rpc = head?.rpc;
  return [
    ["Status", [exchange.status ?? "none", head?.response?.reason].filter(Boolean).join(" ")],
    ["Began", exchange.startUs === null ? "unknown" : new Date(exchange.startUs / 1000).toISOString()],
    ["Took", times.filter(Boolean).join(", ")],
    ["Error", exchange.error ?? head?.error],
    ["Missing", exchange.missingBytes ? `${size(exchange.missingBytes)} of the bodies were not captured` : null],
    ["Warnings", head?.warnings?.join("; ")],
    ["Redacted", head?.redacted?.map(secretText).join("; ")],
    ["Headers left out", head?.omitted ? `${counted(head.omitted.fields, "field")}, ${size(head.omitted.bytes)}` : null],
    ...statementFacts(head?.db),
    ["gRPC", grpc ? `${grpc.service}/${grpc.method}: ${grpc.status_name ?? "?"} ${grpc.message ?? ""}` : null],
    ["Asked by", rpc?.by_server ? "the server" : null],
    ["Parameters", rpc?.parameters],
    ["Result", rpc?.result],
    ["Protocol", `${exchange.protocol}${exchange.stream === null ? "" : `, stream ${exchange.stream}`}`],
    ["Process", connection.process],
    ["Connection", [connection.id, connection.role, `${connection.local ?? "?"} to ${connection.remote ?? "?"}`, connection.joined ? "joined in the middle" : null].filter(Boolean).join(", ")],
    ["TLS", [connection.library, connection.tls_version, connection.cipher, connection.sni && `SNI ${connection.sni}`, connection.alpn && `ALPN ${connection.alpn}`].filter(Boolean).join(", ")],
  ].filter(([, value]) => value);
}

// Returns what is known of a statement to a database.
function statementFacts(db) {
  if (!db) return [];
  return [
    ["Statement", db.text],
    ["Parameters", db.parameters?.map((each) => JSON.stringify(each)).join(", ")],
    ["Rows", (db.rows ?? db.affected)?.toLocaleString("en")],
    ["Database", [db.database, db.user && `user ${db.user}`].filter(Boolean).join(", ")],
    ["Idle in transaction", db.idle_ms === null ? null : `${duration(db.idle_ms)} before it`],
    ["Transaction", db.transaction_ms === null ? null : `${duration(db.transaction_ms)} in all, idle ${duration(db.transaction_idle_ms)} of it`],
  ];
}

function messagePart(title, message, body, exchange) {
  const type = message.headers.find(([name]) => name?.toLowerCase() === "content-type")?.[1] ?? "";
  return element("section", { "aria-label": title },
    headerTable(`${title} headers`, message.headers),
    message.trailers.length ? headerTable(`${title} trailers`, message.trailers) : null,
    message.body.size ? bodyPart(`${title} body, ${size(message.body.size)}`, body, type, exchange) : null);
}

function headerTable(caption, headers) {
  return factTable(caption, headers.map(([name, value]) => [name ?? "?", value ?? "? (not known: joined in the middle)"]));
}

function bodyPart(title, body, type, exchange) {
  if (!body) {
    const leftOut = capture.body_bytes && exchange.number < capture.dropped.bodies;
    const why = leftOut ? "left out, to limit the page's size" : capture.body_bytes ? "not captured" : "not in this report (--report-bodies)";
    return element("p", { class: "note" }, `${title}: ${why}.`);
  }
  const isText = body.text !== undefined;
  const asText = () => linesOf(/json/i.test(type) && body.whole ? indented(body.text) : body.text);
  const asHex = () => linesOf(hexDump(isText ? new TextEncoder().encode(body.text) : bytesOf(body.base64)), "hex");
  let content = isText ? asText() : asHex();
  const flip = isText ? button("Show as hexadecimal", (event) => {
    const next = content.classList.contains("hex") ? asText() : asHex();
    content.replaceWith(next);
    content = next;
    event.target.textContent = next.classList.contains("hex") ? "Show as text" : "Show as hexadecimal";
  }, { class: "button" }) : null;
  const remarks = [body.whole ? null : `the first ${size(body.kept)}`, body.error && `not decoded: ${body.error}`].filter(Boolean);
  return element("div", null, element("h3", null, remarks.length ? `${title} (${remarks.join("; ")})` : title), content, flip);
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
}

function hexDump(bytes) {
  const rows = [];
  for (let at = 0; at < Math.min(bytes.length, MOST_HEX_BYTES); at += HEX_BYTES) {
    const row = [...bytes.subarray(at, at + HEX_BYTES)];
    const hex = row.map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(HEX_BYTES * 3);
    const text = row.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    rows.push(`${at.toString(16).padStart(8, "0")}  ${hex} ${text}`);
  }
  return rows.join("\n");
}
