"""A gate of floodgate: it follows a feed (schemas/FEED.md), and knows from its own memory which callers are closed.

    gate = Gate("unix:/run/floodgate/feed.sock")  # or Gate("sidecar:9095", key="...")
    verdict = gate.check(("ip", address("203.0.113.9")), ("key", identifier("abc")))  # both of floodgate_web.py
    if verdict.closed: ...  # answer with status 429 and fields(verdict)
"""
import base64, collections, contextlib, http.client, json, math, os, socket, threading, time, urllib.parse  # noqa: E401
Decision = collections.namedtuple("Decision", "rule shadow spans limit window partition generation")
Verdict = collections.namedtuple("Verdict", "closed shadow stale rule retry_after limit window", defaults=(False,) * 3 + ("", 0, 0, 0))
# closed: refuse the request. shadow: it would be refused, if its rule enforced. stale: it is refused only because decisions are stale.


class Gate:
    """Any thread may ask it, and no question waits. kinds: of callers it needs, or all; max_held: at most so many decisions; policy:
    what stale decisions do, "hold", "open" or "closed". A thread follows the feed from start() or a process's first question on."""
    def __init__(self, feed, key=None, kinds=(), policy="hold", max_held=1 << 20):
        if policy not in ("hold", "open", "closed"):
            raise ValueError(f'got policy {policy!r}, want "hold", "open" or "closed"')
        self._feed, self._key, self._kinds, self._policy, self._max_held = feed, key, tuple(kinds), policy, max_held
        self._held, self._count, self._unswept = {}, 0, []  # by (kind, id): a tuple, replaced as a whole: readers need no lock
        self._generation = self._valid = 0  # how many starts came that did not resume; the first whose decisions count
        self._understood, self._cursor, self._partitions, self._heard = None, None, [], 0.0  # their states; when a line came last
        self._time, self._monotonic = time.time, time.monotonic
        self._lock, self._process, self._ended = threading.Lock(), 0, threading.Event()
        self.close = self._ended.set  # ends the thread, within about a second
        self.connected, self.dropped, self.garbage, self.error = False, 0, 0, ""

    def check(self, *callers):
        """The verdict on a request of these callers, each of them (kind, id). An id is bytes."""
        if self._process != os.getpid():
            self.start()
        valid, hits, now = self._valid, [held for held in map(self._held.get, callers) if held], self._time()  # valid first
        refuses = self._policy == "closed" and self._stale()
        for shadow in (False, True) if hits else ():
            until, d = max((self._judge(held, valid, shadow, now) for held in hits), key=lambda found: found[0])
            if d and not (shadow and refuses):
                return Verdict(not shadow, shadow, False, d.rule, max(1, math.ceil(until - now)), d.limit, d.window)
        return Verdict(closed=True, stale=True, retry_after=1) if refuses else Verdict()

    def _judge(self, decisions, valid, shadow, now):
        """When a caller's gate opens, and the decision that keeps it closed for longest. 0 and None if it is open."""
        ignored = self._stale() if self._policy == "open" else ()
        counting = [d for d in decisions if d.shadow == shadow and d.generation >= valid and d.partition not in ignored]
        until, d = max(((until, d) for d in counting for since, until in d.spans if since <= now < until), default=(0, None))
        for since, end in sorted(span for d in counting for span in d.spans) if d else ():
            until = end if since <= until < end else until  # it follows without a gap
        return until, d

    def _stale(self):
        states = ("stale", "fresh") if self._monotonic() - self._heard >= 3 else ("stale",)
        return [p for p, state in enumerate(self._partitions) if state in states]

    def status(self):
        """What people want to know. It looks at all that is held, so ask it now and then."""
        now, held = self._time(), [d for decisions in list(self._held.values()) for d in decisions]
        return {"connected": self.connected, "held": sum(self._counts(d, now) for d in held), "stale": self._stale(),
                "dropped": self.dropped, "garbage": self.garbage, "error": self.error}

    def start(self):
        with self._lock:
            if self._process != os.getpid():
                self._process = os.getpid()
                threading.Thread(target=self._follow, name="floodgate", daemon=True).start()

    def _follow(self):
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._read()
            except (OSError, http.client.HTTPException) as e:
                self.error = f"{type(e).__name__}: {e}"
            self.connected = False
            self._ended.wait(began + 1 - time.monotonic())

    def _read(self):
        """Reads the feed until its connection ends. One on which nothing comes for 3 s is dead."""
        address, _, path = self._feed.partition("unix:")
        with contextlib.closing(http.client.HTTPConnection(address or "floodgate", timeout=3)) as connection:
            if path:
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.settimeout(3)
                connection.sock.connect(path)
            query = [("kind", kind) for kind in self._kinds] + [("since", self._cursor)] * (self._cursor is not None)
            connection.request("GET", "/v1/closed?" + urllib.parse.urlencode(query),
                               headers={"Authorization": f"Bearer {self._key}"} if self._key else {})
            response, rest = connection.getresponse(), b""
            if response.status != 200:
                raise http.client.HTTPException(f"status {response.status}: {response.read(200)!r}")
            self.connected, self._understood = True, None
            for chunk in iter(lambda: response.read1(1 << 16), b""):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self.take(line)
                if self._understood is False or len(rest) > 1 << 20 or self._ended.is_set():
                    return

    def take(self, line):
        """Takes a line of the feed. A line that cannot be read is counted, and changes nothing. One thread may call it."""
        self._heard = self._monotonic()
        try:
            message = json.loads(line, parse_constant=int)  # which refuses NaN
            kind = message["type"]
            if kind == "start":
                self._understood = message["version"] == 1
                if self._understood and not message.get("resumed"):
                    self._generation, self._cursor = self._generation + 1, None
            elif not self._understood:
                return
            elif kind == "decision":
                self._decide(message)
            elif kind == "current":
                self._valid = self._generation  # what came before counts no more, and is swept in time
            elif kind == "heartbeat":
                self._partitions = [p["state"] for p in message.get("partitions", ())]
                self._sweep(1000 + len(self._held) // 30)
            self._cursor = message.get("cursor", self._cursor)
        except Exception as e:  # whatever the line is, the thread goes on
            self.garbage, self.error = self.garbage + 1, f"{e!r} in line {line[:80]!r}"

    def _decide(self, m):
        caller = m["kind"], base64.b64decode(m["id_base64"], validate=True) if "id_base64" in m else m["id"].encode()
        spans = tuple((span["from"], span["until"]) for span in m.get("spans", ()))
        if not caller[1] or not all(0 <= since <= until < 1e11 for since, until in [*spans, (0, m.get("window", 0))]):
            raise ValueError("the id is empty, or a time is out of its bounds")
        d = Decision(m.get("rule", "") + "", bool(spans) and {"enforce": False, "shadow": True}[m["mode"]], spans,
                     int(m.get("limit", 0)), m.get("window", 0), m.get("partition", 0), self._generation)
        old = self._held.get(caller, ())
        others = [other for other in old if other.rule != d.rule]
        if spans and len(others) == len(old) and self._count >= self._max_held and not self._sweep(10):
            self.dropped += 1
        else:
            self._replace(caller, [*others, d])

    def _counts(self, d, now):
        return d.generation >= self._valid and any(until > now for _, until in d.spans)

    def _replace(self, caller, decisions):
        now, old = self._time(), self._held.get(caller, ())
        decisions = tuple(d for d in decisions if self._counts(d, now))
        self._count += len(decisions) - len(old)
        if decisions:
            self._held[caller] = decisions
        elif old:
            del self._held[caller]

    def _sweep(self, callers):  # forgets what counts no more of so many callers, and reports whether there is room
        self._unswept = self._unswept or list(self._held)
        for _ in range(min(callers, len(self._unswept))):
            self._replace(caller := self._unswept.pop(), self._held.get(caller, ()))
        return self._count < self._max_held
