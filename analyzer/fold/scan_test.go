package fold

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// taken is a snapshot as a reader finds it: senders and log time as of from, and rows, each as of its next.
type taken struct {
	from    int
	senders []Sender
	logTime int64
	rows    []takenRow
}

type takenRow struct {
	next int
	rows.Change
}

// take hands out the next piece of f's scan, as of the record next.
func (s *taken) take(f *Fold, next, bound int) (more bool) {
	piece, more := f.ScanRows(bound)
	for _, row := range piece {
		s.rows = append(s.rows, takenRow{next, row})
	}
	return more
}

func (s *taken) begin(f *Fold, next int) {
	senders, losses := f.BeginScan()
	*s = taken{from: next, senders: senders, logTime: f.LogTime()}
	for _, row := range losses {
		s.rows = append(s.rows, takenRow{next, row})
	}
}

// restore refolds the log from where the snapshot began, up to end.
func (s *taken) restore(t foldtest.T, f *Fold, log []Record, end int) {
	t.Helper()
	for i := range s.senders {
		f.RestoreSender(&s.senders[i])
	}
	f.Resume(s.logTime)
	at := s.from
	for _, row := range s.rows {
		for ; at < row.next; at++ {
			_ = f.Frame(log[at])
		}
		if err := f.Put(row.Key, row.Value); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
	f.EndPuts()
	f.TakeChanges()
	for ; at < end; at++ {
		_ = f.Frame(log[at])
	}
}

// TestWarmSnapshotAndEmptyAgree: a store that was there all along, one that is restored from a snapshot taken at any pace
// while the fold went on, and one that is folded from the whole log hold the same rows, and decide the same from then on;
// for all algorithms, with duplicates, gaps, late entries, long silences, evicted senders and escalated closures.
func TestWarmSnapshotAndEmptyAgree(t *testing.T) {
	set := foldtest.VariedRules(t)[0]
	o := Options{MaxSenders: 3}
	complete := 0
	rapid.Check(t, func(t *rapid.T) {
		log := randomLog(t)
		warm := New(set, o)
		var kept fakeStore
		var now, last taken
		scanning, at := false, 0
		for i := range log {
			_ = warm.Frame(log[i])
			switch {
			case !scanning && rapid.IntRange(0, 2).Draw(t, "begin") == 0:
				now.begin(warm, i+1)
				scanning = true
			case scanning && rapid.IntRange(0, 1).Draw(t, "piece") == 0:
				if !now.take(warm, i+1, rapid.IntRange(1, 3).Draw(t, "rows")) {
					last, at, scanning = now, i+1, false
					complete++
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "commit") == 0 {
				kept.commit(t, warm)
			}
		}
		if last.senders == nil && last.rows == nil {
			return // no scan came to its end
		}
		end := rapid.IntRange(at, len(log)).Draw(t, "compared before")
		empty, restored := New(set, o), New(set, o)
		last.restore(t, restored, log, end)
		for i := range end {
			_ = empty.Frame(log[i])
		}
		empty.TakeChanges()
		restored.TakeChanges()
		agree(t, restored, empty)
		for i := end; i < len(log); i++ {
			got, want := foldOne(restored, log, i, changeOfRules{before: -1}, nil), foldOne(empty, log, i, changeOfRules{before: -1}, nil)
			if !sameChanges(got, want) {
				t.Fatalf("record %d: got changes %+v, want %+v", i, got, want)
			}
		}
		agree(t, restored, empty)
		agree(t, kept.finish(t, warm), empty)
	})
	if complete == 0 {
		t.Error("no scan ever came to its end")
	}
}

// finish commits what is left and returns what the store then holds.
func (s *fakeStore) finish(t foldtest.T, f *Fold) *Fold {
	t.Helper()
	s.commit(t, f)
	return s.restore(t, f.Rules(), f.opts)
}

// agree compares two folds row by row, and the stores that they commit to.
func agree(t foldtest.T, got, want *Fold) {
	t.Helper()
	if g, w := rowsOf(got), rowsOf(want); !slices.Equal(g, w) {
		t.Fatalf("got rows %q, want %q", g, w)
	}
	if g, w := senders(got.dedupe), senders(want.dedupe); !slices.Equal(g, w) {
		t.Fatalf("got senders %q, want %q", g, w)
	}
	if got.LogTime() != want.LogTime() {
		t.Fatalf("got log time %d, want %d", got.LogTime(), want.LogTime())
	}
	if g, w := got.Digest(got.LogTime()), want.Digest(want.LogTime()); g != w {
		t.Fatalf("got digest %#x, want %#x", g, w)
	}
}

// TestARowThatGoesDuringAScan, and may come back, is handed out as what it has become.
func TestARowThatGoesDuringAScan(t *testing.T) {
	set := foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed}")
	const later = 20 * minute // what was there at 0 has expired
	tests := map[string]struct {
		before, during func(f *Fold, scan func())
		want           map[string]int // key → rows handed out with a value, −1: as gone
	}{
		"reached before it went": {
			during: func(f *Fold, scan func()) { scan(); rowEntry(f, later, "new", 1) },
			want:   map[string]int{"old": 1},
		},
		"gone before it was reached": {
			during: func(f *Fold, scan func()) { rowEntry(f, later, "new", 1); scan() },
			want:   map[string]int{"old": -1, "new": 1}, // new took its place
		},
		"gone and back": {
			during: func(f *Fold, scan func()) { rowEntry(f, later, "old", 1); scan() },
			want:   map[string]int{"old": 2}, // as one that went, and in its place
		},
		"gone, back, and gone again": {
			during: func(f *Fold, scan func()) {
				rowEntry(f, later, "old", 1)
				rowEntry(f, 2*later, "other", 1)
				scan()
			},
			want: map[string]int{"old": -2, "other": 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := New(set, Options{})
			rowEntry(f, 0, "old", 1)
			f.BeginScan()
			got := make(map[string]int)
			scan := func() {
				piece, _ := f.ScanRows(100)
				for _, row := range piece {
					_, _, id, err := ParseRowKey(string(row.Key))
					if err != nil {
						t.Fatal(err)
					}
					if row.Value == nil {
						got[id]--
					} else {
						got[id]++
					}
				}
			}
			test.during(f, scan)
			scan()
			if !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if _, more := f.ScanRows(1); more {
				t.Error("got more to scan, want none")
			}
		})
	}
}

// TestAScanIsGivenUpWhereTooMuchGoes rather than remembered at any price, and where rules change.
func TestAScanIsGivenUp(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed}"), Options{})
	rowEntry(f, 0, "x", 1)
	f.BeginScan()
	f.table.scan.dropped = make([]droppedRow, maxDropped)
	rowEntry(f, hour, "y", 1)
	if !f.table.scan.overflowed || len(f.table.scan.dropped) != maxDropped {
		t.Errorf("got %d rows remembered, lost %v", len(f.table.scan.dropped), f.table.scan.overflowed)
	}
	f.BeginScan()
	f.SetRules(foldtest.Rules(t, "{name: b, callers: key, limit: 3, window: 1m}"))
	if f.table.scan != nil {
		t.Error("after a change of rules: got a scan under way, want none")
	}
}

// TestPiecesAreBounded in rows and in bytes.
// TestAScanSaysHowFarItIs: how many rows and control records it must still return, and how many that were dropped.
func TestAScanSaysHowFarItIs(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed}"), Options{})
	for i := range 20 {
		rowEntry(f, second, fmt.Sprint("k", i), 1)
	}
	if err := f.Control(closeRecord(1, "x"), 1, 1); err != nil {
		t.Fatal(err)
	}
	f.BeginScan()
	s := f.Scan()
	is := func(when string, all, half, records, dropped int) {
		t.Helper()
		if s.Behind(1) != all || s.Behind(0.5) != half || s.Records() != records || s.Dropped() != dropped || s.Overflowed() {
			t.Errorf("%s: got %d and %d rows, %d records and %d dropped; want %d, %d, %d and %d", when, s.Behind(1), s.Behind(0.5), s.Records(), s.Dropped(),
				all, half, records, dropped)
		}
	}
	is("at first", 20, 10, 1, 0)
	f.ScanRows(4)
	is("after the records", 20, 10, 0, 0)
	f.ScanRows(12)
	is("after 12 rows", 8, -2, 0, 0)
	f.Advance(hour)
	is("when all rows have expired", 8, -2, 0, 8)
	if piece, more := f.ScanRows(100); len(piece) != 8 || more {
		t.Errorf("got %d rows and more %v, want the 8 that were dropped", len(piece), more)
	}
}

func TestPiecesAreBounded(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 10000, window: 1h, algorithm: log}"), Options{})
	for i := range 10 {
		for n := range 10_000 {
			f.Entry(&schemas.Entry{Time: int64(n) * 1_000_003, Kind: "key", ID: fmt.Sprint(i), Count: 1})
		}
	}
	f.BeginScan()
	count := 0
	for more := true; more; {
		var piece []rows.Change
		piece, more = f.ScanRows(7)
		size := 0
		for _, row := range piece[:max(0, len(piece)-1)] {
			size += len(row.Key) + len(row.Value)
		}
		if size >= scanBytes || len(piece) > 7 {
			t.Errorf("got a piece of %d rows and more than %d bytes", len(piece), size)
		}
		count += len(piece)
	}
	if count != 10 {
		t.Errorf("got %d rows, want 10", count)
	}
}

// TestPutRefusesWhatIsNoRow, and passes over rows that no rule counts.
func TestPutRefusesWhatIsNoRow(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed}"), Options{})
	rowEntry(f, 0, "x", 1)
	key, value := f.table.encode(nil, f.table.row(0))
	for name, test := range map[string]struct {
		key, value []byte
		refused    bool
	}{
		"a sender's key":                       {senderID{}.key(), value, true},
		"half a value":                         {key, value[:5], true},
		"a state of one number":                {key, value[:len(value)-2], true},
		"another rule's":                       {AppendRowKey(nil, "b", "key", "x"), value, false},
		"another kind's":                       {AppendRowKey(nil, "a", "ip", "x"), value, false},
		"nothing, of a rule that is not there": {AppendRowKey(nil, "b", "key", "x"), nil, false},
		"another shape's":                      {key, append([]byte{rowVersion, 0, 1, 2, 3, 4, 5, 6, 7, 8}, value[rowHead:]...), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := f.Put(test.key, test.value); (err != nil) != test.refused {
				t.Errorf("got %v, want refused %v", err, test.refused)
			}
			if f.table.used != 1 {
				t.Errorf("got %d rows, want the one that was there", f.table.used)
			}
		})
	}
}
