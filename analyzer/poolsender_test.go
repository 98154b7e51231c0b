package analyzer

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// poolWorld is a sender, the topic that it writes to, and its faults.
type poolWorld struct {
	*poolSender

	log   *kafkaiotest.Kafka
	rule  *rules.Rule
	lease atomic.Bool
}

// story runs a test with a sender that is closed at its end.
func story(t *testing.T, test func(t *testing.T, w *poolWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &poolWorld{log: kafkaiotest.New()}
		w.lease.Store(true)
		w.log.Create(2, "requests")
		w.rule = mustRules(t, "version: 1\nrules:\n  - {name: a, callers: key, capacity: 1000, window: 1s}\n").Rules[0]
		w.poolSender = newPoolSender(w.log, OwnerConfig{
			Requests: "requests", Logger: slog.New(slog.DiscardHandler), Lease: func(time.Time) bool { return w.lease.Load() },
			Fold: fold.Options{Key: schemas.DefaultPartitionKey(), Partitions: 2},
		})
		test(t, w)
		w.close()
	})
}

// level offers the level of a quarter, and lets the sender do what it can.
func (w *poolWorld) level(quarter int64) {
	w.offer(nil, []fold.PoolLevel{{Rule: w.rule, Level: pool.Level{Quarter: quarter, Level: 5}, At: quarter}})
	synctest.Wait()
}

// expect compares the frames of a partition: of each its number, and the quarter of its level.
func (w *poolWorld) expect(t *testing.T, partition int, want ...[2]int64) {
	t.Helper()
	var got [][2]int64
	for _, r := range w.log.Records("requests", partition) {
		var f schemas.Frame
		if err := f.Decode(r.Value); err != nil || len(f.Entries) != 1 || r.Time-f.Flushed >= 1e6 || r.Time < f.Flushed { // rounded up to milliseconds
			t.Fatalf("got frame %+v in a message of %d, %v", f, r.Time, err)
		}
		got = append(got, [2]int64{int64(f.Seq), f.Entries[0].Time})
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests[%d]: got frames %v, want %v", partition, got, want)
	}
}

// fault makes produces to a partition fail in some way.
func (w *poolWorld) fault(partition int, f kafkaiotest.Fault) {
	w.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
		if c.Partition != partition {
			return kafkaiotest.Fault{}
		}
		return f
	})
}

func TestAPoolSenderSendsToEachPartition(t *testing.T) {
	story(t, func(t *testing.T, w *poolWorld) {
		w.offer(nil, nil)
		w.level(1)
		w.level(2)
		for partition := range 2 {
			w.expect(t, partition, [2]int64{1, 1}, [2]int64{2, 2})
		}
		if sent, dropped := w.sent.Load(), w.dropped.Load(); sent != 4 || dropped != 0 {
			t.Errorf("got %d sent, %d dropped, want 4, 0", sent, dropped)
		}
	})
}

// TestAPartitionThatHangsHoldsUpNobody: only the newest level waits for it, and one produce is in flight.
func TestAPartitionThatHangsHoldsUpNobody(t *testing.T) {
	story(t, func(t *testing.T, w *poolWorld) {
		answer := make(chan struct{})
		flying := 0
		w.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			flying = max(flying, c.InFlight)
			if c.Partition == 1 {
				return kafkaiotest.Fault{Until: answer}
			}
			return kafkaiotest.Fault{}
		})
		for quarter := range int64(4) {
			w.level(quarter + 1)
		}
		w.expect(t, 0, [2]int64{1, 1}, [2]int64{2, 2}, [2]int64{3, 3}, [2]int64{4, 4})
		w.expect(t, 1)
		close(answer)
		synctest.Wait()
		w.expect(t, 1, [2]int64{1, 1}, [2]int64{2, 4})
		if flying != 1 || w.dropped.Load() != 3 {
			t.Errorf("got %d in flight, %d dropped, want 1, 3", flying, w.dropped.Load())
		}
	})
}

// TestAFailedFrameIsTriedAgainWithTheNewest, under the same number: readers count a number that they miss as a loss.
func TestAFailedFrameIsTriedAgainWithTheNewest(t *testing.T) {
	story(t, func(t *testing.T, w *poolWorld) {
		w.fault(1, kafkaiotest.Down())
		w.level(1)
		tries := w.log.Calls()[kafkaiotest.OpProduce]
		time.Sleep(poolRetry - time.Millisecond)
		w.level(2)
		if got := w.log.Calls()[kafkaiotest.OpProduce]; got != tries+1 { // to partition 0
			t.Errorf("got %d produces before the pause was over, want %d", got, tries+1)
		}
		w.fault(1, kafkaiotest.LostAnswer())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		w.expect(t, 1, [2]int64{1, 2})
		w.log.SetFault(nil)
		w.level(3)
		time.Sleep(poolRetry)
		synctest.Wait()
		w.expect(t, 1, [2]int64{1, 2}, [2]int64{1, 3}) // readers drop it: only the next one counts
		w.level(4)
		w.expect(t, 1, [2]int64{1, 2}, [2]int64{1, 3}, [2]int64{2, 4})
		w.expect(t, 0, [2]int64{1, 1}, [2]int64{2, 2}, [2]int64{3, 3}, [2]int64{4, 4})
	})
}

// TestNothingIsSentWithoutALease, and the newest as soon as there is one again.
func TestNothingIsSentWithoutALease(t *testing.T) {
	story(t, func(t *testing.T, w *poolWorld) {
		w.lease.Store(false)
		w.level(1)
		w.level(2)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.expect(t, 0)
		w.lease.Store(true)
		time.Sleep(poolRetry)
		synctest.Wait()
		w.expect(t, 0, [2]int64{1, 2})
	})
}

// TestNothingIsSentAfterClose: what is in flight ends, and what waits is not tried again.
func TestNothingIsSentAfterClose(t *testing.T) {
	for name, fault := range map[string]kafkaiotest.Fault{
		"a partition that hangs": kafkaiotest.Silent(), "a partition that refuses": kafkaiotest.Down(), "no fault": {},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *poolWorld) {
				w.fault(1, fault)
				w.level(1)
				began := time.Now()
				w.close()
				if waited := time.Since(began); waited != 0 {
					t.Errorf("got closed after %v, want at once", waited)
				}
				before := w.log.Calls()[kafkaiotest.OpProduce]
				w.log.SetFault(nil)
				w.level(2)
				time.Sleep(time.Minute)
				synctest.Wait()
				if after := w.log.Calls()[kafkaiotest.OpProduce]; after != before {
					t.Errorf("got %d produces after close", after-before)
				}
			})
		})
	}
}
