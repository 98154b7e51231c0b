package fold

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// TestEquivalentRunsAgree: one history of requests, told in ways that must not matter. It is cut into one partition or
// eight, merged or not, delivered once or more often, folded by analyzers that are killed or not, and that predict or not: the
// closures and the digest are the same. So they are with an operator who closes, opens, limits and resets callers. FLOODGATE_SEED
// repeats a run.
func TestEquivalentRunsAgree(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("FLOODGATE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	plans, histories := 0, 2
	if testenv.IsLong() {
		histories = 10
	}
	for range histories {
		t.Logf("FLOODGATE_SEED=%d", seed)
		h := newHistory(seed)
		set := metamorphicRules(t, false)
		want := h.run(t, set, telling{partitions: 1})
		h.plausible(t, want)
		for _, how := range []telling{
			{partitions: 8}, {partitions: 1, repeats: true}, {partitions: 8, repeats: true}, {partitions: 1, kills: true},
			{partitions: 8, kills: true, repeats: true}, {partitions: 3, kills: true},
			{partitions: 1, predict: rules.PredictEarly}, {partitions: 8, predict: rules.PredictShares, kills: true, repeats: true},
		} {
			got := h.run(t, set, how)
			want.compare(t, fmt.Sprintf("%+v", how), got)
			plans += got.plans
		}
		want = h.run(t, set, telling{partitions: 1, operator: true})
		for _, how := range []telling{
			{partitions: 8, operator: true}, {partitions: 1, operator: true, kills: true}, {partitions: 3, operator: true, kills: true, repeats: true},
			{partitions: 8, operator: true, predict: rules.PredictShares},
		} {
			want.compare(t, fmt.Sprintf("%+v", how), h.run(t, set, how))
		}
		set = metamorphicRules(t, true)
		h.run(t, set, telling{partitions: 1, plain: true}).compare(t, "merged",
			h.run(t, set, telling{partitions: 8, merged: true, plain: true, kills: true, repeats: true}))
		seed++
	}
	if plans < 25*histories {
		t.Errorf("got %d plans: those that predict predicted nothing", plans)
	}
}

// metamorphicRules returns rules of all algorithms. For merged entries they are without four kinds: a log keeps as many
// entries as make up its limit, and so looks otherwise where they come merged; and a shadow rule counts an entry that it
// would have closed upon half way whole. They are also without holds and requests in flight: what is learned depends on each response, and
// a number in flight on the order of entries. Nor do such histories have early entries: one that comes before the first admitted one of its
// time does not count.
func metamorphicRules(t *testing.T, merged bool) *rules.Set {
	t.Helper()
	return foldtest.Rules(t, metamorphicLines(merged)...)
}

func metamorphicLines(merged bool) []string {
	lines := []string{
		"{name: fixed, callers: key, limit: 60, window: 1m, algorithm: fixed}",
		"{name: sliding, callers: key, limit: 70, window: 1m, slots: 12, close_for: 90s, escalate: {factor: 2, max: 1h, forget: 5m}}",
		"{name: bucket, callers: ip, limit: 20, window: 1m, algorithm: gcra, burst: 8, overrides: {10.0.0.0/30: unlimited}}",
		"{name: cost, callers: key, limit: 300, window: 2m, measure: cost, warn: [0.5]}",
		"{name: hourly, callers: ip, limit: 90, window: hour, count_blocked: true, match: {resource: '/a*'}}",
	}
	lines = append(lines, "{name: arrival, callers: key, limit: 250, window: 1m, algorithm: fixed, measure: cost, charge: arrival}")
	if !merged {
		lines = append(lines, "{name: tokens, callers: key, limit: 280, window: 1m, slots: 12, measure: cost, charge: arrival, hold: {estimate: 3, longest: 2m}}",
			"{name: flights, callers: key, limit: 25, measure: in_flight, hold: {longest: 1m}}",
			"{name: log, callers: ip, limit: 15, window: 20s, algorithm: log}",
			"{name: shadow, callers: key, limit: 50, window: 1m, mode: shadow, close_for: 2m}")
	}
	return lines
}

// history is requests in the order in which servers flush them: ticks, and in each the servers, each with its entries.
type history struct {
	rng    *rand.Rand
	ticks  [][historyServers][]schemas.Entry
	people [][]*schemas.Control // what people decide: see operate
}

const (
	historyServers = 3
	historyTick    = 10 * second
	historyStart   = 1_790_000_000 * second
)

func newHistory(seed uint64) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 1)), people: drawPeople(seed)}
	now := historyStart
	var ends [historyServers][]schemas.Entry // responses of requests that run
	for range 60 {
		var tick [historyServers][]schemas.Entry
		for s := range tick {
			for range h.rng.IntN(60) {
				arrivals, end := h.request(now)
				tick[s] = append(tick[s], arrivals...)
				ends[s] = append(ends[s], end...)
			}
			ends[s] = slices.DeleteFunc(ends[s], func(e schemas.Entry) bool {
				if e.Time <= now {
					tick[s] = append(tick[s], e)
				}
				return e.Time <= now
			})
			slices.SortStableFunc(tick[s], func(a, b schemas.Entry) int { return cmp.Compare(a.Time, b.Time) })
		}
		h.ticks = append(h.ticks, tick)
		if now += historyTick; h.rng.IntN(15) == 0 {
			now += h.rng.Int64N(40 * minute) // nobody comes for a while, and rows expire
			ends = [historyServers][]schemas.Entry{}
		}
	}
	return h
}

// request returns the entries of one request in the tick that ends at now: few callers make most of them, times are coarse
// so that some are equal, and some are reported minutes late. Its response comes up to a minute later; some are lost, and some do not say
// when their request arrived.
func (h *history) request(now int64) (arrivals, end []schemas.Entry) {
	at := now - h.rng.Int64N(10)*second
	if h.rng.IntN(50) == 0 {
		at -= h.rng.Int64N(8 * minute)
	}
	ip := fmt.Sprintf("10.0.0.%d", h.zipf(60))
	key := fmt.Sprint("k", h.zipf(25))
	resource := []string{"/a", "/b"}[h.rng.IntN(2)]
	blocked, early := h.rng.IntN(10) == 0, h.rng.IntN(4) == 0
	declared := max(h.rng.Int64N(12)-6, 0)
	arrivals = []schemas.Entry{
		{Time: at, Kind: "ip", ID: ip, Resource: resource, Count: 1, Blocked: blocked, Early: blocked && early},
		{Time: at, Kind: "key", ID: key, Resource: resource, Count: 1, Blocked: !blocked && early, Early: !blocked && early, Declared: declared},
	}
	if at/second%20 > 0 { // other servers do not say when requests arrive
		arrivals[1].Arrived = schemas.Tick(at)
	}
	if !blocked && h.rng.IntN(30) > 0 {
		e := schemas.Entry{
			Time: at + h.rng.Int64N(4)*h.rng.Int64N(15)*second, Kind: "key", ID: key, Resource: resource, Count: 1, Response: true, Status: 200,
			Cost: h.rng.Int64N(8), Arrived: schemas.Tick(at), Declared: declared,
		}
		if h.rng.IntN(10) == 0 {
			e.Arrived = 0
		}
		end = append(end, e)
	}
	return arrivals, end
}

func (h *history) zipf(n int) int {
	return int(float64(n) * h.rng.Float64() * h.rng.Float64() * h.rng.Float64())
}

// telling is a way to tell a history.
type telling struct {
	partitions             int
	merged, repeats, kills bool
	plain                  bool // without requests that were blocked early
	operator               bool // people decide, too
	predict                rules.Predict
}

// outcome is what must not depend on the telling.
type outcome struct {
	closures map[closureKey]int64 // until when
	digest   uint64
	plans    int // which may depend on it
}

type closureKey struct {
	rule    string
	caller  schemas.Caller
	closeAt int64
	nth     int64
}

func (o outcome) compare(t *testing.T, how string, got outcome) {
	t.Helper()
	if !maps.Equal(got.closures, o.closures) {
		for k, until := range o.closures {
			if got.closures[k] != until {
				t.Errorf("%s: %+v: got until %d, want %d", how, k, got.closures[k], until)
			}
		}
		t.Errorf("%s: got %d closures, want %d", how, len(got.closures), len(o.closures))
	}
	if got.digest != o.digest {
		t.Errorf("%s: got digest %#x, want %#x", how, got.digest, o.digest)
	}
}

// run tells the history, and returns what came of it.
func (h *history) run(t *testing.T, set *rules.Set, how telling) outcome {
	t.Helper()
	o := outcome{closures: make(map[closureKey]int64)}
	logs := h.logs(t, how)
	folds := make([]*Fold, how.partitions)
	newest := int64(0)
	for p, log := range logs {
		folds[p] = h.fold(t, set, how, log, Options{Partition: p, Partitions: how.partitions, Predict: how.predict}, &o)
		newest = max(newest, folds[p].LogTime())
	}
	for _, f := range folds {
		o.digest += f.Digest(newest)
	}
	return o
}

// logs returns the records of each partition.
func (h *history) logs(t *testing.T, how telling) [][]Record {
	t.Helper()
	key := schemas.DefaultPartitionKey()
	logs := make([][]Record, how.partitions)
	seqs := make([][historyServers]uint64, how.partitions)
	var now int64
	for _, tick := range h.ticks {
		for server, entries := range tick {
			parts := make([][]schemas.Entry, how.partitions)
			for _, e := range entries {
				now = max(now, e.Time)
				e.Early = e.Early && !how.plain
				p := schemas.Partition(key.Hash(e.Kind, e.ID), how.partitions)
				parts[p] = append(parts[p], e)
			}
			for p, part := range parts {
				if how.merged {
					part = mergeEqual(part)
				}
				seqs[p][server]++
				fr := foldtest.Frame(seqs[p][server], now, part...)
				fr.Partitions, fr.Producer = uint32(how.partitions), foldtest.Producer(server+1)
				logs[p] = append(logs[p], Record{Offset: int64(len(logs[p])), Time: now, Value: foldtest.Encode(t, fr)})
				for how.repeats && h.rng.IntN(3) == 0 {
					again := logs[p][len(logs[p])-1-h.rng.IntN(min(60, len(logs[p])))]
					logs[p] = append(logs[p], Record{Offset: int64(len(logs[p])), Time: now, Value: again.Value})
				}
			}
		}
	}
	return logs
}

// mergeEqual merges entries that are equal but for their count and cost, as a recorder does; one that was merged stays in
// the place of the first.
func mergeEqual(entries []schemas.Entry) []schemas.Entry {
	var merged []schemas.Entry
	at := make(map[schemas.Entry]int) // the times of arrivals are whole seconds
	for _, e := range entries {
		k := e
		k.Count, k.Cost, k.Declared = 0, 0, min(k.Declared, 1)
		if i, ok := at[k]; ok {
			merged[i].Count += e.Count
			merged[i].Cost += e.Cost
			merged[i].Arrived += e.Arrived
			merged[i].Declared += e.Declared
			continue
		}
		at[k] = len(merged)
		merged = append(merged, e)
	}
	return merged
}

// fold folds the log of one partition, with kills where told so, and notes the closures.
func (h *history) fold(t *testing.T, set *rules.Set, how telling, log []Record, o Options, out *outcome) *Fold {
	t.Helper()
	var kept fakeStore
	f := New(set, o)
	committed := 0
	for i := 0; i < len(log); {
		if how.operator {
			h.operate(t, f, log, i)
		}
		if err := f.Frame(log[i]); err != nil {
			t.Fatal(err)
		}
		f.Measure(f.LogTime(), h.rng.Int64N(3*second))
		out.plans += len(f.TakePlans())
		for _, c := range f.TakeChanges() {
			if c.Kind != policy.Same {
				out.closures[closureKey{c.Rule.Name, c.Caller, c.Closure.CloseAt, c.Closure.Nth}] = c.Closure.Until
			}
		}
		i++
		if how.kills && h.rng.IntN(10) == 0 {
			kept.commit(t, f)
			committed = i
		}
		if how.kills && h.rng.IntN(20) == 0 {
			f, i = kept.restore(t, set, o), committed
		}
	}
	return f
}

// plausible checks that the history is worth telling, and the closures of one rule against a count by hand.
func (h *history) plausible(t *testing.T, o outcome) {
	t.Helper()
	counts := make(map[closureKey]int64)
	for _, tick := range h.ticks {
		for _, entries := range tick {
			for _, e := range entries {
				if e.Kind == "key" && !e.Response {
					counts[closureKey{rule: "fixed", caller: e.Caller(), closeAt: e.Time / minute}]++
				}
			}
		}
	}
	seen := make(map[string]bool)
	for k := range o.closures {
		seen[k.rule] = true
		k.closeAt, k.nth = k.closeAt/minute, 0
		if k.rule == "fixed" && counts[k] < 60 {
			t.Errorf("%+v is closed, but made %d requests in that minute", k, counts[k])
		}
	}
	if len(seen) < 7 {
		t.Errorf("got closures of %v only: a history that shows nothing", seen)
	}
}
