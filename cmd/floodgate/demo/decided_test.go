package demo

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestAPersonMayActInTheDemo: a person who tries the walk of OPERATING.md closes a quiet caller and resets another one. The demo then closes no
// innocent, and its audit is exact: it says which caller it leaves out.
func TestAPersonMayActInTheDemo(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	out := &transcript{}
	c := small(out)
	c.Duration, c.API = 4*time.Second, "127.0.0.1:0"
	var sum *Summary
	var g errgroup.Group
	g.Go(func() (err error) { sum, err = Run(t.Context(), c); return err })
	url := "http://" + out.waitFor(t, `the API is at (\S+):`)
	out.waitFor(t, `1s  admitted`)
	in := time.Now().Add(time.Hour)
	for path, body := range map[string]any{
		"/v1/close": apiv1.CloseRequest{Caller: apiv1.Caller{Kind: "key", ID: "quiet-01"}, Until: in, Reason: "r"},
		"/v1/reset": apiv1.ResetRequest{Caller: apiv1.Caller{Kind: "key", ID: "quiet-02"}, Reason: "r"},
		"/v1/limit": apiv1.LimitRequest{Caller: apiv1.Caller{Kind: "key", ID: "quiet-03"}, Rule: keyRule, Limit: 1, Until: in, Reason: "r"},
		"/v1/mode":  apiv1.ModeRequest{Rule: addressRule, Mode: "shadow", Until: in, Reason: "r"},
	} {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(url+path, "application/json", strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d, want 200", path, resp.StatusCode)
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := sum.Verdict(); err != nil || !slices.Equal(sum.Audit.Reset, []string{"key:quiet-02"}) || sum.Innocents != 0 {
		t.Errorf("got %v and %+v, want an exact audit without key:quiet-02", err, sum)
	}
	if !slices.ContainsFunc(sum.Closed, func(c Closed) bool { return c.Caller == "key:quiet-01" && c.Blocked > 0 }) {
		t.Errorf("got %+v closed, want key:quiet-01 among them", sum.Closed)
	}
	var text strings.Builder
	if err := sum.Print(&text, false); err != nil || !strings.Contains(text.String(), "audit: left out, as their counts were reset by hand: key:quiet-02\n") {
		t.Errorf("got %v and\n%s", err, text.String())
	}
}
