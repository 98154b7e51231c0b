'use strict';
// What web servers need around a gate of floodgate.js: ids of callers, header fields of a refusal, and middleware for Express.
//
//	const callers = (request) => {
//	  const ip = address(request.socket.remoteAddress), key = identifier(request.headers['x-api-key']);
//	  return [['ip', ip], ['key', key], ['key_ip', composite(key, ip)]];
//	};
//	app.use(middleware(new Gate('unix:/run/floodgate/feed.sock').start(), callers));
//
// schemas/FRAME.md says how ids are made. They have a byte in each character, as the header fields that Node reads: what is text
// becomes so by bytes(text). The id of a caller that is not there is '', and closes nobody.
const crypto = require('node:crypto');
const net = require('node:net');

const isHash = (text) => /^~[0-9a-f]{32}$/.test(text);
const hash = (id) => '~' + crypto.createHash('sha256').update(id, 'latin1').digest('hex').slice(0, 32);
const part = (id) => (id.includes('|') || isHash(id) ? hash(id) : id);

/** The bytes of a text, one in each character. */
const bytes = (text) => Buffer.from(text).toString('latin1');

/** The id of what a client sent. */
function identifier(value = '') {
  const hashed = (value.length === 255 && isHash(value.slice(222))) || /^hmac:[0-9a-f]{32}/.test(value);
  return value.length > 256 || hashed ? value.slice(0, 222) + hash(value) : value;
}

/** The id of a kind that the installation hashes with a secret (--hash-kinds). */
function secretIdentifier(secret, kind, value = '') {
  return value && 'hmac:' + crypto.createHmac('sha256', secret).update(`${kind}\0${value}`, 'latin1').digest('hex').slice(0, 32);
}

/** The id of an address: an IPv6 address by its network. A text that is no address is an identifier. */
function address(text = '', ipv6Prefix = 64) {
  const mapped = text.replace(/^::ffff:(?=\d+\.)/i, ''); // as most of Node's addresses are
  if (net.isIPv4(mapped)) return mapped;
  if (!net.isIPv6(text)) return identifier(text);
  const halves = new URL(`http://[${text.split('%')[0]}]`).hostname.slice(1, -1).split('::');
  const [left, right] = halves.map((half) => half.split(':').filter(Boolean));
  const groups = [...left, ...Array(right ? 8 - left.length - right.length : 0).fill('0'), ...(right ?? [])].map((group) => parseInt(group, 16));
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return [groups[6] >> 8, groups[6] & 255, groups[7] >> 8, groups[7] & 255].join('.'); // IPv4-mapped
  }
  const network = groups.map((group, i) => group & (0xffff << Math.min(16, Math.max(0, 16 * (i + 1) - ipv6Prefix))) & 0xffff);
  return new URL(`http://[${network.map((group) => group.toString(16)).join(':')}]`).hostname.slice(1, -1);
}

/** The id of several parts, joined by |. Without one of them there is no caller. */
function composite(...parts) {
  return parts.every(Boolean) ? identifier([...parts.slice(0, -1).map(part), parts.at(-1)].join('|')) : '';
}

/** The header fields of the answer to a refused request. */
function fields({ rule, retryAfter, limit, window }) {
  const result = { 'Retry-After': String(retryAfter) };
  if (!/^[ -~]+$/.test(rule)) return result;
  const name = `"${rule.replace(/["\\]/g, '\\$&')}"`;
  result.RateLimit = `${name};r=0;t=${retryAfter}`;
  if (limit > 0 && limit < 1e15 && window > 0) result['RateLimit-Policy'] = `${name};q=${limit};w=${Math.ceil(window)}`;
  return result;
}

/** Middleware of Express, Connect and node:http. It leaves the verdict on a request that it admits in request.floodgate. */
function middleware(gate, callers) {
  return (request, response, next) => {
    request.floodgate = gate.check(callers(request));
    if (!request.floodgate.closed) return next();
    response.writeHead(429, { 'Content-Type': 'text/plain; charset=utf-8', ...fields(request.floodgate) }).end('Too Many Requests\n');
  };
}

module.exports = { address, bytes, composite, fields, identifier, middleware, part, secretIdentifier };
