package snapshot

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// TestASnapshotIsReadAmongOtherThings: what a zombie writes in between, and copies that arrive late, are passed over.
func TestASnapshotIsReadAmongOtherThings(t *testing.T) {
	l := newStateLog(t)
	l.row(5, 1, 3, "an older cycle's")
	from := l.begin(6, 1, 10, 0, 2, 1, 2)
	l.begin(5, 9, 11, 0, 1, 7) // a zombie's
	l.row(5, 9, 12, "zombie")
	l.begin(6, 1, 10, 1, 2, 3)
	l.begin(6, 1, 10, 1, 2, 3) // sent twice
	l.row(6, 1, 11, "a")
	l.row(6, 1, 14, "b")
	l.end(5, 9, 1, 0)
	l.row(6, 1, 11, "a")   // a copy that was long under way
	l.row(6, 1, 14, "b")   // and one that was not
	l.raw([]byte{0x7a, 0}) // of a kind to come
	l.row(6, 1, 20, "c")
	l.end(6, 1, 3, from)
	l.end(6, 1, 3, from)
	l.row(6, 2, 21, "the next cycle's")
	s, err := l.reader().At(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Senders) != 3 || s.Last != 20 || s.Begin.GetOffset() != 10 {
		t.Errorf("got %d senders, as of %d to %d, want 3, as of 10 to 20", len(s.Senders), s.Begin.GetOffset(), s.Last)
	}
	if got, want := l.rows(s), []string{"a@11", "b@14", "b@14", "c@20"}; !slices.Equal(got, want) {
		t.Errorf("got rows %v, want %v", got, want)
	}
}

// TestWhatIsNoSnapshot is refused, whatever is missing.
func TestWhatIsNoSnapshot(t *testing.T) {
	tests := map[string]func(l stateLog){
		"nothing":               func(stateLog) {},
		"no begin":              func(l stateLog) { l.row(6, 1, 11, "a"); l.end(6, 1, 1, 0) },
		"no end":                func(l stateLog) { l.begin(6, 1, 10, 0, 1); l.row(6, 1, 11, "a") },
		"another's end":         func(l stateLog) { l.begin(6, 1, 10, 0, 1); l.end(5, 1, 0, 0); l.end(6, 2, 0, 0) },
		"half a begin":          func(l stateLog) { l.begin(6, 1, 10, 0, 2); l.end(6, 1, 0, 0) },
		"a part of another":     func(l stateLog) { l.begin(6, 1, 10, 0, 2); l.begin(6, 1, 11, 1, 2); l.end(6, 1, 0, 0) },
		"a row less":            func(l stateLog) { l.begin(6, 1, 10, 0, 1); l.row(6, 1, 11, "a"); l.end(6, 1, 2, 0) },
		"a row before its time": func(l stateLog) { l.begin(6, 1, 10, 0, 1); l.row(6, 1, 9, "a"); l.end(6, 1, 1, 0) },
		"noise in between": func(l stateLog) {
			l.begin(6, 1, 10, 0, 1)
			l.row(6, 1, 11, "a")
			l.raw([]byte("\xff\xff noise"))
			l.end(6, 1, 1, 0)
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			l := newStateLog(t)
			write(l)
			if s, err := l.reader().At(t.Context(), 0); !errors.Is(err, ErrIncomplete) || s != nil {
				t.Errorf("got %+v and %v, want %v", s, err, ErrIncomplete)
			}
			if _, err := l.reader().At(t.Context(), -1); !errors.Is(err, ErrIncomplete) {
				t.Errorf("from before the log: got %v, want %v", err, ErrIncomplete)
			}
		})
	}
}

// TestTheLastSnapshotIsFoundFromTheEnd, and is the newest owner's.
func TestTheLastSnapshotIsFoundFromTheEnd(t *testing.T) {
	l := newStateLog(t)
	find := func(want int64) {
		t.Helper()
		if got, err := l.reader().Newest(t.Context()); got != want || err != nil {
			t.Errorf("got %d and %v, want %d", got, err, want)
		}
	}
	find(-1)
	l.row(6, 1, 1, "x")
	find(-1)
	l.end(6, 1, 1, 17)
	find(17)
	l.end(6, 2, 1, 30)
	l.end(5, 9, 1, 40) // of a zombie
	find(30)
	for range 3 * firstStep {
		l.row(6, 3, 2, "y")
	}
	find(30)
}

// TestASnapshotIsNotReadAcrossAHole: a record that is corrupt, or that the topic no longer holds, may have been a row. What
// comes before and behind it is not taken for a whole.
func TestASnapshotIsNotReadAcrossAHole(t *testing.T) {
	for name, damage := range map[string]func(l stateLog){
		"a corrupt batch":       func(l stateLog) { l.Corrupt("state", 0, kafkaiotest.Corruption{From: 1, To: 1}) },
		"its beginning is lost": func(l stateLog) { l.Trim("state", 0, 1) },
		"its end is lost":       func(l stateLog) { l.Cut("state", 0, 3) },
		"made anew":             func(l stateLog) { l.Recreate("state") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newStateLog(t)
				l.begin(6, 1, 10, 0, 1)
				l.row(6, 1, 11, "a")
				l.row(6, 1, 12, "b")
				l.end(6, 1, 2, 0)
				whole, err := l.reader().At(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				damage(l)
				if s, err := l.reader().At(t.Context(), 0); !errors.Is(err, ErrIncomplete) || s != nil {
					t.Errorf("got %+v and %v, want %v", s, err, ErrIncomplete)
				}
				err = l.reader().EachRow(t.Context(), whole, func(*pb.StateRow) error { return nil })
				if name != "its beginning is lost" && !errors.Is(err, ErrIncomplete) {
					t.Errorf("the rows of one that was whole: got %v, want %v", err, ErrIncomplete)
				}
			})
		})
	}
}

// TestTheBeginOfASnapshotIsPeekedAt, without reading the rest.
func TestTheBeginOfASnapshotIsPeekedAt(t *testing.T) {
	l := newStateLog(t)
	l.end(5, 1, 0, 0) // of another one
	l.begin(6, 1, 10, 0, 1)
	for range 20 {
		l.row(6, 1, 11, "a")
	}
	for at, want := range map[int64]int64{-1: 0, 0: 10, 1: 10, 2: 0, 22: 0, 1 << 40: 0} {
		begin, err := l.reader().BeginAt(t.Context(), at)
		if err != nil || begin.GetOffset() != want || (begin == nil) != (want == 0) {
			t.Errorf("at %d: got %+v and %v, want offset %d", at, begin, err, want)
		}
	}
}

// TestAReaderWaitsForTheBrokers, and ends when it is stopped.
func TestAReaderWaitsForTheBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStateLog(t)
		l.end(6, 1, 0, 17)
		l.SetDown(true)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := l.reader().Newest(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("away: got %v, want it to wait until it is stopped", err)
		}
		go func() { time.Sleep(time.Minute); l.SetDown(false) }()
		if from, err := l.reader().Newest(t.Context()); err != nil || from != 17 {
			t.Errorf("back after a minute: got %d and %v, want 17", from, err)
		}
	})
}
