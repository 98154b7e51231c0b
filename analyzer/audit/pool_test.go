package audit

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
)

const sharedTen = "version: 1\nrules:\n  - {name: search, callers: key, capacity: 10, window: 1s}\n"

// contended lets callers ask for more than the capacity for some seconds, while an owner runs. The owner sends tallies and levels.
func (w *world) contended() {
	w.t.Helper()
	w.start()
	for range 20 {
		w.prod.send(time.Now(), "a", "a", "a", "a", "b")
		time.Sleep(200 * time.Millisecond)
	}
	w.end()
}

// another returns a value of which the last number is another one.
func another(value []byte) []byte {
	value = slices.Clone(value)
	value[len(value)-1] ^= 1
	return value
}

// TestAuditComparesPools: tallies and levels are entries of the log, so that a recount reaches the same demand and level. What was changed in
// the store is found.
func TestAuditComparesPools(t *testing.T) {
	key := string(append([]byte{byte(fold.PoolRow)}, "search"...))
	for name, c := range map[string]struct {
		change func(rows map[string][]byte)
		want   string
	}{
		"a number": {func(rows map[string][]byte) { rows[key] = another(rows[key]) }, WhyPool},
		"missing":  {func(rows map[string][]byte) { delete(rows, key) }, WhyMissing},
		"too many": {func(rows map[string][]byte) { rows[key+"2"] = rows[key] }, WhyExtra},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.conf.Rules = rulesOf(t, sharedTen)
				w.contended()
				if r := w.wantExact(); len(r.Log.Pools) != 1 || r.Log.Pools[0].Level.Level == 0 || r.Log.Closes == 0 {
					t.Fatalf("recount: got %+v and %d closes, want a level and some", r.Log.Pools, r.Log.Closes)
				}
				w.change(func(rows map[string][]byte) {
					if rows[key] == nil {
						t.Fatal("got no row of the pool")
					}
					c.change(rows)
				})
				r := w.mustAudit()
				if len(r.Differences) != 1 || r.Differences[0].Why != c.want || r.Differences[0].Caller != fold.AllCallers || len(r.Unaudited) != 0 {
					t.Errorf("got %+v, want one difference of all callers: %s", r, c.want)
				}
			})
		})
	}
}

// TestAuditClaimsNothingOfAPoolThatItCannotRecount, because the log lacks its begin, or because the table of callers was full.
func TestAuditClaimsNothingOfAPoolThatItCannotRecount(t *testing.T) {
	for why, hide := range map[string]func(w *world){
		WhyRetention: func(w *world) { w.contended(); w.log.Trim("requests", 0, 30) },
		WhyFull:      func(w *world) { w.conf.Fold.MaxRows = 1; w.contended() },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.conf.Rules = rulesOf(t, sharedTen)
			hide(w)
			key := string(append([]byte{byte(fold.PoolRow)}, "search"...))
			w.change(func(rows map[string][]byte) { rows[key] = another(rows[key]) })
			r := w.mustAudit()
			if len(r.Differences) != 0 || !slices.ContainsFunc(r.Unaudited, func(d Difference) bool { return d.Why == why && d.Caller == fold.AllCallers }) {
				t.Errorf("got %+v, want the pool unaudited: %s", r, why)
			}
		})
	}
}
