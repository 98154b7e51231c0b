package analyzer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// clone returns a cluster that holds what m does now.
func (m *testLog) clone() *testLog {
	return &testLog{m.Clone()}
}

// state returns everything in state/0, decoded.
func (m *testLog) state(t *testing.T) []*pb.StateRecord {
	t.Helper()
	var list []*pb.StateRecord
	for _, r := range m.Records("state", 0) {
		rec, err := pb.DecodeState(r.Value)
		if err != nil {
			t.Fatalf("state offset %d: %v", r.Offset, err)
		}
		list = append(list, rec)
	}
	return list
}

// ends counts the complete cycles.
func (m *testLog) ends(t *testing.T) (n int) {
	t.Helper()
	for _, r := range m.state(t) {
		if r.GetEnd() != nil {
			n++
		}
	}
	return n
}

// elsewhere returns a world with a copy of the log and no store.
func (w *world) elsewhere(log *testLog) *world {
	other := &world{t: w.t, log: log, conf: w.conf}
	other.prod = &producer{t: w.t, log: log, id: schemas.ProducerID{9}}
	other.conf.Dir = w.t.TempDir() + "/0"
	return other
}

// checkpoint returns that of the store, which no owner has open, and checks the store.
func (w *world) checkpoint() store.Checkpoint {
	w.t.Helper()
	s, err := store.Open(w.conf.Dir, w.conf.Store)
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(); err != nil {
		w.t.Fatal(err)
	}
	return s.Checkpoint()
}

// variedSender sends frames with all kinds of trouble to requests/0.
type variedSender struct {
	rnd  *rand.Rand
	seqs [3]uint64
	line int64
	sent [][]byte
}

// variedIDs are the ids of the callers that a variedSender knows.
var variedIDs = []string{"10.0.0.1", "10.0.0.2", "2001:db8::1", "10.9.9.9"}

func (v *variedSender) callers() (list []schemas.Caller) {
	for _, id := range variedIDs {
		list = append(list, schemas.Caller{Kind: "key", ID: id}, schemas.Caller{Kind: "ip", ID: id})
	}
	return list
}

func (v *variedSender) send(w *world) {
	now := time.Now().UnixNano()
	fr := foldtest.Frame(1, now)
	for range v.rnd.IntN(8) {
		e := schemas.Entry{
			Time: now - v.rnd.Int64N(int64([]time.Duration{1, time.Second, time.Minute, 2 * time.Hour}[v.rnd.IntN(4)])),
			Kind: []string{"key", "key", "ip"}[v.rnd.IntN(3)], ID: variedIDs[v.rnd.IntN(4)],
			Count: 1 + v.rnd.Uint32N(4), Blocked: v.rnd.IntN(5) == 0,
		}
		if v.rnd.IntN(4) == 0 {
			e.Response, e.Status, e.Cost = true, 500, v.rnd.Int64N(5)
		}
		fr.Entries = append(fr.Entries, e)
	}
	if p := v.rnd.IntN(4); p == 3 {
		fr.Source, fr.Seq = true, 0
		for i := range fr.Entries {
			v.line += v.rnd.Int64N(3)
			fr.Entries[i].Offset = v.line
		}
	} else {
		v.seqs[p] += []uint64{1, 1, 1, 3}[v.rnd.IntN(4)]
		fr.Producer[0], fr.Seq = byte(p), v.seqs[p]
	}
	value := foldtest.Encode(w.t, fr)
	if v.rnd.IntN(6) == 0 && len(v.sent) > 0 {
		value = v.sent[v.rnd.IntN(len(v.sent))]
	}
	v.sent = append(v.sent, value)
	if _, err := w.log.Produce(w.t.Context(), "requests", 0, kafkaio.Message{Time: now, Value: value}); err != nil {
		w.t.Fatal(err)
	}
}

// TestStoreSnapshotAndLogReachOneDigest: whichever an owner starts from, its store is the same in the end, to the byte.
// Rules change in between, owners come and go, callers of all algorithms close and escalate, and an operator decides by hand: about
// a thousand times in all rounds together.
func TestStoreSnapshotAndLogReachOneDigest(t *testing.T) {
	t.Parallel()
	refolded, decided := uint64(0), int64(0)
	runs := 3
	if testenv.IsLong() {
		runs = 6
	}
	for range runs {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d", seed)
			v := &variedSender{rnd: rand.New(rand.NewPCG(seed, 0))}
			sets := foldtest.VariedRules(t)
			w := newWorld(t)
			w.conf.Rules, w.conf.Snapshot, w.conf.Fold.MaxSenders = sets[0], 40*time.Second, 3
			op := newOperator(w.log, rand.New(rand.NewPCG(seed, 1)), v.callers(), "fixed", "sliding", "log", "bucket", "daily", "cost")
			w.start()
			for i := range 300 {
				v.send(w)
				for range v.rnd.IntN(3) {
					op.act(t)
				}
				time.Sleep(time.Duration(v.rnd.Int64N(int64(6 * time.Second))))
				switch {
				case i == 120 || i == 200:
					slices.Reverse(sets)
					w.conf.Rules = sets[0]
					w.owner.SetRules(sets[0])
				case v.rnd.IntN(60) == 0:
					w.end()
					w.start()
				}
			}
			v.send(w) // after the last snapshot began
			time.Sleep(100 * time.Millisecond)
			w.end()
			want := w.checkpoint()
			if n := w.log.ends(t); n < 5 {
				t.Fatalf("got %d complete snapshots, want several", n)
			}
			fromSnapshot := w.elsewhere(w.log.clone())
			snapshotStats := fromSnapshot.atRest()
			noState := w.log.clone()
			noState.Recreate("state")
			fromLog := w.elsewhere(noState)
			logStats := fromLog.atRest()
			if warm := w.atRest(); warm.Frames != 0 {
				t.Errorf("from the store: got %d frames folded again, want none", warm.Frames)
			}
			refolded += snapshotStats.Frames
			decided += want.Placed
			if snapshotStats.Frames > logStats.Frames/2 {
				t.Errorf("from the snapshot: got %d frames folded, want far fewer than the log's %d", snapshotStats.Frames, logStats.Frames)
			}
			for how, got := range map[string]store.Checkpoint{"snapshot": fromSnapshot.checkpoint(), "log": fromLog.checkpoint(), "store": w.checkpoint()} {
				if got.Next != want.Next || got.Digest != want.Digest || got.Rows != want.Rows || got.RulesID != want.RulesID || got.RulesFrom != want.RulesFrom || got.LogTime != want.LogTime {
					t.Errorf("from the %s: got %+v, want %+v", how, got, want)
				}
			}
		})
	}
	if wanted := int64(150 * runs); decided < wanted {
		t.Errorf("got %d control records, want %d", decided, wanted)
	}
	if refolded == 0 {
		t.Error("from snapshots: got no frame folded, want those since they began")
	}
}

// TestAMonthsCountOutlivesTheLogAndTheStore: the log holds the last few records only, and the store is gone.
func TestAMonthsCountOutlivesTheLogAndTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, "version: 1\nrules:\n  - {name: r, callers: key, limit: 1000, window: month}\n")
		w.start()
		for range 100 {
			w.prod.send(time.Now(), "a", "b")
			time.Sleep(30 * time.Second)
		}
		w.prod.send(time.Now(), "a")
		time.Sleep(time.Second)
		w.end()
		w.log.Trim("requests", 0, 80) // of which the last snapshot began at most ten minutes ago
		if err := os.RemoveAll(w.conf.Dir); err != nil {
			t.Fatal(err)
		}
		if s := w.atRest(); s.Lost != 0 || s.Frames > 21 {
			t.Errorf("got %d lost and %d frames folded, want none and at most what the log holds", s.Lost, s.Frames)
		}
		w.wantCounts(map[string]int64{"a": 101, "b": 100})
	})
}

// TestTheLogWasCutBeyondTheSnapshotThatWasAnnounced: its owner had written a newer one, and died before a heartbeat said so.
func TestTheLogWasCutBeyondTheSnapshotThatWasAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, "version: 1\nrules:\n  - {name: r, callers: key, limit: 1000, window: month}\n")
		w.start()
		w.prod.send(time.Now(), "a")
		time.Sleep(5 * time.Minute) // the first snapshot, of nothing or of one request
		announced := w.log.Records("decisions", 0)
		for range 9 {
			w.prod.send(time.Now(), "a")
		}
		time.Sleep(11 * time.Minute)
		w.end()
		w.log.Edit("decisions", 0, func([]kafkaio.Record) []kafkaio.Record { return announced })
		w.log.Trim("requests", 0, 10)
		if err := os.RemoveAll(w.conf.Dir); err != nil {
			t.Fatal(err)
		}
		if s := w.atRest(); s.Lost != 0 {
			t.Errorf("got %d records lost, want none: the newer snapshot has them", s.Lost)
		}
		w.wantCounts(map[string]int64{"a": 10})
	})
}

// TestASnapshotThatCannotBeUsedIsNot: the log alone then has to do, and it is said.
func TestASnapshotThatCannotBeUsedIsNot(t *testing.T) {
	testenv.Long(t)
	recreate := func(w *world) {
		w.log.Recreate("requests")
		w.prod.id = schemas.ProducerID{8}
	}
	tests := map[string]struct {
		spoil func(w *world)
		want  map[string]int64
	}{
		"nothing is wrong with it": {func(*world) {}, map[string]int64{"a": 5, "b": 5}},
		"its end is missing":       {func(w *world) { w.spoilState(func(r *pb.StateRecord) bool { return r.GetEnd() != nil }) }, map[string]int64{"a": 2, "b": 2}},
		"a row is missing":         {func(w *world) { w.spoilState(func(r *pb.StateRecord) bool { return r.GetRow() != nil }) }, map[string]int64{"a": 2, "b": 2}},
		"its begin is missing":     {func(w *world) { w.spoilState(func(r *pb.StateRecord) bool { return r.GetBegin() != nil }) }, map[string]int64{"a": 2, "b": 2}},
		"the topic is empty":       {func(w *world) { w.log.Recreate("state") }, map[string]int64{"a": 2, "b": 2}},
		"nobody announces it":      {func(w *world) { w.log.Recreate("decisions") }, map[string]int64{"a": 5, "b": 5}},
		"requests were made anew":  {recreate, map[string]int64{"z": 1}},
		"requests were made anew, and grew": {func(w *world) {
			recreate(w)
			for range 9 {
				w.prod.send(time.Now(), "z")
			}
		}, map[string]int64{"z": 10}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.conf.Rules = mustRules(t, "version: 1\nrules:\n  - {name: r, callers: key, limit: 1000, window: month}\n")
				w.start()
				for range 5 {
					w.prod.send(time.Now(), "a", "b")
				}
				time.Sleep(11 * time.Minute)
				w.end()
				if w.log.ends(t) < 2 {
					t.Fatal("got no snapshot")
				}
				w.log.Trim("requests", 0, 3)
				if err := os.RemoveAll(w.conf.Dir); err != nil {
					t.Fatal(err)
				}
				test.spoil(w)
				if test.want["z"] > 0 {
					w.prod.send(time.Now(), "z")
				}
				w.atRest()
				w.wantCounts(test.want)
			})
		})
	}
}

// spoilState makes the records of state/0 that the predicate is true for unreadable.
func (w *world) spoilState(spoil func(r *pb.StateRecord) bool) {
	w.log.Edit("state", 0, func(records []kafkaio.Record) []kafkaio.Record {
		for i, r := range records {
			if rec, err := pb.DecodeState(r.Value); err == nil && spoil(rec) {
				records[i].Value = []byte{0xff}
			}
		}
		return records
	})
}

// TestAStoreThatIsGoodAndYetNotTheBest gives way to the last snapshot: one that is far behind, one that the log no longer
// reaches back to, and one of a zombie that went on by other rules than the log was counted by.
func TestAStoreThatIsGoodAndYetNotTheBest(t *testing.T) {
	testenv.Long(t)
	const month = "version: 1\nrules:\n  - {name: r, callers: key, limit: %d, window: month}\n"
	tests := map[string]struct {
		meanwhile   func(old, other *world)
		want        int64 // of a
		quarantined bool
	}{
		"nothing happened elsewhere": {func(_, _ *world) {}, 5, false},
		"a little was counted elsewhere": {func(_, other *world) {
			other.prod.send(time.Now(), "a")
		}, 6, false},
		"the log was cut beyond it": {func(_, other *world) {
			for range 20 {
				other.prod.send(time.Now(), "a")
			}
			time.Sleep(11 * time.Minute)
			other.log.Trim("requests", 0, 20)
		}, 25, true},
		"it is far behind": {func(_, other *world) {
			for range staleBy + 100 {
				other.prod.send(time.Now(), "a")
			}
			time.Sleep(11 * time.Minute)
		}, staleBy + 105, true},
		"rules changed elsewhere, after it": {func(_, other *world) {
			other.prod.send(time.Now(), "a")
			time.Sleep(time.Second)
			other.owner.SetRules(mustRules(other.t, fmt.Sprintf(month, 2000)))
		}, 6, false}, // it is told where
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.conf.Rules = mustRules(t, fmt.Sprintf(month, 1000))
				w.start()
				for range 5 {
					w.prod.send(time.Now(), "a")
				}
				time.Sleep(time.Second)
				w.end()
				other := w.elsewhere(w.log)
				other.start()
				time.Sleep(11 * time.Minute) // so that it has a snapshot of its own
				test.meanwhile(w, other)
				time.Sleep(time.Minute)
				other.end()
				w.atRest()
				w.wantCounts(map[string]int64{"a": test.want})
				aside, err := filepath.Glob(w.conf.Dir + ".broken-*")
				if err != nil || (len(aside) > 0) != test.quarantined {
					t.Errorf("moved aside: got %v, %v, want %v", aside, err, test.quarantined)
				}
			})
		})
	}
}
