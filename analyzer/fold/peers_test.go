package fold

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// Bugs that others of this kind had, as far as they would be the fold's. Each is named after what went wrong, and where.

// TestReloadKeepsCounts (CrowdSec, AWS WAF): a quota that is half spent is half spent under the new limit too.
func TestReloadKeepsCounts(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: quota, callers: key, limit: 1000, window: month}"), Options{})
	rowEntry(f, frameNow, "a", 500)
	for _, changed := range []string{
		"limit: 2000, window: month", "limit: 2000, window: month, mode: shadow", "limit: 2000, window: month, close_for: 1h",
		"limit: 2000, window: month, close_for: 1h, escalate: {max: 2h}", "limit: 2000, window: month, warn: [0.9]",
		"limit: 2000, window: month, overrides: {a: 700}",
	} {
		f.SetRules(foldtest.Rules(t, "{name: quota, callers: key, "+changed+"}"))
		if got := totals(f)["quota a"]; got != 500 {
			t.Errorf("%s: got %d, want 500", changed, got)
		}
	}
	if changes := f.TakeChanges(); len(changes) != 0 {
		t.Errorf("got %+v, want nothing closed by reloading", changes)
	}
	rowEntry(f, frameNow, "a", 200)
	tell(t, "the 700th", f, []string{"quota a closed " + time.Duration(monthEnd(frameNow)).String()})
}

func monthEnd(at int64) int64 {
	m := time.Unix(0, at).UTC()
	return time.Date(m.Year(), m.Month()+1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
}

// TestAllowListedCallerIsNeverClosed (CrowdSec 3656): not by what it does, not by what it did before it was on the list,
// and not by the same id in another spelling.
func TestAllowListedCallerIsNeverClosed(t *testing.T) {
	rule := func(overrides string) string {
		return "{name: r, callers: ip, limit: 3, window: 1m, algorithm: %s, close_for: 1h, overrides: {" + overrides + "}}"
	}
	for _, algorithm := range []string{"fixed", "sliding", "log", "gcra"} {
		f := New(foldtest.Rules(t, fmt.Sprintf(rule(""), algorithm)), Options{})
		send := func(ids ...string) {
			for _, id := range ids {
				c, err := schemas.ParseCaller("ip:" + id)
				if err != nil {
					t.Fatal(err)
				}
				f.Entry(&schemas.Entry{Time: frameNow, Kind: c.Kind, ID: c.ID, Count: 5})
			}
		}
		send("203.0.113.9", "2001:db8::1", "198.51.100.1")
		if got := len(f.TakeChanges()); got != 3 {
			t.Fatalf("%s: got %d changes, want three closed", algorithm, got)
		}
		f.SetRules(foldtest.Rules(t, fmt.Sprintf(rule(`"::ffff:203.0.113.9": unlimited, "2001:DB8::/32": unlimited, "198.51.100.0/24": unlimited`), algorithm)))
		for _, c := range f.TakeChanges() {
			if c.Kind != policy.Opened {
				t.Errorf("%s: got %+v, want it opened", algorithm, c)
			}
		}
		send("203.0.113.9", "::ffff:203.0.113.9", "2001:db8:0::1", "2001:db8::1%eth0", "198.51.100.255")
		if changes := f.TakeChanges(); len(changes) != 0 {
			t.Errorf("%s: got %+v, want none", algorithm, changes)
		}
	}
}

// TestAChildsBlockedCallsDoNotDrainTheParent (Gloo 10613): while a key is closed, its requests are recorded as blocked
// for the key alone, so its tenant is not charged.
func TestAChildsBlockedCallsDoNotDrainTheParent(t *testing.T) {
	f := New(foldtest.Rules(t,
		"{name: child, callers: key, limit: 5, window: 1m, algorithm: fixed}",
		"{name: parent, callers: tenant, limit: 10, window: 1m, algorithm: fixed}",
		"{name: strict, callers: tenant, limit: 10, window: 1m, algorithm: fixed, count_blocked: true}"), Options{})
	var closed bool
	for n := range 1000 {
		e := schemas.Entry{Time: frameNow + int64(n), Kind: "key", ID: "noisy", Count: 1, Blocked: closed}
		f.Entry(&e)
		if !closed {
			f.Entry(&schemas.Entry{Time: e.Time, Kind: "tenant", ID: "acme", Count: 1})
		}
		for _, c := range f.TakeChanges() {
			closed = closed || c.Rule.Name == "child" && c.Kind == policy.Closed
		}
	}
	if got := totals(f); !closed || got["parent acme"] != 5 || got["strict acme"] != 5 || got["child noisy"] != 5 {
		t.Errorf("got %v, want five each", got)
	}
}

// TestABacklogIsNotCountedAsABurstNow (WSO2 3322, Sentry 63763): after an outage of the analyzer, of Kafka, or of a
// server that kept its frames, ten minutes of nine a minute arrive within a second.
func TestABacklogIsNotCountedAsABurstNow(t *testing.T) {
	set := foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m, slots: 60, close_for: 1h}")
	var kept fakeStore
	f := New(set, Options{})
	seq := uint64(0)
	for n := range 100 {
		happened := frameNow + int64(n)*7*second // no more than nine in 61 seconds
		recorded := happened
		if n >= 10 && n < 95 {
			recorded = frameNow + 95*7*second // sent when all was well again
		}
		seq++
		fr := foldtest.Frame(seq, recorded, schemas.Entry{Time: happened, Kind: "key", ID: "steady", Count: 1})
		if err := f.Frame(Record{Offset: int64(n), Time: recorded, Value: foldtest.Encode(t, fr)}); err != nil {
			t.Fatal(err)
		}
		if n == 10 {
			kept.commit(t, f)
			f = kept.restore(t, set, Options{})
		}
	}
	if changes := f.TakeChanges(); len(changes) != 0 || f.Stats().Late != 0 {
		t.Errorf("got %+v and %d late, want nobody closed and nothing lost", changes, f.Stats().Late)
	}
}

// TestMonthIsNotThirtyDays (envoyproxy/ratelimit): a quota spent on the first of March comes back on the first of April.
func TestMonthIsNotThirtyDays(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: quota, callers: key, limit: 10, window: month}"), Options{})
	march := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	rowEntry(f, march, "a", 10)
	until := f.TakeChanges()[0].Closure.Until
	if want := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC).UnixNano(); until != want {
		t.Errorf("got %v, want the first of April", time.Unix(0, until).UTC())
	}
	rowEntry(f, march+30*24*hour, "a", 1)
	tell(t, "on the 31st", f, []string{})
	rowEntry(f, until, "a", 9)
	tell(t, "in April", f, []string{})
}

// TestDoubleCount (Kong 11859): frames that were folded before a checkpoint come again after a restart, as after an answer
// that was lost; those that were not in it, too.
func TestDoubleCount(t *testing.T) {
	set := foldtest.Rules(t, "{name: r, callers: key, limit: 1000, window: 1h, algorithm: fixed}")
	frame := func(seq uint64) []byte {
		return foldtest.Encode(t, foldtest.Frame(seq, frameNow, schemas.Entry{Time: frameNow, Kind: "key", ID: "a", Count: 1}))
	}
	for checkpoint := range 10 {
		var kept fakeStore
		f := New(set, Options{})
		for seq := range uint64(10) {
			if int(seq) == checkpoint {
				kept.commit(t, f)
			}
			if err := f.Frame(Record{Time: frameNow, Value: frame(seq + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		f = kept.restore(t, set, Options{})
		for range 2 {
			for seq := range uint64(10) {
				_ = f.Frame(Record{Time: frameNow, Value: frame(seq + 1)})
			}
		}
		if got := totals(f)["r a"]; got != 10 {
			t.Errorf("checkpoint after %d: got %d, want 10", checkpoint, got)
		}
	}
}

// TestResetTimeDoesNotMoveOnEachRead (gubernator 3982e50): looking changes nothing.
func TestResetTimeDoesNotMoveOnEachRead(t *testing.T) {
	f := New(foldtest.Rules(t, restoreSet...), Options{})
	rowEntry(f, frameNow, "a", 20)
	f.TakeChanges()
	f.TakeDirty()
	rows := rowsOf(f)
	for n := range int64(100) {
		f.View().Rows(frameNow+n*minute, func(Row) bool { return true })
		f.Digest(frameNow + n*minute)
		f.Stats()
	}
	if got := rowsOf(f); !slices.Equal(got, rows) || f.Dirty() != 0 {
		t.Errorf("got rows %q, want %q", got, rows)
	}
}

// TestStaleStateNeverOvertakesNewer (gubernator 3982e50): a frame that was overtaken adds to what came later, and does
// not take its place.
func TestStaleStateNeverOvertakesNewer(t *testing.T) {
	set := foldtest.Rules(t, restoreSet...)
	deliver := func(order ...uint64) *Fold {
		f := New(set, Options{})
		for _, seq := range order {
			at := frameNow + int64(seq)*second
			fr := foldtest.Frame(seq, at, schemas.Entry{Time: at, Kind: "key", ID: "a", Count: 1})
			if err := f.Frame(Record{Time: frameNow + minute, Value: foldtest.Encode(t, fr)}); err != nil {
				t.Fatal(err)
			}
		}
		return f
	}
	want := deliver(1, 2, 3)
	for _, order := range [][]uint64{{3, 2, 1}, {2, 3, 1}, {3, 1, 2}, {1, 3, 2}} {
		f := deliver(order...)
		if got, want := totals(f), totals(want); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("order %v: got %v, want %v", order, got, want)
		}
	}
}

// TestRotatingKeysExhaustNothing (CrowdSec 2683): a flood of new callers fills the table and no more; whoever was in it
// before is counted to the unit still, and room comes back as they expire.
func TestRotatingKeysExhaustNothing(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m, algorithm: fixed}"), Options{MaxRows: 1000})
	rowEntry(f, frameNow, "offender", 9)
	for n := range 100_000 {
		rowEntry(f, frameNow+int64(n), fmt.Sprint("throwaway-", n), 1)
	}
	if got := f.Stats(); got.Rows != 1000 || got.UncountedWeight() != 100_001-1000 || got.Waiting != 375 {
		t.Errorf("got %d rows, %d waiting and %d uncounted, want 1000, 375, and what did not fit", got.Rows, got.Waiting, got.UncountedWeight())
	}
	rowEntry(f, frameNow+second, "offender", 1)
	if changes := f.TakeChanges(); len(changes) != 1 || changes[0].Caller.ID != "offender" {
		t.Errorf("got %+v, want the offender closed", changes)
	}
	rowEntry(f, frameNow+13*minute, "new", 1)
	if got := f.Stats(); got.Rows != 1 || got.Expired != 1000 {
		t.Errorf("got %d rows, %d expired, want room again", got.Rows, got.Expired)
	}
}

// TestRollingRestartAdmitsTenOfTen (NVIDIA nvcf 975): a restart between any two requests gives nothing back.
func TestRollingRestartAdmitsTenOfTen(t *testing.T) {
	for _, name := range []string{"fixed", "sliding", "log", "gcra", "calendar"} {
		rule := map[string]string{
			"fixed": "window: 1h, algorithm: fixed", "sliding": "window: 1h", "log": "window: 1h, algorithm: log",
			"gcra": "window: 1000h, algorithm: gcra", "calendar": "window: day",
		}[name]
		set := foldtest.Rules(t, "{name: r, callers: key, limit: 10, "+rule+"}")
		var kept fakeStore
		f := New(set, Options{})
		start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).UnixNano()
		for n := range int64(10) {
			rowEntry(f, start+n*second, "a", 1)
			if closed := len(f.TakeChanges()) == 1; closed != (n == 9) {
				t.Errorf("%s: request %d: got closed %v", name, n+1, closed)
			}
			kept.commit(t, f)
			f = kept.restore(t, set, Options{})
		}
	}
}
