/* An HTTPS server and client on Node.js, whose TLS goes through memory.
 *
 *     node node_http.js server CERTIFICATE KEY
 *     node node_http.js client CERTIFICATE PORT [COUNT]
 *
 * The server prints its port; it speaks HTTP/2 and HTTP/1.1. The client waits for a line on
 * standard input, makes COUNT requests (24) over four HTTP/1.1 connections and COUNT over two HTTP/2
 * ones, at once, and tells what passed: a JSON object for each, in a line.
 */
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http2 = require('http2');
const https = require('https');

const SIZES = 24;
const STREAMS = 12; // at once, on a connection
const sha256 = (data) => crypto.createHash('sha256').update(data).digest('hex');

function all(stream, done) {
  const parts = [];
  stream.on('data', (part) => parts.push(part));
  stream.on('end', () => done(Buffer.concat(parts)));
}

function serve(certificate, key) {
  const server = http2.createSecureServer(
    { cert: fs.readFileSync(certificate), key: fs.readFileSync(key), allowHTTP1: true },
    (request, response) => {
      all(request, (body) => {
        response.writeHead(200, { 'x-nonce': request.headers['x-nonce'] });
        response.end(body.length ? body : crypto.randomBytes(Number(request.url.split('/')[2])));
      });
    });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
}

function planned(number) {
  const size = number % SIZES;
  const unit = number < SIZES ? 1000 : 20; // after these, the rest is small
  const body = size % 2 ? crypto.randomBytes(size * 3 * unit) : Buffer.alloc(0);
  return {
    body,
    nonce: crypto.randomBytes(12).toString('hex'),
    method: size % 2 ? 'POST' : 'GET',
    target: size % 2 ? '/echo' : `/bytes/${size * 5 * unit}`,
  };
}

function tell(plan, protocol, status, socket, answer) {
  console.log(JSON.stringify({
    nonce: plan.nonce,
    protocol,
    method: plan.method,
    target: plan.target,
    status,
    client: [socket.localAddress, socket.localPort],
    server: [socket.remoteAddress, socket.remotePort],
    request_sha256: sha256(plan.body),
    response_sha256: sha256(answer),
  }));
}

function askHttp1(port, ca, count) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 4, ca });
  let open = count;
  for (let number = 0; number < count; number++) {
    const plan = planned(number);
    const request = https.request({
      agent, port, host: '127.0.0.1', servername: 'localhost', method: plan.method,
      path: plan.target, headers: { 'x-nonce': plan.nonce, 'content-length': plan.body.length },
    }, (response) => {
      const socket = response.socket;
      const ends = { ...['localAddress', 'localPort', 'remoteAddress', 'remotePort'].reduce(
        (found, name) => ({ ...found, [name]: socket[name] }), {}) };
      all(response, (answer) => {
        tell(plan, 'http/1.1', response.statusCode, ends, answer);
        if (--open === 0) agent.destroy();
      });
    });
    request.end(plan.body);
  }
}

function askHttp2(port, ca, count) {
  const session = http2.connect(`https://localhost:${port}`, {
    ca, servername: 'localhost', lookup: (_name, options, done) =>
      options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4),
  });
  let next = 0;
  let open = count;
  function ask() {
    const plan = planned(next++);
    const stream = session.request(
      { ':method': plan.method, ':path': plan.target, 'x-nonce': plan.nonce },
      { endStream: plan.body.length === 0 });
    let status;
    stream.on('response', (headers) => { status = headers[':status']; });
    if (plan.body.length) stream.end(plan.body);
    all(stream, (answer) => {
      tell(plan, 'http/2', status, session.socket, answer);
      if (next < count) ask();
      if (--open === 0) session.close();
    });
  }
  for (let number = 0; number < Math.min(count, STREAMS); number++) ask();
}

const [role, certificate, other, count = 24] = process.argv.slice(2);
if (role === 'server') {
  serve(certificate, other);
} else {
  process.stdin.once('data', () => {
    const ca = fs.readFileSync(certificate);
    askHttp1(Number(other), ca, Number(count));
    askHttp2(Number(other), ca, count / 2);
    askHttp2(Number(other), ca, count / 2);
    process.stdin.unref?.();
    process.stdin.pause();
  });
}
