package fold

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// sharedRules are rules that give shares, and what they admit of the limit a second at most.
var sharedRules = map[string]float64{
	"{name: r, callers: key, limit: 400, window: 1s, algorithm: fixed}": 400,
	"{name: r, callers: key, limit: 400, window: 1s, slots: 20}":        400 * 20 / 21.,
	"{name: r, callers: key, limit: 400, window: 1s, slots: 100}":       400 * 100 / 101.,
	"{name: r, callers: key, limit: 400, window: 1s, algorithm: log}":   400,
}

// TestACallerThatSaturatesGetsAShare: from the fifth second on it is admitted what the limit allows, by one decision a second.
func TestACallerThatSaturatesGetsAShare(t *testing.T) {
	for rule, want := range sharedRules {
		t.Run(rule, func(t *testing.T) {
			l := newShareLoop(t, 2, 100*time.Millisecond, 20*millisecond, rule, rules.PredictShares)
			rng := rand.New(rand.NewPCG(1, 2))
			begin := l.now
			l.run(rng, 1200, 15*time.Second, l.evenly)
			shared := l.shared()
			if len(shared) < 9 || len(shared) > 14 {
				t.Fatalf("got %d shares in 15 s, want about one a second", len(shared))
			}
			first := shared[0].Share.From
			if first > begin+6*second {
				t.Fatalf("got the first share after %v, want it before the sixth second", time.Duration(first-begin))
			}
			from := begin + 6*second
			got := float64(l.admitted(from, begin+15*second)) / 9
			if got < 0.985*want || got > 1.005*want {
				t.Errorf("got %.1f a second admitted, want %.1f", got, want)
			}
			for _, c := range l.changes {
				if c.At > from && !c.Covered {
					t.Errorf("got a close at %v with %d of %d that gates are to know, want none", time.Duration(c.At-begin), c.Count.Total, c.Limit)
				}
			}
			i, _ := l.fold.table.find(rowHash(l.fold.table.ids.hash("a"), 0), 0, "a")
			if rate := l.fold.predict.Ahead(i, l.fold.rules.set.Rules[0], 400, l.fold.table.now).Rate; rate < 1000 || rate > 1400 {
				t.Errorf("got a demand of %v a second, want 1200: what gates refuse for want of permits is demand", rate)
			}
			carries := false
			for _, d := range l.words {
				if carries = carries || d.Share != nil; carries && d.Share == nil {
					t.Errorf("got a decision without the share at %v, which ends it", time.Duration(d.Evidence.AsOfTime-begin))
				}
			}
		})
	}
}

// TestACallerOfASmallLimitGetsAShare: of one permit in each period.
func TestACallerOfASmallLimitGetsAShare(t *testing.T) {
	l := newShareLoop(t, 1, 100*time.Millisecond, 0, "{name: r, callers: key, limit: 15, window: 1s, slots: 20}", rules.PredictShares)
	l.run(rand.New(rand.NewPCG(1, 2)), 120, 8*time.Second, l.evenly)
	shared := l.shared()
	if len(shared) == 0 || shared[0].Share.Permits != 1 {
		t.Fatalf("got shares %+v, want one permit in each period", shared)
	}
	if got := l.admitted(l.now-3*second, l.now); got < 40 || got > 45 {
		t.Errorf("got %d admitted in 3 s, want 43", got)
	}
}

// TestSharesOfAllGatesAddUp: whatever a caller does, even if it knows all and goes to another server each period, gates find no more
// demand of their own in the time that a share says than the share says of all: so they give no more than all permits. And no
// decision is one that readers refuse; the loop encodes each.
func TestSharesOfAllGatesAddUp(t *testing.T) {
	testenv.Fewer(t, 25)
	var names []string
	for rule := range sharedRules {
		names = append(names, rule)
	}
	shares := 0
	rapid.Check(t, func(t *rapid.T) {
		rule := names[rapid.IntRange(0, len(names)-1).Draw(t, "rule")]
		servers := rapid.IntRange(1, 3).Draw(t, "servers")
		lag := time.Duration(rapid.IntRange(2, 220).Draw(t, "lag in ms")) * time.Millisecond
		l := newShareLoop(t, servers, lag, rapid.Int64Range(0, 30).Draw(t, "skew in ms")*millisecond, rule, rules.PredictShares)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		turn := rapid.SampledFrom([]int64{50 * millisecond, second, 3 * second, 100 * second}).Draw(t, "turn")
		hostile := func(at int64) []float64 {
			w := make([]float64, servers)
			for i := range w {
				w[i] = 0.1 / float64(servers)
			}
			w[at/turn%int64(servers)] += 0.9
			return w
		}
		for range rapid.IntRange(1, 3).Draw(t, "phases") {
			l.run(rng, float64(rapid.IntRange(100, 2000).Draw(t, "rate")), 4*time.Second, hostile)
		}
		for _, d := range l.shared() {
			s, sum := d.Share, int64(0)
			for _, g := range l.servers {
				sum += g.measured(s.DemandFrom, s.DemandUntil)
			}
			shares++
			if sum > s.Demand {
				t.Fatalf("gates measured %d in a time of which the share says %d: %+v", sum, s.Demand, s)
			}
			if s.DemandFrom%(250*millisecond) != 0 || s.From%s.Period != 0 || s.Until-s.From > max(3*s.Period, 6*second) {
				t.Fatalf("got a share that is not on the grid, or holds for too long: %+v", s)
			}
		}
	})
	if shares == 0 {
		t.Error("got no share in any run")
	}
}
