// An HTTPS server that announces 5,507 bytes, sends 2,900 and destroys the socket: CERTIFICATE KEY PORT
const fs = require("fs");
const https = require("https");
const [certificate, key, port] = process.argv.slice(2);
https
  .createServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) }, (request, response) => {
    response.writeHead(200, { "Content-Length": 5507 });
    response.write("x".repeat(2900), () => response.socket.destroy());
  })
  .listen(Number(port), "127.0.0.1");
