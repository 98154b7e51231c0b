package analyzer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// TestAnOwnerClaimsThoughABatchOfDecisionsIsCorrupt: a batch that stays corrupt, with the newest heartbeat in it, must not keep
// every analyzer from the partition until retention removes it.
func TestAnOwnerClaimsThoughABatchOfDecisionsIsCorrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.prod.send(time.Now(), "a", "a", "a")
		time.Sleep(3 * time.Second)
		before := w.epoch()
		w.end()
		_, end := w.log.Ends("decisions", 0)
		w.log.Corrupt("decisions", 0, kafkaiotest.Corruption{From: end - 2, To: end - 1, HeaderTo: 1 << 40})
		w.start()
		time.Sleep(5 * time.Second)
		if s := w.owner.Stats(); s.State != Running || s.Publish.Epoch <= before {
			t.Errorf("got %v in epoch %d, want it running in one above %d", s.State, s.Publish.Epoch, before)
		}
		w.end()
	})
}

// TestACorruptBatchOfRequestsIsPassedOver, counted, and shown as a reject; what comes behind it counts.
func TestACorruptBatchOfRequestsIsPassedOver(t *testing.T) {
	for name, c := range map[string]kafkaiotest.Corruption{
		"in flight": {From: 1, To: 2, Fetches: kafkaio.DefaultCorruptTries - 1}, "for good": {From: 1, To: 2},
		"for good, with a wrong end": {From: 1, To: 2, HeaderTo: 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.conf.Rejects = "rejects"
				for range 3 {
					w.prod.send(time.Now(), "a")
				}
				w.log.Corrupt("requests", 0, c)
				w.start()
				time.Sleep(5 * time.Second)
				w.prod.send(time.Now(), "b")
				time.Sleep(time.Second)
				lost := int64(0)
				if c.Fetches == 0 {
					lost = 2
				}
				s := w.owner.Stats()
				if s.State != Running || s.Fold.Rejected["corrupt"] != uint64(lost) || s.Fold.Lost != 0 || len(w.shown()) != int(lost/2) {
					t.Errorf("got %v, %v rejected, %d lost, rejects %v; want %d corrupt", s.State, s.Fold.Rejected, s.Fold.Lost, w.shown(), lost)
				}
				w.end()
				w.wantCounts(map[string]int64{"a": 3 - lost, "b": 1})
			})
		})
	}
}
