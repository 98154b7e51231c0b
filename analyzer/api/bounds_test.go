package api

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/secure/securetest"
)

// TestEachNumberHasBounds: of pages, partitions and shares, in the forms that a person or a program may write.
func TestEachNumberHasBounds(t *testing.T) {
	w := newWorld(t)
	n, _ := w.listed(nil)
	for _, list := range []string{"/v1/callers", "/v1/decisions", "/v1/actions"} {
		for text, want := range map[string]int{
			"1": 200, "1000": 200, "0001": 200, "0": 400, "-1": 400, "1001": 400, "9223372036854775807": 400, "9223372036854775808": 400, "1e3": 400, "0x10": 400, "1.0": 400, " 1": 400,
			"1 ": 400, "": 400, "1,000": 400, "١": 400, "NaN": 400, "1_0": 400,
		} {
			a := n.get(list + "?limit=" + url.QueryEscape(text))
			if a.status != want {
				t.Errorf("%s: limit %q: got %d %s, want %d", list, text, a.status, a.body, want)
			}
			if p := a.problem(t); want == 400 && (p.Pointer != "limit" || p.Want != "a number from 1 to 1000") {
				t.Errorf("%s: limit %q: got %s, want what to write", list, text, a.body)
			}
		}
	}
	for text, want := range map[string]int{"0": 200, "1": 200, "4": 400, "-1": 400, "": 400, "x": 400, "0x1": 400, "99999999999999999999": 400, "1.5": 400} {
		if a := n.get("/v1/callers?partition=" + url.QueryEscape(text)); a.status != want {
			t.Errorf("partition %q: got %d %s, want %d", text, a.status, a.body, want)
		}
	}
	for text, want := range map[string]int{
		"0": 200, "0.8": 200, "1e-3": 200, "1e300": 200, "1e400": 400, "-0.1": 400, "nan": 400, "Inf": 400, "+Inf": 400, "-inf": 400, "": 400, "80%": 400, "0,8": 400,
	} {
		if a := n.get("/v1/callers?min_share=" + url.QueryEscape(text)); a.status != want {
			t.Errorf("min_share %q: got %d %s, want %d", text, a.status, a.body, want)
		}
	}
	many := strings.TrimSuffix(strings.Repeat("partition=1&", 1000), "&")
	n.get("/v1/callers?"+many).want(t, http.StatusOK, `"at":[{"partition":1,`)
}

// TestEachFilterMatchesNothingOrWhatItSays: a filter of any text is never a filter for all.
func TestEachFilterMatchesNothingOrWhatItSays(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	w.board.close(closing("k", 0))
	for _, name := range []string{"rule", "kind", "prefix"} {
		for _, text := range []string{"no", "*", "%", ".*", "' or 1=1", "\x00", "\xff", "key:k", "../..", strings.Repeat("x", 256)} {
			n.get("/v1/decisions?"+name+"="+url.QueryEscape(text)).want(t, http.StatusOK, `"decisions":[]`)
			want, says := http.StatusOK, `"callers":[]`
			if name == "rule" { // of this analyzer's rules; decisions in force may be of older ones
				want, says = http.StatusBadRequest, "one of per-key, per-ip, slow"
			}
			n.get("/v1/callers?"+name+"="+url.QueryEscape(text)).want(t, want, says)
		}
	}
	n.get("/v1/decisions?rule=per-key&kind=key&prefix=k&mode=enforce").want(t, http.StatusOK, `"id":"k"`)
	n.get("/v1/decisions?mode=shadow").want(t, http.StatusOK, `"decisions":[]`)
}

// TestEachFieldOfATrialHasBounds, and a trial of the largest numbers still has an answer.
func TestEachFieldOfATrialHasBounds(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), nil)
	key := callerBody("key", "k")
	var many []any
	for i := range maxTryCallers + 1 {
		many = append(many, callerBody("key", fmt.Sprint(i)))
	}
	for name, c := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"nobody":           {body("callers", []any{}), 422, `"pointer":"/callers"`},
		"as many as may":   {body("callers", many[1:]), 200, ""},
		"one more":         {body("callers", many), 422, "1 to 16"},
		"no id":            {body("callers", []any{callerBody("key", "")}), 422, `"pointer":"/callers/0"`},
		"second is wrong":  {body("callers", []any{key, callerBody("ip", "203.0.113.0/24")}), 422, `"pointer":"/callers/1"`},
		"status 99":        {body("callers", []any{key}, "status", 99), 422, "100 to 599"},
		"status 600":       {body("callers", []any{key}, "status", 600), 422, "100 to 599"},
		"status 65736":     {body("callers", []any{key}, "status", 65736), 422, "100 to 599"}, // 200, if it were cut to 16 bits
		"cost":             {body("callers", []any{key}, "cost", -1), 422, `"pointer":"/cost"`},
		"count":            {body("callers", []any{key}, "count", 10_001), 422, "1 to 10000"},
		"count below":      {body("callers", []any{key}, "count", -1), 422, "1 to 10000"},
		"largest":          {body("callers", []any{key}, "count", 10_000, "cost", maxTryCost, "status", 599), 200, ""},
		"long resource":    {body("callers", []any{key}, "resource", strings.Repeat("x", schemas.MaxResource+1)), 422, `"pointer":"/resource"`},
		"rules of nothing": {body("callers", []any{key}, "rules", "x"), 422, "rules/check"},
		"a fraction":       {body("callers", []any{key}, "count", 1.5), 422, `"pointer":"/count"`},
		"as text":          {body("callers", []any{key}, "count", "1"), 422, `"pointer":"/count"`},
	} {
		if a := n.post("/v1/try", c.body); a.status != c.status || !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s: got %d %s, want %d with %q", name, a.status, a.body, c.status, c.want)
		}
	}
	if w.topic.len() != 0 {
		t.Errorf("got %d records, want none: a trial changes nothing", w.topic.len())
	}
}

// TestACertificateOfAnotherAuthority is none: neither a client's, nor that of an analyzer that is asked.
func TestACertificateOfAnotherAuthority(t *testing.T) {
	w := newWorld(t)
	ca, strange := securetest.New(t), securetest.New(t)
	cert, key := ca.Issue("floodgate")
	otherCert, otherKey := strange.Issue("floodgate")
	path, toks := tokens(t, "anna:read")
	secure := func(cert, key, ca string) func(*Config) {
		return func(c *Config) {
			clustered(c)
			c.TokenFile, c.CertFile, c.KeyFile, c.ClientCAFile = path, cert, key, ca
		}
	}
	good := w.node(w.analyzer(0, 1), secure(cert, key, ca.CA))
	impostor := w.node(w.analyzer(2, 3), secure(otherCert, otherKey, strange.CA))
	for p, n := range []*node{good, good, impostor, impostor} {
		w.board.beat(p, n.host())
	}
	pem, err := os.ReadFile(ca.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for name, c := range map[string]struct {
		cert, key string
		works     bool
	}{"of the authority": {cert, key, true}, "of another": {otherCert, otherKey, false}} {
		mine, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			t.Fatal(err)
		}
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{mine}}}}
		for p, want := range []int{200, 200, 503, 503} { // the impostor owns 2 and 3, as heartbeats say
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, good.url+"/v1/caller?caller="+w.caller(p).String(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+toks[0])
			resp, err := web.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if (err == nil) != c.works || err == nil && resp.StatusCode != want {
				t.Errorf("%s, partition %d: got %v and %v, want %d: %t", name, p, resp, err, want, c.works)
			}
		}
		web.CloseIdleConnections()
	}
}

// TestABackendThatIsAwaySaysWhenToComeAgain, at each route that needs it.
func TestABackendThatIsAwaySaysWhenToComeAgain(t *testing.T) {
	w := newWorld(t)
	n := w.node(nil, acting)
	for _, o := range rightRequests() {
		if n.server.routes[o.path][o.method].standalone {
			continue
		}
		if a := n.do(o.method, o.url(), o.body); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: got %d %v, want 503 and Retry-After: 1", o.path, a.status, a.header)
		}
	}
}
