package bouncer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

func request(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Header.Set("X-Api-Key", "a")
	return r
}

// TestWithoutAKeyNothingIsTold, nor with one of another server.
func TestWithoutAKeyNothingIsTold(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("r", "192.0.2.7", 0, 60)
		for name, key := range map[string][]string{
			"none": nil, "empty": {""}, "wrong": {"c"}, "longer": {"aa"}, "two": {"a", "a"}, "the sum of one": {"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"}, "long": {strings.Repeat("a", 1<<14)},
		} {
			for _, path := range []string{"/v1/decisions/stream?startup=true", "/v1/decisions/stream", "/v1/decisions?ip=192.0.2.7"} {
				r := request(path)
				r.Header["X-Api-Key"] = key
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, r)
				if rec.Code != http.StatusForbidden || rec.Body.String() != `{"message":"access forbidden"}` {
					t.Errorf("%s: %s: got %d %s", name, path, rec.Code, rec.Body)
				}
			}
		}
		if n := w.Stats().Errors["forbidden"]; n != 21 {
			t.Errorf("got %d refused, want 21", n)
		}
	})
}

// TestRoutes: statuses and bodies as CrowdSec's clients expect them.
func TestRoutes(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		for _, test := range []struct {
			method, path string
			status       int
			body         string // all of it, or what it contains if it ends in *
		}{
			{"GET", "/v1/decisions/stream?startup=true", 200, `{"deleted":null,"new":null}`},
			{"HEAD", "/v1/decisions/stream", 200, ""},
			{"HEAD", "/v1/decisions", 200, ""},
			{"GET", "/v1/decisions", 200, "null"},
			{"POST", "/v1/usage-metrics", 201, ""},
			{"GET", "/health", 200, `{"status":"up"}`},
			{"GET", "/v1/usage-metrics", 405, `{"message":"method not allowed: want POST"}`},
			{"DELETE", "/v1/decisions", 405, `{"message":"method not allowed: want GET"}`},
			{"POST", "/v1/decisions/stream", 405, `{"message":"method not allowed: want GET"}`},
			{"POST", "/v1/watchers/login", 404, `{"message":"no such path*`},
			{"GET", "/", 404, `{"message":"no such path*`},
			{"GET", "//v1/decisions", 404, `{"message":"no such path*`},
			{"GET", "/v1/decisions?ip=localhost", 400, `{"message":"bad query: ip: got \"localhost\", want an address such as 203.0.113.9"}`},
			{"GET", "/v1/decisions?ip=fe80::1%25eth0", 400, `{"message":"bad query: ip: got *`},
			{"GET", "/v1/decisions?ip=" + strings.Repeat("9", 8000), 400, `{"message":"bad query: ip: got *`},
			{"GET", "/v1/decisions?range=192.0.2.0", 400, `{"message":"bad query: range: got *`},
			{"GET", "/v1/decisions?range=::ffff:192.0.2.0/120", 400, `{"message":"bad query: range: got *`},
			{"GET", "/v1/decisions?ip=192.0.2.7&range=192.0.2.0/24", 400, `{"message":"bad query: got ip and range*`},
			{"GET", "/v1/decisions?contains=maybe", 400, `{"message":"bad query: contains: got *`},
			{"GET", "/v1/decisions?a;b", 400, `{"message":"bad query: *`},
			{"GET", "/v1/decisions/stream?startup=yes", 400, `{"message":"bad query: startup: got \"yes\", want true or false"}`},
			{"GET", "/v1/decisions?ip=192.0.2.7&value=%00", 200, "null"},
		} {
			status, body := w.ask(test.method, test.path)
			prefix, isPrefix := strings.CutSuffix(test.body, "*")
			if status != test.status || body != test.body && (!isPrefix || !strings.HasPrefix(body, prefix)) {
				t.Errorf("%s %.60s: got %d %s, want %d %s", test.method, test.path, status, body, test.status, test.body)
			}
			if body != "" && !json.Valid([]byte(body)) {
				t.Errorf("%s %s: got %q, want JSON", test.method, test.path, body)
			}
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/usage-metrics", strings.NewReader(strings.Repeat("x", maxUsageBytes+1)))
		r.Header.Set("X-Api-Key", "b")
		rec := httptest.NewRecorder()
		if w.ServeHTTP(rec, r); rec.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("a long report: got %d, want 413", rec.Code)
		}
		if s := w.Stats(); s.Errors["query"] != 9 || s.Errors["other"] != 7 || s.Requests["other"].Count != 3 || s.Requests["health"].Count != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestHeadTakesNothingAway: a bouncer that only looks whether its key is good has missed nothing.
func TestHeadTakesNothingAway(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.start()
		w.decide("r", "192.0.2.7", 0, 60)
		if status, body := w.ask(http.MethodHead, "/v1/decisions/stream"); status != http.StatusOK || body != "" {
			t.Errorf("got %d %q, want 200 and nothing", status, body)
		}
		check(t, "then", w.poll(), "+192.0.2.7 1m0s")
	})
}

// TestLookups asks about one address, or several, as bouncers do that keep no set.
func TestLookups(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("login-flood", "192.0.2.7", 0, 60)
		w.decide("api-flood", "192.0.2.7", 0, 90)
		w.decide("api-flood", "2001:db8:1:2::", 0, 60)
		w.decide("api-flood", "2001:db8:1:2::9", 0, 80)
		w.decide("login-flood", "192.0.2.8", 0, 5)
		w.decide("login-flood", "192.0.2.9", 0, 60, func(d *schemas.Decision) { d.Mode = schemas.ModeShadow })
		w.decide("login-flood", "192.0.2.10", 3600, 7200) // it was never closed yet
		const four, six, nine = "192.0.2.7 1m30s", "2001:db8:1:2::/64 1m0s", "2001:db8:1:2::9 1m20s"
		for query, want := range map[string][]string{
			"ip=192.0.2.7":                                      {four},
			"ip=::ffff:192.0.2.7":                               {four},
			"ip=192.0.2.7&scenarios_containing=LOGIN":           {"192.0.2.7 1m0s"},
			"ip=192.0.2.7&scenarios_not_containing=api,login":   nil,
			"ip=192.0.2.7&scope=Range":                          nil,
			"ip=192.0.2.7&type=captcha":                         nil,
			"ip=192.0.2.7&type=ban&scope=ip&origins=floodgate":  {four},
			"ip=192.0.2.7&origins=cscli":                        nil,
			"ip=192.0.2.6":                                      nil,
			"ip=192.0.2.8":                                      nil,
			"ip=192.0.2.9":                                      nil,
			"ip=2001:db8:1:2:3::4":                              {six},
			"ip=2001:db8:1:2::9":                                {six, nine},
			"range=2001:db8:1:2::/64":                           {six},
			"range=2001:db8:1:2::/80":                           {six},
			"range=2001:db8:1:2::/48":                           nil,
			"range=2001:db8::/32&contains=false":                {six, nine},
			"range=192.0.2.0/24&contains=false":                 {four},
			"range=192.0.2.7/32":                                {four},
			"value=192.0.2.7":                                   {four},
			"value=2001:db8:1:2::/64":                           {six},
			"value=2001:db8:1:2::":                              nil,
			"value=2001:db8:1:2::9":                             {nine},
			"value=192.0.2.7&range=192.0.2.0/24":                nil,
			"value=192.0.2.7&range=192.0.2.0/24&contains=false": {four},
			"value=192.0.2.7&range=192.0.2.0/30&contains=false": nil,
			"value=somebody":                                    nil,
			"scope=Country":                                     nil,
			"scope=range":                                       {six},
			"type=ban":                                          {four, six, nine},
			"":                                                  {four, six, nine},
			"scenarios_containing=login":                        {"192.0.2.7 1m0s"},
		} {
			status, body := w.ask(http.MethodGet, "/v1/decisions?"+query)
			var list []decision
			if err := json.Unmarshal([]byte(body), &list); status != http.StatusOK || err != nil || strings.Contains(body, "[]") {
				t.Fatalf("%s: got %d %s and %v", query, status, body, err)
			}
			for i := range want {
				want[i] = "+" + want[i]
			}
			check(t, query, stream{New: list}.String(), strings.Join(want, ", "))
		}
	})
}

// TestFiltersOfTheStream: each bouncer has its own, and its deltas follow them. A rule that is filtered out hides no other.
func TestFiltersOfTheStream(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("login-flood", "192.0.2.7", 0, 60)
		w.decide("api-flood", "192.0.2.7", 0, 90)
		w.decide("api-flood", "2001:db8::", 0, 90)
		for query, want := range map[string]string{
			"scopes=ip":                         "+192.0.2.7 1m30s",
			"scopes=Range":                      "+2001:db8::/64 1m30s",
			"scopes=country,as":                 "",
			"origins=cscli,CAPI":                "",
			"origins=cscli,floodgate&scopes=ip": "+192.0.2.7 1m30s",
			"scenarios_containing=login,ssh":    "+192.0.2.7 1m0s",
			"scenarios_not_containing=api":      "+192.0.2.7 1m0s",
			"scenarios_containing=flood&scenarios_not_containing=login": "+192.0.2.7 1m30s, +2001:db8::/64 1m30s",
		} {
			check(t, query, w.get("startup=true&"+query).String(), want)
			check(t, query+", polled", w.get(query).String(), "")
		}
		w.decide("api-flood", "192.0.2.7", 0, 0)
		check(t, "without a filter that was never asked for before", w.poll(), "+192.0.2.7 1m0s, +2001:db8::/64 1m30s")
		check(t, "of login", w.get("scenarios_containing=ssh,login").String(), "")
		check(t, "of api", w.get("scenarios_containing=flood&scenarios_not_containing=login").String(), "-192.0.2.7")
		check(t, "of addresses", w.get("scopes=ip").String(), "+192.0.2.7 1m0s")
	})
}

// TestFiltersAreBounded: whoever has a key and changes its filter all the time displaces other filters, whose bouncers then get
// everything once more, and not more.
func TestFiltersAreBounded(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("login", "192.0.2.7", 0, 600)
		w.start()
		w.get("startup=true&scenarios_containing=login")
		for i := range 100 {
			time.Sleep(time.Millisecond)
			check(t, "another one", w.get(fmt.Sprint("startup=true&scenarios_not_containing=x", i)).String(), "+192.0.2.7 10m0s")
		}
		if n := w.Stats().Views; n != maxViews {
			t.Errorf("got %d views, want %d", n, maxViews)
		}
		check(t, "without a filter", w.poll(), "")
		check(t, "displaced", w.get("scenarios_containing=login").String(), "+192.0.2.7 10m0s")
	})
}

// TestNoAnswerIsKeptByACache: a proxy before the listener would give a delta that was one bouncer's to another one, also to one without a key.
func TestNoAnswerIsKeptByACache(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		for _, path := range []string{"/v1/decisions/stream?startup=true", "/v1/decisions/stream", "/v1/decisions", "/v1/decisions?ip=x", "/health", "/"} {
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, request(path))
			if got := rec.Header(); got.Get("Cache-Control") != "no-store" || got.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: got %d with %v, want no-store and nosniff", path, rec.Code, got)
			}
		}
	})
}

// TestMoreFiltersThanViews: bouncers that have a filter each take turns, and displace each other at every poll. Each of them gets what is
// closed all the same.
func TestMoreFiltersThanViews(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("login", "192.0.2.7", 0, 600)
		for range 3 {
			for i := range maxViews {
				w.beat()
				check(t, fmt.Sprint("filter ", i), w.get(fmt.Sprint("scenarios_not_containing=x", i)).String(), "+192.0.2.7 10m0s")
				time.Sleep(time.Millisecond)
			}
		}
	})
}

// TestViewsThatAreBeingFilledStay: whoever changes its filter faster than views are filled waits. Without that, each of its views would take
// memory until it is filled, and nothing bounds how many these are.
func TestViewsThatAreBeingFilledStay(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("login", "192.0.2.7", 0, 600)
		w.start()
		filled := make(chan struct{})
		for i := range maxViews - 1 {
			v := w.newView(ruleFilter{without: []string{fmt.Sprint("x", i)}})
			v.filled = filled
			w.views[v.rules.key()] = v
		}
		begun := time.Now()
		check(t, "a delta", w.get("scenarios_containing=login").String(), "")
		if took := time.Since(begun); took != deltaWait {
			t.Errorf("got an empty delta after %v, want it after %v", took, deltaWait)
		}
		if status, _ := w.ask(http.MethodGet, "/v1/decisions/stream?startup=true&scenarios_containing=login"); status != http.StatusServiceUnavailable {
			t.Errorf("got status %d at the start, want 503", status)
		}
		w.beat()
		check(t, "without a filter nobody waits", w.poll(), "")
		if n := w.Stats().Views; n != maxViews {
			t.Errorf("got %d views, want %d", n, maxViews)
		}
		time.AfterFunc(time.Second, func() { close(filled) })
		check(t, "when one is filled", w.get("scenarios_containing=login").String(), "+192.0.2.7 9m44s")
		if n := w.Stats().Views; n != maxViews {
			t.Errorf("got %d views, want %d", n, maxViews)
		}
	})
}

// TestInstancesAreBounded (crowdsec 2683): rotating names exhaust no memory.
func TestInstancesAreBounded(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("r", "192.0.2.7", 0, 600)
		for i := range maxInstances + 100 {
			w.agent = fmt.Sprint("agent/", i)
			w.start()
			time.Sleep(time.Millisecond)
		}
		w.beat()
		if n := w.Stats().Instances; n != maxInstances {
			t.Errorf("got %d instances, want %d", n, maxInstances)
		}
		check(t, "the newest", w.poll(), "")
		w.agent = "agent/0"
		check(t, "the first", w.poll(), "+192.0.2.7 9m56s")
	})
}

// TestASidecarInShadowGivesNothing: its gates refuse nobody.
func TestASidecarInShadowGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Options{Shadow: true})
		w.decide("r", "192.0.2.7", 0, 60)
		check(t, "started", w.start(), "")
		check(t, "filtered", w.get("startup=true&scenarios_containing=r").String(), "")
		if _, body := w.ask(http.MethodGet, "/v1/decisions?ip=192.0.2.7"); body != "null" {
			t.Errorf("got %s, want null", body)
		}
		if s := w.Stats(); s.LeftOut["shadow"] != 1 {
			t.Errorf("got left out %v, want it as shadow", s.LeftOut)
		}
	})
}

// TestPrefixesAreThoseOfTheCallers: the network that is one client is the one that is closed.
func TestPrefixesAreThoseOfTheCallers(t *testing.T) {
	for bits, want := range map[int]string{48: "+2001:db8:1:2:: 1m0s, +2001:db8:1::/48 1m0s", 128: "+2001:db8:1:2:: 1m0s, +2001:db8:1:: 1m0s"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, Options{IDs: schemas.IDs{IPv6Prefix: bits}})
			w.decide("r", "2001:db8:1::", 0, 60)
			w.decide("r", "2001:db8:1:2::", 0, 60)
			check(t, fmt.Sprint(bits), w.start(), want)
		})
	}
}

// FuzzQuery: no query breaks anything, each has an answer in JSON, and no delta fails but by a bad query.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"startup=true&scopes=ip,range", "ip=192.0.2.7", "range=::/0&contains=false", "value=2001:db8::/64&scope=Range", "scenarios_containing=,,a,&origins=%00", "a;b", "ip=%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := parseLookup(query)
		if err == nil && q.within.IsValid() && q.within != q.within.Masked() {
			t.Errorf("%q: got %v, want a network", query, q.within)
		}
		_ = q.rules.pass(query)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, Options{})
			w.decide("r", "192.0.2.7", 0, 60)
			w.decide("r", "2001:db8::", 0, 60)
			for _, path := range []string{"/v1/decisions", "/v1/decisions/stream"} {
				r := request(path)
				r.URL.RawQuery = query
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, r)
				if rec.Code != http.StatusOK && rec.Code != http.StatusBadRequest || !json.Valid(rec.Body.Bytes()) {
					t.Errorf("%s?%s: got %d %s", path, query, rec.Code, rec.Body)
				}
			}
		})
	})
}
