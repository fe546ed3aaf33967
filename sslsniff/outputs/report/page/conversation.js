"use strict";
// A call of a language model, or of MCP, as a conversation: docs/json.md has the fields of `llm`.

function callFacts(llm) {
  const usage = llm.usage;
  return [
    ["API", [llm.api, llm.provider, llm.streamed ? "streamed" : null].filter(Boolean).join(", ")],
    ["Method", llm.method],
    ["Model", llm.response_model && llm.response_model !== llm.model ? `${llm.response_model} (asked for ${llm.model ?? "?"})` : llm.model],
    ["Tokens", tokens(usage.input_tokens, usage.output_tokens)],
    ["From the cache, written to it", cacheTokens(usage)],
    ["Cost", llm.currency === null ? null : money(llm.cost, llm.currency) || "no price for this model"],
    ["Run", llm.run && `${llm.run.id}, call ${llm.run.position}`],
    ["Tools before it", llm.run && llm.run.tools_ms !== null ? `${llm.run.tools.join(", ")}: ${duration(llm.run.tools_ms)}${llm.run.mcp_ms == null ? "" : `, ${duration(llm.run.mcp_ms)} of it by MCP`}` : null],
    ["For reasoning", usage.reasoning_tokens === null ? null : `${usage.reasoning_tokens} tokens`],
    ["First output", llm.first_output_ms === null ? null : `after ${duration(llm.first_output_ms)}`],
    ["Tools offered", llm.tools.length ? llm.tools.join(", ") : null],
    ["Ended by", llm.finish_reason],
    ["Error", llm.error],
    ["Incomplete", llm.incomplete],
  ].filter(([, value]) => value);
}

function tokens(input, output) {
  return input === null && output === null ? null : `${input ?? "?"} in, ${output ?? "?"} out`;
}

function cacheTokens(usage) {
  if (!usage.cached_tokens && !usage.cache_written_tokens) return null;
  return `${usage.cached_tokens ?? "?"}, ${usage.cache_written_tokens ?? "?"}, ${usage.input_has_cached ? "part of" : "beside"} the tokens in`;
}

function conversation(llm) {
  const turns = llm.messages.map((turn) => turnItem(turn.role, turn.role, [turn.text], turn.other, turn.tool_calls));
  if (llm.text || llm.reasoning || llm.tool_calls.length) {
    turns.push(turnItem("answer", "answer", [llm.text], [], llm.tool_calls, llm.reasoning));
  }
  const leftOut = llm.messages_left_out
    ? element("p", { class: "note" }, `${counted(llm.messages_left_out, "earlier message")} left out: the page has the newest.`) : null;
  return element("section", { "aria-label": "Model call" }, element("h3", null, "Model call"),
    factTable(null, callFacts(llm)), element("h3", null, "Conversation"), leftOut, element("ol", { class: "turns" }, turns));
}

function turnItem(role, title, texts, other, toolCalls, reasoning) {
  const known = ["user", "assistant", "model", "answer"].includes(role) ? role : null;
  return element("li", { class: known }, element("h4", null, title),
    reasoning ? element("details", null, element("summary", null, "Reasoning"), linesOf(reasoning)) : null,
    texts.filter(Boolean).map(linesOf),
    other.length ? element("p", { class: "note" }, `also: ${other.join(", ")}`) : null,
    toolCalls.map((call) => element("div", null, element("h4", null, `calls ${call.name ?? "?"}`), linesOf(indented(call.arguments)))));
}

function linesOf(text, className) {
  const made = element("pre", { class: className, tabindex: "0" });
  made.append(shownLines(text));
  return made;
}

// Returns JSON text with line ends and indentation; other text as it is.
function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
