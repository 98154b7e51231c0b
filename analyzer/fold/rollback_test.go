package fold

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// A rollback is a reload with the file from before: an analyzer knows no other way back. These stories follow callers through a
// file with a mistake and back, as somebody sees them who looks for those that are punished for the mistake, and for those that
// gain by it.

// rollback is a partition through a rollback: each step is rules, or SECONDS CALLER WEIGHT, and what gates learn of it.
type rollback [][2]string

const (
	escalating    = "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, close_for: 2m, escalate: {factor: 10, max: 10h, forget: 1h}}"
	escalatingVIP = "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, close_for: 2m, escalate: {factor: 10, max: 10h, forget: 1h}, overrides: {vip: unlimited}}"
	tooLow        = "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed, close_for: 2m, escalate: {factor: 10, max: 10h, forget: 1h}}"
	tooLong       = "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, close_for: 9h, escalate: {factor: 10, max: 10h, forget: 1h}}"
	withVIP       = "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, overrides: {vip: unlimited, big: 100}}"
	withoutVIP    = "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed}"
	inShadow      = "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed, mode: shadow, close_for: 2m, escalate: {factor: 10, max: 10h, forget: 1h}}"
	bucketGood    = "{name: a, callers: key, limit: 60, window: 1m, algorithm: gcra, close_for: 10m, escalate: {factor: 10, max: 10h, forget: 1h}}"
	bucketBad     = "{name: a, callers: key, limit: 6, window: 1m, algorithm: gcra, close_for: 10m, escalate: {factor: 10, max: 10h, forget: 1h}}"
	sliding       = "{name: a, callers: key, limit: 10, window: 1m, close_for: 2m}"
	exact         = "{name: a, callers: key, limit: 10, window: 1m, algorithm: log, close_for: 2m}"
	exactLow      = "{name: a, callers: key, limit: 3, window: 1m, algorithm: log, close_for: 2m}"
	slidingLow    = "{name: a, callers: key, limit: 3, window: 1m, close_for: 2m}"
	other         = "{name: b, callers: key, limit: 5, window: 1h, algorithm: fixed}"
)

// run tells the story to one fold, and to one that starts again from its store after each step.
func (r rollback) run(t *testing.T) {
	t.Helper()
	t.Run("in one go", func(t *testing.T) { r.tell(t, func(f *Fold, _ *rules.Set) *Fold { return f }) })
	t.Run("with restarts", func(t *testing.T) {
		var store fakeStore
		r.tell(t, func(f *Fold, set *rules.Set) *Fold {
			store.commit(t, f)
			again := store.restore(t, set, f.opts)
			if got, want := again.Digest(f.LogTime()), f.Digest(f.LogTime()); got != want {
				t.Errorf("got digest %x after a restart, want %x", got, want)
			}
			return again
		})
	})
}

// tell goes through the story. After each step it goes on with the fold that next returns.
func (r rollback) tell(t *testing.T, next func(*Fold, *rules.Set) *Fold) {
	t.Helper()
	var f *Fold
	var set *rules.Set
	seq, now := uint64(0), int64(0)
	for i, step := range r {
		var got []string
		if strings.HasPrefix(step[0], "{") {
			set = foldtest.Rules(t, strings.Split(step[0], "\n")...)
			if f == nil {
				f = New(set, Options{Partitions: 1, MaxRows: 1000})
				continue
			}
			f.SetRules(set)
			before := f.Digest(now)
			f.SetRules(set) // read once more: nothing new
			if f.Digest(now) != before {
				t.Errorf("step %d, %s: the same rules again change something", i, step[0])
			}
		} else {
			var seconds int64
			var id string
			var weight uint32
			if _, err := fmt.Sscan(step[0], &seconds, &id, &weight); err != nil {
				t.Fatal(err)
			}
			seq++
			now = seconds * second
			e := schemas.Entry{Time: now, Kind: "key", ID: id, Count: weight}
			frame := foldtest.Frame(seq, now, e)
			if err := f.Frame(Record{Offset: int64(seq), Time: now, Value: foldtest.Encode(t, frame)}); err != nil {
				t.Fatal(err)
			}
		}
		got = describe(f.TakeChanges())
		if text := strings.Join(got, ", "); text != strings.TrimPrefix(step[1], "-") {
			t.Errorf("step %d, %s:\ngot  %s\nwant %s", i, step[0], text, step[1])
		}
		f = next(f, set)
	}
}

// TestRollbacks: nobody stays closed whose peak the old rules allow, and what was undone is no step of escalation; those who went
// over the old limit too gain nothing.
func TestRollbacks(t *testing.T) {
	tests := map[string]rollback{
		"a limit that was too low": {
			{escalating}, {"1 x 4", "-"}, {tooLow, "a x closed 2m1s"}, {escalating, "a x opened 1s"},
			{"2 x 5", "-"}, {"3 x 1", "a x closed 2m3s"}, // the limit-th, and a first close
		},
		"closed by an entry under the bad rules": {
			{escalating}, {"1 y 1", "-"}, {tooLow, "-"}, {"2 x 3", "a x closed 2m2s"}, {"3 y 1", "-"}, {escalating, "a x opened 3s"},
			{"4 x 7", "a x closed 2m4s"},
		},
		"who is over the old limit too stays closed, and it counts": {
			{escalating}, {"1 y 1", "-"}, {tooLow, "-"}, {"2 x 30", "a x closed 2m2s"}, {escalating, "-"}, {"130 x 10", "a x closed 22m10s"},
		},
		"who reaches the old limit while closed stays closed": {
			{escalating}, {tooLow, "-"}, {"2 x 3", "a x closed 2m2s"}, {"3 x 7", "-"}, {escalating, "-"}, {"130 x 10", "a x closed 22m10s"},
		},
		"who was closed before the bad rules came stays so, to the same end": {
			{escalating}, {"1 x 10", "a x closed 2m1s"}, {tooLow, "-"}, {escalating, "-"}, {"130 x 10", "a x closed 22m10s"},
		},
		"a second close in a row that is undone is no step, and the first one stays one": {
			{escalating}, {"1 x 10", "a x closed 2m1s"}, {"200 x 3", "-"}, {tooLow, "a x closed 23m20s"}, {escalating, "a x opened 3m20s"},
			{"300 x 10", "a x closed 25m0s"}, // the second, 20 minutes long, and not the third
		},
		"an undone close does not make escalation remember longer": {
			{escalating}, {"1 x 10", "a x closed 2m1s"}, {"3000 x 3", "-"}, {tooLow, "a x closed 1h10m0s"}, {escalating, "a x opened 50m0s"},
			{"3720 x 1", "-"}, {"3721 x 9", "a x closed 1h4m1s"}, // an hour after the first one ended, and 12 minutes after the other
		},
		"closes that had ended before are no steps": {
			{escalating}, {tooLow, "-"}, {"2 x 3", "a x closed 2m2s"}, {"200 x 3", "a x closed 23m20s"}, {"1500 y 1", "-"}, {escalating, "-"},
			{"1600 x 10", "a x closed 28m40s"}, {"1800 x 10", "a x closed 50m0s"},
		},
		"those that had ended, and the one that is opened": {
			{escalating}, {tooLow, "-"}, {"2 x 3", "a x closed 2m2s"}, {"200 x 3", "a x closed 23m20s"}, {"1500 x 3", "a x closed 3h45m0s"},
			{escalating, "a x opened 25m0s"}, {"1600 x 10", "a x closed 28m40s"},
		},
		"a step before the mistake stays one": {
			{escalating}, {"1 x 10", "a x closed 2m1s"}, {tooLow, "-"}, {"200 x 3", "a x closed 23m20s"}, {"1500 y 1", "-"}, {escalating, "-"},
			{"1600 x 10", "a x closed 46m40s"},
		},
		"a close that stands is shorter without those before it": {
			{escalating}, {tooLow, "-"}, {"2 x 3", "a x closed 2m2s"}, {"200 x 10", "a x closed 23m20s"}, {"210 y 1", "-"}, {escalating, "a x moved 5m20s"},
			{"400 x 10", "a x closed 26m40s"},
		},
		"and opens, if it would be over": {
			{escalating}, {tooLow, "-"}, {"2 x 3", "a x closed 2m2s"}, {"200 x 10", "a x closed 23m20s"}, {"500 y 1", "-"}, {escalating, "a x opened 8m20s"},
			{"600 x 10", "a x closed 30m0s"},
		},
		"closes that ended while an override was forgotten": {
			{escalatingVIP}, {escalating, "-"}, {"2 vip 50", "a vip closed 2m2s"}, {"200 vip 50", "a vip closed 23m20s"}, {"1500 y 1", "-"},
			{escalatingVIP, "-"}, {escalating, "-"}, {"1600 vip 10", "a vip closed 28m40s"},
		},
		"again and again: a file that flaps makes nobody's close longer": {
			{escalating}, {"1 x 4", "-"}, {tooLow, "a x closed 2m1s"}, {escalating, "a x opened 1s"}, {tooLow, "a x closed 2m1s"}, {escalating, "a x opened 1s"},
			{tooLow, "a x closed 2m1s"}, {escalating, "a x opened 1s"}, {"2 x 6", "a x closed 2m2s"},
		},
		"a penalty that was too long": {
			{escalating}, {"1 x 10", "a x closed 2m1s"}, {tooLong, "a x moved 9h0m1s"}, {"50 y 1", "-"}, {escalating, "a x moved 2m1s"},
			{"130 x 10", "a x closed 22m10s"}, // it was a close under the old rules as well
		},
		"a penalty that was too long, and would be over": {
			{escalating}, {"1 x 10", "a x closed 2m1s"}, {tooLong, "a x moved 9h0m1s"}, {"500 y 1", "-"}, {escalating, "a x opened 8m20s"},
		},
		"overrides that were forgotten": {
			{withVIP}, {"1 vip 500", "-"}, {"1 big 50", "-"}, {withoutVIP, "a big closed 1m0s, a vip closed 1m0s"}, {withVIP, "a big opened 1s, a vip opened 1s"},
			{"2 vip 500", "-"}, {"3 big 50", "a big closed 1m0s"},
		},
		"a rule that was added and is taken away": {
			{escalating}, {"1 x 4", "-"}, {escalating + "\n" + other, "-"}, {"2 x 5", "b x closed 1h0m0s"}, {escalating, "b x opened 2s"},
			{"3 x 1", "a x closed 2m3s"},
		},
		"a rule that was lost, and is there again: it counts from nothing, and nobody is closed": {
			{escalating + "\n" + other}, {"1 x 4", "-"}, {"2 x 6", "a x closed 2m2s, b x closed 1h0m0s"}, {escalating, "b x opened 2s"},
			{escalating + "\n" + other, "-"}, {"3 x 4", "-"}, {"4 x 1", "b x closed 1h0m0s"},
		},
		"a bucket opens when it has drained below the brim of the old one": {
			{bucketGood}, {"1 y 1", "-"}, {bucketBad, "-"}, {"2 x 6", "a x closed 10m2s"}, {bucketGood, "a x moved 3s"},
			{"4 y 1", "-"}, {"5 x 60", "a x closed 10m5s"},
		},
		"a sliding window": {
			{sliding}, {"1 x 4", "-"}, {slidingLow, "a x closed 2m1s"}, {sliding, "a x opened 1s"}, {"2 x 6", "a x closed 2m2s"},
		},
		"a log": {
			{exact}, {"1 x 4", "-"}, {exactLow, "a x closed 2m1s"}, {exact, "a x opened 1s"}, {"2 x 6", "a x closed 2m2s"},
		},
		"a mode with a lower limit: shadow closes are undone alike": {
			{escalating}, {"1 x 4", "-"}, {inShadow, "a x closed 2m1s"}, {escalating, "a x opened 1s"}, {"2 x 6", "a x closed 2m2s"},
		},
		"late entries of the time of the mistake do not close it again": {
			{escalating}, {"1 x 4", "-"}, {tooLow, "a x closed 2m1s"}, {"5 y 1", "-"}, {escalating, "a x opened 5s"}, {"4 x 1", "-"}, {"6 x 4", "-"}, {"7 x 1", "a x closed 2m7s"},
		},
	}
	for name, test := range tests {
		t.Run(name, test.run)
	}
}

// TestAfterARollbackIsAsIfNothingHadBeen: of two analyzers that read one log, one has the bad rules for a while. Afterwards no
// caller is closed there that is open at the other, unless it has reached the limit of the good rules; and of callers that had not
// been closed before, the next close is at the same entry and until the same time. (Windows of the algorithm log are not there: a
// lower limit makes them forget entries, and the peak of a closure is then all that came since, which is more than they held.)
func TestAfterARollbackIsAsIfNothingHadBeen(t *testing.T) {
	undone, closes := 0, 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		window := fmt.Sprint(60+random.IntN(100), "s, algorithm: ", []string{"fixed", "sliding"}[random.IntN(2)])
		rule := func(limit int) string {
			return fmt.Sprintf("{name: a, callers: key, limit: %d, window: %s, close_for: 5m, escalate: {factor: 3, max: 9h, forget: 2h}}", limit, window)
		}
		good, bad := foldtest.Rules(t, rule(10)), foldtest.Rules(t, rule(2+random.IntN(4)))
		a, b := New(good, Options{Partitions: 1, MaxRows: 1000}), New(good, Options{Partitions: 1, MaxRows: 1000})
		from, back := 50+random.IntN(100), 200+random.IntN(100)
		was := map[string]bool{} // callers with a close under the good rules
		for i := range 400 {
			switch i {
			case from:
				b.SetRules(bad)
			case back:
				b.SetRules(good)
				undone += opened(b.TakeChanges())
				for id := range closedIDs(b) {
					if !closedIDs(a)[id] && !was[id] {
						t.Fatalf("seed %d: %s stays closed after the rollback", seed, id)
					}
				}
			}
			now := int64(i) * second
			e := schemas.Entry{Time: now, Kind: "key", ID: fmt.Sprint("c", random.IntN(20)), Count: 1}
			for _, f := range []*Fold{a, b} {
				if err := f.Frame(Record{Offset: int64(i), Time: now, Value: foldtest.Encode(t, foldtest.Frame(uint64(i+1), now, e))}); err != nil {
					t.Fatal(err)
				}
			}
			inA, inB := describe(a.TakeChanges()), describe(b.TakeChanges())
			if i >= back && !was[e.ID] {
				closes += len(inA)
				if !slices.Equal(inA, inB) {
					t.Fatalf("seed %d, entry %d of %s: got %v, without the bad rules %v", seed, i, e.ID, inB, inA)
				}
			}
			was[e.ID] = was[e.ID] || len(inA) > 0
		}
	}
	if undone < 50 || closes < 50 {
		t.Errorf("got %d callers that were opened and %d closes after it, want more of both", undone, closes)
	}
}

func opened(changes []Change) (n int) {
	for _, text := range describe(changes) {
		if strings.Contains(text, " opened ") {
			n++
		}
	}
	return n
}

// closedIDs returns who is closed at the newest time folded.
func closedIDs(f *Fold) map[string]bool {
	closed := make(map[string]bool)
	f.View().Rows(f.LogTime(), func(r Row) bool {
		if r.Closure.ClosedAt(f.LogTime()) {
			closed[r.ID] = true
		}
		return true
	})
	return closed
}

// TestARollbackSurvivesTheAnalyzer: the old file may be put back while no analyzer runs. The owner that starts then has a store of
// the bad rules, and does the same.
func TestARollbackSurvivesTheAnalyzer(t *testing.T) {
	f := New(foldtest.Rules(t, escalating), Options{Partitions: 1, MaxRows: 1000})
	feed := func(f *Fold, seq uint64, seconds int64, weight uint32) []string {
		now := seconds * second
		frame := foldtest.Frame(seq, now, schemas.Entry{Time: now, Kind: "key", ID: "x", Count: weight})
		if err := f.Frame(Record{Offset: int64(seq), Time: now, Value: foldtest.Encode(t, frame)}); err != nil {
			t.Fatal(err)
		}
		return describe(f.TakeChanges())
	}
	feed(f, 1, 1, 4)
	f.SetRules(foldtest.Rules(t, tooLow))
	if got := describe(f.TakeChanges()); !slices.Equal(got, []string{"a x closed 2m1s"}) {
		t.Fatalf("got %v", got)
	}
	var store fakeStore
	store.commit(t, f)
	again := store.restore(t, foldtest.Rules(t, tooLow), f.opts)
	again.SetRules(foldtest.Rules(t, escalating))
	if got := describe(again.TakeChanges()); !slices.Equal(got, []string{"a x opened " + time.Second.String()}) {
		t.Errorf("after the start: got %v, want it open", got)
	}
	store.commit(t, again) // and once more: that the close was undone is stored
	again = store.restore(t, foldtest.Rules(t, escalating), f.opts)
	if got := feed(again, 2, 2, 6); !slices.Equal(got, []string{"a x closed 2m2s"}) {
		t.Errorf("the next close: got %v, want a first one", got)
	}
}
