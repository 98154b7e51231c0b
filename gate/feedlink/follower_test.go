package feedlink

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/feed"
)

// script is a source whose feeds a test writes.
type script struct {
	*source
	feeds chan *io.PipeReader
}

// Follow implements kafkalink.Source.
func (s *script) Follow(ctx context.Context, h kafkalink.Handler, note func(error)) {
	f := &follower{source: s.source, handler: h, note: note}
	for r := range s.feeds {
		note(f.read(r, func() {}))
		r.Close()
	}
	<-ctx.Done()
}

// told is a Set that a Link tells what a test writes.
type told struct {
	t    *testing.T
	set  *gate.Set
	link *kafkalink.Link
	feed *io.PipeWriter // nil: none yet
	s    *script
}

func newTold(t *testing.T, policy gate.Policy) *told {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	set := gate.New(gate.Options{Stale: policy, Logger: quiet})
	s := &script{&source{set: set}, make(chan *io.PipeReader)}
	link, err := kafkalink.Open(set, record.New(record.Options{}), kafkalink.Config{Source: s, Canary: -1, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return &told{t: t, set: set, link: link, s: s}
}

// Close implements kafkalink.Source.
func (s *script) Close() {}

func (g *told) connect() {
	if g.feed != nil {
		g.feed.Close()
	}
	r, w := io.Pipe()
	g.s.feeds <- r
	g.feed = w
}

// tell writes lines. A follower that has hung up hears none.
func (g *told) tell(lines ...string) {
	for _, line := range lines {
		_, _ = io.WriteString(g.feed, line+"\n")
	}
	synctest.Wait()
}

func (g *told) close() {
	if g.feed != nil {
		g.feed.Close()
	}
	close(g.s.feeds)
	g.link.Close()
}

// TestFeedVectors: a feed link answers as each gate in another language must.
func TestFeedVectors(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/feed/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %v and %v, want vectors", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { tell(t, text) })
		})
	}
}

// step is a step of testdata/feed. schemas/FEED.md describes it.
type step struct {
	Now     float64
	Connect bool
	Lines   []string
	Ask     [][]string
	Want    *verdict
}

// verdict is what of an answer is the Set's. Package gatehttp tests the header fields.
type verdict struct {
	Closed, Shadow, Stale bool
	Rule                  string
	RetryAfter            int `json:"retry_after"`
}

// tell tells one story.
func tell(t *testing.T, text []byte) {
	t.Helper()
	var story struct {
		Policy string
		Steps  []step
	}
	if err := json.Unmarshal(text, &story); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(unix(story.Steps[0].Now)))
	g := newTold(t, map[string]gate.Policy{"hold": gate.Hold, "open": gate.Open, "closed": gate.Closed}[story.Policy])
	defer g.close()
	for i, s := range story.Steps {
		<-time.After(time.Until(unix(s.Now)))
		if s.Connect {
			g.connect()
		}
		g.tell(s.Lines...)
		if s.Want == nil {
			continue
		}
		var callers gate.Callers
		for _, c := range s.Ask {
			id := []byte(c[1])
			if len(c) > 2 {
				id, _ = base64.StdEncoding.DecodeString(c[1])
			}
			callers.Add(g.set.Gate(c[0]), string(id))
		}
		v := g.set.CheckAt(&callers, unix(s.Now)) // a story may go back in time
		got := verdict{Closed: v.Closed, Shadow: v.Shadow && !v.Closed, Stale: v.Stale}
		if v.Closed {
			got.Rule, got.RetryAfter = v.Rule, max(1, int((v.RetryAfter+time.Second-1)/time.Second))
		}
		if got != *s.Want {
			t.Errorf("step %d: got %+v, want %+v", i+1, got, *s.Want)
		}
	}
}

func unix(seconds float64) time.Time { return time.Unix(0, int64(seconds*1000)*1e6) }

// TestWhatIsNoFeed is given up, and what is no line in a feed is counted and passed over.
func TestWhatIsNoFeed(t *testing.T) {
	long := feed.MaxLine(maxPartitions) + 128<<10
	for _, test := range []struct {
		name, text string
		want       error
		refused    uint64
	}{
		{"nothing", "", io.EOF, 0},
		{"a page", "<html>\n</html>\n", errNoFeed, 0},
		{"a later version", `{"type":"start","version":2}` + "\n", errNoFeed, 0},
		{"no start", `{"type":"heartbeat","at":1}` + "\n", errNoFeed, 0},
		{"a line without end", `{"type":"start","version":1}` + "\n" + strings.Repeat("x", long), errLong, 0},
		{"a long line", `{"type":"start","version":1}` + "\n" + strings.Repeat(" ", 300<<10) + `{"type":"later"}` + "\n", io.EOF, 0},
		{"lines that are none", `{"type":"start","version":1}` + "\n\n{\n" + `{"type":"decision"}` + "\n", io.EOF, 3},
		{"what a later version adds", `{"type":"start","version":1,"a":1}` + "\n" + `{"type":"more"}` + "\n", io.EOF, 0},
	} {
		h := &counting{}
		f := &follower{source: &source{set: gate.New(gate.Options{})}, handler: h, note: func(error) {}}
		if err := f.read(strings.NewReader(test.text), func() {}); !errors.Is(err, test.want) || h.refused != test.refused {
			t.Errorf("%s: got %v and %d refused, want %v and %d", test.name, err, h.refused, test.want, test.refused)
		}
	}
}

// counting is a Handler that counts.
type counting struct{ partitions, decisions, heartbeats, caughtUp, refused uint64 }

func (c *counting) Partitions(int) { c.partitions++ }
func (c *counting) Decisions(_ int, ds []schemas.Decision, _ time.Time) {
	c.decisions += uint64(len(ds))
}
func (c *counting) Heartbeat(*schemas.Heartbeat, time.Time) { c.heartbeats++ }
func (c *counting) CaughtUp(int)                            { c.caughtUp++ }
func (c *counting) Refused(_ int, _ string, n uint64)       { c.refused += n }
func (c *counting) Restarted(int)                           {}

// FuzzFollower: whatever a feed says, the Set stays in order, and no heartbeat names a partition that was not announced.
func FuzzFollower(f *testing.F) {
	start := `{"type":"start","version":1}` + "\n"
	f.Add([]byte(start + `{"type":"decision","kind":"key","id":"a","mode":"enforce","spans":[{"from":1,"until":4000000000}],"cursor":"1"}` + "\n" + `{"type":"current","cursor":"2"}` + "\n"))
	f.Add([]byte(start + `{"type":"heartbeat","at":1,"partitions":[{"state":"fresh","epoch":1,"age":9223372036},{"state":"cold"}]}` + "\n" + start + `{"type":"current"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		set := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)})
		fo := &follower{source: &source{set: set}, handler: applying{set}, note: func(error) {}}
		if err := fo.read(bytes.NewReader(text), func() {}); err == nil {
			t.Fatal("got no error at the end of a feed")
		}
		for _, p := range set.Status().Partitions {
			_ = p.Freshness.String()
		}
		set.Tick(time.Now())
	})
}

// applying is a Handler that applies to a Set.
type applying struct{ set *gate.Set }

func (a applying) Partitions(n int)                                    { a.set.Partitions(n) }
func (a applying) Decisions(_ int, ds []schemas.Decision, _ time.Time) { a.set.Apply(ds) }
func (a applying) Heartbeat(h *schemas.Heartbeat, now time.Time)       { a.set.Heartbeat(*h, now) }
func (a applying) CaughtUp(int)                                        {}
func (a applying) Refused(int, string, uint64)                         {}
func (a applying) Restarted(int)                                       {}
