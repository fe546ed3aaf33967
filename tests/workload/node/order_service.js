// A service of one event loop that asks another one: prints its port.
//
//     node order_service.js CERTIFICATE KEY PORT_OF_STOCK
//
// POST asks POST /stock with the same body. Meanwhile a job of its own asks the same.

const fs = require("fs");
const https = require("https");

const [certificate, key, stock] = process.argv.slice(2);
const cert = fs.readFileSync(certificate);
const agent = new https.Agent({ keepAlive: true, maxSockets: 60, ca: cert });

function ask(body, answered) {
  const options = { host: "localhost", port: stock, path: "/stock", method: "POST", agent, headers: { "content-length": body.length } };
  const request = https.request(options, (response) => {
    const parts = [];
    response.on("data", (part) => parts.push(part));
    response.on("end", () => answered(Buffer.concat(parts)));
  });
  request.on("error", () => answered(Buffer.from("failed")));
  request.end(body);
}

const server = https.createServer({ cert, key: fs.readFileSync(key) }, (request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => ask(Buffer.concat(parts), (body) => response.end(body)));
});

let count = 0;
const job = () => ask(Buffer.from(`job-${count++}`), () => setTimeout(job, 5));

server.listen(0, "127.0.0.1", 1000, () => {
  console.log(server.address().port);
  job();
});
