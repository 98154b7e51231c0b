package api

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio/secure/securetest"
)

// TestAnalyzersThatShareACertificateRenewItTogether: they ask each other before and after, without another start. The new
// certificate is of another authority, as one that signs itself is.
func TestAnalyzersThatShareACertificateRenewItTogether(t *testing.T) {
	w := newWorld(t)
	cert, key := securetest.New(t).Issue("floodgate")
	next, nextKey := securetest.New(t).Issue("floodgate")
	path, toks := tokens(t, "anna:read")
	secure := func(c *Config) {
		clustered(c)
		c.TokenFile, c.CertFile, c.KeyFile = path, cert, key
	}
	one, two := w.node(w.analyzer(0, 1), secure), w.node(w.analyzer(2, 3), secure)
	for p, n := range []*node{one, one, two, two} {
		w.board.beat(p, n.host())
	}
	before := client.Transport
	defer func() { client.Transport = before }()
	// This client trusts all: the test looks at what analyzers trust.
	client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	one.token = toks[0]
	one.get("/v1/caller?caller="+w.caller(3).String()).want(t, http.StatusOK, "")

	for to, from := range map[string]string{cert: next, key: nextKey} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := tls.LoadX509KeyPair(next, nextKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{one, two} { // each reads the files at most once a second
		n.server.tls.mu.Lock()
		n.server.tls.checked = time.Time{}
		n.server.tls.mu.Unlock()
	}
	deadline := time.Now().Add(30 * time.Second)
	for last := error(nil); ; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(last)
		}
		if renewed := bytes.Equal(two.server.tls.current().Certificate[0], want.Certificate[0]); !renewed {
			last = fmt.Errorf("got the certificate before at the other analyzer, want the new one")
			continue
		}
		one.server.peers.CloseIdleConnections()
		a := one.get("/v1/caller?caller=" + w.caller(3).String())
		if a.status == http.StatusOK {
			return
		}
		last = fmt.Errorf("got %d %s, want the answer of an analyzer with a new certificate", a.status, a.body)
	}
}
