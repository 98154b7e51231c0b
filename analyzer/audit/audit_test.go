package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
	"github.com/509da70d/floodgate/store/rows"
)

// change rewrites rows of the store as a hand with an editor would that knows how to keep the digest right.
func (w *world) change(f func(rows map[string][]byte)) {
	w.t.Helper()
	s, err := store.Open(w.conf.Dir, w.conf.Store)
	if err != nil {
		w.t.Fatal(err)
	}
	before, after := make(map[string][]byte), make(map[string][]byte)
	err = s.Load(func(key, value []byte) error {
		before[string(key)], after[string(key)] = slices.Clone(value), slices.Clone(value)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	f(after)
	var changes []store.Change
	for key, value := range after {
		c := store.Change{Key: []byte(key), Value: value}
		if old, ok := before[key]; ok {
			c.Old = rows.Sum(c.Key, old)
		}
		changes = append(changes, c)
	}
	for key, old := range before {
		if _, ok := after[key]; !ok {
			changes = append(changes, store.Change{Key: []byte(key), Old: rows.Sum([]byte(key), old)})
		}
	}
	at := s.Checkpoint()
	if err := errors.Join(s.Commit(at, changes), s.Close()); err != nil {
		w.t.Fatal(err)
	}
}

func TestAuditIsExactAfterKills(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		w := newAuditWorld(t)
		var copies int
		op := foldtest.Operator{
			Rnd: rnd, Rules: []string{"r", "day", "slide", "log", "bucket"},
			Callers: []schemas.Caller{{Kind: "key", ID: "c0"}, {Kind: "key", ID: "c1"}, {Kind: "key", ID: "c2"}, {Kind: "ip", ID: "192.0.2.1"}},
		}
		for cycle := range 6 {
			w.start()
			for range 40 + rnd.IntN(40) {
				at := time.Now().Add(-time.Duration(rnd.IntN(90)) * time.Second) // some late for r, some twice
				w.prod.send(at, fmt.Sprint("c", rnd.IntN(12)), fmt.Sprint("c", rnd.IntN(12)))
				if rnd.IntN(8) == 0 {
					copies++
					w.prod.frame(at, w.prod.seq, "c0")
				}
				if rnd.IntN(3) == 0 {
					w.decide(op.Decide(time.Now().UnixNano()))
				}
				time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			}
			if cycle%2 == 0 {
				w.kill()
			} else {
				w.end()
			}
		}
		w.atRest()
		r := w.wantExact()
		if r.Approximate() || r.Log.InForce == 0 {
			t.Errorf("got %d control records in force, approximate %v; want some at their places", r.Log.InForce, r.Approximate())
		}
		if r.Log.Duplicate != uint64(copies) || r.Log.Late == 0 || r.From != 0 {
			t.Errorf("recount: got %d duplicates of %d, %d late, from %d; want all, some, 0", r.Log.Duplicate, copies, r.Log.Late, r.From)
		}
	})
}

func TestAuditFindsRowsThatWereChangedByHand(t *testing.T) {
	other := string(fold.AppendRowKey(nil, "day", "key", "never-seen"))
	key := string(fold.AppendRowKey(nil, "day", "key", "a"))
	closed := string(fold.AppendRowKey(nil, "r", "key", "a"))
	for name, c := range map[string]struct {
		change func(rows map[string][]byte)
		want   Difference
	}{
		"a count": {
			func(rows map[string][]byte) {
				rows[key] = recounted(rows[key], func(v *fold.StoredRow) { v.State[2]++ })
			},
			Difference{Rule: "day", Caller: "key:a", Store: 5, Log: 4, Why: WhyCount},
		},
		"a row too many": {
			func(rows map[string][]byte) { rows[other] = rows[key] },
			Difference{Rule: "day", Caller: "key:never-seen", Store: 4, Why: WhyExtra},
		},
		"a row missing": {
			func(rows map[string][]byte) { delete(rows, key) },
			Difference{Rule: "day", Caller: "key:a", Log: 4, Why: WhyMissing},
		},
		"a closure": {
			func(rows map[string][]byte) {
				rows[closed] = recounted(rows[closed], func(v *fold.StoredRow) {
					if v.Closure.Until == 0 {
						panic("BUG: no closure to change")
					}
					v.Closure.Until = 0
				})
			},
			Difference{Rule: "r", Caller: "key:a", Store: 4, Log: 4, Why: WhyClosure},
		},
		"a rule that is not there": {
			func(rows map[string][]byte) { rows[string(fold.AppendRowKey(nil, "gone", "key", "a"))] = rows[key] },
			Difference{Rule: "gone", Caller: "key:a", Why: WhyUnknown},
		},
		"a producer": {
			func(rows map[string][]byte) {
				f := fold.New(rulesOf(t, auditRules), fold.Options{})
				f.RestoreSender(&fold.Sender{ID: schemas.ProducerID{1}, Seq: 99, Last: time.Now().UnixNano()})
				row := f.TakeDirty()[0]
				rows[string(row.Key)] = row.Value
			},
			Difference{Caller: "producer:01000000000000000000000000000000", Why: WhySender},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newAuditWorld(t)
				w.prod.send(time.Now(), "a", "a", "a", "b")
				w.prod.send(time.Now(), "a")
				w.atRest()
				w.wantExact()
				w.change(c.change)
				r := w.mustAudit()
				if len(r.Differences) != 1 || len(r.Unaudited) != 0 || r.Exact() {
					t.Fatalf("audit: got %+v, want one difference", r)
				}
				got := r.Differences[0]
				got.Start = 0
				if got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
			})
		})
	}
}

// recounted changes a row's value.
func recounted(value []byte, change func(v *fold.StoredRow)) []byte {
	v, err := fold.ParseRow(value)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	change(&v)
	return v.AppendTo(nil)
}

// Rows that wait to be deleted are no difference: a crash may leave them behind.
func TestAuditKnowsWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAuditWorld(t)
		w.prod.send(time.Now(), "old")
		w.atRest()
		var left map[string][]byte
		w.change(func(rows map[string][]byte) {
			left = maps.Clone(rows)
		})
		time.Sleep(49 * time.Hour)
		w.prod.id = schemas.ProducerID{2}
		w.prod.seq = 0
		w.prod.send(time.Now(), "new")
		w.atRest()
		w.wantExact()
		added := 0
		w.change(func(rows map[string][]byte) {
			for key, value := range left {
				if _, ok := rows[key]; !ok {
					rows[key] = value
					added++
				}
			}
		})
		if added == 0 {
			t.Fatal("nothing had expired")
		}
		w.wantExact()
	})
}

// What began before the log does can't be called wrong; what began later can.
func TestAuditSaysWhatRetentionHides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAuditWorld(t)
		for range 10 {
			w.prod.send(time.Now(), "a", "b")
		}
		w.atRest()
		time.Sleep(20 * time.Minute)
		for range neighbours {
			w.prod.send(time.Now(), "a")
		}
		time.Sleep(5 * time.Minute)
		w.prod.send(time.Now(), "a", "c")
		w.atRest()
		w.wantExact()
		w.log.Trim("requests", 0, 10)
		r := w.mustAudit()
		if !r.Exact() || r.From != 10 || r.Agreed < 5 {
			t.Errorf("audit: got %+v, want no difference, from offset 10", r)
		}
		var hidden []string
		for _, d := range r.Unaudited {
			if d.Why != WhyRetention || d.Store <= d.Log {
				t.Errorf("got %+v, want more in the store than in what is left of the log", d)
			}
			hidden = append(hidden, d.Rule+" "+d.Caller)
		}
		if want := []string{"day key:a", "day key:b"}; !slices.Equal(hidden, want) {
			t.Errorf("unaudited: got %v, want %v", hidden, want)
		}
		key := string(fold.AppendRowKey(nil, "r", "key", "c"))
		w.change(func(rows map[string][]byte) {
			rows[key] = recounted(rows[key], func(v *fold.StoredRow) { v.State[1] += 2 })
		})
		if r = w.mustAudit(); len(r.Differences) != 1 || r.Differences[0].Store != 3 || r.Differences[0].Log != 1 {
			t.Errorf("a window within the log: got %+v, want key:c of r with 3 for 1", r.Differences)
		}
		w.log.Trim("requests", 0, 11+neighbours)
		if r = w.mustAudit(); !r.Exact() || len(r.Unaudited) == 0 || r.From != r.To {
			t.Errorf("a log that holds nothing: got %+v, want all unaudited", r)
		}
	})
}

func TestAuditAcrossAChangeOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prod.send(time.Now(), "a", "a")
		w.atRest()
		w.conf.Rules = rulesOf(t, threeAMinute+"  - {name: hour, callers: key, limit: 9, window: 1h}\n")
		if _, err := w.audit(); !errors.Is(err, ErrOtherRules) {
			t.Errorf("rules that are not the store's: got %v, want %v", err, ErrOtherRules)
		}
		w.atRest()
		w.prod.send(time.Now(), "a")
		w.atRest()
		if r := w.wantExact(); r.Agreed < 3 {
			t.Errorf("audit: got %+v, want three rows that agree", r)
		}
		w.log.Edit("control", 0, func(records []kafkaio.Record) []kafkaio.Record {
			records[1].Value = []byte("garbage") // the text of the first rules
			return records
		})
		r := w.mustAudit()
		if len(r.Differences) != 0 || len(r.Unaudited) != 1 || r.Unaudited[0].Why != WhyRules || r.Unaudited[0].Rule != "hour" {
			t.Errorf("audit that does not know all rules: got %+v, want the new rule's window unaudited", r)
		}
		time.Sleep(2 * time.Hour)
		w.prod.send(time.Now(), "a", "b")
		w.atRest()
		w.wantExact()
	})
}

// Whoever knows which rules counted when finds a row that was changed, and the closures of earlier rules too.
func TestAuditRecountsByTheRulesOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		texts := []string{
			threeAMinute,
			strings.ReplaceAll(threeAMinute, "limit: 3", "limit: 5"),
			threeAMinute + "  - {name: hour, callers: key, limit: 9, window: 1h}\n",
			"version: 1\nrules:\n  - {name: hour, callers: key, limit: 2, window: 1h}\n",
		}
		for i := range 12 {
			w.conf.Rules = rulesOf(t, texts[i%len(texts)])
			w.start()
			for range 5 {
				w.prod.send(time.Now(), "a", "b", fmt.Sprint("c", i))
				time.Sleep(time.Second)
			}
			w.owner.SetRules(rulesOf(t, texts[(i+1)%len(texts)])) // while it runs
			w.conf.Rules = rulesOf(t, texts[(i+1)%len(texts)])
			time.Sleep(time.Second)
			w.prod.send(time.Now(), "b")
			time.Sleep(time.Second)
			w.end()
			if r, err := w.audit(); err != nil || !r.Exact() || len(r.Unaudited) != 0 {
				t.Fatalf("life %d: got %+v, %v, want it exact", i, r, err)
			}
		}
		key := string(fold.AppendRowKey(nil, "r", "key", "b"))
		w.change(func(rows map[string][]byte) {
			rows[key] = recounted(rows[key], func(v *fold.StoredRow) { v.State[1]++ })
		})
		r, err := w.audit()
		if err != nil || len(r.Differences) != 1 || r.Differences[0].Caller != "key:b" {
			t.Errorf("a row that was changed: got %+v, %v, want it found", r, err)
		}
	})
}

func TestAuditRefusesWhatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAuditWorld(t)
		if r := w.mustAudit(); !r.Exact() || r.To != 0 {
			t.Errorf("a new store: got %+v, want nothing to audit", r)
		}
		w.prod.send(time.Now(), "a")
		w.prod.send(time.Now(), "a")
		w.start()
		time.Sleep(time.Second)
		if _, err := w.audit(); !errors.Is(err, store.ErrLocked) {
			t.Errorf("a store in use: got %v, want %v", err, store.ErrLocked)
		}
		w.end()
		w.log.Recreate("requests")
		w.prod.send(time.Now(), "b")
		if _, err := w.audit(); !errors.Is(err, kafkaio.ErrTruncated) {
			t.Errorf("a shorter log: got %v, want %v", err, kafkaio.ErrTruncated)
		}
		w.prod.send(time.Now(), "b")
		if _, err := w.audit(); !errors.Is(err, ErrOtherLog) {
			t.Errorf("another log: got %v, want %v", err, ErrOtherLog)
		}
		w.log.SetDown(true)
		if _, err := w.audit(); !errors.Is(err, kafkaiotest.ErrDown) {
			t.Errorf("no broker: got %v, want %v", err, kafkaiotest.ErrDown)
		}
		w.log.SetDown(false)
		s, err := store.Open(w.conf.Dir, w.conf.Store)
		if err != nil {
			t.Fatal(err)
		}
		at := s.Checkpoint()
		at.Next = store.Incomplete
		if err := errors.Join(s.Commit(at, nil), s.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.audit(); !errors.Is(err, ErrIncomplete) {
			t.Errorf("a checkpoint cut short: got %v, want %v", err, ErrIncomplete)
		}
	})
}

// vanishing loses records while they are read.
type vanishing struct {
	*kafkaiotest.Kafka
	after int
}

func (v *vanishing) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	if v.after--; v.after == 0 {
		v.Trim("requests", 0, 12)
	}
	return v.Kafka.Fetch(ctx, r)
}

func TestAuditNoticesRetentionWhileItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAuditWorld(t)
		for range 15 {
			w.prod.send(time.Now(), "a")
		}
		w.atRest()
		var progress int64
		c := Config{Fold: w.conf.Fold, Requests: "requests", Dir: w.conf.Dir, Rules: w.conf.Rules, Store: w.conf.Store}
		c.Progress = func(folded, of int64) { progress = folded*100 + of }
		if r, err := Run(t.Context(), w.log, c); err != nil || !r.Exact() || progress != 1515 {
			t.Errorf("whole log: got %+v, %v, progress %d; want exact, 15 of 15", r, err, progress)
		}
		if _, err := Run(t.Context(), &vanishing{w.log, 2}, c); err == nil {
			t.Error("records vanished: got no error, want one")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Run(ctx, w.log, c); err == nil {
			t.Error("cancelled: got no error, want one")
		}
	})
}

func TestWhyRowsDiffer(t *testing.T) {
	has := []byte{1}
	one := row{StoredRow: fold.StoredRow{State: []int64{1}}}
	closed := row{StoredRow: fold.StoredRow{State: []int64{1}, Closure: policy.Closure{Nth: 1}}}
	if got := whyRows(has, has, one, closed); got != WhyClosure {
		t.Errorf("closures: got %q", got)
	}
	if got := whyRows(has, has, one, row{StoredRow: fold.StoredRow{State: []int64{2}}}); got != WhyState {
		t.Errorf("states: got %q", got)
	}
}

// TestCountsThatWereBroughtAreAuditedFromThereOn: the log begins with a frame without entries. What began up to its log time cannot be
// recounted; all else is, also right behind it.
func TestCountsThatWereBroughtAreAuditedFromThereOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAuditWorld(t)
		f := foldtest.KeysFrame(schemas.ProducerID{9}, 1, time.Now())
		for range 2 { // an answer was lost
			w.log.Append("requests", 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: foldtest.Encode(t, f)})
		}
		w.start()
		time.Sleep(time.Minute)
		for range 2 {
			w.prod.send(time.Now(), "a")
			time.Sleep(time.Second)
		}
		w.end()
		w.log.Edit("requests", 0, func(r []kafkaio.Record) []kafkaio.Record { return slices.Delete(r, 2, 3) })
		r := w.mustAudit()
		whys := make(map[string]string)
		for _, d := range append(r.Differences, r.Unaudited...) {
			whys[d.Rule] = d.Why
		}
		want := map[string]string{"r": WhyCount, "day": WhyRetention, "slide": WhyRetention, "log": WhyRetention}
		if !maps.Equal(whys, want) || r.From != 2 || r.Approximate() {
			t.Errorf("got %v from offset %d, want %v from 2", whys, r.From, want)
		}
	})
}
