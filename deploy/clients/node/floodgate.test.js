'use strict';
// Tests of floodgate.js and floodgate-web.js: node --test, in this directory.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { Gate } = require('./floodgate.js');
const web = require('./floodgate-web.js');

const testdata = path.join(__dirname, '../../../testdata');

/** A gate that follows no feed, at a time that the test sets. */
function clocked(options) {
  const gate = new Gate('unix:/nowhere', options);
  gate.now = gate.monotonic = () => gate.at;
  gate.at = 0;
  return gate;
}

function canonical([kind, value, encoding]) {
  const id = Buffer.from(value, encoding ?? 'utf8').toString('latin1');
  return [kind, kind === 'ip' ? web.address(id) : web.identifier(id)];
}

function answer(v) {
  const got = { closed: v.closed, shadow: v.shadow, stale: v.stale };
  if (v.closed) {
    const fields = web.fields(v);
    Object.assign(got, {
      rule: v.rule, retry_after: Number(fields['Retry-After']), ratelimit: fields.RateLimit, ratelimit_policy: fields['RateLimit-Policy'],
    });
  }
  return Object.fromEntries(Object.entries(got).filter(([, value]) => value));
}

const names = fs.readdirSync(path.join(testdata, 'feed'));
assert.ok(names.length > 0);
for (const name of names) {
  test(`feed: ${name}`, () => {
    const { policy, steps } = JSON.parse(fs.readFileSync(path.join(testdata, 'feed', name), 'utf8'));
    const gate = clocked({ policy });
    steps.forEach((step, i) => {
      gate.at = step.now;
      if (step.connect) gate.understood = null;
      for (const line of step.lines ?? []) gate.take(line);
      if (step.ask) assert.deepEqual(answer(gate.check(step.ask.map(canonical))), step.want, `step ${i + 1}`);
      if ('held' in step) assert.equal(gate.status().held, step.held, `step ${i + 1}`);
    });
  });
}

test('ids: each of testdata/ids/vectors.json; the parts of composites have the separator | here', () => {
  const vectors = JSON.parse(fs.readFileSync(path.join(testdata, 'ids/vectors.json'), 'utf8'));
  const made = {
    ids: (v, id) => web.identifier(id),
    addresses: (v, id) => web.address(id, v.ipv6_prefix),
    secrets: (v, id) => web.secretIdentifier(v.secret, v.kind, id),
    parts: (v, id) => web.part(id),
  };
  for (const [table, make] of Object.entries(made)) {
    const cases = vectors[table].filter((v) => table !== 'parts' || v.separator === '|');
    assert.ok(cases.length > 0);
    for (const v of cases) {
      const id = v.in_hex ? Buffer.from(v.in_hex, 'hex').toString('latin1') : web.bytes(v.in);
      assert.equal(make(v, id), v.out_hex ? Buffer.from(v.out_hex, 'hex').toString('latin1') : web.bytes(v.out), `${table}: ${v.name}`);
    }
  }
});

const decision = (members) => JSON.stringify({ type: 'decision', kind: 'ip', mode: 'enforce', limit: 9, window: 60, rule: 'r', ...members });

test('what has no room is counted', () => {
  const gate = clocked({ maxHeld: 2 });
  gate.take('{"type":"start","version":1}');
  for (let i = 0; i < 5; i++) gate.take(decision({ id: `192.0.2.${i}`, spans: [{ from: 0, until: 60 }] }));
  gate.take(decision({ id: '192.0.2.9' })); // which opens a caller that is open
  assert.deepEqual([gate.status().held, gate.status().dropped], [2, 3]);
  gate.take(decision({ id: '192.0.2.1', spans: [{ from: 0, until: 90 }] })); // one that is held
  assert.equal(gate.check([['ip', '192.0.2.1']]).retryAfter, 90);
  gate.at = 60; // the other one is over, though nothing has swept it
  gate.take(decision({ id: '192.0.2.7', spans: [{ from: 60, until: 90 }] }));
  assert.ok(gate.check([['ip', '192.0.2.7']]).closed);
  assert.equal(gate.status().dropped, 3);
});

test('what is over is forgotten', () => {
  const gate = clocked();
  gate.take('{"type":"start","version":1}');
  for (let i = 0; i < 100; i++) gate.take(decision({ id: `192.0.2.${i}`, spans: [{ from: 0, until: 60 }] }));
  gate.at = 60;
  gate.take('{"type":"heartbeat","at":60}');
  assert.equal(gate.held.size, 0);
});

test('no line ends the process or a request: those of the vectors with characters changed, taken out and repeated', () => {
  const gates = ['hold', 'open', 'closed'].map((policy) => clocked({ policy }));
  const below = (n) => Math.floor(Math.random() * n);
  for (const name of names) {
    for (const step of JSON.parse(fs.readFileSync(path.join(testdata, 'feed', name), 'utf8')).steps) {
      for (let line of step.lines ?? []) {
        line = line.slice(0, 2000);
        for (let n = below(3); n > 0; n--) {
          const at = below(line.length + 1), put = ['', '9', '-', '"', '[', '\ufffd', 'null', line.slice(at, at + 9)][below(8)];
          line = line.slice(0, at) + put + line.slice(at + below(2));
        }
        for (const gate of gates) {
          gate.at = step.now;
          gate.take(line);
          assert.doesNotThrow(() => [answer(gate.check([['ip', '203.0.113.9']])), gate.status()], line);
        }
      }
    }
  }
  assert.ok(gates[0].garbage > 50);
});

test('garbage is counted', () => {
  const gate = clocked();
  for (const line of ['{', '[]', 'null', '{"type":"start","version":1}', '{"type":"decision"}']) gate.take(line);
  assert.equal(gate.status().garbage, 4);
  assert.match(gate.status().error, /decision/);
});

test('the middleware refuses, and leaves its verdict', () => {
  const gate = clocked();
  gate.take('{"type":"start","version":1}');
  gate.take(decision({ id: '192.0.2.1', spans: [{ from: 0, until: 60 }] }));
  const base64 = Buffer.from('\xff|192.0.2.3', 'latin1').toString('base64');
  gate.take(decision({ kind: 'key_ip', id_base64: base64, mode: 'shadow', spans: [{ from: 0, until: 60 }] }));
  const app = web.middleware(gate, (request) => {
    const ip = web.address(request.socket.remoteAddress), key = web.identifier(request.headers['x-api-key']);
    return [['ip', ip], ['key', key], ['key_ip', web.composite(key, ip)]];
  });
  const ask = (remoteAddress, headers = {}) => {
    const request = { socket: { remoteAddress }, headers };
    let got;
    const response = { writeHead: (status, h) => ({ end: (body) => { got = { status, ...h, body }; } }) };
    app(request, response, () => { got = request.floodgate.shadow; });
    return got;
  };
  assert.deepEqual(ask('::ffff:192.0.2.1'), {
    status: 429, 'Content-Type': 'text/plain; charset=utf-8', 'Retry-After': '60', RateLimit: '"r";r=0;t=60',
    'RateLimit-Policy': '"r";q=9;w=60', body: 'Too Many Requests\n',
  });
  assert.equal(ask('192.0.2.2'), false);
  assert.equal(ask('192.0.2.3', { 'x-api-key': '\xff' }), true);
});
