package analyzer

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// taken is a snapshot as a reader finds it: senders and log time as of from, and rows, each as of its next.
type taken struct {
	from    int
	senders []sent
	logTime int64
	rows    []takenRow
}

type takenRow struct {
	next int
	scanned
}

// take hands out the next piece of f's scan, as of the record next.
func (s *taken) take(f *Fold, next, most int) (more bool) {
	piece, more := f.scanRows(most)
	for _, row := range piece {
		s.rows = append(s.rows, takenRow{next, row})
	}
	return more
}

func (s *taken) begin(f *Fold, next int) {
	*s = taken{from: next, senders: f.beginScan(), logTime: f.LogTime()}
}

// restore refolds the log from where the snapshot began, up to end.
func (s *taken) restore(t tester, f *Fold, log []Record, end int) {
	t.Helper()
	for _, sender := range s.senders {
		f.restoreSender(sender)
	}
	f.Resume(s.logTime)
	at := s.from
	for _, row := range s.rows {
		for ; at < row.next; at++ {
			_ = f.Frame(log[at])
		}
		if err := f.put(row.key, row.value); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
	f.endPuts()
	f.TakeChanges()
	for ; at < end; at++ {
		_ = f.Frame(log[at])
	}
}

// TestWarmSnapshotAndEmptyAgree: a store that was there all along, one that is restored from a snapshot taken at any pace
// while the fold went on, and one that is folded from the whole log hold the same rows, and decide the same from then on;
// for all algorithms, with duplicates, gaps, late entries, long silences, evicted senders and escalated closures.
func TestWarmSnapshotAndEmptyAgree(t *testing.T) {
	set := variedSets(t)[0]
	o := FoldOptions{MaxSenders: 3}
	complete := 0
	rapid.Check(t, func(t *rapid.T) {
		log := randomLog(t)
		warm := NewFold(set, o)
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
		empty, restored := NewFold(set, o), NewFold(set, o)
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
func (s *fakeStore) finish(t tester, f *Fold) *Fold {
	t.Helper()
	s.commit(t, f)
	return s.restore(t, f.Rules(), f.opts)
}

// agree compares two folds row by row, and the stores that they commit to.
func agree(t tester, got, want *Fold) {
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
	set := ruleSet(t, "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed}")
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
			f := NewFold(set, FoldOptions{})
			rowEntry(f, 0, "old", 1)
			f.beginScan()
			got := make(map[string]int)
			scan := func() {
				piece, _ := f.scanRows(100)
				for _, row := range piece {
					_, _, id, err := parseRowKey(string(row.key))
					if err != nil {
						t.Fatal(err)
					}
					if row.value == nil {
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
			if _, more := f.scanRows(1); more {
				t.Error("got more to scan, want none")
			}
		})
	}
}

// TestAScanIsGivenUpWhereTooMuchGoes rather than remembered at any price, and where rules change.
func TestAScanIsGivenUp(t *testing.T) {
	f := NewFold(ruleSet(t, "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed}"), FoldOptions{})
	rowEntry(f, 0, "x", 1)
	f.beginScan()
	f.scan.gone = make([]goneRow, maxGone)
	rowEntry(f, hour, "y", 1)
	if !f.scan.lost || len(f.scan.gone) != maxGone {
		t.Errorf("got %d rows remembered, lost %v", len(f.scan.gone), f.scan.lost)
	}
	f.beginScan()
	f.SetRules(ruleSet(t, "{name: b, callers: key, limit: 3, window: 1m}"))
	if f.scan != nil {
		t.Error("after a change of rules: got a scan under way, want none")
	}
}

// TestPiecesAreBounded in rows and in bytes.
func TestPiecesAreBounded(t *testing.T) {
	f := NewFold(ruleSet(t, "{name: a, callers: key, limit: 10000, window: 1h, algorithm: log}"), FoldOptions{})
	for i := range 10 {
		for n := range 10_000 {
			f.Entry(&schemas.Entry{Time: int64(n) * 1_000_003, Kind: "key", ID: fmt.Sprint(i), Count: 1})
		}
	}
	f.beginScan()
	rows := 0
	for more := true; more; {
		var piece []scanned
		piece, more = f.scanRows(7)
		size := 0
		for _, row := range piece[:max(0, len(piece)-1)] {
			size += len(row.key) + len(row.value)
		}
		if size >= scanBytes || len(piece) > 7 {
			t.Errorf("got a piece of %d rows and more than %d bytes", len(piece), size)
		}
		rows += len(piece)
	}
	if rows != 10 {
		t.Errorf("got %d rows, want 10", rows)
	}
}

// TestPutRefusesWhatIsNoRow, and passes over rows that no rule counts.
func TestPutRefusesWhatIsNoRow(t *testing.T) {
	f := NewFold(ruleSet(t, "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed}"), FoldOptions{})
	rowEntry(f, 0, "x", 1)
	key, value := f.encode(nil, f.table.row(0))
	for name, test := range map[string]struct {
		key, value []byte
		refused    bool
	}{
		"a sender's key":                       {senderID{}.key(), value, true},
		"half a value":                         {key, value[:5], true},
		"a state of one number":                {key, value[:len(value)-1], true},
		"another rule's":                       {appendRowKey(nil, "b", "key", "x"), value, false},
		"another kind's":                       {appendRowKey(nil, "a", "ip", "x"), value, false},
		"nothing, of a rule that is not there": {appendRowKey(nil, "b", "key", "x"), nil, false},
		"another shape's":                      {key, append([]byte{rowVersion, 1, 2, 3, 4, 5, 6, 7, 8}, value[9:]...), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := f.put(test.key, test.value); (err != nil) != test.refused {
				t.Errorf("got %v, want refused %v", err, test.refused)
			}
			if f.table.used != 1 {
				t.Errorf("got %d rows, want the one that was there", f.table.used)
			}
		})
	}
}
