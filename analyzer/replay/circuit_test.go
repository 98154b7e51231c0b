package replay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// scripted is a Circuit that counts all requests of the first kind, and says what a script says.
type scripted struct {
	fold    *fold.Fold
	events  Events
	answers []Answer
	before  func(n int, events Events) // each request
	fails   error                      // the request after the last answer
	ends    error
	n       int
}

func (s *scripted) Request(line *ingest.Line) (Answer, error) {
	if s.before != nil {
		s.before(s.n, s.events)
	}
	if s.n == len(s.answers) {
		return Answer{}, s.fails
	}
	s.n++
	a := s.answers[s.n-1]
	e := schemas.Entry{Time: line.Time, Kind: "ip", ID: line.IDs[0], Count: 1, Blocked: a.Blocked}
	s.events.Entry(&e)
	s.fold.Entry(&e)
	s.events.Changes(s.fold.TakeChanges())
	return a, nil
}

func (s *scripted) Finish() (*fold.Fold, error) { return s.fold, s.ends }

// runScripted replays a log of one caller's requests, one a second, with a circuit.
func runScripted(t *testing.T, c Config, n int, s *scripted) (Summary, []Close, int, error) {
	t.Helper()
	var log strings.Builder
	for at := range n {
		log.WriteString(jsonLine(float64(at), "192.0.2.1", ""))
	}
	c.Format, c.Lag, c.Inputs = jsonFormat(t), time.Second, text(log.String())
	if c.Rules == nil {
		c.Rules = rule(t, "limit: 3, window: 1m, algorithm: fixed")
	}
	c.Circuit = func(c *Config, events Events) (Circuit, error) {
		s.fold, s.events = fold.New(c.Rules, fold.Options{NoStore: true, MaxRows: c.MaxRows}), events
		return s, nil
	}
	var closes []Close
	entries := 0
	c.OnClose = func(x Close) error {
		closes = append(closes, x)
		return nil
	}
	c.OnEntry = func(*schemas.Entry) { entries++ }
	sum, err := Run(context.Background(), c)
	return sum, closes, entries, err
}

// TestACircuitDecides: the summary is what it answers and what its fold has counted.
func TestACircuitDecides(t *testing.T) {
	blocked, shadowed := Answer{Blocked: true}, Answer{Shadowed: true}
	sum, closes, entries, err := runScripted(t, Config{}, 7, &scripted{answers: []Answer{{}, {}, {}, {}, blocked, shadowed, {Blocked: true, Shadowed: true}}})
	if err != nil || sum.Requests != 7 || sum.Blocked != 2 || sum.ShadowBlocked != 1 || sum.Callers != 1 || entries != 7 {
		t.Errorf("got %v and %+v, %d entries", err, sum, entries)
	}
	if len(closes) != 1 || sum.Closes != 1 || sum.Overshoot != 2./3 || sum.Digest == "" {
		t.Errorf("got closes %+v and %+v, want one, with two requests over", closes, sum)
	}
	if a := sum.Accuracy; a == nil || a.Over != 2 || a.OvershootMean != 0.666666667 || len(a.Mechanisms) != 1 || a.Mechanisms[0] != (Mechanism{Name: "reactive", Closes: 1, Mean: a.OvershootMean}) {
		t.Errorf("got %+v, want one close that followed the count", a)
	}
}

// TestACircuitThatFailsEndsTheRun, whenever it does, and the summary has what was done before.
func TestACircuitThatFailsEndsTheRun(t *testing.T) {
	boom := errors.New("boom")
	sum, _, _, err := runScripted(t, Config{}, 5, &scripted{answers: make([]Answer, 2), fails: boom})
	if !errors.Is(err, boom) || sum.Requests < 2 || sum.Digest == "" {
		t.Errorf("got %v and %+v", err, sum)
	}
	if _, _, _, err := runScripted(t, Config{}, 2, &scripted{answers: make([]Answer, 2), ends: boom}); !errors.Is(err, boom) {
		t.Errorf("got %v at the end", err)
	}
	c := Config{
		Rules: rule(t, "limit: 3, window: 1m"), Format: jsonFormat(t), Inputs: text(""), Lag: 1,
		Circuit: func(*Config, Events) (Circuit, error) { return nil, boom },
	}
	if _, err := Run(context.Background(), c); !errors.Is(err, boom) {
		t.Errorf("got %v of a circuit that cannot be made", err)
	}
}

// TestInnocentsAreThoseWhomDecisionsClosedWithoutNeed: a decision closes a caller early. Its requests are innocent ones as long as the
// rule alone would not have closed it. Only the early closure that was in force counts, and only decisions of enforcing rules.
func TestInnocentsAreThoseWhomDecisionsClosedWithoutNeed(t *testing.T) {
	second := func(n int) int64 { return 1_773_446_400_000_000_000 + int64(n)*int64(time.Second) }
	caller := schemas.Caller{Kind: "ip", ID: "192.0.2.1"}
	early := schemas.Decision{Rule: "r0", Caller: caller, Mode: schemas.ModeEnforce, CloseAt: second(1), Until: second(4), Early: true}
	shadow := early
	shadow.Mode = schemas.ModeShadow
	for name, test := range map[string]struct {
		limit   string
		d       schemas.Decision
		refused []int // requests
		want    [3]float64
	}{
		"an innocent":                 {"9", early, []int{2, 3}, [3]float64{1, 2, 2}},
		"nothing was refused":         {"9", early, nil, [3]float64{}},
		"after the closure":           {"9", early, []int{4}, [3]float64{}},
		"one that reaches its limit":  {"3", early, []int{2, 3}, [3]float64{}},
		"a shadow rule closes nobody": {"9", shadow, []int{2, 3}, [3]float64{}},
	} {
		s := &scripted{answers: make([]Answer, 6), before: func(n int, events Events) {
			if n == 2 {
				events.Applied(&test.d, second(2))
				events.Published(&outbox.Item{Kind: outbox.Early, Decision: test.d})
				events.Published(&outbox.Item{Kind: outbox.Share, Decision: schemas.Decision{Share: &schemas.Share{}}})
			}
			if slices.Contains(test.refused, n) {
				events.Refused(&caller, second(n))
			}
		}}
		set := rule(t, "limit: "+test.limit+", window: 1m, algorithm: fixed")
		sum, _, _, err := runScripted(t, Config{Rules: set, Predict: rules.PredictShares}, 6, s)
		a := sum.Accuracy
		if err != nil || a.Early != 1 || a.Shares != 1 || [3]float64{float64(a.InnocentsClosed), float64(a.InnocentRequests), a.InnocentLongest} != test.want {
			t.Errorf("%s: got %v and %+v, want %v innocents, requests and seconds", name, err, a, test.want)
		}
	}
}
