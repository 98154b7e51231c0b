package busiest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// send gives an entry to a sample, under a hash of its id.
func send(c *Callers, e *schemas.Entry) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(e.ID))
	hash := h.Sum64() * 0x9e3779b97f4a7c15
	if e.Blocked {
		c.Blocked(e, hash, e.Time)
	} else {
		c.Admitted(e, hash, e.Time)
	}
}

// plainIDs returns n addresses.
func plainIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff)
	}
	return ids
}

// Times of tests, in nanoseconds.
const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)
)

// exactTally is what a tally of any size would say.
type exactTally struct {
	weights map[string]float64
	at      int64
}

func (x *exactTally) add(name string, weight float64, now int64) {
	x.decay(now)
	x.weights[name] += weight
}

func (x *exactTally) decay(now int64) {
	for name := range x.weights {
		x.weights[name] *= math.Exp2(-float64(now-x.at) / float64(HalfLife))
	}
	x.at = now
}

// TestTheTallyKeepsItsBounds: whatever comes, and with whatever pauses, no caller with more than its share of the places is missing,
// and no weight is too low, or too high by more than that share.
func TestTheTallyKeepsItsBounds(t *testing.T) {
	testenv.Fewer(t, 25)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		ids := rapid.SampledFrom([]int{10, maxCallers, 3 * maxCallers, 1 << 30}).Draw(t, "ids")
		pause := rapid.SampledFrom([]int64{0, 1000, 10 * second / 1000, second}).Draw(t, "pause")
		tally, exact := newTally(), exactTally{weights: make(map[string]float64)}
		now := rapid.Int64Range(-hour, hour).Draw(t, "begin")
		for range rapid.IntRange(1, 4000).Draw(t, "entries") {
			id := fmt.Sprint(rng.IntN(ids))
			if rng.IntN(4) == 0 {
				id = fmt.Sprint("heavy-", rng.IntN(3))
			}
			weight := float64(1 + rng.IntN(3))
			tally.add(uint64(len(id))*0x9e3779b97f4a7c15+uint64(id[0]), "key", id, weight, 0, now) // hashes that collide
			exact.add(id, weight, now)
			if now += pause; rng.IntN(500) == 0 {
				now += rng.Int64N(20 * hour)
			}
		}
		exact.decay(now)
		checkTally(t, tally, &exact, now)
	})
}

func checkTally(t *rapid.T, tally *tally, exact *exactTally, now int64) {
	var all float64
	for _, w := range exact.weights {
		all += w
	}
	bound := all/maxCallers*1.001 + 1e-9
	held := make(map[string]Caller)
	for _, l := range tally.list(now, 1).Callers {
		held[l.ID] = l
	}
	if len(held) != min(len(exact.weights), maxCallers) {
		t.Fatalf("got %d callers of %d", len(held), len(exact.weights))
	}
	seen := -math.Expm1(-float64(max(now-tally.begun, second)) / timeConst)
	perSecond := float64(second) / timeConst / seen
	for id, w := range exact.weights {
		l, ok := held[id]
		got, over := l.Rate/perSecond, l.Over/perSecond
		switch {
		case !ok && w > bound:
			t.Fatalf("%s with %g of %g is missing", id, w, all)
		case ok && (got < w*0.999-1e-9 || got-over > w*1.001+1e-9 || over > bound):
			t.Fatalf("%s: got %g with an error of %g, want %g and an error of at most %g", id, got, over, w, bound)
		}
	}
	for i := range tally.heap.Len() {
		if got := tally.places[tally.heap.At(i).number]; got != i {
			t.Fatalf("a caller is at %d of the heap, and got %d", i, got)
		}
	}
}

// A rate is requests per second, soon after the begin as well as later, and falls when its caller is silent.
func TestARateIsOfTheLastMinute(t *testing.T) {
	tally := newTally()
	rate := func(now int64) float64 {
		for _, l := range tally.list(now, 1).Callers {
			if l.ID == "a" {
				return l.Rate
			}
		}
		return 0
	}
	now := int64(0)
	for tick := range int64(3000) { // 300 s of 50 a second
		now = tick * second / 10
		tally.add(1, "key", "a", 5, 25, now)
		if got := rate(now); tick > 20 && math.Abs(got-50) > 5 {
			t.Fatalf("after %d ticks: got %g a second, want 50", tick, got)
		}
	}
	if got := rate(now + int64(HalfLife)); math.Abs(got-25) > 1 {
		t.Errorf("after 20 s of silence: got %g, want 25", got)
	}
	if got := rate(now + 10*minute); got > 0.01 {
		t.Errorf("after 10 minutes of silence: got %g, want next to nothing", got)
	}
	if got := tally.list(now+1000*hour, 32).Callers[0]; got.Rate != 0 || got.Error != 0 {
		t.Errorf("after 1000 hours of silence: got %+v, want nothing", got)
	}
	if got := rate(0); math.Abs(got-50) > 5 {
		t.Errorf("asked about a time before the newest: got %g, want 50", got)
	}
	now += (rebaseAfter + 1) * int64(HalfLife)
	tally.add(1, "key", "a", 50, 0, now)
	if got, want := tally.list(now, 1).Callers[0], 50*float64(second)/timeConst; math.Abs(got.Rate-want) > 1e-9 || got.Error > 0.1 || tally.base != now || tally.factor != 1 {
		t.Errorf("after so long that weights are written anew: got %+v, want %g by weights as they are", got, want)
	}
}

// TestTheErrorIsThatOfAPoisson: twice the standard deviation above an estimate, which is itself too low, as Wilson's interval says. Both
// halve when the caller is silent: the weight in one half-life, the deviation in two.
func TestTheErrorIsThatOfAPoisson(t *testing.T) {
	for _, c := range []struct{ weight, variance, unit, want float64 }{
		{0, 9, 1, 0}, {9, 0, 1, 0}, {0.5, 0.25, 0, 2 * (0.5 + math.Sqrt(0.5))},
		{100, 100, 0.5, 2 * (1 + math.Sqrt(101))}, {16, 16, 3, 2 * (3 + math.Sqrt(25))}, {2, 8, 3, 2 * (4 + math.Sqrt(24))},
	} {
		if got := errorOf(c.weight, c.variance, c.unit); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("errorOf(%g, %g, %g): got %g, want %g", c.weight, c.variance, c.unit, got, c.want)
		}
	}
	tally, perSecond := newTally(), float64(second)/timeConst
	tally.add(1, "key", "a", 1, 0, 0) // long before, so that a rate is a weight by the time constant
	tally.add(2, "key", "b", 1000, 900, hour)
	for _, l := range tally.list(hour+2*int64(HalfLife), 8).Callers {
		if want := errorOf(250, 900./16, 4) * perSecond; l.ID == "b" && (math.Abs(l.Error-want) > 1e-9 || math.Abs(l.Rate-250*perSecond) > 1e-9) {
			t.Errorf("got %+v, want a rate of %g and an error of %g", l, 250*perSecond, want)
		}
	}
}

// TestAFloodOfIDsDoesNotHideTheHeavyOnes: an attacker sends a hundred thousand ids. Callers that send a two-hundredth
// each of all that comes are named all the same, those who are admitted and those who are blocked.
func TestAFloodOfIDsDoesNotHideTheHeavyOnes(t *testing.T) {
	c := New(true, 1)
	ids := plainIDs(100_000)
	rng := rand.New(rand.NewPCG(1, 2))
	now := int64(0)
	for i := range 1_200_000 {
		e := schemas.Entry{Time: now, Kind: "ip", ID: ids[i%len(ids)], Count: 1, Blocked: i&1 == 0}
		if rng.IntN(20) == 0 {
			e.ID, e.Kind = fmt.Sprint("heavy-", rng.IntN(10)), "tenant" // which no rule counts
		}
		send(&c, &e)
		now += 50_000 // 20 000 a second
	}
	admitted, blocked := c.Lists(now)
	for name, list := range map[string][]Caller{"admitted": admitted.Callers, "blocked": blocked.Callers} {
		slices.SortFunc(list, func(a, b Caller) int { return int(math.Copysign(1, b.Rate-a.Rate)) })
		if len(list) != maxCallers {
			t.Fatalf("%s: got %d callers, want %d", name, len(list), maxCallers)
		}
		for _, l := range list[:10] {
			if l.Kind != "tenant" || l.Rate-l.Over > 85 || l.Rate < 15 {
				t.Errorf("%s: got %+v among the first ten, want heavy ones at about 50 a second", name, l)
			}
		}
	}
}

// Each request is told of two callers, one after the other: a sample of every second, fourth or thirty-second entry would never hear of one of them.
func TestTheSampleHasAllCallersOfARequest(t *testing.T) {
	c := New(true, 1)
	for i := range int64(100_000) {
		at := i * second / 1000
		send(&c, &schemas.Entry{Time: at, Kind: "ip", ID: "a", Count: 1})
		send(&c, &schemas.Entry{Time: at, Kind: "key", ID: "a", Count: 1})
	}
	admitted, blocked := c.Lists(0)
	if len(admitted.Callers) != 2 || len(blocked.Callers) != 0 {
		t.Fatalf("got %+v and %+v, want two callers that are admitted", admitted, blocked)
	}
	for _, l := range admitted.Callers {
		if math.Abs(l.Rate-1000) > 200 || l.Over != 0 {
			t.Errorf("got %+v, want about 1000 a second", l)
		}
	}
}

// TestBlockedRequestsAreSampledByTheirNumber: a caller's rate is the same, whether its requests come one by one or many in an entry, and
// also when entries of another size come between; entries of many are counted exactly.
func TestBlockedRequestsAreSampledByTheirNumber(t *testing.T) {
	c := New(true, 1)
	sizes := []uint32{1, 3, 31, 32, 33, 2*coarsest - 1, 2 * coarsest, 1000}
	const total = 2 * coarsest * 31 * 33 * 5 // a second, of each: nearly a whole number of entries
	sent := make(map[uint32]int64)
	for at := range int64(1000) {
		for _, size := range sizes {
			for ; sent[size] < total/1000*(at+1); sent[size] += int64(size) {
				send(&c, &schemas.Entry{Time: at * second / 1000, Kind: "ip", ID: fmt.Sprint(size), Count: size, Blocked: true})
			}
		}
	}
	admitted, blocked := c.Lists(second)
	if len(admitted.Callers) != 0 || len(blocked.Callers) != len(sizes) {
		t.Fatalf("got %+v and %+v, want %d callers that are blocked", admitted, blocked, len(sizes))
	}
	for _, l := range blocked.Callers {
		if math.Abs(l.Rate-total)/total > 0.03 || l.Over != 0 {
			t.Errorf("entries of %s: got %+v, want %d a second", l.ID, l, total)
		}
	}
	if len(c.blocked.callers) != len(sizes) || c.nextBlocked <= 0 || c.nextBlocked > 2*coarsest {
		t.Errorf("got the next after %d requests, want 1 to %d", c.nextBlocked, 2*coarsest-1)
	}
}

// TestTheErrorHolds: a rate is within its error in about 19 of 20 cases, of slow and fast callers, and if entries have merged; and the error
// is no larger than it must be. What was counted exactly has none, and so has everything where little comes. Callers that are in no list
// send no more than its Absent.
func TestTheErrorHolds(t *testing.T) {
	for name, c := range map[string]struct {
		rate, size int64 // requests a second of each caller, and requests of an entry
		blocked    bool  // by gates
		budget     int64
		most       float64 // the error
	}{
		"slow": {rate: 5, size: 1, budget: 1, most: 9}, "fast": {rate: 50, size: 1, budget: 1, most: 18}, "merged": {rate: 200, size: 10, budget: 1, most: 120},
		"blocked": {rate: 200, size: 10, blocked: true, budget: 1, most: 30}, "blocked, exact": {rate: 640, size: 2 * coarsest, blocked: true, budget: 1},
		"silent": {rate: 1, size: 1, budget: 1, most: 9}, "few": {rate: 5, size: 1, budget: budget}, "few blocked": {rate: 9, size: 3, blocked: true, budget: budget},
		"some": {rate: 100, size: 1, budget: budget, most: 14},
	} {
		t.Run(name, func(t *testing.T) {
			ids := plainIDs(50)
			within, all := 0, 0
			for seed := range uint64(4) {
				sample, rng := New(true, seed), rand.New(rand.NewPCG(seed, 3))
				sample.pace.budget, sample.paceBlocked.budget = c.budget, c.budget
				const length = 100 * second
				gap := second * c.size / c.rate / int64(len(ids))
				for at := int64(0); at < length; at += gap * int64(len(ids)) {
					for i, n := range rng.Perm(len(ids)) {
						send(&sample, &schemas.Entry{Time: at + int64(i)*gap, Kind: "ip", ID: ids[n], Count: uint32(c.size), Blocked: c.blocked})
					}
				}
				list, blocked := sample.Lists(length)
				if c.blocked {
					list = blocked
				}
				for _, l := range list.Callers {
					if c.most == 0 && (l.Error != 0 || math.Abs(l.Rate-float64(c.rate)) > 0.05*float64(c.rate)) || l.Error > c.most || l.Over != 0 {
						t.Fatalf("got %+v, want %d a second and an error of at most %g", l, c.rate, c.most)
					}
					if math.Abs(l.Rate-float64(c.rate)) <= l.Error || c.most == 0 {
						within++
					}
				}
				if list.Absent >= float64(c.rate) {
					within += len(ids) - len(list.Callers)
				}
				all += len(ids)
			}
			if share := float64(within) / float64(all); share < 0.93 {
				t.Errorf("got %.1f %% within their error, want 95 %%", 100*share)
			}
		})
	}
}

// TestThePaceFollowsWhatComes, within its bounds, also in a burst, after a long silence, and while log time stands still.
func TestThePaceFollowsWhatComes(t *testing.T) {
	p := newPace()
	now := int64(0)
	stream := func(perSecond, n int64) (sampled int) {
		for next := int64(0); n > 0; n-- {
			if now += second / perSecond; next <= 0 {
				p.passed(p.every, now)
				next = p.every
				sampled++
			}
			next--
		}
		return sampled
	}
	if got := stream(budget, 60*budget); got != 60*budget || p.coarse != 1 {
		t.Errorf("a slow stream: got %d sampled, want all", got)
	}
	if got := stream(10*budget, 600*budget); got < 55*budget || got > 70*budget || p.every != 10 {
		t.Errorf("ten times the budget: got %d in a minute and one of %d, want a tenth", got, p.every)
	}
	if got := stream(1_000_000, 1_000_000); got > 1_000_000/coarsest+3*budget*10 || p.every != coarsest {
		t.Errorf("a burst: got %d and one of %d, want one of %d", got, p.every, coarsest)
	}
	if stream(budget, 30*budget); p.every != 1 || p.coarse != coarsest {
		t.Errorf("soon after it: got one of %d, at worst %d, want all, and the error of the burst", p.every, p.coarse)
	}
	now += hour
	if stream(budget, 2*budget); p.coarse != 1 {
		t.Errorf("after a silence: got %d, want the burst forgotten", p.coarse)
	}
	p.every, p.since, p.seen = 1, now, 0
	if p.passed(2*budget-1, now); p.every != 1 || p.variance() != 0 {
		t.Errorf("while log time stands: got one of %d, want all of twice the budget", p.every)
	}
	if p.passed(1, now); p.every != coarsest || p.variance() != coarsest*(coarsest-1) {
		t.Errorf("while log time stands: got one of %d, want one of %d", p.every, coarsest)
	}
	if p.passed(2*budget*coarsest-1, now); p.seen == 0 {
		t.Error("while log time stands: got another pace before twice the budget was sampled")
	}
}

// TestAbsent: a caller whom a sample misses may send the weight that is missed in one of 20 cases. If the list is full, it may send as much
// again as the last one in it.
func TestAbsent(t *testing.T) {
	tally := newTally()
	for every, want := range map[float64]float64{1: 0, 2: 4 / 20. * math.Ln2, coarsest: 64 / 20. * math.Ln2} {
		if got := tally.list(0, every).Absent; math.Abs(got-want) > 1e-9 {
			t.Errorf("one of %g: got %g a second, want %g", every, got, want)
		}
	}
	for i, id := range plainIDs(maxCallers) {
		tally.add(uint64(i)*0x9e3779b97f4a7c15, "ip", id, float64(10+i), 0, 0)
	}
	l := tally.list(0, 1)
	least := slices.MinFunc(l.Callers, func(a, b Caller) int { return int(math.Copysign(1, a.Rate-b.Rate)) })
	if least.ID != "10.0.0.0" || l.Absent != least.Rate || tally.list(0, coarsest).Absent <= l.Absent {
		t.Errorf("got %g, want the rate of the last one, %+v, and more of a sample", l.Absent, least)
	}
}

// TestACallerInThePlaceOfAnother has that one's weight as its excess, until both have decayed.
func TestACallerInThePlaceOfAnother(t *testing.T) {
	tally := newTally()
	for i, id := range plainIDs(maxCallers) {
		tally.add(uint64(i)*0x9e3779b97f4a7c15, "ip", id, float64(10+i), 0, 0)
	}
	tally.add(1, "ip", "new", 6, 4, 0)
	find := func(now int64) (found Caller) {
		for _, l := range tally.list(now, 8).Callers {
			if l.ID == "new" {
				found = l
			}
		}
		return found
	}
	perSecond := 2 * float64(second) / timeConst // half of what a steady stream would amount to has come in a half-life
	want := Caller{Kind: "ip", ID: "new", Rate: 8 * perSecond, Over: 5 * perSecond, Error: errorOf(3, 1, 4) * perSecond}
	got := find(int64(HalfLife))
	if math.Abs(got.Rate-want.Rate)+math.Abs(got.Over-want.Over)+math.Abs(got.Error-want.Error) > 1e-9 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	now := (rebaseAfter + 1) * int64(HalfLife)
	tally.add(1, "ip", "new", 6, 0, now)
	if got := find(now); got.Over > 1e-9 || math.Abs(got.Rate-3*perSecond) > 1e-9 {
		t.Errorf("after so long that weights are written anew: got %+v, want a rate of %g and no excess", got, 3*perSecond)
	}
}

// TestASampleThatIsOffStaysOff, however much is blocked: the distance to the next sampled entry never runs out.
func TestASampleThatIsOffStaysOff(t *testing.T) {
	c := New(false, 1)
	c.nextBlocked = 3
	for i := range int64(5) {
		send(&c, &schemas.Entry{Time: i, Kind: "ip", ID: "a", Count: math.MaxUint32, Blocked: true})
	}
	if admitted, blocked := c.Lists(0); len(admitted.Callers)+len(blocked.Callers) != 0 || c.nextBlocked < math.MaxInt64/2 {
		t.Errorf("got %+v and %+v, and %d left", admitted, blocked, c.nextBlocked)
	}
}

func TestATallyThatIsFullDoesNotAllocate(t *testing.T) {
	tally := newTally()
	ids := plainIDs(4 * maxCallers)
	n := 0
	add := func() {
		tally.add(uint64(n)*0x9e3779b97f4a7c15, "ip", ids[n%len(ids)], 1, 1, int64(n))
		n++
	}
	for range 2 * len(ids) {
		add()
	}
	if got := testing.AllocsPerRun(1000, add); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// BenchmarkFlood is one blocked entry of a caller that is not in the tally: the most that it costs.
func BenchmarkFlood(b *testing.B) {
	tally := newTally()
	ids := plainIDs(1 << 16)
	n := 0
	for b.Loop() {
		tally.add(uint64(n)*0x9e3779b97f4a7c15, "ip", ids[n&(1<<16-1)], 1, 1, int64(n)*1000)
		n++
	}
}
