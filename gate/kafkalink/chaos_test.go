package kafkalink

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// Random faults at every call, random load, a stop at a random moment: each request is settled once, what is
// acknowledged is in the log, nothing else is but what is unknown, and sequence numbers only rise.
func TestWhateverHappensEveryRequestIsSettledOnce(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func chaos(t *testing.T, rng *rand.Rand) {
	t.Helper()
	w := newWorld(t, 1+rng.IntN(4), Config{Backlog: 1024, Retry: time.Minute, Canary: time.Second})
	badness := rng.IntN(100)
	w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
		if rng.IntN(100) >= badness {
			return kafkaiotest.Slow(time.Duration(rng.IntN(3)) * time.Millisecond)
		}
		return []kafkaiotest.Fault{
			kafkaiotest.Down(), kafkaiotest.Returns(errServer), kafkaiotest.Silent(), kafkaiotest.Slow(time.Second),
			{Err: errServer, Acted: c.Op == kafkaiotest.OpProduce}, kafkaiotest.Returns(kafkaio.ErrTimestamp), kafkaiotest.Unauthorized(),
		}[rng.IntN(7)]
	})
	load := rand.New(rand.NewPCG(rng.Uint64(), 2)) // of its own: the fault's is used by many goroutines
	for range 2 {                                  // the second Run goes on where the first ended
		w.start()
		for range load.IntN(2000) {
			for range load.IntN(8) {
				w.request(fmt.Sprint("key-", load.IntN(3000)))
			}
			pass(time.Duration(load.IntN(20)) * time.Millisecond)
		}
		w.conserve()
		if took := w.shutdown(); took > DefaultDrain+time.Second {
			t.Errorf("shutdown took %v, want at most about %v", took, DefaultDrain)
		}
	}
	s := w.conserve()
	var logged uint64
	for _, n := range w.kafka.requests(t) {
		logged += n
	}
	if s.Queued != 0 || logged < s.Acked || logged > s.Acked+s.Unknown {
		t.Errorf("got %d requests in the log and %+v, want the acked ones, unknown ones at most beside, and none queued", logged, s)
	}
	w.wantRisingSeqs()
}

// wantRisingSeqs fails the test if a new frame has no higher sequence number than all before it.
func (w *world) wantRisingSeqs() {
	w.t.Helper()
	for p := range w.kafka.Size("floodgate.requests") {
		seen := map[uint64]bool{}
		var last uint64
		for _, r := range w.kafka.Records("floodgate.requests", p) {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				w.t.Fatal(err)
			}
			if !seen[f.Seq] && f.Seq <= last {
				w.t.Errorf("partition %d: got new frame %d after %d", p, f.Seq, last)
			}
			seen[f.Seq], last = true, max(last, f.Seq)
		}
	}
}
