package fold

import (
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// TestCountsAndPredictionsAreThoseRecorded: what follows from a log and its rules is the same number on each machine and in each version:
// rows, changes, plans and figures. An analyzer that is upgraded goes on from rows of the one before, and two of different versions decide
// about the same callers. Each line of testdata/recorded.txt is a place in a history, and checksums of what the fold said since the line
// before. A change that is meant to change them rewrites the file with -update.
func TestCountsAndPredictionsAreThoseRecorded(t *testing.T) {
	var got strings.Builder
	for _, maxRows := range []int{0, 14} {
		recordOperated(&got, newOperated(t, 4711, aThousand(true)), maxRows)
	}
	recordOperatedAhead(t, &got)
	few, floods := predictedRules(t), foldtest.Rules(t,
		"{name: fixed, callers: key, limit: 1000, window: 1s, algorithm: fixed}",
		"{name: sliding, callers: key, limit: 2500, window: 2s, slots: 40}",
		"{name: log, callers: key, limit: 600, window: 1s, algorithm: log}")
	for _, p := range []rules.Predict{rules.PredictEarly, rules.PredictShares} {
		for _, lag := range []int64{20, 150} {
			recordTraffic(t, &got, few, p, traffic{callers: 10, servers: 2, lag: lag * millisecond, rate: 300, change: 200})
		}
	}
	for _, lag := range []int64{8, 40, 200} {
		recordTraffic(t, &got, floods, rules.PredictShares, traffic{callers: 4, servers: 3, lag: lag * millisecond, rate: 4000, change: 700})
	}
	recordTraffic(t, &got, few, rules.PredictShares, traffic{callers: 10, servers: 2, lag: 420 * millisecond, rate: 300, change: 200, lagCap: 0.6})
	const file = "testdata/recorded.txt"
	if testenv.Update() {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(lines) || line != lines[i] {
			t.Fatalf("%s:%d: got\n%s, want\n%s\n(%s writes it)", file, i+1, line, lines[min(i, len(lines)-1)], testenv.UpdateCommand(t))
		}
	}
}

// recorder writes the lines of a history.
type recorder struct {
	out            *strings.Builder
	name           string
	fold           *Fold
	changes, plans uint32
}

// take adds up what the fold has said, and returns it.
func (r *recorder) take() (changes []Change, plans []predict.Plan) {
	add := func(to *uint32, format string, args ...any) {
		*to = crc32.Update(*to, crc32.IEEETable, fmt.Appendf(nil, format, args...))
	}
	share := func(s *schemas.Share) string {
		if s == nil {
			return ""
		}
		return fmt.Sprintf("%+v", *s)
	}
	changes = r.fold.TakeChanges()
	for _, c := range changes {
		add(&r.changes, "%s %s %v %v %v %+v %+v %+v %d %d %d %+v %s %v %v %v %v %v\n", c.Rule.Name, c.Caller, c.Kind, c.Warn, c.Ended, c.Before, c.Closure,
			c.Count, c.Limit, c.At, c.Offset, c.Next, share(c.Share), c.Covered, c.Rate, c.Expected, c.Bound, c.By)
	}
	plans = r.fold.TakePlans()
	for _, p := range plans {
		d := p.Decision
		s := share(d.Share)
		d.Share = nil
		add(&r.plans, "%s %s %+v %s %d %d %v\n", p.Rule.Name, p.Caller, d, s, p.At, p.Offset, p.Shares)
	}
	return changes, plans
}

// line writes how far the history is.
func (r *recorder) line(at int) {
	s := r.fold.Stats()
	// Closures that end together are added up in any order.
	s.Overs.Sum, s.Bounds.Sum = math.Round(s.Overs.Sum*1e6), math.Round(s.Bounds.Sum*1e6)
	for i := range s.OversBy {
		s.OversBy[i].Sum = math.Round(s.OversBy[i].Sum * 1e6)
	}
	fmt.Fprintf(r.out, "%s %d: %d rows, %d closes, digest %016x, changes %08x, plans %08x, stats %08x, looks %08x\n", r.name, at, s.Rows, s.Closes,
		r.fold.Digest(r.fold.LogTime()), r.changes, r.plans, crc32.ChecksumIEEE(fmt.Appendf(nil, "%+v", s)), r.looks())
	r.changes, r.plans = 0, 0
}

// looks returns a checksum of what the fold says of each caller that has a row, now and a little later.
func (r *recorder) looks() (sum uint32) {
	callers := make(map[string]schemas.Caller)
	v := r.fold.View()
	v.Rows(r.fold.LogTime(), func(r Row) bool {
		c := schemas.Caller{Kind: r.Rule.Kind, ID: r.ID}
		callers[c.String()] = c
		return true
	})
	for _, name := range slices.Sorted(maps.Keys(callers)) {
		for _, later := range []int64{0, 300 * millisecond} {
			for _, l := range v.Look(callers[name], r.fold.LogTime()+later).Rules {
				share := schemas.Share{}
				if l.Share != nil {
					share = *l.Share
				}
				sum = crc32.Update(sum, crc32.IEEETable, fmt.Appendf(nil, "%s %s %d %d %d %v %s %+v %d %v %d %d %+v %v %+v %+v %v\n", name, l.Rule.Name, l.Absence,
					l.Limit, l.Capacity, l.Unlimited, l.Override, l.Count, l.Since, l.Parts, l.More, l.Early, l.Closure, l.ByDemand, l.Span, share, l.Rate))
			}
		}
	}
	return sum
}

// recordOperated is requests of all kinds of rules while a person decides, and the rules change.
func recordOperated(out *strings.Builder, o *operated, maxRows int) {
	f := New(o.sets[0], Options{MaxRows: maxRows, Ends: true, Predict: rules.PredictShares})
	r := recorder{out: out, name: fmt.Sprintf("operated, %d rows at most", maxRows), fold: f}
	for i := range o.acts {
		o.do(f, i)
		r.take()
		if i%500 == 499 {
			r.line(i + 1)
		}
	}
}

// recordOperatedAhead is servers that send requests of a few callers while closes are predicted, a person decides, and the rules change.
func recordOperatedAhead(t *testing.T, out *strings.Builder) {
	t.Helper()
	const lag = 120 * millisecond
	o := newOperated(t, 4712, operation{controls: 320, entries: 24, pause: 12 * millisecond})
	f := New(o.sets[0], Options{Predict: rules.PredictShares, Ends: true})
	r := recorder{out: out, name: "operated ahead of time", fold: f}
	for i := range o.acts {
		a := &o.acts[i]
		if i%30 == 0 {
			f.Measure(a.now, lag+o.rng.Int64N(millisecond))
		}
		if a.entry == nil {
			o.do(f, i)
		} else {
			fr := foldtest.Frame(uint64(i)+1, a.now, *a.entry)
			fr.Producer = foldtest.Producer(1 + i%3)
			if err := f.Frame(Record{Offset: int64(i), Time: a.now, Value: foldtest.Encode(t, fr)}); err != nil {
				t.Fatal(err)
			}
		}
		r.take()
		if i%250 == 249 {
			r.line(i + 1)
		}
	}
}

// traffic is callers whose demand changes at random, and servers whose gates hear of closures after a lag.
type traffic struct {
	callers, servers int
	lag              int64   // nanoseconds
	rate             float64 // the highest demand of a caller, requests a second
	change           int     // frames after which the demand changes
	lagCap           float64 // Options.PredictLagCap
}

func recordTraffic(t *testing.T, out *strings.Builder, set *rules.Set, p rules.Predict, how traffic) {
	t.Helper()
	const frames, skew = 1400, 3 * millisecond
	f := New(set, Options{Predict: p, PredictLagCap: how.lagCap, Ends: true})
	r := recorder{out: out, name: fmt.Sprintf("%d callers, %v, a lag of %d ms", how.callers, p, how.lag/millisecond), fold: f}
	rng := rand.New(rand.NewPCG(uint64(how.lag), 7))
	gates, rates := newRecordedGates(how.lag), make([]float64, how.callers)
	for n := range frames {
		now := frameNow + int64(n)*5*millisecond
		if n%how.change == 0 {
			for i := range rates {
				rates[i] = how.rate * rng.Float64() * rng.Float64()
			}
		}
		server := n % how.servers
		var entries []schemas.Entry
		for i, rate := range rates {
			if count := uint32(rate/200 + rng.Float64()); count > 0 {
				e := schemas.Entry{Time: now - rng.Int64N(5*millisecond) - int64(server)*skew, Kind: "key", ID: fmt.Sprint(i), Count: count}
				e.Blocked, e.Early = gates.blocks(e.ID, e.Time)
				entries = append(entries, e)
			}
		}
		if n%100 < how.servers {
			entries = append(entries, schemas.Entry{Time: now, Kind: schemas.KindCanary, ID: "c", Count: 1, Cost: how.lag + rng.Int64N(millisecond)})
		}
		fr := foldtest.Frame(uint64(n/how.servers)+1, now, entries...)
		fr.Producer = foldtest.Producer(server + 1)
		if err := f.Frame(Record{Offset: int64(n), Time: now, Value: foldtest.Encode(t, fr)}); err != nil {
			t.Fatal(err)
		}
		changes, plans := r.take()
		gates.hear(now, changes, plans)
		if n == frames-1 {
			f.EndOvershoots()
		}
		if n%100 == 99 {
			r.line(n + 1)
		}
	}
}

// recordedGates are gates that hear of decisions after a lag. They know no shares: who has one is admitted.
type recordedGates struct {
	lag    int64
	queued []heard
	spans  map[[2]string][]schemas.Span // by rule and caller
}

// heard is a decision on its way.
type heard struct {
	at    int64
	key   [2]string
	spans []schemas.Span
}

func newRecordedGates(lag int64) *recordedGates {
	return &recordedGates{lag: lag, spans: make(map[[2]string][]schemas.Span)}
}

func (g *recordedGates) hear(now int64, changes []Change, plans []predict.Plan) {
	for _, c := range changes {
		if c.Warn == 0 && !c.Ended && !c.Covered && c.Rule.Mode == schemas.ModeEnforce {
			g.queued = append(g.queued, heard{now + g.lag, [2]string{c.Rule.Name, c.Caller.ID},
				[]schemas.Span{{CloseAt: c.Closure.CloseAt, Until: c.Closure.Until}, c.Next}})
		}
	}
	for _, p := range plans {
		if d := &p.Decision; d.Mode == schemas.ModeEnforce {
			g.queued = append(g.queued, heard{now + g.lag, [2]string{p.Rule.Name, p.Caller.ID},
				[]schemas.Span{{CloseAt: d.CloseAt, Until: d.Until, Early: d.Early}, d.Next}})
		}
	}
}

// blocks reports whether a caller is closed at a time, and whether that is predicted alone.
func (g *recordedGates) blocks(id string, at int64) (blocked, early bool) {
	for len(g.queued) > 0 && g.queued[0].at <= at {
		g.spans[g.queued[0].key], g.queued = g.queued[0].spans, g.queued[1:]
	}
	early = true
	for key, spans := range g.spans {
		for _, s := range spans {
			if key[1] == id && s.Covers(at) {
				blocked, early = true, early && s.Early
			}
		}
	}
	return blocked, blocked && early
}
