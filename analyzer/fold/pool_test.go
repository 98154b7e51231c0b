package fold

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/schemas"
)

// pooledRule is a pool of 1,000 in a second, of which 10 are protected.
const pooledRule = "{name: shared, callers: key, capacity: 1000, window: 1s, protect: 1%}"

// poolStory feeds one fold, which is all there is of its log.
type poolStory struct {
	t    *testing.T
	fold *Fold
	at   int64
	log  []string
}

func newPoolStory(t *testing.T, lines ...string) *poolStory {
	t.Helper()
	return &poolStory{t: t, fold: New(foldtest.Rules(t, lines...), Options{}), at: frameNow - frameNow%second}
}

// ask lets time pass in steps of 10 ms. In each, callers send as many requests a second as rates says; those of a caller that is closed are
// blocked, as gates would.
func (s *poolStory) ask(span int64, rates map[string]int) {
	s.t.Helper()
	sent := map[string]int{}
	const step = 10_000_000
	for passed := int64(step); passed <= span; passed += step {
		s.at += step
		for _, id := range slices.Sorted(maps.Keys(rates)) {
			due := int(int64(rates[id]) * passed / second)
			for ; sent[id] < due; sent[id]++ {
				s.request(id)
			}
		}
	}
}

func (s *poolStory) request(id string) {
	e := schemas.Entry{Time: s.at, Kind: "key", ID: id, Resource: "GET /", Count: 1, Blocked: s.closed(id)}
	s.fold.Entry(&e)
	s.fold.LoopPools()
	for _, c := range s.fold.TakeChanges() {
		s.log = append(s.log, fmt.Sprintf("%s %v %v", c.Caller.ID, c.Kind, c.Warn))
	}
}

// closed reports whether a gate refuses a caller now.
func (s *poolStory) closed(id string) bool {
	return s.look(id).Closure.ClosedAt(s.at)
}

func (s *poolStory) look(id string) RuleLook {
	return s.fold.View().Look(schemas.Caller{Kind: "key", ID: id}, s.at).Rules[0]
}

func (s *poolStory) closes() (ids []string) {
	for _, line := range s.log {
		if id, found := strings.CutSuffix(line, " closed 0"); found && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestAPoolHoldsOnlyWhoOverloadsIt until callers ask for less than the capacity again.
func TestAPoolHoldsOnlyWhoOverloadsIt(t *testing.T) {
	s := newPoolStory(t, pooledRule)
	s.ask(5*second, map[string]int{"a": 300, "b": 300, "c": 300})
	if len(s.log) > 0 || s.look("a").Unlimited != true {
		t.Fatalf("under the capacity: got changes %q and %+v, want nobody limited", s.log, s.look("a"))
	}
	s.ask(5*second, map[string]int{"a": 300, "b": 300, "noisy": 2000})
	if got := s.closes(); !slices.Equal(got, []string{"noisy"}) {
		t.Fatalf("got %q closed, want the noisy one", got)
	}
	if l := s.look("noisy"); l.Unlimited || l.Limit < 380 || l.Limit > 420 || l.Count.Total < 1500 {
		t.Errorf("got %+v, want a limit of about 400, and 1500 to 2000 requests, the blocked ones among them", l)
	}
	s.ask(20*second, map[string]int{"a": 300, "b": 300})
	if l := s.look("noisy"); !l.Unlimited || l.Closure.ClosedAt(s.at) {
		t.Errorf("after the flood: got %+v, want nobody limited", l)
	}
}

// TestALevelHoldsAFloodAtOnce: who has asked for more than its share before there was a level is closed at its next request, and nobody else.
func TestALevelHoldsAFloodAtOnce(t *testing.T) {
	f := New(foldtest.Rules(t, pooledRule), Options{})
	at := frameNow - frameNow%second
	ask := func(id string, n uint32) {
		f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: id, Count: n})
	}
	ask("heavy", 900)
	ask("over", 130)
	ask("quiet", 90)
	e := (&PoolLevel{f.Rules().Rules[0], pool.Level{Quarter: 4 * at / second, Level: 100_000}, at}).Entry("shared#0")
	f.poolEntry(&e)
	for _, id := range []string{"heavy", "over", "quiet"} {
		ask(id, 1)
	}
	changes := f.TakeChanges()
	if len(changes) != 1 || changes[0].Caller.ID != "heavy" || changes[0].Kind != policy.Closed {
		t.Errorf("got %+v, want the heavy caller closed", changes)
	}
}

// TestADyingLevelOpensItsCallers: a level ends when demand does, and callers that pay back what they have used too much are opened then.
func TestADyingLevelOpensItsCallers(t *testing.T) {
	s := newPoolStory(t, pooledRule)
	s.ask(second, map[string]int{"quiet": 500, "noisy": 900})
	for range 5000 { // an outage: gates were open for so many
		e := schemas.Entry{Time: s.at, Kind: "key", ID: "noisy", Count: 1}
		s.fold.Entry(&e)
		s.fold.LoopPools()
	}
	until := s.look("noisy").Closure.Until
	if until < s.at+2*second {
		t.Fatalf("got closed for %d ns, want seconds", until-s.at)
	}
	e := (&PoolLevel{s.fold.Rules().Rules[0], pool.Level{Quarter: 4*s.at/second + 1}, s.at}).Entry("shared#0")
	s.fold.TakeChanges()
	s.fold.poolEntry(&e)
	changes := s.fold.TakeChanges()
	if len(changes) != 1 || changes[0].Kind != policy.Opened || changes[0].Caller.ID != "noisy" || s.closed("noisy") {
		t.Errorf("got %+v, want the noisy caller opened", changes)
	}
}

// TestALevelHoldsTenSeconds of log time if no other comes: the home is away.
func TestALevelHoldsTenSeconds(t *testing.T) {
	f := New(foldtest.Rules(t, pooledRule), Options{})
	at := frameNow - frameNow%second
	tells := func(seconds int64) (unlimited bool) {
		e := schemas.Entry{Time: at + seconds*second, Kind: "key", ID: "a", Count: 1}
		f.Entry(&e)
		return f.View().Look(e.Caller(), e.Time).Rules[0].Unlimited
	}
	tells(0)
	e := (&PoolLevel{f.Rules().Rules[0], pool.Level{Quarter: 4 * at / second, Level: 50_000}, at}).Entry("shared#0")
	f.poolEntry(&e)
	for seconds, want := range []bool{false, false, false, false, false, false, false, false, false, false, true, true} {
		if got := tells(int64(seconds)); got != want {
			t.Errorf("after %d s: got unlimited %v, want %v", seconds, got, want)
		}
	}
}

// TestWhatOtherRulesBlockIsNoDemand: nor is what a pool in shadow mode would have blocked twice.
func TestWhatOtherRulesBlockIsNoDemand(t *testing.T) {
	f := New(foldtest.Rules(t, pooledRule, "{name: each, callers: key, limit: 5, window: 1m, algorithm: fixed}"), Options{})
	at := frameNow - frameNow%second
	for n := range 20 {
		e := schemas.Entry{Time: at + int64(n), Kind: "key", ID: "a", Count: 1, Blocked: n >= 5}
		f.Entry(&e)
	}
	if got := f.View().Look(schemas.Caller{Kind: "key", ID: "a"}, at+20).Rules[0].Count.Total; got != 5 {
		t.Errorf("got a demand of %d, want 5: the other rule has blocked the rest", got)
	}
}

// TestAPoolOnTrialIsAsIfItWereEnforced: a pool in shadow mode limits what it counts by its own closures. Each request is demand once.
func TestAPoolOnTrialIsAsIfItWereEnforced(t *testing.T) {
	s := newPoolStory(t, strings.Replace(pooledRule, "}", ", mode: shadow}", 1))
	sent, would := 0, 0
	for s.at < frameNow+10*second {
		s.at += 1_000_000 // 1000 a second of the noisy one, and 500 of the quiet one
		for id := range map[string]bool{"noisy": true} {
			sent++
			if s.closed(id) {
				would++
			}
			e := schemas.Entry{Time: s.at, Kind: "key", ID: id, Count: 1}
			s.fold.Entry(&e)
		}
		if s.at%2_000_000 == 0 {
			e := schemas.Entry{Time: s.at, Kind: "key", ID: "quiet", Count: 1}
			s.fold.Entry(&e)
		}
		s.fold.LoopPools()
		s.fold.TakeChanges()
	}
	if part := float64(sent-would) / float64(sent); part < 0.5 || part > 0.56 {
		t.Errorf("got %.3f of the noisy caller's requests admitted, want about a half", part)
	}
	if l := s.look("noisy"); l.Count.Total < 750 || l.Count.Total > 1000 || s.closed("quiet") {
		t.Errorf("got %+v, want a demand of three quarters to all of 1000, and nobody else closed", l)
	}
}

// TestWhoHasNoRowIsDemandToo: the total is exact, whatever the table holds.
func TestWhoHasNoRowIsDemandToo(t *testing.T) {
	f := New(foldtest.Rules(t, pooledRule), Options{MaxRows: 10})
	at := frameNow - frameNow%second
	for n := range 500 {
		e := schemas.Entry{Time: at + int64(n)*1_000_000, Kind: "key", ID: fmt.Sprint(n), Count: 2}
		f.Entry(&e)
	}
	f.Advance(at + second)
	tallies, _ := f.TakePools()
	if n := len(tallies); n == 0 || tallies[n-1].Tally.Total != 1000 {
		t.Errorf("got %+v, want a total of 1000", tallies)
	}
}

// TestAPersonDecidesUnderAPool: a record that limits a caller holds without a level, and one that opens it holds against a level.
func TestAPersonDecidesUnderAPool(t *testing.T) {
	record := func(s *poolStory, c schemas.Control) {
		c.Caller, c.Rule, c.Author, c.Reason, c.ID = schemas.Caller{Kind: "key", ID: "noisy"}, "shared", "ann", "why", schemas.ControlID{1}
		c.Time, c.Until = s.at, s.at+hour
		if err := s.fold.Control(&c, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	s := newPoolStory(t, pooledRule)
	record(s, schemas.Control{Action: schemas.ControlLimit, Limit: 100})
	s.ask(5*second, map[string]int{"noisy": 400})
	if got := s.closes(); !slices.Equal(got, []string{"noisy"}) {
		t.Errorf("got %q closed, want the caller that a person has limited", got)
	}
	s = newPoolStory(t, pooledRule)
	record(s, schemas.Control{Action: schemas.ControlOpen})
	s.ask(5*second, map[string]int{"noisy": 2000})
	if got := s.closes(); len(got) > 0 {
		t.Errorf("got %q closed, want nobody: a person has opened the only caller", got)
	}
}

// TestDemandOutlivesARuleThatChanges its capacity, weights or protect, and a level goes on until the next one.
func TestDemandOutlivesARuleThatChanges(t *testing.T) {
	s := newPoolStory(t, pooledRule)
	s.ask(3*second, map[string]int{"quiet": 500, "noisy": 2000})
	before := s.look("noisy")
	for _, changed := range []string{
		"{name: shared, callers: key, capacity: 5000, window: 1s, protect: 1%}",
		"{name: shared, callers: key, capacity: 1000, window: 1s, protect: 2%}",
		"{name: shared, callers: key, capacity: 1000, window: 1s, protect: 1%, weights: {noisy: 1.5}}",
	} {
		s.fold.SetRules(foldtest.Rules(t, "{name: other, callers: key, capacity: 10000, window: 2s}", changed))
		got := s.fold.View().Look(schemas.Caller{Kind: "key", ID: "noisy"}, s.at).Rules[1]
		if got.Count.Total != before.Count.Total || got.Unlimited {
			t.Errorf("%s: got %+v, want a demand of %d, and the level as before", changed, got, before.Count.Total)
		}
	}
	s.fold.SetRules(foldtest.Rules(t, "{name: shared, callers: key, capacity: 1000, window: 2s}"))
	if got := s.look("noisy"); got.Count.Total != 0 || !got.Unlimited {
		t.Errorf("another window: got %+v, want it counted anew", got)
	}
}

// TestBadTalliesAndLevelsChangeNothing, and are counted by reason.
func TestBadTalliesAndLevelsChangeNothing(t *testing.T) {
	rule := foldtest.Rules(t, pooledRule).Rules[0]
	other := foldtest.Rules(t, "{name: shared, callers: key, capacity: 1000, window: 2s}").Rules[0]
	at := frameNow - frameNow%second
	now := 4 * at / second
	tally := func(quarter int64) schemas.Entry {
		return (&PoolTally{rule, pool.Tally{Quarter: quarter, Total: 9}, at}).Entry(0)
	}
	level := func(l pool.Level) schemas.Entry { return (&PoolLevel{rule, l, at}).Entry("shared#3") }
	resource := func(e schemas.Entry, text string) schemas.Entry { e.Resource = text; return e }
	for name, c := range map[string]struct {
		entry  schemas.Entry
		reason string
	}{
		"a tally of nothing":             {resource(tally(now-1), ""), PoolMalformed},
		"a tally cut short":              {resource(tally(now-1), tally(now - 1).Resource[:12]), PoolMalformed},
		"a tally of another version":     {resource(tally(now-1), "\x02"+tally(now - 1).Resource[1:]), PoolMalformed},
		"a tally of no partition":        {(&PoolTally{rule, pool.Tally{Quarter: now - 1, Total: 9}, at}).Entry(1), PoolMalformed},
		"a tally of another shape":       {(&PoolTally{other, pool.Tally{Quarter: now - 1, Total: 9}, at}).Entry(0), PoolShape},
		"a tally as old as the last one": {tally(now - 2), PoolOld},
		"a tally far ahead":              {tally(now + 41), PoolAhead},
		"a level cut short":              {resource(level(pool.Level{Quarter: now}), level(pool.Level{Quarter: now}).Resource[:11]), PoolMalformed},
		"a level of no rule":             {(&PoolLevel{rule, pool.Level{Quarter: now}, at}).Entry("nobody#3"), PoolShape},
		"a level as old as the last one": {level(pool.Level{Quarter: now - 2, Level: 1}), PoolOld},
		"a level far ahead":              {level(pool.Level{Quarter: now + 41}), PoolAhead},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, pooledRule, "{name: each, callers: key, limit: 5, window: 1m}"), Options{})
			f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "a", Count: 3})
			for _, e := range []schemas.Entry{tally(now - 2), level(pool.Level{Quarter: now - 2, Level: 40_000})} {
				f.poolEntry(&e)
			}
			before := rowsOf(f)
			f.poolEntry(&c.entry)
			if got := rowsOf(f); !slices.Equal(got, before) {
				t.Errorf("got rows %q, want them as before: %q", got, before)
			}
			if got := f.Stats().PoolDropped; len(got) != 1 || got[c.reason] != 1 {
				t.Errorf("got %v dropped, want one %s", got, c.reason)
			}
		})
	}
}

// TestAClockAheadClosesNobodyBelowTheProtected: log time jumps by two seconds, and comes back.
func TestAClockAheadClosesNobodyBelowTheProtected(t *testing.T) {
	s := newPoolStory(t, pooledRule)
	rates := map[string]int{"noisy": 3000}
	for n := range 80 {
		rates[fmt.Sprint("quiet", n)] = 8
	}
	s.ask(3*second, rates)
	s.at += 2 * second
	s.request("quiet0")
	s.at -= 2 * second
	s.ask(5*second, rates)
	if got := s.closes(); !slices.Equal(got, []string{"noisy"}) {
		t.Errorf("got %q closed, want the noisy one alone", got)
	}
}

// TestAPoolWarnsOfAllItsCallers once, when demand crosses a part of the capacity.
func TestAPoolWarnsOfAllItsCallers(t *testing.T) {
	s := newPoolStory(t, strings.Replace(pooledRule, "}", ", warn: [0.5, 0.8]}", 1))
	s.ask(3*second, map[string]int{"a": 300, "b": 300})
	s.ask(3*second, map[string]int{"a": 450, "b": 450})
	if want := []string{AllCallers + " same 0.5", AllCallers + " same 0.8"}; !slices.Equal(s.log, want) {
		t.Errorf("got %q, want %q", s.log, want)
	}
}

// TestAFoldThatBeginsMakesNoTally of the time before.
func TestAFoldThatBeginsMakesNoTally(t *testing.T) {
	f := New(foldtest.Rules(t, pooledRule), Options{})
	f.Entry(&schemas.Entry{Time: math.MinInt64 + 1, Kind: "key", ID: "a", Count: 1})
	f.Entry(&schemas.Entry{Time: frameNow, Kind: "key", ID: "a", Count: 1})
	if tallies, levels := f.TakePools(); len(tallies)+len(levels) > 0 {
		t.Errorf("got %+v and %+v, want none", tallies, levels)
	}
}
