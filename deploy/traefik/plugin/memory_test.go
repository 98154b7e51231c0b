package plugin

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestFeedVectors: the memory tells the stories of testdata/feed, which schemas/FEED.md describes.
func TestFeedVectors(t *testing.T) {
	paths, err := filepath.Glob("../../../testdata/feed/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %v and %v, want vectors", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			var story struct {
				Policy string
				Steps  []step
			}
			read(t, path, &story)
			m := newMemory(1000)
			for i, s := range story.Steps {
				elapsed := int64((s.Now - story.Steps[0].Now) * 1e9)
				if s.Connect {
					m.connects()
				}
				for _, text := range s.Lines {
					m.take([]byte(text), s.Now, elapsed)
				}
				if s.Want != nil {
					if got := answer(m.judge(hits(t, m, s.Ask), m.valid.Load(), story.Policy, s.Now, elapsed)); !maps.Equal(got, s.Want) {
						t.Errorf("step %d: got %v, want %v", i+1, got, s.Want)
					}
				}
				if got := held(m, s.Now); s.Held != nil && got != *s.Held {
					t.Errorf("step %d: got %d decisions held, want %d", i+1, got, *s.Held)
				}
			}
		})
	}
}

type step struct {
	Now     float64
	Connect bool
	Lines   []string
	Ask     [][]string
	Want    map[string]any
	Held    *int
}

func read(t *testing.T, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

// hits returns what is held of callers whose ids are as clients send them.
func hits(t *testing.T, m *memory, callers [][]string) (list [][]decision) {
	t.Helper()
	for _, c := range callers {
		id := c[1]
		if len(c) > 2 {
			raw, err := base64.StdEncoding.DecodeString(id)
			if err != nil {
				t.Fatal(err)
			}
			id = string(raw)
		}
		if addr, err := netip.ParseAddr(id); err == nil && c[0] == "ip" {
			id = addressID(addr, 64)
		}
		if value, ok := m.kind(c[0]).Load(identifier(id)); ok {
			list = append(list, value.([]decision))
		}
	}
	return list
}

func answer(v verdict) map[string]any {
	got := map[string]any{}
	for name, is := range map[string]bool{"closed": v.closed, "shadow": v.shadow, "stale": v.stale} {
		if is {
			got[name] = true
		}
	}
	if v.closed {
		h := http.Header{}
		v.setFields(h)
		seconds, _ := strconv.ParseFloat(h.Get("Retry-After"), 64)
		got["retry_after"] = seconds
		for name, text := range map[string]string{"rule": v.rule, "ratelimit": h.Get("RateLimit"), "ratelimit_policy": h.Get("RateLimit-Policy")} {
			if text != "" {
				got[name] = text
			}
		}
	}
	return got
}

func held(m *memory, now float64) (n int) {
	for _, kind := range m.kinds {
		kind.Range(func(_, value any) bool {
			for _, d := range value.([]decision) {
				if m.counts(&d, now) {
					n++
				}
			}
			return true
		})
	}
	return n
}

// TestIDVectors: ids are those of testdata/ids/vectors.json. The parts of composites have the separator | here.
func TestIDVectors(t *testing.T) {
	type vector struct {
		In, Out, Separator string
		InHex              string `json:"in_hex"`
		OutHex             string `json:"out_hex"`
		Prefix             int    `json:"ipv6_prefix"`
	}
	var vectors struct{ IDs, Parts, Addresses []vector }
	read(t, "../../../testdata/ids/vectors.json", &vectors)
	check := func(list []vector, id func(v vector, in string) string) {
		t.Helper()
		for _, v := range list {
			in, _ := hex.DecodeString(v.InHex)
			out, _ := hex.DecodeString(v.OutHex)
			if got := id(v, v.In+string(in)); got != v.Out+string(out) {
				t.Errorf("%q: got %q, want %q", v.In+string(in), got, v.Out+string(out))
			}
		}
	}
	check(vectors.IDs, func(_ vector, in string) string { return identifier(in) })
	check(vectors.Addresses, func(v vector, in string) string { return addressID(netip.MustParseAddr(in), v.Prefix) })
	check(vectors.Parts, func(v vector, in string) string {
		if v.Separator != "|" || len(in) > 200 {
			return v.Out
		}
		return strings.TrimSuffix(compositeID([]string{in, "x"}), "|x")
	})
}

// TestMemoryIsBounded: decisions beyond the bound are counted, and what is over makes room.
func TestMemoryIsBounded(t *testing.T) {
	m := newMemory(3)
	take := func(text string, now float64) { m.take([]byte(text), now, 0) }
	closes := func(id, from, until string) string {
		return `{"type":"decision","kind":"ip","id":"` + id + `","mode":"enforce","spans":[{"from":` + from + `,"until":` + until + `}]}`
	}
	take(`{"type":"start","version":1}`, 0)
	for _, id := range []string{"a", "b", "c", "d", "e", "a"} {
		take(closes(id, "0", "10"), 1)
	}
	if got, dropped := held(m, 1), m.dropped.Load(); got != 3 || dropped != 2 {
		t.Errorf("got %d held and %d dropped, want 3 and 2", got, dropped)
	}
	for range 10 {
		take(`{"type":"heartbeat","at":10}`, 10)
	}
	if n := m.count.Load(); n != 0 {
		t.Errorf("got %d held after they have ended, want none", n)
	}
	take(closes("d", "10", "20"), 11)
	if held(m, 11) != 1 {
		t.Error("got no room for d, want it held")
	}
}

// TestTheQuickWaysAgree: byAddress and byCallers, which do less for a request, refuse whom serve refuses.
func TestTheQuickWaysAgree(t *testing.T) {
	m := newMemory(1000)
	m.take([]byte(`{"type":"start","version":1}`), 0, 0)
	long := strings.Repeat("k", 300)
	keys := []string{"", "abc", "a|b", hashOf("a"), "hmac:743facf8d29a458b49eddcb5c7f96640", long, long[:255], long[:222] + hashOf("a"), " abc "}
	for _, c := range [][2]string{{"ip", "192.0.2.1"}, {"ip", "2001:db8:1:2::"}, {"key", ""}, {"key_ip", ""}} {
		ids := []string{c[1]}
		for _, key := range keys[1:] {
			switch c[0] {
			case "key":
				ids = append(ids, identifier(strings.TrimSpace(key)))
			case "key_ip":
				ids = append(ids, compositeID([]string{strings.TrimSpace(key), "192.0.2.7"}))
			}
		}
		for _, id := range ids {
			line, _ := json.Marshal(map[string]any{"type": "decision", "kind": c[0], "id": id, "mode": "enforce", "spans": []map[string]float64{{"from": 0, "until": 9e9}}})
			m.take(line, 0, 0)
		}
	}
	passes := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	g := &gate{next: passes, memory: m, policy: "hold", prefix: 64, callers: []caller{
		{m.kind("ip"), []string{""}}, {m.kind("key"), []string{"X-Api-Key"}}, {m.kind("key_ip"), []string{"X-Api-Key", ""}},
	}}
	ask := func(h http.Handler, addr, key string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = addr
		if key != "" {
			r.Header.Set("X-Api-Key", key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	only := &gate{next: passes, memory: m, policy: "hold", prefix: 64, callers: g.callers[:1]}
	refused := 0
	for _, addr := range []string{"192.0.2.1:5", "192.0.2.7:5", "[2001:db8:1:2::9]:5", "[2001:db8:1:3::9]:5", "@", ""} {
		for _, key := range append(keys, "other", "other|x") {
			want := ask(http.HandlerFunc(g.serve), addr, key)
			if got := ask(g.byCallers(), addr, key); got != want {
				t.Errorf("byCallers: %s with key %.40q: got %d, want %d", addr, key, got, want)
			}
			if got, want := ask(only.byAddress(), addr, key), ask(http.HandlerFunc(only.serve), addr, key); got != want {
				t.Errorf("byAddress: %s: got %d, want %d", addr, got, want)
			}
			if want == http.StatusTooManyRequests {
				refused++
			}
		}
	}
	if refused < 20 {
		t.Errorf("got %d refused, want more", refused)
	}
}

// TestAClosedCallerNeverPassesWhileFeedsBegin anew, one after the other.
func TestAClosedCallerNeverPassesWhileFeedsBegin(t *testing.T) {
	m := newMemory(10)
	starts := func() {
		m.connects()
		for _, text := range []string{
			`{"type":"start","version":1}`, `{"type":"decision","kind":"ip","id":"192.0.2.1","mode":"enforce","spans":[{"from":0,"until":9e9}]}`, `{"type":"current"}`,
		} {
			m.take([]byte(text), 1, 0)
		}
	}
	starts()
	g := &gate{memory: m, policy: "hold", callers: []caller{{parts: []string{""}, held: m.kind("ip")}}, next: http.NotFoundHandler()}
	var asking sync.WaitGroup
	var done atomic.Bool
	for range 4 {
		asking.Go(func() {
			for !done.Load() {
				w := httptest.NewRecorder()
				g.serve(w, &http.Request{RemoteAddr: "192.0.2.1:1"})
				if w.Code != http.StatusTooManyRequests {
					t.Errorf("got %d, want it refused all the time", w.Code)
					return
				}
			}
		})
	}
	for range 5000 {
		starts()
	}
	done.Store(true)
	asking.Wait()
}

// TestClientBehindProxies: only what trusted proxies wrote says who the client is.
func TestClientBehindProxies(t *testing.T) {
	g := &gate{prefix: 64, trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}}
	for _, test := range []struct{ peer, forwarded, want string }{
		{"192.0.2.1:5", "198.51.100.9", "192.0.2.1"},
		{"10.0.0.1:5", "6.6.6.6, 198.51.100.9", "198.51.100.9"},
		{"10.0.0.1:5", "6.6.6.6, 198.51.100.9, 10.0.0.2, ", "198.51.100.9"},
		{"[::ffff:10.0.0.1]:5", "198.51.100.9:4711", "198.51.100.9"},
		{"10.0.0.1:5", "[2001:470:1:2::9]:4711", "2001:470:1:2::"},
		{"10.0.0.1:5", "6.6.6.6, nonsense", "10.0.0.1"},
		{"10.0.0.1:5", "", "10.0.0.1"},
		{"nonsense", "198.51.100.9", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = test.peer
		r.Header.Set("X-Forwarded-For", test.forwarded)
		if got := g.client(r); got != test.want {
			t.Errorf("%s for %q: got %q, want %q", test.peer, test.forwarded, got, test.want)
		}
	}
}

// TestWrongConfigurationsAreRefused says of each what was got.
func TestWrongConfigurationsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"feed: got ":               func(c *Config) { c.Feed = "" },
		"feed: got 127.0.0.1:1,":   func(c *Config) { c.Feed = "127.0.0.1:1" },
		`policy: got "wait"`:       func(c *Config) { c.Policy = "wait" },
		"ipv6Prefix: got 129":      func(c *Config) { c.IPv6Prefix = 129 },
		"trusted: ":                func(c *Config) { c.Trusted = []string{"10.0.0.1"} },
		`callers: got "X-Api-Key"`: func(c *Config) { c.Callers = []string{"X-Api-Key"} },
	} {
		c := CreateConfig()
		c.Feed = "unix:/nowhere"
		change(c)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := New(ctx, http.NotFoundHandler(), c, "")
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s…", err, want)
		}
	}
}

func FuzzTake(f *testing.F) {
	paths, _ := filepath.Glob("../../../testdata/feed/*.json")
	for _, path := range paths {
		var story struct{ Steps []step }
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &story) == nil {
			for _, s := range story.Steps {
				for _, l := range s.Lines {
					f.Add([]byte(l))
				}
			}
		}
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		m := newMemory(10)
		m.take([]byte(`{"type":"start","version":1}`), 4e9, 0)
		m.take(text, 4e9, 0)
		for _, kind := range m.kinds {
			kind.Range(func(id, value any) bool {
				if id == "" {
					panic("it holds a caller without an id")
				}
				for _, policy := range []string{"hold", "open", "closed"} {
					v := m.judge([][]decision{value.([]decision)}, 0, policy, 4e9, 0)
					v.setFields(http.Header{})
				}
				return true
			})
		}
	})
}
