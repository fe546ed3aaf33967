// A client by Deno's fetch: rustls, in a stripped program without an unwind table.
//
//     deno run --allow-net --allow-read client.ts PORT CERTIFICATE PROTOCOL:COUNT...
//
// Makes COUNT requests on each connection, over HTTP/1.1 (PROTOCOL is 1) one after the other, over
// HTTP/2 (2) all at once, and tells of them; the server is asgi_echo.py.

const SIZES = [0, 1 << 10, 1 << 20];
const UNTIL_POOLED_MS = 20; // a request that comes before opens another connection

function pattern(size: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: size }, (_, at) => (at * 7 + (at >> 8)) & 255);
}

async function sha256(data: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", data)).toHex();
}

function address(shown: string): [string, number] {
  const [ip, port] = shown.split(":");
  return [ip, Number(port)];
}

async function ask(client: Deno.HttpClient, url: string, protocol: string, number: number) {
  const size = SIZES[Math.floor(number / 2) % SIZES.length];
  const isPost = number % 2 === 1;
  const [method, target] = isPost ? ["POST", "/echo"] : ["GET", `/bytes/${size}`];
  const body = pattern(isPost ? size : 0);
  const nonce = crypto.randomUUID();
  const response = await fetch(url + target, {
    client,
    method,
    headers: { "x-nonce": nonce },
    body: isPost ? body : undefined,
  });
  const answer = new Uint8Array(await response.arrayBuffer());
  console.log(JSON.stringify({
    nonce,
    protocol: protocol === "2" ? "http/2" : "http/1.1",
    method,
    target,
    status: response.status,
    client: address(response.headers.get("x-client")!),
    server: address(response.headers.get("x-server")!),
    request_sha256: await sha256(body),
    response_sha256: await sha256(answer),
  }));
}

async function askAll(certificate: string, url: string, protocol: string, count: number) {
  using client = Deno.createHttpClient({
    caCerts: [certificate],
    http1: protocol === "1",
    http2: protocol === "2",
    poolMaxIdlePerHost: 1,
  });
  const numbers = [...Array(count).keys()];
  if (protocol === "2") {
    await Promise.all(numbers.map((number) => ask(client, url, protocol, number)));
    return;
  }
  for (const number of numbers) {
    await ask(client, url, protocol, number);
    await new Promise((resolve) => setTimeout(resolve, UNTIL_POOLED_MS));
  }
}

const [port, certificate, ...connections] = Deno.args;
const trusted = await Deno.readTextFile(certificate);
await Promise.all(connections.map((each) => {
  const [protocol, count] = each.split(":");
  return askAll(trusted, `https://localhost:${port}`, protocol, Number(count));
}));
