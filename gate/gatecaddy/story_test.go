package gatecaddy_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// shipped is deploy/caddy/floodgate.Caddyfile for a test.
func shipped(t *testing.T, broker, backend, accessLog string) string {
	t.Helper()
	b, err := os.ReadFile("../../deploy/caddy/floodgate.Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, r := range [][2]string{
		{"\tfloodgate {\n\t\tbrokers kafka:9092", "\tadmin ADMIN\n\tdefault_bind 127.0.0.1\n\tpersist_config off\n\tfloodgate {\n\t\tbrokers " + broker},
		{":8080 {", "SITE {"}, {"127.0.0.1:3000", backend}, {"/var/log/caddy/access.log", accessLog},
	} {
		if !strings.Contains(text, r[0]) {
			t.Fatalf("floodgate.Caddyfile: got no %q", r[0])
		}
		text = strings.Replace(text, r[0], r[1], 1)
	}
	return text
}

// minimal returns a configuration with these lines in the options of the app, and in the site.
func minimal(broker, app, site string) string {
	return "{\n\tadmin ADMIN\n\tdefault_bind 127.0.0.1\n\tpersist_config off\n\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t\ttrusted_proxies_strict\n\t}\n" +
		"\tfloodgate {\n\t\tbrokers " + broker + "\n\t\t" + app + "\n\t}\n}\nSITE {\n\t" + site + "\n}\n"
}

// What deploy/caddy ships, before a backend: a closed key is refused and logged, and another one is not.
func TestTheShippedConfiguration(t *testing.T) {
	t.Parallel()
	k := newKafka(t, embedded.Options{})
	accessLog := filepath.Join(t.TempDir(), "access.log")
	c := begin(t, shipped(t, k.address(), backend(t), accessLog))
	c.linked()
	c.answers("noisy", http.StatusOK)
	k.close(time.Minute, key("noisy"))
	c.becomes("noisy", http.StatusTooManyRequests)
	c.answers("quiet", http.StatusOK)
	_, header, err := c.get("/", "noisy")
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"Retry-After": `^[567]\d$`, "RateLimit": `^"per-key";r=0;t=[567]\d$`, "RateLimit-Policy": `^"per-key";q=100;w=60$`, "Content-Length": "^0$",
	} {
		if got := header.Get(field); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: got %q, want %s", field, got, want)
		}
	}
	c.eventually("the refusal is logged", func() error {
		text, err := os.ReadFile(accessLog)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"status":429`) && strings.Contains(line, `"floodgate":"closed"`) && strings.Contains(line, `"floodgate_rule":"per-key"`) {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("got %s", text))
	})
	c.end()
	admitted, blocked := 0, 0
	k.entries(func(e schemas.Entry) {
		switch {
		case e.Caller() == key("noisy") && e.Blocked:
			blocked += int(e.Count)
		case e.Caller() == key("noisy"):
			admitted += int(e.Count)
		}
	})
	if admitted == 0 || blocked < 2 {
		t.Errorf("got %d admitted and %d blocked requests of the noisy key in the log, want both", admitted, blocked)
	}
}

// loaded asks for a key again and again, and expects a status each time, until stop is called. That returns how many requests it was.
func (c *caddy) loaded(key string, want int) (stop func() uint64) {
	var n atomic.Uint64
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, _, err := c.get("/", key)
				if c.isReset(err) {
					continue
				}
				if got != want || err != nil {
					c.t.Errorf("%s, under load: got status %d, %v, want %d", key, got, err, want)
					return
				}
				n.Add(1)
			}
		})
	}
	return func() uint64 {
		close(done)
		wg.Wait()
		return n.Load()
	}
}

// Kafka goes while Caddy is under load, and comes back. No request fails, closures run to their end, reloads keep them, and in the end
// the log has each request once.
func TestKafkaIsAway(t *testing.T) {
	t.Parallel()
	away := 5 * time.Second
	if testenv.IsLong() {
		away = time.Minute
	}
	k := newKafka(t, embedded.Options{Dir: t.TempDir(), Listen: testenv.FreeAddress(t)}) // comes back as it was
	site := "floodgate {\n\t\tcallers key=X-Api-Key\n\t\tresource %s\n\t}\n\trespond ok"
	at := func(app, resource string) string { return minimal(k.address(), app, fmt.Sprintf(site, resource)) }
	c := begin(t, at("responses", "one"))
	c.linked()
	k.close(time.Hour, key("long"))
	c.becomes("long", http.StatusTooManyRequests)
	k.close(away, key("short"))
	c.becomes("short", http.StatusTooManyRequests)

	quiet, long := c.loaded("quiet", http.StatusOK), c.loaded("long", http.StatusTooManyRequests)
	k.stop()
	c.eventually("Caddy says that Kafka is away", func() error {
		if !strings.Contains(c.log.String(), "kafka link is down") {
			return errors.New(c.log.String())
		}
		return nil
	})
	c.answers("short", http.StatusTooManyRequests)
	for _, resource := range []string{"two", "three", "four"} {
		c.reload(at("responses", resource))
	}
	if err := c.load(at("responses\n\t\tstale panic", "five")); err == nil || !strings.Contains(err.Error(), "want hold, open or closed") {
		t.Errorf("a wrong configuration: got %v, want it refused", err)
	}
	c.becomes("short", http.StatusOK)
	if quiet() < 100 || long() < 100 {
		t.Error("want 100 requests of each key while Kafka is away")
	}

	c.reload(at("responses\n\t\tshadow", "five"))
	c.becomes("long", http.StatusOK)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken := strings.Replace(at("responses", "six"), "SITE {", "http://"+other.Addr().String()+" {\n\trespond taken\n}\nSITE {", 1)
	if err := c.load(taken); err == nil {
		t.Error("a configuration that cannot listen: got no error")
	}
	c.answers("long", http.StatusOK) // as in the configuration before
	c.reload(at("responses", "six"))
	c.becomes("long", http.StatusTooManyRequests)

	k.start()
	c.linked()
	var dropped float64
	c.eventually("all that was recorded is in the log, or dropped and counted", func() error {
		queued, accepted := c.metric("floodgate_recorder_requests_queued"), c.metric("floodgate_recorder_requests_accepted_total")
		acked, unknown := c.metric("floodgate_recorder_requests_acked_total"), c.metric("floodgate_recorder_requests_unknown_total")
		dropped = c.metric("floodgate_recorder_requests_dropped_total")
		if canaries := 3.0; queued > canaries || unknown > 0 || accepted-acked-dropped > canaries { // between two scrapes
			return fmt.Errorf("accepted %v, acked %v, unknown %v, dropped %v, queued %v", accepted, acked, unknown, dropped, queued)
		}
		return nil
	})
	if dropped > 0 && away < time.Minute {
		t.Errorf("got %v requests dropped, want none: the link has room for them", dropped)
	}
	c.end()
	counted, responses := map[string]uint64{}, uint64(0)
	k.entries(func(e schemas.Entry) {
		switch {
		case e.Response && e.Caller() == key("quiet"):
			responses += uint64(e.Count)
		case e.Kind == "key" && !e.Response:
			counted[e.ID] += uint64(e.Count)
		}
	})
	missing := c.sent["quiet"] - responses
	for id, sent := range c.sent {
		if counted[id] > sent {
			t.Errorf("%s: got %d requests in the log, want at most the %d that were sent", id, counted[id], sent)
		}
		missing += sent - counted[id]
	}
	if responses > c.sent["quiet"] || float64(missing) > dropped {
		t.Errorf("of %v requests and %d responses %d are not in the log, want at most the %v that were dropped", c.sent, responses, missing, dropped)
	}
	t.Logf("%v requests, %v dropped", c.sent, dropped)
}

// A reload with other options makes other gates. They know all decisions before they serve, so a closed key has no moment.
func TestAReloadWithOtherOptions(t *testing.T) {
	t.Parallel()
	k := newKafka(t, embedded.Options{})
	site := "floodgate {\n\t\tcallers key=X-Api-Key\n\t}\n\trespond ok"
	c := begin(t, minimal(k.address(), "", site))
	c.linked()
	many := []schemas.Caller{key("noisy")}
	for i := range 10_000 {
		many = append(many, key(fmt.Sprint("closed-", i)))
	}
	k.close(time.Hour, many...)
	c.becomes("closed-9999", http.StatusTooManyRequests)
	noisy := c.loaded("noisy", http.StatusTooManyRequests)
	for _, app := range []string{"stale open", "responses", "ipv6_prefix 56", "stale hold"} {
		c.reload(minimal(k.address(), app, site))
		c.answers("closed-9999", http.StatusTooManyRequests)
	}
	if n := noisy(); n < 10 {
		t.Errorf("got %d requests meanwhile, want more", n)
	}
	if n := c.metric("floodgate_gate_closed_callers"); n != 10_001 {
		t.Errorf("metrics after reloads: got %v closed callers, want 10001 once", n)
	}
}

// An id may have any byte, and an address is the one that Caddy believes.
func TestIDsWithEveryByte(t *testing.T) {
	t.Parallel()
	k := newKafka(t, embedded.Options{})
	c := begin(t, minimal(k.address(), "", "floodgate {\n\t\tcallers any={query.id} ip_any=ip+{query.with} net=net\n\t}\n\trespond ok"))
	c.linked()
	var closed []schemas.Caller
	for b := 0; b < 256; b += 2 {
		closed = append(closed, schemas.Caller{Kind: "any", ID: "a" + string([]byte{byte(b)})}, schemas.Caller{Kind: "ip_any", ID: "127.0.0.1|" + string([]byte{byte(b)}) + "z"})
	}
	k.close(time.Hour, append(closed, schemas.Caller{Kind: "net", ID: "192.0.2.0/24"}, schemas.Caller{Kind: "ip", ID: "203.0.113.9"})...)
	ask := func(query, forwarded string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", forwarded)
		resp, err := c.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	c.eventually("the last one is closed", func() error {
		if got := ask("", "6.6.6.6, 203.0.113.9"); got != http.StatusTooManyRequests {
			return fmt.Errorf("got %d", got)
		}
		return nil
	})
	if got := ask("", "192.0.2.7"); got != http.StatusTooManyRequests {
		t.Errorf("an address in a closed network: got %d, want 429", got)
	}
	if got := ask("", "203.0.113.9, 198.51.100.1"); got != http.StatusOK {
		t.Errorf("a client that claims the address of another: got %d, want 200", got)
	}
	for b := range 256 {
		want := http.StatusOK
		if b%2 == 0 {
			want = http.StatusTooManyRequests
		}
		text := url.QueryEscape(string([]byte{byte(b)}))
		if got := ask("id=a"+text, ""); got != want {
			t.Errorf("byte %d: got %d, want %d", b, got, want)
		}
		if got := ask("with="+text+"z", ""); got != want {
			t.Errorf("byte %d in a composite: got %d, want %d", b, got, want)
		}
	}
}

// Errors of other handlers are recorded with the status that the client gets, and refusals can have a page.
func TestErrorsAreCaddys(t *testing.T) {
	t.Parallel()
	k := newKafka(t, embedded.Options{})
	c := begin(t, minimal(k.address(), "responses", `floodgate {
		callers key=X-Api-Key
		reject_repeated X-Api-Key
	}
	error /broken 503
	reverse_proxy `+backend(t)+`
	handle_errors 429 {
		respond "slow down: {http.floodgate.verdict} {http.floodgate.rule} {http.floodgate.caller}" 429
	}`))
	c.linked()
	for path, want := range map[string]int{"/": 200, "/broken": 503, "/backend": 200, "/backend?teapot": 418} {
		if got, _, err := c.get(path, "k"); got != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", path, got, err, want)
		}
	}
	c.answers("k,x", http.StatusBadRequest)
	k.close(time.Minute, key("k"))
	c.becomes("k", http.StatusTooManyRequests)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "k")
	resp, err := c.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var page [100]byte
	n, _ := resp.Body.Read(page[:])
	if got, want := string(page[:n]), "slow down: closed per-key key:k"; got != want || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got page %q and %v, want %q and Retry-After", got, resp.Header, want)
	}
	c.end()
	statuses := map[uint16]int{}
	k.entries(func(e schemas.Entry) {
		if e.Response && e.Caller() == key("k") {
			statuses[e.Status] += int(e.Count)
		}
	})
	for status, want := range map[uint16]int{503: 1, 418: 1, 429: 0} {
		if statuses[status] != want {
			t.Errorf("status %d: got %d responses in the log, want %d; all: %v", status, statuses[status], want, statuses)
		}
	}
}
