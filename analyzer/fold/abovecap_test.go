package fold

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// cramped is a fold of one partition with room for few rows, which is killed and restored, beside one that has room for
// all and is never killed: the truth.
type cramped struct {
	t        *testing.T
	rng      *rand.Rand
	set      *rules.Set
	log      []Record
	opts     Options
	fold     *Fold
	truth    *Fold
	kept     fakeStore
	keptAt   int
	scanning bool
	now      taken // the snapshot under way
	last     taken // the last one that is whole
	lastAt   int
	closed   map[closureKey][]policy.Closure // what was closed in truth, by rule and caller

	restores map[string]int
	marked   int
	exact    int
	closes   int
}

const crampedRows = 50

func newCramped(t *testing.T, h *history, set *rules.Set, how telling, p int, log []Record) *cramped {
	t.Helper()
	o := Options{Partition: p, Partitions: how.partitions, MaxRows: crampedRows}
	c := &cramped{
		t: t, rng: h.rng, set: set, log: log, opts: o, fold: New(set, o), restores: make(map[string]int),
		closed: make(map[closureKey][]policy.Closure),
	}
	o.MaxRows = DefaultMaxRows
	c.truth = New(set, o)
	return c
}

// run folds the log in both.
func (c *cramped) run(kills bool) {
	for i, rec := range c.log {
		_ = c.truth.Frame(rec)
		for _, ch := range c.truth.TakeChanges() {
			if ch.Kind != policy.Same {
				k := closureKey{rule: ch.Rule.Name, caller: ch.Caller}
				c.closed[k] = append(c.closed[k], ch.Closure)
			}
		}
		c.frame(i)
		c.bounded()
		c.steps(i + 1)
		if kills && c.rng.IntN(25) == 0 {
			c.restore(i + 1)
			c.compare(i + 1)
		}
	}
	c.compare(len(c.log))
}

// frame folds a record and checks that each caller that it closes is closed in truth (see justifies). A rule in shadow mode
// counts what came while it should have closed and could not; each caller that it closes has reached the limit before.
func (c *cramped) frame(i int) {
	_ = c.fold.Frame(c.log[i])
	for _, ch := range c.fold.TakeChanges() {
		if ch.Kind != policy.Closed {
			continue
		}
		c.closes++
		truth := c.closed[closureKey{rule: ch.Rule.Name, caller: ch.Caller}]
		justified := func(t policy.Closure) bool {
			return ch.Rule.Mode == schemas.ModeShadow || justifies(t, ch.Closure, c.fold.LogTime())
		}
		if !slices.ContainsFunc(truth, justified) {
			c.t.Fatalf("record %d: %s closes %s from %d until %d, want it closed only where the truth is: %v", i, ch.Rule.Name, ch.Caller,
				ch.Closure.CloseAt, ch.Closure.Until, truth)
		}
	}
}

// justifies reports whether a closure is right, given one of the truth: both hold at some time. A closure made by late
// entries may be over by log time, so that it stops nobody. Then it is enough that the truth has not opened by its time: a
// bucket with all entries counts the late ones at its newest entry, which the other may have lost, and closes there.
func justifies(truth, closure policy.Closure, logTime int64) bool {
	return closure.CloseAt < truth.Until && (truth.CloseAt < closure.Until || closure.Until <= logTime)
}

// bounded checks that memory is: rows, those that wait, and places in the wheel and on the list of dirty rows.
func (c *cramped) bounded() {
	f := c.fold
	f.table.waiting.check(c.t)
	places := 0
	for _, bucket := range f.table.wheel.buckets {
		places += len(bucket)
	}
	rows := make([]int, len(f.table.losses.byRule))
	f.table.each(func(_ uint32, r *row) bool { rows[r.rule]++; return true })
	for i := range rows {
		if rows[i] != f.table.losses.byRule[i].rows {
			c.t.Fatalf("rule %d: got %d rows by its losses, want %d", i, f.table.losses.byRule[i].rows, rows[i])
		}
	}
	if f.table.used > crampedRows || len(f.table.waiting.callers) > crampedRows*3/8 || places > 2*crampedRows || len(f.table.dirty) > int(f.table.Made()) {
		c.t.Fatalf("got %d rows, %d waiting, %d places in the wheel and %d dirty", f.table.used, len(f.table.waiting.callers), places, len(f.table.dirty))
	}
}

// steps may commit, and may go on with a snapshot.
func (c *cramped) steps(next int) {
	if c.rng.IntN(8) == 0 {
		c.kept.commit(c.t, c.fold)
		c.keptAt = next
	}
	switch {
	case !c.scanning && c.rng.IntN(6) == 0:
		c.now.begin(c.fold, next)
		c.scanning = true
	case c.scanning && c.rng.IntN(2) == 0:
		if !c.now.take(c.fold, next, 1+c.rng.IntN(20)) {
			c.last, c.lastAt, c.scanning = c.now, next, false
		}
	}
}

// restore kills the fold and starts another: from its store, from the last whole snapshot, or from the log alone.
func (c *cramped) restore(next int) {
	c.scanning = false
	from := []string{"store", "snapshot", "log"}[c.rng.IntN(3)]
	switch {
	case from == "store" && c.keptAt > 0:
		c.fold = c.kept.restore(c.t, c.set, c.opts)
		for i := c.keptAt; i < next; i++ {
			c.frame(i)
		}
	case from == "snapshot" && c.last.rows != nil:
		c.fold = New(c.set, c.opts)
		c.last.restore(c.t, c.fold, c.log, next)
		c.fold.TakeChanges()
		c.kept, c.keptAt = fakeStore{}, 0
	default:
		from = "log"
		c.fold = New(c.set, c.opts)
		for i := range next {
			c.frame(i)
		}
		c.kept, c.keptAt = fakeStore{}, 0
	}
	c.restores[from]++
}

// compare checks the rows against the truth: those without a mark are the same, the others count no more.
func (c *cramped) compare(next int) {
	at := max(c.truth.LogTime(), c.fold.LogTime())
	f := c.fold
	f.table.each(func(_ uint32, r *row) bool {
		if f.table.expires(r) <= at {
			return true
		}
		rule := c.set.Rules[r.rule]
		var none row
		truth := &none
		if i, ok := c.truth.table.find(rowHash(c.truth.table.ids.hash(r.id), int32(r.rule)), int32(r.rule), r.id); ok {
			truth = c.truth.table.row(i)
		}
		limit, _ := LimitFor(rule, r.id)
		got, want := rule.Window.View(r.state, limit, at), rule.Window.View(truth.state, limit, at)
		if r.since != never {
			c.marked++
			if rule.Mode != schemas.ModeShadow && got.Total > want.Total && want.Total < rule.Window.Capacity(limit) {
				c.t.Fatalf("before %d: %s %s: got %d of at most %d", next, rule.Name, r.id, got.Total, want.Total)
			}
			return true
		}
		c.exact++
		if !slices.Equal(liveState(rule, r.state, at), liveState(rule, truth.state, at)) || closureAt(rule, r, at) != closureAt(rule, truth, at) {
			c.t.Fatalf("since %d now %d lost %d dropped %d kills %v before %d: %s %s has no mark: got %v %+v, want %v %+v", r.since, at, f.table.losses.byRule[r.rule].lost, f.table.losses.byRule[r.rule].dropped, c.restores, next, rule.Name, r.id, r.state, r.closure, truth.state, truth.closure)
		}
		return true
	})
}

// closureAt returns the closure of a row if it matters still.
func closureAt(rule *rules.Rule, r *row, at int64) policy.Closure {
	if r.closure.Expiry(rule) <= at {
		return policy.Closure{}
	}
	return r.closure
}

// TestRunsAboveTheCapAgree: with room for fifty rows where hundreds are wanted, runs that are killed or not, restored from
// store, snapshot or log, in one partition or eight, delivered once or more often, agree with the truth wherever they say
// that they are exact, and close no caller that is open in truth. FLOODGATE_SEED repeats a run.
func TestRunsAboveTheCapAgree(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("FLOODGATE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	restores := make(map[string]int)
	exact, marked, closes, displaced := 0, 0, 0, uint64(0)
	histories := 3
	if testenv.IsLong() {
		histories = 12
	}
	for range histories {
		t.Logf("FLOODGATE_SEED=%d", seed)
		h := newHistory(seed)
		set := foldtest.Rules(t, slices.DeleteFunc(metamorphicLines(false), func(line string) bool {
			return strings.Contains(line, rules.InFlight.String()) // a response that is lost, and comes before its arrival, makes its count too high
		})...)
		for _, how := range []telling{{partitions: 1}, {partitions: 1, kills: true}, {partitions: 1, kills: true, repeats: true}, {partitions: 8, kills: true}} {
			for p, log := range h.logs(t, how) {
				c := newCramped(t, h, set, how, p, log)
				c.run(how.kills)
				for from, n := range c.restores {
					restores[from] += n
				}
				exact, marked, closes, displaced = exact+c.exact, marked+c.marked, closes+c.closes, displaced+c.fold.Stats().Displaced
			}
		}
		seed++
	}
	t.Logf("restored %v; compared %d exact rows and %d lower bounds; %d closes, %d displaced", restores, exact, marked, closes, displaced)
	if len(restores) < 3 || exact < 170*histories || marked < 170*histories || closes < 17*histories || displaced == 0 {
		t.Error("a history that shows nothing")
	}
}
