package fold

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// act is one thing that happens to a fold: an entry, a control record, or other rules; now is the time when it happens.
type act struct {
	entry   *schemas.Entry
	control *schemas.Control
	rules   *rules.Set
	now     int64
}

// operated is requests with an operator at work.
type operated struct {
	rng  *rand.Rand
	sets []*rules.Set
	acts []act

	pause int64
	given []*schemas.Control
}

// operation says what a history is like.
type operation struct {
	controls, entries int   // how many records, and entries between two of them at most
	pause             int64 // between two entries at most
	late              bool  // entries may be late
}

// aThousand is 1,000 control records among some requests.
func aThousand(late bool) operation {
	return operation{controls: 1000, entries: 12, pause: 2 * second, late: late}
}

// newOperated draws a history.
func newOperated(t *testing.T, seed uint64, how operation) *operated {
	t.Helper()
	o := &operated{pause: how.pause, rng: rand.New(rand.NewPCG(seed, 2)), sets: []*rules.Set{metamorphicRules(t, false), foldtest.Rules(t,
		"{name: bucket, callers: ip, limit: 40, window: 1m, algorithm: gcra, burst: 8}",
		"{name: sliding, callers: key, limit: 50, window: 1m, slots: 12, close_for: 90s, escalate: {factor: 2, max: 1h, forget: 5m}}",
		"{name: fixed, callers: key, limit: 90, window: 1m, algorithm: fixed, mode: shadow}",
		"{name: later, callers: ip, limit: 30, window: 2m}")}}
	now := historyStart
	for n := range how.controls {
		for range o.rng.IntN(how.entries) {
			if now += o.rng.Int64N(how.pause); o.rng.IntN(400) == 0 {
				now += o.rng.Int64N(20 * minute)
			}
			at := now
			if how.late && o.rng.IntN(10) == 0 {
				at -= o.rng.Int64N(minute)
			}
			o.acts = append(o.acts, act{entry: o.entry(at), now: now})
		}
		now += o.rng.Int64N(second)
		o.acts = append(o.acts, act{control: o.record(n, now), now: now})
		if n%300 == 299 {
			o.acts = append(o.acts, act{rules: o.sets[n/300%2], now: now})
		}
	}
	return o
}

func (o *operated) caller() schemas.Caller {
	n := int(12 * o.rng.Float64() * o.rng.Float64())
	switch o.rng.IntN(9) {
	case 0:
		return schemas.Caller{Kind: "tenant", ID: fmt.Sprint("t", n)}
	case 1, 2, 3:
		return schemas.Caller{Kind: "ip", ID: fmt.Sprintf("10.0.0.%d", n)}
	}
	return schemas.Caller{Kind: "key", ID: fmt.Sprint("k", n)}
}

func (o *operated) entry(at int64) *schemas.Entry {
	c := o.caller()
	blocked := o.rng.IntN(8) == 0
	e := schemas.Entry{
		Time: at, Kind: c.Kind, ID: c.ID, Resource: "/a", Count: 1 + uint32(o.rng.IntN(12)), Blocked: blocked, Early: blocked && o.rng.IntN(3) == 0,
	}
	e.Arrived = int64(e.Count) * schemas.Tick(at)
	return &e
}

func (o *operated) record(n int, now int64) *schemas.Control {
	c := &schemas.Control{
		ID: controlNumber(n + 1), Time: now - o.rng.Int64N(second), Author: "ann", Reason: "ticket",
		Action: schemas.ControlAction(1 + o.rng.IntN(6)), Until: now + 1 + o.rng.Int64N(120*o.pause),
	}
	if !c.Global() {
		c.Caller = o.caller()
	}
	names := []string{"fixed", "sliding", "bucket", "log", "shadow", "later"}
	switch c.Action {
	case schemas.ControlClose:
	case schemas.ControlLimit:
		c.Rule, c.Limit = names[o.rng.IntN(len(names))], 1+o.rng.Int64N(150)
	case schemas.ControlUndo:
		if c.Until, c.Target = 0, controlNumber(1); len(o.given) > 0 {
			c.Target = o.given[max(0, len(o.given)-1-o.rng.IntN(8))].ID
		}
	default:
		if o.rng.IntN(2) == 0 {
			c.Rule = append(names, schemas.ControlRule)[o.rng.IntN(len(names)+1)]
		}
		if c.Action == schemas.ControlReset {
			c.Until = 0
		}
	}
	if o.rng.IntN(20) == 0 && len(o.given) > 0 {
		return o.given[max(0, len(o.given)-1-o.rng.IntN(8))] // once more
	}
	o.given = append(o.given, c)
	return c
}

// do does what happens at place i to a fold of some partitions, if it is for it.
func (o *operated) do(f *Fold, i int) {
	a := &o.acts[i]
	mine := func(c schemas.Caller) bool {
		return schemas.Partition(f.opts.Key.Hash(c.Kind, c.ID), f.opts.Partitions) == f.opts.Partition
	}
	switch {
	case a.entry != nil:
		if e := *a.entry; mine(schemas.Caller{Kind: e.Kind, ID: e.ID}) {
			f.offset = int64(i)
			f.Entry(&e)
		}
	case a.control != nil:
		if a.control.Global() || mine(a.control.Caller) {
			f.Advance(a.now)
			_ = f.Control(a.control, int64(i), int64(i)) // some are over, or about a caller of whom there is enough
		}
	default:
		f.Advance(a.now)
		f.SetRules(a.rules)
	}
}

// tale is what gates are told of each rule and caller, in order.
type tale map[string][]string

func (l tale) add(changes []Change) {
	for _, c := range changes {
		if c.Kind != policy.Same {
			key := c.Rule.Name + " " + c.Caller.String()
			l[key] = append(l[key], fmt.Sprint(c.Kind, c.Closure, c.Rule.Mode, c.Limit, c.Count.Total, c.At))
		}
	}
}

func (o *operated) run(set *rules.Set, partitions int) (tale, uint64, []*Fold) {
	all := make(tale)
	folds := make([]*Fold, partitions)
	end := o.acts[len(o.acts)-1].now
	var digest uint64
	for p := range folds {
		f := New(set, Options{Partition: p, Partitions: partitions})
		for i := range o.acts {
			o.do(f, i)
			all.add(f.TakeChanges())
		}
		f.Advance(end)
		all.add(f.TakeChanges())
		folds[p], digest = f, digest+f.Digest(end)
	}
	return all, digest, folds
}

func operatorSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("FLOODGATE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("FLOODGATE_SEED=%d", seed)
	return seed
}

// TestPartitionsAgreeUnderControl: one partition or eight, with 1,000 control records among the requests: gates are told the same of
// each caller, in the same order, and the digest is the same. FLOODGATE_SEED repeats a run.
func TestPartitionsAgreeUnderControl(t *testing.T) {
	o := newOperated(t, operatorSeed(t), aThousand(false))
	want, digest, whole := o.run(o.sets[0], 1)
	if len(want) < 40 || whole[0].Stats().Controls < 500 {
		t.Fatalf("got %d rules and callers that gates are told of, and %d records applied: too quiet", len(want), whole[0].Stats().Controls)
	}
	for _, partitions := range []int{3, 8} {
		got, sum, _ := o.run(o.sets[0], partitions)
		for key := range want {
			if !slices.Equal(got[key], want[key]) {
				t.Errorf("%d partitions: %s\ngot  %q\nwant %q", partitions, key, got[key], want[key])
			}
		}
		if len(got) != len(want) || sum != digest {
			t.Errorf("%d partitions: got %d rules and callers and digest %#x, want %d and %#x", partitions, len(got), sum, len(want), digest)
		}
	}
}

// scanned is a snapshot that is being taken: rows, each as of a place.
type scanned struct {
	from    int
	logTime int64
	set     *rules.Set
	pieces  map[int][]rows.Change
	done    bool
}

func (s *scanned) step(f *Fold, i int) {
	if f.Scan() == nil {
		return
	}
	next := i
	if f.Scan().Records() > 0 {
		next = s.from
	}
	piece, more := f.ScanRows(7)
	if s.pieces[next] = append(s.pieces[next], piece...); !more {
		f.EndScan()
		s.done = true
	}
}

func beginScan(f *Fold, i int) *scanned {
	s := &scanned{from: i, logTime: f.LogTime(), set: f.Rules(), pieces: make(map[int][]rows.Change)}
	_, losses := f.BeginScan()
	s.pieces[i] = losses
	return s
}

// refold returns the fold that follows from the snapshot and from what happened since.
func (s *scanned) refold(t *testing.T, o *operated) *Fold {
	t.Helper()
	f := New(s.set, Options{})
	f.Resume(s.logTime)
	for i := s.from; i <= len(o.acts); i++ {
		for _, c := range s.pieces[i] {
			if err := f.Put(c.Key, c.Value); err != nil {
				t.Fatal(err)
			}
		}
		if i < len(o.acts) {
			o.do(f, i)
		}
	}
	f.EndPuts()
	return f
}

// TestStoreSnapshotAndLogAgreeUnderControl: 1,000 control records among requests, some of them late. A fold that went through, one that
// is killed again and again and goes on from its store, and one that starts from a snapshot end with the same rows and records.
func TestStoreSnapshotAndLogAgreeUnderControl(t *testing.T) {
	seed, snapshots := operatorSeed(t), 0
	for n := range uint64(3) {
		o := newOperated(t, seed+n, aThousand(true))
		log, killed := New(o.sets[0], Options{}), New(o.sets[0], Options{Predict: rules.PredictShares})
		var kept fakeStore
		committed, set := 0, o.sets[0]
		var taking *scanned
		var taken []*scanned
		for i := 0; i < len(o.acts); i++ {
			o.do(killed, i)
			switch o.rng.IntN(60) {
			case 0:
				kept.commit(t, killed)
				committed, set = i+1, killed.Rules()
			case 1:
				killed = kept.restore(t, set, Options{Predict: rules.PredictShares})
				i = committed - 1
			}
		}
		for i := range o.acts {
			if o.do(log, i); o.acts[i].rules != nil {
				taking = nil // a change of rules ends a scan
			}
			if taking == nil && o.rng.IntN(100) == 0 {
				taking = beginScan(log, i+1)
			} else if taking != nil && o.rng.IntN(3) == 0 {
				if taking.step(log, i+1); taking.done {
					taken, taking = append(taken, taking), nil
				}
			}
			log.TakeChanges()
		}
		kept.commit(t, killed)
		sameUnderControl(t, "killed", killed, log)
		sameUnderControl(t, "from its store", kept.restore(t, killed.Rules(), Options{}), log)
		for _, s := range taken {
			sameUnderControl(t, fmt.Sprint("from the snapshot of ", s.from), s.refold(t, o), log)
		}
		snapshots += len(taken)
	}
	if snapshots < 5 {
		t.Errorf("got %d snapshots, want more", snapshots)
	}
}

func sameUnderControl(t *testing.T, what string, got, want *Fold) {
	t.Helper()
	now := want.LogTime()
	if got.LogTime() != now || got.Digest(now) != want.Digest(now) {
		t.Errorf("%s: got digest %#x, want %#x", what, got.Digest(now), want.Digest(now))
	}
	if g, w := recordsOf(got), recordsOf(want); !reflect.DeepEqual(g, w) {
		t.Errorf("%s: got %d records, want %d", what, len(g), len(w))
	}
	if g, w := closures(got), closures(want); !slices.Equal(g, w) {
		t.Errorf("%s: got closures\n%q, want\n%q", what, g, w)
	}
	if g, w := got.Stats().InForce, want.Stats().InForce; g != w || got.rules.records.Modes().Len() != want.rules.records.Modes().Len() {
		t.Errorf("%s: got %d records in force, want %d", what, g, w)
	}
	rowsDiffer(t, what, got, want)
	got.table.each(func(_ uint32, r *row) bool {
		about := got.rules.records.Of(schemas.Caller{Kind: got.rules.set.Rules[r.rule].Kind, ID: r.id}).Len() > 0
		if flagged := r.flags&hasRecords != 0; flagged != about {
			t.Errorf("%s: row of %s: got flag %v, want %v", what, r.id, flagged, about)
		}
		return true
	})
}

// TestPredictionsRespectWhatPeopleSay: nothing is predicted for a caller without a limit or one that is closed by hand, plans have the
// mode that counts, and neither counts nor closures depend on what is predicted.
func TestPredictionsRespectWhatPeopleSay(t *testing.T) {
	o := newOperated(t, operatorSeed(t), operation{controls: 1000, entries: 60, pause: 30_000_000})
	plain, _, _ := o.run(o.sets[0], 1)
	f, plans, told := New(o.sets[0], Options{Predict: rules.PredictShares}), 0, make(tale)
	for i := range o.acts {
		f.Measure(o.acts[i].now, 300_000_000)
		o.do(f, i)
		told.add(f.TakeChanges())
		for _, p := range f.TakePlans() {
			plans++
			if at := f.rules.index(p.Rule.Name); p.Shares && (at < 0 || f.rules.set.Rules[at] != p.Rule) {
				continue // it ends a share of rules that were
			}
			row := rowOf(f, f.rules.index(p.Rule.Name), p.Caller.ID)
			_, unlimited := f.rules.limitUnder(p.Rule, p.Caller.ID)
			ahead := p.Decision.Early || p.Decision.Next != (schemas.Span{}) || p.Decision.Share != nil
			if ahead && (unlimited || row == nil || f.rules.closedByRecord(p.Rule.Kind, p.Caller.ID)) {
				t.Fatalf("act %d: got %+v for a caller with unlimited=%v", i, p, unlimited)
			}
			if want := f.rules.set.Rules[int(f.rules.index(p.Rule.Name))].Mode; p.Decision.Mode != want {
				t.Fatalf("act %d: got %+v, want mode %v", i, p, want)
			}
		}
		f.checkTrackers(t)
	}
	f.Advance(o.acts[len(o.acts)-1].now)
	told.add(f.TakeChanges())
	if plans < 20 {
		t.Errorf("got %d plans: nothing was predicted", plans)
	}
	if !maps.EqualFunc(told, plain, slices.Equal) {
		t.Error("got other decisions with predictions than without")
	}
}

// TestUnmarkedRowsAreExactUnderControl: with fewer rows than callers, what people decide still acts on the true counts: each row without
// a mark has the count, the limit and the closure of a fold with room for all.
func TestUnmarkedRowsAreExactUnderControl(t *testing.T) {
	o := newOperated(t, operatorSeed(t), aThousand(false))
	cramped, roomy := New(o.sets[0], Options{MaxRows: 24}), New(o.sets[0], Options{})
	exact, marked := 0, 0
	for i := range o.acts {
		o.do(cramped, i)
		o.do(roomy, i)
		cramped.TakeChanges()
		roomy.TakeChanges()
		if i%20 != 0 {
			continue
		}
		now := roomy.LogTime()
		cramped.View().Rows(now, func(r Row) bool {
			if r.LowerBound() {
				marked++
				return true
			}
			exact++
			want := roomy.rowAt(r.Rule.Name, r.ID, now)
			if r.Total != want.Total || r.Limit != want.Limit || r.Unlimited != want.Unlimited ||
				r.Closure.ClosedAt(now) != want.Closure.ClosedAt(now) || r.Closure.ClosedAt(now) && r.Closure != want.Closure {
				t.Fatalf("act %d: got %+v, want %+v", i, r, want)
			}
			return true
		})
		if got, want := closuresByHand(cramped), closuresByHand(roomy); !slices.Equal(got, want) {
			t.Fatalf("act %d: got %q, want %q", i, got, want)
		}
	}
	if exact < 200 || marked < 200 {
		t.Errorf("got %d rows that are exact and %d with a mark, want more of both", exact, marked)
	}
}

// rowAt returns a row, which is empty if there is none.
func (f *Fold) rowAt(rule, id string, at int64) (found Row) {
	f.View().Rows(at, func(r Row) bool {
		if r.Rule.Name == rule && r.ID == id {
			found = r
		}
		return found.Rule == nil
	})
	if found.Rule == nil {
		def := f.rules.set.Rules[f.rules.index(rule)]
		found.Limit, found.Unlimited = f.rules.limitUnder(def, id)
	}
	return found
}

func closuresByHand(f *Fold) []string {
	return slices.DeleteFunc(closures(f), func(s string) bool { return !strings.HasPrefix(s, schemas.ControlRule) })
}

// drawPeople draws what people decide in a history, for each moment at which the time of its records changes. Nothing ends by itself:
// entries of a history come minutes late, and whether one comes before the end of a record differs from partition to partition.
func drawPeople(seed uint64) [][]*schemas.Control {
	o := &operated{rng: rand.New(rand.NewPCG(seed, 3)), pause: second}
	people := make([][]*schemas.Control, 60*historyServers)
	for m := range people {
		for n := range o.rng.IntN(3) {
			c := o.record(1+10*m+n, historyStart)
			if c.Until != 0 {
				c.Until = historyStart + int64(schemas.MaxClosure)
			}
			people[m] = append(people[m], c)
		}
	}
	return people
}

// operate applies what people decide before record i, if a moment begins there. Folds of all partitions are at one log time then.
func (h *history) operate(t *testing.T, f *Fold, log []Record, i int) {
	t.Helper()
	if i == 0 || log[i].Time == log[i-1].Time {
		return
	}
	moment := 0
	for n := range i {
		if log[n+1].Time != log[n].Time {
			moment++
		}
	}
	f.Advance(log[i-1].Time)
	for n, c := range h.people[min(moment, len(h.people)-1)] {
		if !c.Global() && schemas.Partition(f.opts.Key.Hash(c.Caller.Kind, c.Caller.ID), f.opts.Partitions) != f.opts.Partition {
			continue
		}
		if err := f.Control(c, int64(i), int64(10*moment+n)); err != nil {
			t.Fatal(err)
		}
	}
}
