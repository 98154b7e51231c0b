"""Tests of floodgate.py and floodgate_web.py: python3 -m unittest, in this directory."""
import asyncio
import base64
import json
import pathlib
import random
import unittest

import floodgate
import floodgate_web as web

TESTDATA = pathlib.Path(__file__).parents[3] / "testdata"


class Clocked(floodgate.Gate):
    """A gate that follows no feed, at a time that the test sets."""

    def __init__(self, now=0.0, **options):
        super().__init__("unix:/nowhere", **options)
        self._time = self._monotonic = lambda: self.now
        self.now = now

    def start(self):
        pass


def canonical(kind, value, encoding=""):
    value = base64.b64decode(value) if encoding == "base64" else value
    return kind, web.address(value) if kind == "ip" else web.identifier(value)


def decision(**members):
    return json.dumps({"type": "decision", "kind": "ip", "mode": "enforce", "limit": 9, "window": 60, "rule": "r", **members})


class Vectors(unittest.TestCase):
    def test_feed(self):
        """Each story of testdata/feed."""
        paths = sorted((TESTDATA / "feed").glob("*.json"))
        self.assertTrue(paths)
        for path in paths:
            story = json.loads(path.read_text("utf-8"))
            gate = Clocked(policy=story["policy"])
            for i, step in enumerate(story["steps"]):
                with self.subTest(path.stem, step=i + 1):
                    self.take(gate, step)

    def take(self, gate, step):
        gate.now = step["now"]
        if step.get("connect"):
            gate._understood = None
        for line in step.get("lines", ()):
            gate.take(line)
        if "ask" in step:
            v = gate.check(*(canonical(*caller) for caller in step["ask"]))
            got = {"closed": v.closed, "shadow": v.shadow, "stale": v.stale}
            if v.closed:
                fields = dict(web.fields(v))
                got.update(rule=v.rule, retry_after=int(fields["Retry-After"]), ratelimit=fields.get("RateLimit"),
                           ratelimit_policy=fields.get("RateLimit-Policy"))
            self.assertEqual({k: v for k, v in got.items() if v}, step["want"])
        if "held" in step:
            self.assertEqual(gate.status()["held"], step["held"])

    def test_ids(self):
        """Each id of testdata/ids/vectors.json. The parts of composites have the separator | here."""
        vectors = json.loads((TESTDATA / "ids" / "vectors.json").read_text("utf-8"))
        for table, made in {
            "ids": lambda v, value: web.identifier(value),
            "addresses": lambda v, value: web.address(v["in"], v["ipv6_prefix"]),
            "secrets": lambda v, value: web.secret_identifier(v["secret"].encode(), v["kind"], value),
            "parts": lambda v, value: web._part(value) if v["separator"] == "|" else v["out"].encode(),
        }.items():
            self.assertTrue(vectors[table])
            for v in vectors[table]:
                with self.subTest(table, name=v["name"]):
                    value = bytes.fromhex(v["in_hex"]) if "in_hex" in v else v["in"].encode()
                    self.assertEqual(made(v, value), bytes.fromhex(v["out_hex"]) if "out_hex" in v else v["out"].encode())


class Bounds(unittest.TestCase):
    def test_what_has_no_room_is_counted(self):
        gate = Clocked(max_held=2)
        gate.take('{"type":"start","version":1}')
        for i in range(5):
            gate.take(decision(id=f"192.0.2.{i}", spans=[{"from": 0, "until": 60}]))
        gate.take(decision(id="192.0.2.9"))  # which opens a caller that is open
        self.assertEqual((gate.status()["held"], gate.status()["dropped"]), (2, 3))
        gate.take(decision(id="192.0.2.1", spans=[{"from": 0, "until": 90}]))  # one that is held
        self.assertEqual(gate.check(("ip", b"192.0.2.1")).retry_after, 90)
        gate.now = 60  # the other one is over, though nothing has swept it
        gate.take(decision(id="192.0.2.7", spans=[{"from": 60, "until": 90}]))
        self.assertTrue(gate.check(("ip", b"192.0.2.7")).closed)
        self.assertEqual(gate.status()["dropped"], 3)

    def test_what_is_over_is_forgotten(self):
        gate = Clocked()
        gate.take('{"type":"start","version":1}')
        for i in range(100):
            gate.take(decision(id=f"192.0.2.{i}", spans=[{"from": 0, "until": 60}]))
        gate.now = 60
        gate.take('{"type":"heartbeat","at":60}')
        self.assertEqual(gate._held, {})

    def test_a_new_start_within_a_question_opens_nobody(self):
        gate, start = Clocked(), ('{"type":"start","version":1}', decision(id="192.0.2.1", spans=[{"from": 0, "until": 60}]), '{"type":"current"}')
        for line in start:
            gate.take(line)

        class Torn(dict):
            def get(self, key, default=None):
                held = super().get(key, default)
                gate._held = dict(self)
                for line in start:  # another thread takes them between two steps of the question
                    gate.take(line)
                return held
        gate._held = Torn(gate._held)
        self.assertTrue(gate.check(("ip", b"192.0.2.1")).closed)

    def test_no_line_ends_the_thread_or_a_request(self):
        """Lines of the vectors with bytes changed, taken out and repeated."""
        seed = random.randrange(1 << 32)
        rng, gates = random.Random(seed), [Clocked(policy=policy) for policy in ("hold", "open", "closed")]
        for path in (TESTDATA / "feed").glob("*.json"):
            for step in json.loads(path.read_text("utf-8"))["steps"]:
                for line in step.get("lines", ()):
                    text = bytearray(line[:2000].encode())
                    for _ in range(rng.randrange(3)):
                        at = rng.randrange(len(text) + 1)
                        text[at:at + rng.randrange(2)] = rng.choice([b"", b"9", b"-", b'"', b"[", b"\xff", b"null", text[at:at + 9]])
                    for gate in gates:
                        gate.now = step["now"]
                        gate.take(bytes(text))
                        with self.subTest(seed=seed, line=bytes(text)):
                            web.fields(gate.check(*(canonical(*caller) for caller in step.get("ask", [["ip", "203.0.113.9"]]))))
                            gate.status()
        self.assertGreater(gates[0].garbage, 50)

    def test_garbage_is_counted(self):
        gate = Clocked()
        for line in (b"\xff", b"{", b"[]", b'{"type":"start"}'):
            gate.take(line)
        self.assertEqual(gate.status()["garbage"], 4)
        self.assertIn("start", gate.status()["error"])


class Middleware(unittest.TestCase):
    def setUp(self):
        self.gate = Clocked()
        self.gate.take('{"type":"start","version":1}')
        self.gate.take(decision(id="192.0.2.1", spans=[{"from": 0, "until": 60}]))
        self.gate.take(decision(kind="key_ip", id_base64=base64.b64encode(b"\xff|192.0.2.3").decode(), mode="shadow",
                                spans=[{"from": 0, "until": 60}]))

    @staticmethod
    def callers(request):
        ip, key = web.address(web.peer(request)), web.identifier(web.header(request, "X-Api-Key"))
        return [("ip", ip), ("key", key), ("key_ip", web.composite(key, ip))]

    def test_wsgi(self):
        def app(environ, start_response):
            start_response("200 OK", [("Shadow", str(environ["floodgate"].shadow))])
            return [b"hello"]

        def ask(environ):
            answer = []
            body = web.WSGI(app, self.gate, self.callers)(environ, lambda *a: answer.extend(a))
            return answer[0], dict(answer[1]), b"".join(body)

        self.assertEqual(ask({"REMOTE_ADDR": "192.0.2.1"}), ("429 Too Many Requests", {
            "Content-Type": "text/plain; charset=utf-8", "Retry-After": "60", "RateLimit": '"r";r=0;t=60', "RateLimit-Policy": '"r";q=9;w=60',
        }, b"Too Many Requests\n"))
        self.assertEqual(ask({"REMOTE_ADDR": "192.0.2.2"}), ("200 OK", {"Shadow": "False"}, b"hello"))
        self.assertEqual(ask({"REMOTE_ADDR": "192.0.2.3", "HTTP_X_API_KEY": "\xff"})[1], {"Shadow": "True"})

    def test_asgi(self):
        async def app(scope, receive, send):
            await send({"type": "hello", "shadow": "floodgate" in scope and scope["floodgate"].shadow})

        def ask(scope):
            sent = []

            async def send(message):
                sent.append(message)
            asyncio.run(web.ASGI(app, self.gate, self.callers)(scope, None, send))
            return sent

        refused = ask({"type": "http", "client": ("192.0.2.1", 7), "headers": []})
        self.assertEqual((refused[0]["status"], dict(refused[0]["headers"])[b"retry-after"], refused[1]["body"]),
                         (429, b"60", b"Too Many Requests\n"))
        self.assertEqual(ask({"type": "websocket", "client": ("192.0.2.1", 7), "headers": []}),
                         [{"type": "websocket.close", "code": 1013}])
        self.assertEqual(ask({"type": "http", "client": None, "headers": []}), [{"type": "hello", "shadow": False}])
        self.assertEqual(ask({"type": "http", "client": ("192.0.2.3", 7), "headers": [(b"x-api-key", b"\xff")]}),
                         [{"type": "hello", "shadow": True}])
        self.assertEqual(ask({"type": "lifespan"}), [{"type": "hello", "shadow": False}])


if __name__ == "__main__":
    unittest.main()
