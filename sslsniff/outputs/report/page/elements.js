"use strict";
// Makes elements of the page. All text goes through shown(), into text nodes: nothing is parsed.

// What escaping.py escapes: control characters, line ends, direction marks, characters without width.
const INVISIBLE =
  /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;

function code(character) {
  const number = character.codePointAt(0);
  return number < 256 ? `\\x${number.toString(16).padStart(2, "0")}` : `\\u${number.toString(16).padStart(4, "0")}`;
}

// Returns text of the wire with invisible characters as \x1b, \u202e, ...
function shown(text) {
  return String(text).replace(INVISIBLE, code);
}

// As shown(), but line ends and tabs stay.
function shownLines(text) {
  return text.replace(/\r\n/g, "\n").replace(INVISIBLE, (each) => (each === "\n" || each === "\t" ? each : code(each)));
}

// Returns an element. `properties`: attributes, and `on`: listeners by event. Children are elements,
// or text of the wire or our own; null and undefined are left out.
function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(key, value === true ? "" : shown(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    made.append(child instanceof Node ? child : shown(child));
  }
  return made;
}

function button(text, listener, properties) {
  return element("button", { type: "button", on: { click: listener }, ...properties }, text);
}

function counted(number, noun, plural) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : (plural ?? `${noun}s`)}`;
}

function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB", "TB"];
  const power = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toFixed(1)} ${units[power - 1]}`;
}

// Returns a span of milliseconds, with three digits or more; `?` if it is not known.
function duration(ms) {
  if (ms === null || ms === undefined) return "?";
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return `${ms < 10 ? ms.toFixed(2) : ms.toFixed(1)} ms`;
}

// Returns a sum, and of how many calls it is, if it is not of all.
function ofCalls(text, known, calls) {
  return known === calls ? text : `${text} (${known} of ${counted(calls, "call")})`;
}

// Returns an amount with two decimals, or below 1 with three digits; nothing if it is not known.
function money(amount, currency) {
  if (amount === null) return "";
  const decimals = amount >= 1 || !amount ? 2 : Math.min(20, 2 - Math.floor(Math.log10(amount)));
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return `${amount.toLocaleString("en", digits)} ${currency}`;
}

function timeOfDay(us) {
  if (us == null) return "unknown"; // none of several is undefined
  const date = new Date(us / 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}
