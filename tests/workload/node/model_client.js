/* Calls models by the public Node.js SDK of an API; prints what the SDK made of the answer, as JSON.
 *
 *     node model_client.js SDKS PORT SDK [stream]
 *
 * SDKS is the folder with the SDKs' packages; SDK is openai-chat, openai-responses or anthropic.
 * NODE_EXTRA_CA_CERTS names the server's certificate. Questions and answers are those of
 * model_client.py.
 */
'use strict';
const { createRequire } = require('module');

const QUESTION = 'What is the weather in Zürich?';
const SYSTEM = 'Be brief.';
const TOOL = 'get_weather';
const SCHEMA = { type: 'object', properties: { city: { type: 'string' } } };

const [sdks, port, name, how] = process.argv.slice(2);
const load = createRequire(`${sdks}/`);
const url = `https://localhost:${port}`;
const isStreamed = how === 'stream';

function openai() {
  return new (load('openai').OpenAI)({ baseURL: `${url}/v1`, apiKey: '-' });
}

async function chat() {
  const asked = {
    model: 'gpt-test',
    messages: [{ role: 'system', content: SYSTEM }, { role: 'user', content: QUESTION }],
    tools: [{ type: 'function', function: { name: TOOL, parameters: SCHEMA } }],
  };
  const { completions } = openai().chat;
  const whole = isStreamed
    ? await completions.stream({ ...asked, stream_options: { include_usage: true } }).finalChatCompletion()
    : await completions.create(asked);
  const [{ message, finish_reason: finish }] = whole.choices;
  return {
    text: message.content,
    tool_calls: message.tool_calls.map(
      (each) => [each.id, each.function.name, JSON.parse(each.function.arguments)]),
    finish,
    model: whole.model,
    tokens: [whole.usage.prompt_tokens, whole.usage.completion_tokens],
  };
}

async function responses() {
  const asked = {
    model: 'gpt-test',
    instructions: SYSTEM,
    input: QUESTION,
    tools: [{ type: 'function', name: TOOL, parameters: SCHEMA, strict: false }],
  };
  const api = openai().responses;
  const whole = isStreamed ? await api.stream(asked).finalResponse() : await api.create(asked);
  return {
    text: whole.output_text,
    tool_calls: whole.output.filter((each) => each.type === 'function_call').map(
      (each) => [each.call_id, each.name, JSON.parse(each.arguments)]),
    finish: whole.status,
    model: whole.model,
    tokens: [whole.usage.input_tokens, whole.usage.output_tokens],
  };
}

async function anthropic() {
  const client = new (load('@anthropic-ai/sdk').Anthropic)({ baseURL: url, apiKey: '-' });
  const asked = {
    model: 'claude-test',
    max_tokens: 100,
    system: SYSTEM,
    messages: [{ role: 'user', content: QUESTION }],
    tools: [{ name: TOOL, input_schema: SCHEMA }],
  };
  const whole = isStreamed
    ? await client.messages.stream(asked).finalMessage()
    : await client.messages.create(asked);
  const all = (type) => whole.content.filter((each) => each.type === type);
  return {
    text: all('text').map((each) => each.text).join(''),
    reasoning: all('thinking').map((each) => each.thinking).join(''),
    tool_calls: all('tool_use').map((each) => [each.id, each.name, each.input]),
    finish: whole.stop_reason,
    model: whole.model,
    tokens: [whole.usage.input_tokens, whole.usage.output_tokens],
  };
}

const SDKS = { 'openai-chat': chat, 'openai-responses': responses, anthropic };
SDKS[name]().then((answer) => console.log(JSON.stringify(answer)));
