package fold

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// exactTalk is what a tally of any size would say.
type exactTalk struct {
	weights map[string]float64
	at      int64
}

func (x *exactTalk) add(name string, weight float64, now int64) {
	x.decay(now)
	x.weights[name] += weight
}

func (x *exactTalk) decay(now int64) {
	for name := range x.weights {
		x.weights[name] *= math.Exp2(-float64(now-x.at) / float64(TalkHalf))
	}
	x.at = now
}

// TestTheTallyKeepsItsBounds: whatever comes, and with whatever pauses, no caller with more than its share of the places is missing,
// and no weight is too low, or too high by more than that share.
func TestTheTallyKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		ids := rapid.SampledFrom([]int{10, maxTalkers, 3 * maxTalkers, 1 << 30}).Draw(t, "ids")
		pause := rapid.SampledFrom([]int64{0, 1000, 10 * second / 1000, second}).Draw(t, "pause")
		tally, exact := talkers{}, exactTalk{weights: make(map[string]float64)}
		now := rapid.Int64Range(-hour, hour).Draw(t, "begin")
		for range rapid.IntRange(1, 4000).Draw(t, "entries") {
			id := fmt.Sprint(rng.IntN(ids))
			if rng.IntN(4) == 0 {
				id = fmt.Sprint("heavy-", rng.IntN(3))
			}
			weight := float64(1 + rng.IntN(3))
			tally.add(uint64(len(id))*0x9e3779b97f4a7c15+uint64(id[0]), "key", id, weight, now) // hashes that collide
			exact.add(id, weight, now)
			if now += pause; rng.IntN(500) == 0 {
				now += rng.Int64N(20 * hour)
			}
		}
		exact.decay(now)
		checkTally(t, &tally, &exact, now)
	})
}

func checkTally(t *rapid.T, tally *talkers, exact *exactTalk, now int64) {
	var all float64
	for _, w := range exact.weights {
		all += w
	}
	bound := all/maxTalkers*1.001 + 1e-9
	held := make(map[string]Talker)
	for _, l := range tally.list(now) {
		held[l.ID] = l
	}
	if len(held) != min(len(exact.weights), maxTalkers) {
		t.Fatalf("got %d callers of %d", len(held), len(exact.weights))
	}
	seen := -math.Expm1(-float64(max(now-tally.begun, second)) / talkHalfLog)
	perSecond := float64(second) / talkHalfLog / seen
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
	for i, h := range tally.heap {
		if tally.places[h.number] != uint32(i) || i > 0 && tally.heap[(i-1)/2].weight > h.weight {
			t.Fatalf("place %d of the heap is wrong", i)
		}
	}
}

// A rate is requests per second, soon after the begin as well as later, and falls when its caller is silent.
func TestARateIsOfTheLastMinute(t *testing.T) {
	var tally talkers
	rate := func(now int64) float64 {
		for _, l := range tally.list(now) {
			if l.ID == "a" {
				return l.Rate
			}
		}
		return 0
	}
	now := int64(0)
	for tick := range int64(3000) { // 300 s of 50 a second
		now = tick * second / 10
		tally.add(1, "key", "a", 5, now)
		if got := rate(now); tick > 20 && math.Abs(got-50) > 5 {
			t.Fatalf("after %d ticks: got %g a second, want 50", tick, got)
		}
	}
	if got := rate(now + int64(TalkHalf)); math.Abs(got-25) > 1 {
		t.Errorf("after 20 s of silence: got %g, want 25", got)
	}
	if got := rate(now + 10*minute); got > 0.01 {
		t.Errorf("after 10 minutes of silence: got %g, want next to nothing", got)
	}
	if got := rate(0); math.Abs(got-50) > 5 {
		t.Errorf("asked about a time before the newest: got %g, want 50", got)
	}
}

// TestAFloodOfIDsDoesNotHideTheHeavyOnes: an attacker sends a hundred thousand ids, chosen or not. Callers that send a two-hundredth
// each of all that comes are named all the same, those who are admitted and those who are blocked.
func TestAFloodOfIDsDoesNotHideTheHeavyOnes(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: ip, limit: 1000000, window: 1m}"), Options{Talkers: true, MaxRows: 1000})
	ids := append(chosenIDs(1000), plainIDs(100_000)...)
	rng := rand.New(rand.NewPCG(1, 2))
	now := int64(0)
	for i := range 1_200_000 {
		e := schemas.Entry{Time: now, Kind: "ip", ID: ids[i%len(ids)], Count: 1, Blocked: i&1 == 0}
		if rng.IntN(20) == 0 {
			e.ID, e.Kind = fmt.Sprint("heavy-", rng.IntN(10)), "tenant" // which no rule counts
		}
		f.Entry(&e)
		now += 50_000 // 20 000 a second
	}
	admitted, blocked := f.Talkers(now)
	for name, list := range map[string][]Talker{"admitted": admitted, "blocked": blocked} {
		slices.SortFunc(list, func(a, b Talker) int { return int(math.Copysign(1, b.Rate-a.Rate)) })
		if len(list) != maxTalkers {
			t.Fatalf("%s: got %d callers, want %d", name, len(list), maxTalkers)
		}
		for _, l := range list[:10] {
			if l.Kind != "tenant" || l.Rate-l.Over > 85 || l.Rate < 15 {
				t.Errorf("%s: got %+v among the first ten, want heavy ones at about 50 a second", name, l)
			}
		}
	}
}

// Each request is told of two callers, one after the other: a sample of every second, fourth or thirty-second entry would never hear of one of them.
func TestTheSampleHearsOfAllCallersOfARequest(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: ip, limit: 1000000, window: 1m}"), Options{Talkers: true})
	for i := range int64(100_000) {
		at := i * second / 1000
		f.Entry(&schemas.Entry{Time: at, Kind: "ip", ID: "a", Count: 1})
		f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "a", Count: 1})
		f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "a", Count: 1, Response: true})
	}
	admitted, blocked := f.Talkers(0)
	if len(admitted) != 2 || len(blocked) != 0 {
		t.Fatalf("got %+v and %+v, want two callers that are admitted", admitted, blocked)
	}
	for _, l := range admitted {
		if math.Abs(l.Rate-1000) > 200 || l.Over != 0 {
			t.Errorf("got %+v, want about 1000 a second", l)
		}
	}
}

// TestBlockedRequestsAreSampledByTheirNumber: a caller's rate is the same, whether its requests come one by one or many in an entry, and
// also when entries of another size come between; entries of many are counted exactly.
func TestBlockedRequestsAreSampledByTheirNumber(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: ip, limit: 1000000, window: 1m}"), Options{Talkers: true})
	sizes := []uint32{1, 3, 31, 32, 33, talkExact - 1, talkExact, 1000}
	const total = talkExact * 31 * 33 * 5 // a second, of each: nearly a whole number of entries
	sent := make(map[uint32]int64)
	for at := range int64(1000) {
		for _, size := range sizes {
			for ; sent[size] < total/1000*(at+1); sent[size] += int64(size) {
				f.Entry(&schemas.Entry{Time: at * second / 1000, Kind: "ip", ID: fmt.Sprint(size), Count: size, Blocked: true})
			}
		}
	}
	admitted, blocked := f.Talkers(second)
	if len(admitted) != 0 || len(blocked) != len(sizes) {
		t.Fatalf("got %+v and %+v, want %d callers that are blocked", admitted, blocked, len(sizes))
	}
	for _, l := range blocked {
		if math.Abs(l.Rate-total)/total > 0.03 || l.Over != 0 {
			t.Errorf("entries of %s: got %+v, want %d a second", l.ID, l, total)
		}
	}
	if len(f.talk.blocked.callers) != len(sizes) || f.talk.nextBlocked <= 0 || f.talk.nextBlocked > 2*talkSample {
		t.Errorf("got the next after %d requests, want 1 to %d", f.talk.nextBlocked, 2*talkSample-1)
	}
}

// TestATallyThatIsOffStaysOff, however much is blocked: what is left until the next one that is taken never runs out.
func TestATallyThatIsOffStaysOff(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: ip, limit: 1, window: 1m}"), Options{})
	f.talk.nextBlocked = 3
	for i := range int64(5) {
		f.Entry(&schemas.Entry{Time: i, Kind: "ip", ID: "a", Count: math.MaxUint32, Blocked: true})
	}
	if admitted, blocked := f.Talkers(0); len(admitted)+len(blocked) != 0 || f.talk.nextBlocked < math.MaxInt64/2 {
		t.Errorf("got %+v and %+v, and %d left", admitted, blocked, f.talk.nextBlocked)
	}
}

func TestWithoutTheOptionNobodyIsHeard(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m}"), Options{})
	for i := range int64(100) {
		f.Entry(&schemas.Entry{Time: i, Kind: "key", ID: "a", Count: 1, Blocked: i&1 == 0})
	}
	if admitted, blocked := f.Talkers(0); len(admitted)+len(blocked) != 0 {
		t.Errorf("got %+v and %+v, want none", admitted, blocked)
	}
}

func TestATallyThatIsFullDoesNotAllocate(t *testing.T) {
	var tally talkers
	ids := plainIDs(4 * maxTalkers)
	n := 0
	add := func() {
		tally.add(uint64(n)*0x9e3779b97f4a7c15, "ip", ids[n%len(ids)], 1, int64(n))
		n++
	}
	for range 2 * len(ids) {
		add()
	}
	if got := testing.AllocsPerRun(1000, add); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// BenchmarkTalkers is what the tally costs the fold: two folds, one with it, take turns over the same entries, and the median of
// their ratios counts, so that a machine that does other things does not matter.
func BenchmarkTalkers(b *testing.B) {
	const turn = 4096
	entries := foldtest.ZipfEntries(1 << 18)
	last := entries[len(entries)-1].Time - entries[0].Time
	for _, blocked := range []bool{false, true} {
		b.Run(map[bool]string{false: "admitted", true: "a tenth blocked"}[blocked], func(b *testing.B) {
			for i := range entries {
				entries[i].Blocked = blocked && i%10 == 0
			}
			set := foldtest.Rules(b, foldtest.BenchRules()["sliding"])
			folds := [2]*Fold{New(set, Options{MaxRows: 1 << 20}), New(set, Options{MaxRows: 1 << 20, Talkers: true})}
			var ratios []float64
			n, shift := 0, int64(0)
			for b.Loop() {
				var took [2]time.Duration
				for k := range folds {
					f := folds[(k+n)&1]
					begun := time.Now()
					for i := range turn {
						e := entries[(n*turn+i)%len(entries)]
						e.Time += shift
						f.Entry(&e)
					}
					took[(k+n)&1] = time.Since(begun)
				}
				ratios = append(ratios, float64(took[1])/float64(took[0]))
				if n++; n*turn%len(entries) == 0 {
					shift += last
				}
			}
			slices.Sort(ratios)
			b.ReportMetric(100*(ratios[len(ratios)/2]-1), "%-more")
		})
	}
}

// BenchmarkTalkersFlood is one blocked entry of a caller that is not in the tally: the most that it costs.
func BenchmarkTalkersFlood(b *testing.B) {
	var tally talkers
	ids := plainIDs(1 << 16)
	n := 0
	for b.Loop() {
		tally.add(rowHash(uint64(n)*0x9e3779b97f4a7c15, 0), "ip", ids[n&(1<<16-1)], 1, int64(n)*1000)
		n++
	}
}

// BenchmarkFoldEntryHeard is one entry with the tally and without, where a tenth is blocked and where nothing is: count instructions with
// valgrind --tool=cachegrind and -test.benchtime=Nx, as wall time says little on a machine that does other things.
func BenchmarkFoldEntryHeard(b *testing.B) {
	entries := foldtest.ZipfEntries(1 << 18)
	for _, blocked := range []int{0, 10} {
		for _, heard := range []bool{false, true} {
			b.Run(fmt.Sprintf("blocked=%d%%/tally=%v", blocked, heard), func(b *testing.B) {
				f := New(foldtest.Rules(b, foldtest.BenchRules()["sliding"]), Options{MaxRows: 1 << 20, Talkers: heard})
				n, shift := 0, int64(0)
				for b.Loop() {
					e := entries[n]
					e.Time, e.Blocked = e.Time+shift, blocked > 0 && n%blocked == 0
					f.Entry(&e)
					if n++; n == len(entries) {
						n, shift = 0, shift+entries[n-1].Time-entries[0].Time
					}
				}
			})
		}
	}
}
