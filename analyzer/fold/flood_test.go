package fold

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// How much of a flood. The default is a hundredth of what an analyzer with its default flags has to stand, and is part of
// every go test. All of it, in half an hour, and what SECURITY.md says of the cost:
//
//	go test ./analyzer/fold -run TestFlood -v -count 1 -timeout 2h -flood.rows 250000
//	go test ./analyzer/fold -run TestCost -v -count 1 -flood.cost
var (
	floodRows = flag.Int("flood.rows", 2500, "rows of the table in TestFlood and TestCostOfKeepingAnOffenderOut; attackers grow with it")
	floodCost = flag.Bool("flood.cost", false, "look for the rate that keeps an offender out, in TestCostOfKeepingAnOffenderOut")
)

// flood is one cell of the grid: so many callers, each with so many requests, at a rate of so many in a second, and among
// them sixteen offenders that begin during it and after it, and send twice their limit in ten seconds.
type flood struct {
	attackers int // of a table of 250,000 rows
	each      int
	other     bool // they are of another kind than the offenders
	window    string
	chosen    bool // their ids begin in one place under the partition key
}

const (
	floodLimit     = 60
	floodOffenders = 16
	floodRate      = 5 // requests of attackers in a second, for each place in the waiting room: offenders send 12
)

func (c flood) String() string {
	return fmt.Sprintf("%d callers × %d, other kind %v, window %s, chosen %v", c.attackers, c.each, c.other, c.window, c.chosen)
}

// flooded is what came of a flood.
type flooded struct {
	f       *Fold
	now     int64
	limit   map[string]int64   // when each offender reached its limit
	sent    map[string]int     //
	waited  []time.Duration    // from an offender's limit to its close
	wrong   []string           // others that were closed
	peak    int                // rows
	started map[string]int64   // when each offender began
	heap    int64              // bytes that the fold grew by
	nsEach  float64            // of the flood's entries
	at      map[string]float64 // requests that are due, of callers that send at a rate
}

func newFlooded(t foldtest.T, c flood, rows int) *flooded {
	t.Helper()
	set := foldtest.Rules(t, fmt.Sprintf("{name: per-ip, callers: ip, limit: %d, window: %s}", floodLimit, c.window),
		fmt.Sprintf("{name: per-key, callers: key, limit: %d, window: %s}", floodLimit, c.window))
	return &flooded{
		f: New(set, Options{MaxRows: rows, NoStore: true}), now: frameNow,
		limit: make(map[string]int64), sent: make(map[string]int), started: make(map[string]int64), at: make(map[string]float64),
	}
}

// request folds one request and looks who is closed.
func (w *flooded) request(kind, id string) {
	w.f.Entry(&schemas.Entry{Time: w.now, Kind: kind, ID: id, Count: 1})
	for _, ch := range w.f.TakeChanges() {
		if ch.Kind != policy.Closed {
			continue
		}
		if at, ok := w.limit[ch.Caller.ID]; ok {
			w.waited = append(w.waited, time.Duration(w.now-at))
			delete(w.limit, ch.Caller.ID)
		} else {
			w.wrong = append(w.wrong, ch.Caller.String())
		}
	}
	w.peak = max(w.peak, w.f.table.used)
}

// offend lets the offenders that have begun send what is due, twelve a second each, up to twice the limit.
func (w *flooded) offend(passed int64) {
	for n := range floodOffenders {
		id := fmt.Sprintf("203.0.113.%d", n)
		if began, ok := w.started[id]; !ok || w.now < began {
			continue
		}
		for w.at[id] += 12 * float64(passed) / float64(second); w.at[id] >= 1 && w.sent[id] < 2*floodLimit; w.at[id]-- {
			if w.sent[id]++; w.sent[id] == floodLimit {
				w.limit[id] = w.now
			}
			w.request("ip", id)
		}
	}
}

// run lets the flood pass over a table of so many rows.
func (c flood) run(t foldtest.T, rows int) *flooded {
	w := newFlooded(t, c, rows)
	attackers := int(float64(c.attackers) * float64(rows) / DefaultMaxRows)
	kind := map[bool]string{false: "ip", true: "key"}[c.other]
	ids := plainIDs(attackers)
	if c.chosen {
		ids = chosenIDs(attackers)
	}
	total := attackers * c.each
	rate := floodRate * waitingShare * float64(rows)
	length := int64(float64(total) / rate * float64(second))
	for n := range floodOffenders {
		w.started[fmt.Sprintf("203.0.113.%d", n)] = w.now + length*int64(n)/(floodOffenders/2) // half of them after it
	}
	before := heapInUse()
	began := time.Now()
	const step = second / 50
	due := 0.0
	for n, end := 0, w.now+length; w.now < end; w.now += step {
		for due += rate * float64(step) / float64(second); due >= 1 && n < total; due-- {
			w.request(kind, ids[n%attackers])
			n++
		}
		w.offend(step)
	}
	w.nsEach = float64(time.Since(began).Nanoseconds()) / float64(max(total, 1))
	w.heap = heapInUse() - before
	for end := w.now + length + 30*second; w.now < end; w.now += step {
		w.offend(step)
	}
	return w
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// floodGrid is the cells of the grid: all of them with flags, and without one of each kind.
func floodGrid() (cells []flood) {
	for _, attackers := range []int{10_000, 100_000, 1_000_000, 3_000_000} {
		for _, each := range []int{1, 2, 10, 50} {
			for _, window := range []string{"10s", "1m", "month"} {
				for _, other := range []bool{false, true} {
					cells = append(cells, flood{attackers: attackers, each: each, other: other, window: window})
				}
			}
		}
	}
	return append(cells, flood{100_000, 10, false, "1m", true}, flood{1_000_000, 2, false, "10s", true})
}

// TestFlood: whatever comes, each offender is closed soon after its limit and nobody else is, in a table that never grows
// beyond its bound; and some time after the flood nothing of it is left.
func TestFlood(t *testing.T) {
	var table strings.Builder
	for i, c := range floodGrid() {
		if !testenv.IsLong() && i%18 != 0 {
			continue
		}
		w := c.run(t, *floodRows)
		slices.Sort(w.waited)
		var p50, p99 time.Duration
		if n := len(w.waited); n > 0 {
			p50, p99 = w.waited[n/2], w.waited[n*99/100]
		}
		fmt.Fprintf(&table, "%9d %4d %6s %-5v %-6v %3d %8v %8v %9d %6.1f MiB %6.0f\n", c.attackers, c.each, c.window, c.other, c.chosen, len(w.waited),
			p50.Round(time.Millisecond), p99.Round(time.Millisecond), w.peak, float64(w.heap)/(1<<20), w.nsEach)
		if len(w.waited) != floodOffenders || p99 > 2*time.Second {
			t.Errorf("%v: %d of %d offenders were closed, p99 %v after their limit, want all within 2 s", c, len(w.waited), floodOffenders, p99)
		}
		if len(w.wrong) > 0 {
			t.Errorf("%v: %d others were closed: %v", c, len(w.wrong), w.wrong[:min(3, len(w.wrong))])
		}
		if w.peak > *floodRows {
			t.Errorf("%v: got %d rows, want %d at most", c, w.peak, *floodRows)
		}
		if c.window != "month" {
			w.nothingLeft(t, c)
		}
	}
	t.Logf("of a table with %d rows, attackers in proportion:\n  callers each window other chosen closed  p50      p99      rows      heap    ns each\n%s", *floodRows, table.String())
}

// nothingLeft checks that twelve minutes after a flood nobody waits, rows are gone, and a newcomer's row is exact.
func (w *flooded) nothingLeft(t *testing.T, c flood) {
	t.Helper()
	w.now += 12 * minute
	w.request("ip", "198.51.100.1")
	w.now += minute
	w.request("ip", "198.51.100.2")
	if s := w.f.Stats(); s.Rows > 2 || s.Waiting != 0 {
		t.Errorf("%v: 13 minutes later: got %d rows and %d waiting, want the two that came since", c, s.Rows, s.Waiting)
	}
	w.f.View().Rows(w.now, func(r Row) bool {
		if r.LowerBound() {
			t.Errorf("%v: 13 minutes later: the row of %s is still marked", c, r.ID)
		}
		return true
	})
}

// keptOut reports whether an offender that steadily sends twice its limit in each window stays open for three windows,
// while so many callers a second come, each once.
func keptOut(t *testing.T, rows, limit int, window time.Duration, rate float64) bool {
	t.Helper()
	f := New(foldtest.Rules(t, fmt.Sprintf("{name: r, callers: ip, limit: %d, window: %v}", limit, window)), Options{MaxRows: rows, NoStore: true})
	offender := 2 * float64(limit) / window.Seconds()
	step := int64(float64(second) / max(offender, 1) / 4)
	var due, sends float64
	n := 0
	fill := float64(rows) * 11 / 8 // the table and the waiting room are full when it begins
	for now, end := frameNow, frameNow+3*int64(window)+int64(fill/rate*float64(second)); now < end; now += step {
		for due += rate * float64(step) / float64(second); due >= 1; due-- {
			n++
			f.Entry(&schemas.Entry{Time: now, Kind: "ip", ID: fmt.Sprintf("2001:db8::%x:%x", n>>16, n&0xffff), Count: 1})
		}
		if float64(n) < fill {
			continue
		}
		for sends += offender * float64(step) / float64(second); sends >= 1; sends-- {
			f.Entry(&schemas.Entry{Time: now, Kind: "ip", ID: "203.0.113.66", Count: 1})
		}
		for _, c := range f.TakeChanges() {
			if c.Kind == policy.Closed && c.Caller.ID == "203.0.113.66" {
				return false
			}
		}
	}
	return true
}

// TestCostOfKeepingAnOffenderOut: an offender at twice its limit is closed, however its rule's table is flooded by callers
// that each come once, up to the rate that SECURITY.md gives: its own rate times the places in the waiting room.
func TestCostOfKeepingAnOffenderOut(t *testing.T) {
	testenv.Long(t)
	for _, c := range []struct {
		limit  int
		window time.Duration
	}{{100, time.Minute}, {100, 10 * time.Second}, {1000, time.Minute}} {
		room := waitingShare * float64(*floodRows)
		formula := 2 * float64(c.limit) / c.window.Seconds() * room
		if keptOut(t, *floodRows, c.limit, c.window, 0.9*formula) {
			t.Errorf("limit %d in %v: kept out by %.0f requests/s, want it closed up to %.0f", c.limit, c.window, 0.9*formula, formula)
		}
		full := formula * DefaultMaxRows / float64(*floodRows)
		if full < 300_000 {
			t.Errorf("limit %d in %v: %.0f requests/s keep it out, want 300,000 or more", c.limit, c.window, full)
		}
		if !*floodCost {
			continue
		}
		needs := formula
		for !keptOut(t, *floodRows, c.limit, c.window, needs) && needs < 8*formula {
			needs *= 1.25
		}
		t.Logf("limit %d in %v, with %d rows: by formula %.0f requests/s; it took %.0f; with the default of %d rows that is %.0f by formula and %.0f in fact",
			c.limit, c.window, *floodRows, formula, needs, DefaultMaxRows, full, full*needs/formula)
	}
}
