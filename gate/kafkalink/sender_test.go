package kafkalink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

func TestRequestsArriveInTheLogOfTheirPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, Config{})
		w.start()
		pass(time.Second)
		for i := range 1000 {
			w.request(fmt.Sprint("key-", i%50))
		}
		synctest.Wait()
		pass(minDelay)
		synctest.Wait()
		if s := w.conserve(); s.Acked != 1000 {
			t.Errorf("got %+v after %v of quiet, want 1000 acked", s, minDelay)
		}
		for i := range 50 {
			if got := w.kafka.requests(t)[fmt.Sprint("key-", i)]; got != 20 {
				t.Errorf("key-%d: got %d requests in the log, want 20", i, got)
			}
		}
		w.shutdown()
		seqs := map[uint64]int{}
		for _, f := range w.kafka.frames(t) {
			if f.Producer != w.link.producer || f.Fingerprint != schemas.DefaultPartitionKey().Fingerprint() || f.Partitions != 4 {
				t.Errorf("got frame of %x, fingerprint %d, %d partitions", f.Producer, f.Fingerprint, f.Partitions)
			}
			seqs[f.Seq]++
		}
		if seqs[1] != 4 || len(seqs) != 1 {
			t.Errorf("got frames by sequence number %v, want one frame with 1 in each of 4 partitions", seqs)
		}
	})
}

func TestSequenceNumbersGoOnWhenTheLinkRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{})
		for want := uint64(1); want <= 3; want++ {
			w.start()
			w.request("k")
			pass(time.Second)
			w.shutdown()
			fs := w.kafka.frames(t)
			if uint64(len(fs)) != want || fs[want-1].Seq != want {
				t.Fatalf("got %d frames, want frame %d with that sequence number", len(fs), want)
			}
		}
	})
}

func TestUnderLoadFramesGrowAndFlushesSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{})
		w.start()
		for i := range 10_000 { // 10 000 a second
			w.request(fmt.Sprint("key-", i))
			pass(100 * time.Microsecond)
		}
		w.shutdown()
		fs := w.kafka.frames(t)
		if n := len(fs); n > 250 {
			t.Errorf("got %d frames in a second, want about 200: one each %v", n, DefaultMaxDelay)
		}
		for _, f := range fs {
			for _, e := range f.Entries {
				if delay := time.Duration(f.Flushed - e.Time); delay > 2*DefaultMaxDelay {
					t.Fatalf("a request waited for %v, want at most %v and the next tick", delay, DefaultMaxDelay)
				}
			}
		}
	})
}

func TestManyEntriesAreSplitOverFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{Backlog: 20_000})
		w.kafka.SetFault(slow)
		w.start()
		pass(5 * time.Second)
		for round := range 2 {
			for i := range 8000 {
				w.request(fmt.Sprint(strings.Repeat("long-", 20), round, "-", i))
			}
			pass(10 * time.Millisecond)
		}
		pass(time.Minute)
		if s := w.conserve(); s.Acked != 16_000 {
			t.Errorf("got %+v, want 16000 acked", s)
		}
		if n := len(w.kafka.frames(t)); n < 3 {
			t.Errorf("got %d frames, want several", n)
		}
		w.shutdown()
	})
}

func TestAnAmbiguousProduceIsRepeatedAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{})
		n := 0
		w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if n++; c.Op == kafkaiotest.OpProduce && n%3 != 0 {
				return kafkaiotest.Fault{Err: errServer, Acted: true}
			}
			return kafkaiotest.Fault{}
		})
		w.start()
		for range 20 {
			w.request("k")
			pass(100 * time.Millisecond)
		}
		pass(10 * time.Second)
		w.shutdown()
		if s := w.conserve(); s.Acked != 20 || s.Unknown != 0 {
			t.Errorf("got %+v, want 20 acked", s)
		}
		if got := w.kafka.requests(t)["k"]; got != 20 {
			t.Errorf("got %d requests without the duplicates, want 20", got)
		}
		bySeq := map[uint64][]byte{}
		duplicates := 0
		var last uint64
		for _, r := range w.kafka.Records("floodgate.requests", 0) {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				t.Fatal(err)
			}
			if first, ok := bySeq[f.Seq]; ok {
				duplicates++
				if !bytes.Equal(first, r.Value) {
					t.Errorf("frame %d was not repeated as it was", f.Seq)
				}
			} else if f.Seq != last+1 {
				t.Errorf("got frame %d after %d", f.Seq, last)
			}
			bySeq[f.Seq], last = r.Value, f.Seq
		}
		if duplicates == 0 || w.link.Stats().Retries == 0 {
			t.Error("the fault did not happen")
		}
	})
}

func TestAFrameThatIsRefusedForGoodIsDroppedByReason(t *testing.T) {
	for reason, err := range map[record.Reason]error{
		record.ClockAhead: kafkaio.ErrTimestamp, record.Refused: kafkaio.ErrTooLarge,
	} {
		t.Run(reason.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, Config{})
				w.kafka.SetFault(failing(kafkaiotest.OpProduce, err))
				w.start()
				w.request("k")
				pass(time.Second)
				if s := w.conserve(); s.Dropped[reason] != 1 || s.Queued != 0 {
					t.Errorf("got %+v, want 1 dropped as %v", s, reason)
				}
				if !w.link.Stats().Connected {
					t.Error("got a link that is down, want up: the broker answers")
				}
				w.kafka.SetFault(nil)
				w.request("k")
				pass(time.Second)
				if s := w.conserve(); s.Acked != 1 {
					t.Errorf("got %+v, want the next frame acked", s)
				}
				w.shutdown()
				if fs := w.kafka.frames(t); len(fs) != 1 || fs[0].Seq != 2 {
					t.Errorf("got %+v, want frame 2 alone: the gap says that one was lost", fs)
				}
			})
		})
	}
}

func TestAFrameIsGivenUpAfterAWhile(t *testing.T) {
	for _, tc := range []struct {
		name    string
		fault   kafkaiotest.Fault
		unknown uint64
	}{
		{"never sent", kafkaiotest.Down(), 0},
		{"not allowed", kafkaiotest.Unauthorized(), 0},
		{"perhaps sent", kafkaiotest.Returns(errServer), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, Config{Retry: 10 * time.Second})
				w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
					if c.Op == kafkaiotest.OpProduce {
						return tc.fault
					}
					return kafkaiotest.Fault{}
				})
				w.start()
				w.request("k")
				pass(9 * time.Second)
				if s := w.conserve(); s.Queued != 1 {
					t.Errorf("got %+v, want 1 still tried", s)
				}
				pass(3 * time.Second)
				if s := w.conserve(); s.Unknown != tc.unknown || s.Dropped[record.Undelivered] != 1-tc.unknown {
					t.Errorf("got %+v, want %d unknown and the rest undelivered", s, tc.unknown)
				}
				w.shutdown()
			})
		})
	}
}

// A frame that the brokers refuse for the moment would be sent again. If the link ends first, that is why it is dropped. A
// frame that they refuse for good is dropped for that reason, also at the end.
func TestShutdownIsWhyARefusedFrameIsDropped(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  kafkaiotest.Fault
		reason record.Reason
	}{
		"no leader":        {kafkaiotest.NotLeader(), record.Shutdown},
		"not allowed":      {kafkaiotest.Unauthorized(), record.Shutdown},
		"refused for good": {kafkaiotest.Returns(kafkaio.ErrTooLarge), record.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, Config{Drain: time.Second})
				w.start()
				pass(time.Second)
				w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
					if c.Op == kafkaiotest.OpProduce {
						return tc.fault
					}
					return kafkaiotest.Fault{}
				})
				w.request("k")
				pass(100 * time.Millisecond)
				w.shutdown()
				if s := w.conserve(); s.Dropped[tc.reason] != 1 {
					t.Errorf("got %+v, want 1 dropped as %v", s, tc.reason)
				}
			})
		})
	}
}

func TestVerdict(t *testing.T) {
	refused := func(err error) error {
		return &kafkaio.RequestError{Outcome: kafkaio.Refused, Err: err}
	}
	for _, tc := range []struct {
		err    error
		reason record.Reason
		final  bool
	}{
		{nil, 0, false},
		{context.DeadlineExceeded, 0, false},
		{refused(kafkaio.ErrNoTopic), 0, false},
		{refused(kafkaio.ErrUnauthorized), 0, false},
		{refused(context.DeadlineExceeded), 0, false},
		{refused(kafkaio.ErrTimestamp), record.ClockAhead, true},
		{refused(kafkaio.ErrTooLarge), record.Refused, true},
		{kafkaio.ErrTooLarge, record.Refused, true},
		{refused(errors.New("policy violation")), record.Refused, true},
	} {
		if reason, final := Rejection(tc.err); reason != tc.reason || final != tc.final {
			t.Errorf("%v: got %v, %v; want %v, %v", tc.err, reason, final, tc.reason, tc.final)
		}
	}
}
