"""What web servers need around a gate of floodgate.py: ids of callers, header fields of a refusal, and middleware for WSGI and ASGI.

    def callers(request):  # of WSGI an environ, of ASGI a scope
        ip, key = address(peer(request)), identifier(header(request, "X-Api-Key"))
        return [("ip", ip), ("key", key), ("key_ip", composite(key, ip))]

    application = WSGI(application, Gate("unix:/run/floodgate/feed.sock"), callers)

schemas/FRAME.md says how ids are made. The id of a caller that is not there is b"", and closes nobody.
"""
import hashlib
import hmac
import ipaddress
import math
import re

_HASH = re.compile(rb"~[0-9a-f]{32}")
_KEYED = re.compile(rb"hmac:[0-9a-f]{32}")


def _bytes(value):
    return value.encode() if isinstance(value, str) else value


def identifier(value):
    """The id of bytes, or of a text, that a client sent."""
    value = _bytes(value)
    hashed = len(value) == 255 and _HASH.fullmatch(value, 222) or _KEYED.match(value)
    return value[:222] + _hash(value) if len(value) > 256 or hashed else value


def secret_identifier(secret, kind, value):
    """The id of a kind that the installation hashes with a secret (--hash-kinds)."""
    value = _bytes(value)
    return value and b"hmac:" + hmac.new(secret, kind.encode() + b"\0" + value, "sha256").hexdigest()[:32].encode()


def address(text, ipv6_prefix=64):
    """The id of an address: an IPv6 address by its network. A text that is no address is an identifier."""
    try:
        ip = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return identifier(text)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.version == 6:
        ip = ipaddress.IPv6Address(int(ip) >> 128 - ipv6_prefix << 128 - ipv6_prefix)
    return str(ip).encode()


def composite(*parts):
    """The id of several parts, joined by |. Without one of them there is no caller."""
    *first, last = map(_bytes, parts)
    return identifier(b"|".join([*map(_part, first), last])) if last and all(first) else b""


def _part(part):
    return _hash(part) if b"|" in part or _HASH.fullmatch(part) else part


def _hash(value):
    return b"~" + hashlib.sha256(value).hexdigest()[:32].encode()


def peer(request):
    """The address that is connected. Behind a proxy, take the one that the proxy has written instead."""
    if "REMOTE_ADDR" in request:
        return request["REMOTE_ADDR"]
    return (request.get("client") or [""])[0]


def header(request, name):
    """The bytes of a header field, b"" without one. Of a field that was sent twice, ASGI gives the first line; WSGI joins the lines."""
    if "headers" in request:
        return next((value.strip() for field, value in request["headers"] if field == name.lower().encode()), b"")
    return request.get("HTTP_" + name.upper().replace("-", "_"), "").encode("latin-1").strip()


def fields(verdict):
    """The header fields of the answer to a refused request."""
    result = [("Retry-After", str(verdict.retry_after))]
    if re.fullmatch("[ -~]+", verdict.rule):
        name = '"' + re.sub(r'(["\\])', r"\\\1", verdict.rule) + '"'
        result.append(("RateLimit", f"{name};r=0;t={verdict.retry_after}"))
        if 0 < verdict.limit < 10**15 and verdict.window > 0:
            result.append(("RateLimit-Policy", f"{name};q={verdict.limit};w={math.ceil(verdict.window)}"))
    return result


class WSGI:
    """Refuses requests of closed callers, and leaves the verdict on the others in environ["floodgate"]."""

    def __init__(self, app, gate, callers):
        self._app, self._gate, self._callers = app, gate, callers

    def __call__(self, environ, start_response):
        verdict = environ["floodgate"] = self._gate.check(*self._callers(environ))
        if not verdict.closed:
            return self._app(environ, start_response)
        start_response("429 Too Many Requests", [("Content-Type", "text/plain; charset=utf-8"), *fields(verdict)])
        return [b"Too Many Requests\n"]


class ASGI:
    """Refuses requests of closed callers, and leaves the verdict on the others in scope["floodgate"]. It closes their web sockets."""

    def __init__(self, app, gate, callers):
        self._app, self._gate, self._callers = app, gate, callers

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        verdict = scope["floodgate"] = self._gate.check(*self._callers(scope))
        if not verdict.closed:
            return await self._app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1013})
        headers = [("Content-Type", "text/plain; charset=utf-8"), *fields(verdict)]
        await send({"type": "http.response.start", "status": 429, "headers": [(k.lower().encode(), v.encode()) for k, v in headers]})
        await send({"type": "http.response.body", "body": b"Too Many Requests\n"})
