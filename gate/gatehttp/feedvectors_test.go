package gatehttp

import (
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/feed"
)

// feedStep is a step of testdata/feed. schemas/FEED.md describes it.
type feedStep struct {
	Now     json.Number
	Connect bool
	Lines   []string
	Ask     [][]string
	Want    *feedAnswer
}

type feedAnswer struct {
	Closed, Shadow, Stale bool
	Rule                  string
	RetryAfter            int `json:"retry_after"`
	Ratelimit             string
	RatelimitPolicy       string `json:"ratelimit_policy"`
}

// TestFeedVectors: what a server answers that is told the lines of testdata/feed, with all fields. Gates in other languages answer the
// same; package gate/feedlink tells these stories to a Link.
func TestFeedVectors(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/feed/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %v and %v, want vectors", paths, err)
	}
	policies := map[string]gate.Policy{"hold": gate.Hold, "open": gate.Open, "closed": gate.Closed}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var story struct {
				Policy string
				Steps  []feedStep
			}
			if err := json.Unmarshal(text, &story); err != nil {
				t.Fatal(err)
			}
			policy, ok := policies[story.Policy]
			if !ok {
				t.Fatalf("policy: got %q", story.Policy)
			}
			r := feedReader{set: gate.New(gate.Options{Stale: policy, Logger: slog.New(slog.DiscardHandler)})}
			for i, step := range story.Steps {
				r.step(t, i+1, &step)
			}
		})
	}
}

// feedReader tells a Set what a feed sends.
type feedReader struct {
	set        *gate.Set
	understood bool // the version of the feed
	repeats    bool // the start did not resume
}

func (r *feedReader) step(t *testing.T, n int, step *feedStep) {
	t.Helper()
	seconds, err := step.Now.Float64()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, int64(seconds*1000)*1e6)
	if step.Connect {
		r.understood = false
	}
	for _, line := range step.Lines {
		if l, err := feed.Parse([]byte(line)); err == nil {
			r.take(&l, now)
		}
	}
	if step.Want != nil {
		if got := r.ask(t, step.Ask, now); !reflect.DeepEqual(got, *step.Want) {
			t.Errorf("step %d: got %+v, want %+v", n, got, *step.Want)
		}
	}
}

func (r *feedReader) take(l *feed.Line, now time.Time) {
	switch {
	case l.Type == feed.Start:
		if r.understood = l.Version == feed.Version; r.understood && !l.Resumed {
			r.repeats = true
			r.set.RepeatBegins()
		}
	case !r.understood:
	case l.Type == feed.Decision:
		l.Decision.Share = nil // not asked for
		r.set.ApplyAt(now, []schemas.Decision{l.Decision})
	case l.Type == feed.Current && r.repeats:
		r.repeats = false
		r.set.RepeatEnds(now)
	case l.Type == feed.Heartbeat:
		r.set.Partitions(len(l.Partitions))
		for i, p := range l.Partitions {
			if p.State != gate.Cold.String() {
				r.set.Heartbeat(schemas.Heartbeat{Partition: int32(i)}, now.Add(-p.Age))
			}
		}
	}
}

// ask returns what the middleware of package gatehttp answers.
func (r *feedReader) ask(t *testing.T, ask [][]string, now time.Time) (a feedAnswer) {
	t.Helper()
	var callers gate.Callers
	for _, caller := range ask {
		id := caller[1]
		if len(caller) > 2 {
			raw, err := base64.StdEncoding.DecodeString(id)
			if err != nil {
				t.Fatal(err)
			}
			id = string(raw)
		}
		callers.Add(r.set.Gate(caller[0]), id)
	}
	v := r.set.CheckAt(&callers, now)
	a.Closed, a.Shadow, a.Stale = v.Closed, v.Shadow && !v.Closed, v.Stale
	if v.Closed {
		w := httptest.NewRecorder()
		setFields(w.Header(), v)
		a.Rule, a.Ratelimit, a.RatelimitPolicy = v.Rule, w.Header().Get("RateLimit"), w.Header().Get("RateLimit-Policy")
		a.RetryAfter, _ = strconv.Atoi(w.Header().Get("Retry-After"))
	}
	return a
}
