package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// ask sends a request to the demo's API, and reads the answer into v, if that is not nil.
func ask(t *testing.T, method, address string, header http.Header, body, v any) int {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	maps.Copy(r.Header, header)
	r.Host = header.Get("Host")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && v != nil && resp.StatusCode < http.StatusMultipleChoices {
		err = json.Unmarshal(answer, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	return resp.StatusCode
}

// TestThisMachineMayActAtTheDemo without a token, but no page of a browser may in its place; and when the demo ends, so does its API.
func TestThisMachineMayActAtTheDemo(t *testing.T) {
	var out transcript
	c := small(&out)
	c.Duration, c.API = time.Minute, "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { _, err := Run(ctx, c); return err })
	at := out.waitFor(t, `the API is at (\S+):`)
	base := "http://" + at + "/v1/"
	open := apiv1.OpenRequest{Caller: apiv1.Caller{Kind: "key", ID: "noisy-1"}, Until: time.Now().Add(time.Minute), Reason: "a test"}
	for name, header := range map[string]http.Header{"a rebound name": {"Host": {"evil.example"}}, "another site": {"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}} {
		if status := ask(t, http.MethodPost, base+"open", header, open, nil); status != http.StatusMisdirectedRequest && status != http.StatusForbidden {
			t.Errorf("%s: got %d, want it refused", name, status)
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	wait := func(what string, done func() bool) {
		for !done() {
			if time.Now().After(deadline) {
				t.Fatalf("not %s within 30 s", what)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	var answer apiv1.ActionAnswer
	wait("opened", func() bool {
		status := ask(t, http.MethodPost, base+"open", nil, open, &answer)
		return status == http.StatusOK || status == http.StatusAccepted
	})
	explain := base + "explain?caller=" + url.QueryEscape("key:noisy-1")
	var e apiv1.Explanation
	wait("explained as opened", func() bool {
		return ask(t, http.MethodGet, explain, nil, nil, &e) == http.StatusOK && e.Verdict == apiv1.OpenedByHand
	})
	undo := apiv1.UndoRequest{ID: answer.Action.ID, Reason: "enough"}
	if status := ask(t, http.MethodPost, base+"undo", nil, undo, nil); status != http.StatusOK && status != http.StatusAccepted {
		t.Errorf("undo: got %d", status)
	}
	wait("explained as it was, and counted", func() bool {
		return ask(t, http.MethodGet, explain, nil, nil, &e) == http.StatusOK && e.Verdict != apiv1.OpenedByHand && len(e.Rules) > 0 && e.Rules[0].Count > 0
	})
	stop()
	if err := g.Wait(); err != nil {
		t.Errorf("got %v, want what it could show until then", err)
	}
	if l, err := net.Listen("tcp", at); err != nil {
		t.Errorf("after the demo: %v, want its address free", err)
	} else {
		_ = l.Close()
	}
}

// TestTheDemoListensOnLoopbackAlone, since every program that reaches it may do everything; and an address that is taken is an error.
func TestTheDemoListensOnLoopbackAlone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for address, want := range map[string]error{"": nil, "0.0.0.0:0": api.ErrExposed, ":0": nil, "192.0.2.1:9096": api.ErrExposed, "127.0.0.1": nil, taken.Addr().String(): nil} {
		d := &installation{config: Config{API: address, Logger: slog.New(slog.DiscardHandler)}}
		err := d.openAPI()
		if (err == nil) != (address == "") || want != nil && !errors.Is(err, want) || d.api != nil {
			t.Errorf("%q: got %v, %s, want %v", address, err, fmt.Sprint(d.api), want)
		}
	}
}

// TestTheDemoSaysThatItHasNoMoreLinks: a session is never forgotten, so a demo has so many.
func TestTheDemoSaysThatItHasNoMoreLinks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var out bytes.Buffer
	s := &apiServer{listener: l, links: new(api.Links)}
	s.invite(newView(&out, false))
	for range 64 {
		if strings.Contains(out.String(), "no more") {
			t.Fatalf("got\n%s, want 64 links first", out.String())
		}
		s.links.Opened()
	}
	if n := strings.Count(out.String(), "#token=once."); n != 64 || !strings.Contains(out.String(), "there are no more: start the demo again") {
		t.Errorf("got %d links in\n%s, want 64, and that there are no more", n, out.String())
	}
}

// TestTheDashboardOfTheDemo opens by a link that works once. Without its session nobody may do anything, on this machine neither. When the
// link was used, there is another one.
func TestTheDashboardOfTheDemo(t *testing.T) {
	testenv.Long(t)
	for _, withAPI := range []bool{false, true} {
		var out transcript
		c := small(&out)
		c.Duration, c.Dashboard, c.JSON = time.Minute, true, withAPI // as text, and as JSON
		if withAPI {
			c.API = "127.0.0.1:0"
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var g errgroup.Group
		g.Go(func() error { _, err := Run(ctx, c); return err })
		first := out.waitFor(t, `(http://127\.0\.0\.1:\d+/ui/#token=once\.[\w-]{43})`)
		base, once, _ := strings.Cut(first, "ui/#token=")
		resp, err := http.Get(base + "ui/")
		if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			t.Fatalf("the page: got %v and %v, want it for everybody", resp, err)
		}
		_ = resp.Body.Close()
		var session struct{ Token string }
		if status := ask(t, http.MethodPost, base+"ui/session", nil, map[string]string{"token": once}, &session); status != http.StatusOK || session.Token == "" {
			t.Fatalf("the link: got %d and %+v, want a session", status, session)
		}
		if status := ask(t, http.MethodPost, base+"ui/session", nil, map[string]string{"token": once}, nil); status != http.StatusUnauthorized {
			t.Errorf("the link again: got %d, want 401", status)
		}
		if second := out.waitFor(t, `(?s)once\..*(http://127\.0\.0\.1:\d+/ui/#token=once\.[\w-]{43})`); second == first {
			t.Errorf("got %s again, want another link", second)
		}
		header := http.Header{"Authorization": {"Bearer " + session.Token}}
		var status apiv1.Status
		for deadline := time.Now().Add(30 * time.Second); ask(t, http.MethodGet, base+"v1/status", header, nil, &status) != http.StatusOK; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no status within 30 s")
			}
		}
		if status.Role != "admin" || status.Who != "dashboard" || status.Tokens == withAPI {
			t.Errorf("got %+v, want a session that may do everything", status)
		}
		want := http.StatusUnauthorized
		if withAPI { // which lets this machine do everything
			want = http.StatusOK
		}
		if got := ask(t, http.MethodGet, base+"v1/status", nil, nil, nil); got != want {
			t.Errorf("API %q, without a token: got %d, want %d", c.API, got, want)
		}
		out.waitFor(t, `(admitted)`)
		stop()
		if err := g.Wait(); err != nil {
			t.Errorf("got %v, want what it could show until then", err)
		}
	}
}
