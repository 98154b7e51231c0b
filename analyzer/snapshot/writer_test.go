package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
	"github.com/509da70d/floodgate/store/rows"
)

// written is a Writer that runs, on a state/0 of its own.
type written struct {
	stateLog
	writer *Writer
}

// aWriter returns a writer of epoch 6, which ends with the test; lease may be nil.
func aWriter(t *testing.T, lease func(time.Time) bool) written {
	t.Helper()
	w := written{stateLog: newStateLog(t)}
	w.writer = NewWriter(w.Kafka, WriterConfig{Topic: "state", Lease: lease})
	w.writer.SetEpoch(6, 0)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.writer.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return w
}

// write writes pieces, one after the other.
func (w written) write(pieces ...Piece) {
	w.t.Helper()
	for _, p := range pieces {
		w.writer.Start(p)
		for w.writer.Busy() {
			<-w.writer.Done()
		}
	}
}

// newest returns the newest complete snapshot, which must be the one that the writer announces.
func (w written) newest() *Snapshot {
	w.t.Helper()
	from, err := w.reader().Newest(w.t.Context())
	if err != nil || from != w.writer.Complete()-1 {
		w.t.Fatalf("newest snapshot: got offset %d and %v, want %d as announced", from, err, w.writer.Complete()-1)
	}
	s, err := w.reader().At(w.t.Context(), from)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// cycle returns the pieces of a cycle of n rows that begins at an offset of requests, and what a reader gets of its rows.
func cycle(offset int64, senders, n int) (pieces []Piece, want []string) {
	begin := Piece{Begin: &pb.StateBegin{Offset: offset, LogTime: 50, RulesId: 7}, Next: offset}
	for i := range senders {
		begin.Senders = append(begin.Senders, fold.Sender{ID: schemas.ProducerID{byte(i), byte(i >> 8)}, Seq: uint64(i) + 1})
	}
	pieces = []Piece{begin}
	for next := offset; len(want) < n; next += 10 {
		p := Piece{Next: next}
		for range min(100, n-len(want)) {
			key := fmt.Sprintf("row %d", len(want))
			p.Rows = append(p.Rows, rows.Change{Key: []byte(key), Value: []byte{1}})
			want = append(want, fmt.Sprintf("%s@%d", key, next))
		}
		pieces = append(pieces, p)
	}
	pieces[len(pieces)-1].End = true
	return pieces, want
}

// TestAReaderGetsWhatAWriterWrote, whatever the network does: nothing is missing, and a copy says nothing else.
func TestAReaderGetsWhatAWriterWrote(t *testing.T) {
	for name, fault := range map[string]func(rnd *rand.Rand) kafkaiotest.Fault{
		"all is well":       func(*rand.Rand) kafkaiotest.Fault { return kafkaiotest.Fault{} },
		"answers are lost":  func(*rand.Rand) kafkaiotest.Fault { return kafkaiotest.LostAnswer() },
		"requests are lost": func(*rand.Rand) kafkaiotest.Fault { return kafkaiotest.LostRequest() },
		"all of it": func(rnd *rand.Rand) kafkaiotest.Fault {
			return []kafkaiotest.Fault{kafkaiotest.Down(), kafkaiotest.NotLeader(), kafkaiotest.Unauthorized(), kafkaiotest.LostAnswer()}[rnd.IntN(4)]
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(1, 2))
				w := aWriter(t, nil)
				w.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
					if c.Op == kafkaiotest.OpProduce && rnd.IntN(2) == 0 {
						return fault(rnd)
					}
					return kafkaiotest.Fault{}
				})
				pieces, want := cycle(100, 2*maxSenders+1, 450)
				w.write(pieces...)
				s := w.newest()
				seen := make(map[string]bool)
				got := slices.DeleteFunc(w.rows(s), func(row string) bool { // a copy of a piece says the same once more
					again := seen[row]
					seen[row] = true
					return again
				})
				if !slices.Equal(got, want) {
					t.Errorf("got %d rows, want %d", len(got), len(want))
				}
				if !slices.Equal(s.Senders, pieces[0].Senders) {
					t.Errorf("got %d senders, want the %d that were written, in their order", len(s.Senders), len(pieces[0].Senders))
				}
				if b := s.Begin; b.GetOffset() != 100 || b.GetLogTime() != 50 || b.GetRulesId() != 7 || b.GetParts() != 3 || s.Last != 140 {
					t.Errorf("got %+v, as of 100 to %d, want 3 begins at 100, as of 140 at the end", b, s.Last)
				}
				if w.writer.Cycles() != 1 {
					t.Errorf("got %d cycles, want one", w.writer.Cycles())
				}
			})
		})
	}
}

// TestACycleThatIsGivenUpLeavesTheOneBefore: until the next is complete, the writer announces the last complete one, also
// one of another owner.
func TestACycleThatIsGivenUpLeavesTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := aWriter(t, nil)
		first, want := cycle(100, 1, 150)
		w.write(first[0])
		if got := w.writer.Complete(); got != 0 {
			t.Errorf("begun: got %d announced, want none", got)
		}
		w.write(first[1:]...)
		at := w.writer.Complete()
		second, _ := cycle(200, 1, 150)
		w.write(second[0], second[1]) // and no end
		if got := w.writer.Complete(); got != at {
			t.Errorf("given up: got %d announced, want %d still", got, at)
		}
		if got := w.rows(w.newest()); !slices.Equal(got, want) {
			t.Errorf("given up: got %d rows, want those of the first cycle", len(got))
		}
		third, want := cycle(300, 1, 250)
		w.write(third...)
		if got := w.rows(w.newest()); !slices.Equal(got, want) || w.writer.Cycles() != 2 {
			t.Errorf("the next: got %d rows of %d cycles, want %d of 2", len(got), w.writer.Cycles(), len(want))
		}
	})
}

// TestASnapshotWithoutAllRowsIsIncomplete: a piece that cannot be written must not be missing in silence, because an owner that
// starts from the snapshot would count its callers anew.
func TestASnapshotWithoutAllRowsIsIncomplete(t *testing.T) {
	w := aWriter(t, nil)
	pieces, _ := cycle(10, 1, 300)
	pieces[2].Rows[50].Key = nil // no record can hold it
	w.write(pieces...)
	if _, err := w.reader().At(t.Context(), w.writer.Complete()-1); !errors.Is(err, ErrIncomplete) {
		t.Errorf("got %v, want %v", err, ErrIncomplete)
	}
}

// TestALargePieceIsSentInSeveralBatches, each of which a topic takes.
func TestALargePieceIsSentInSeveralBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := aWriter(t, nil)
		const each = 100 << 10
		largest, batches := 0, 0
		w.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpProduce {
				size := 0
				for _, m := range c.Messages {
					size += len(m.Value)
				}
				largest, batches = max(largest, size), batches+1
			}
			return kafkaiotest.Fault{}
		})
		pieces, _ := cycle(100, 1, 0)
		pieces[0].End = false
		large := Piece{Next: 100, End: true}
		for i := range 20 {
			large.Rows = append(large.Rows, rows.Change{Key: fmt.Append(nil, i), Value: bytes.Repeat([]byte{1}, each)})
		}
		w.write(pieces[0], large)
		if largest >= maxBatch+2*each || batches < 4 {
			t.Errorf("got %d batches of at most %d bytes, want several, of at most %d", batches, largest, maxBatch+2*each)
		}
		if got := w.rows(w.newest()); len(got) != 20 {
			t.Errorf("got %d rows, want 20", len(got))
		}
	})
}

// TestNothingIsWrittenWithoutALease: an owner that may have been replaced must not write between its successor's records.
func TestNothingIsWrittenWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leased atomic.Bool
		w := aWriter(t, func(time.Time) bool { return leased.Load() })
		pieces, _ := cycle(100, 1, 10)
		w.writer.Start(pieces[0])
		time.Sleep(time.Minute)
		if n := len(w.Records("state", 0)); n != 0 || !w.writer.Busy() {
			t.Errorf("without a lease: got %d records, busy %v, want none, and busy", n, w.writer.Busy())
		}
		leased.Store(true)
		for w.writer.Busy() {
			<-w.writer.Done()
		}
		if n := len(w.Records("state", 0)); n != 1 {
			t.Errorf("with one: got %d records, want the begin", n)
		}
	})
}

// TestAWriterEndsWhileTheBrokersAreAway, and does not hold up who stops it.
func TestAWriterEndsWhileTheBrokersAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStateLog(t)
		l.SetDown(true)
		w := NewWriter(l.Kafka, WriterConfig{Topic: "state"})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		pieces, _ := cycle(100, 1, 10)
		w.Start(pieces[0])
		time.Sleep(time.Minute)
		stop()
		stopped := time.Now()
		<-ended
		if took := time.Since(stopped); took > kafkaio.DefaultMaxPause || w.Cycles() != 0 || w.Complete() != 0 {
			t.Errorf("took %v to end, with %d cycles, want at once, and none", took, w.Cycles())
		}
	})
}

// TestCompleteSinceIsTheBegin of the newest complete snapshot: one that is still being written changes nothing.
func TestCompleteSinceIsTheBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := aWriter(t, nil)
		if at := w.writer.CompleteSince(); !at.IsZero() {
			t.Errorf("got %v before any snapshot, want the zero time", at)
		}
		for range 2 {
			before := w.writer.CompleteSince()
			began := time.Now()
			w.write(Piece{Begin: &pb.StateBegin{}})
			time.Sleep(time.Minute)
			if at := w.writer.CompleteSince(); !at.Equal(before) {
				t.Errorf("got %v while it is written, want %v as before", at, before)
			}
			w.write(Piece{End: true})
			if at := w.writer.CompleteSince(); !at.Equal(began) {
				t.Errorf("got %v, want %v when it was begun", at, began)
			}
			time.Sleep(time.Minute)
		}
	})
}
