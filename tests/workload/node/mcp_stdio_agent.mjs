// An agent by the public SDK of the Model Context Protocol, with a server on standard input and output.
//
//     node mcp_stdio_agent.mjs NODE_MODULES SERVER
//
// It answers what the server asks of it, calls tools of server-everything, and cancels the last call.
// Prints what it got as JSON.

import path from "node:path";

const [folder, server] = process.argv.slice(2);
const sdk = path.resolve(folder, "@modelcontextprotocol/sdk/dist/esm");
const { Client } = await import(`${sdk}/client/index.js`);
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
const { CreateMessageRequestSchema } = await import(`${sdk}/types.js`);

const transport = new StdioClientTransport({ command: process.execPath, args: [server, "stdio"] });
const client = new Client({ name: "agent", version: "1" }, { capabilities: { sampling: {} } });
client.setRequestHandler(CreateMessageRequestSchema, async () => ({
  model: "none",
  role: "assistant",
  content: { type: "text", text: "sampled" },
}));
await client.connect(transport);
await client.listTools();
const got = { echo: [] };
for (const message of ["hello", "x".repeat(1 << 20)]) {
  const answer = await client.callTool({ name: "echo", arguments: { message } });
  got.echo.push(answer.content[0].text);
}
await client.callTool({ name: "trigger-sampling-request", arguments: { prompt: "?" } });
const stop = new AbortController();
const progress = () => stop.abort("too slow");
const long = { name: "trigger-long-running-operation", arguments: { duration: 60, steps: 600 } };
await client.callTool(long, undefined, { signal: stop.signal, onprogress: progress }).catch(() => {});
await client.close();
console.log(JSON.stringify(got));
