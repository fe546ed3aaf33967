// Reads an HTTP Archive from standard input as the network panel of Chromium's DevTools imports it,
// and tells as JSON what the panel has then. Before, the archive is held against HAR's JSON schema.

import {readFileSync} from 'node:fs';

import * as HAR from 'chrome-devtools-frontend/front_end/models/har/har.js';
import {har as validate} from 'har-validator';

const archive = JSON.parse(readFileSync(0, 'utf8'));
await validate(archive).catch(({errors}) => {
  throw new Error(JSON.stringify(errors));
});
const {log} = new HAR.HARFormat.HARRoot(archive);
const requests = HAR.Importer.Importer.requestsFromHARLog(log);
const shown = requests.map(async request => {
  const content = await request.requestContentData();
  return {
    url: request.url(),
    method: request.requestMethod,
    status: request.statusCode,
    type: request.resourceType().name(),
    address: request.remoteAddress(),
    connection: request.connectionId,
    transferred: request.transferSize,
    size: request.resourceSize,
    seconds: request.duration,
    form: await request.requestFormData(),
    content: content.isTextContent ? content.text : content.base64,
    frames: request.frames().map(({type, time, opCode, text}) => [type, time, opCode, text]),
    events: request.eventSourceMessages().map(
        ({time, eventName, eventId, data}) => [time, eventName, eventId, data]),
  };
});
console.log(JSON.stringify(await Promise.all(shown)));
