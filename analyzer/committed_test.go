package analyzer

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is counted and what is on disk are two offsets, the second one behind by a checkpoint at most.
func TestStatsSayWhatIsOnDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		time.Sleep(2 * DefaultCheckpoint)
		w.prod.send(time.Now(), "a")
		time.Sleep(2 * DefaultCheckpoint)
		synctest.Wait()
		if s := w.owner.Stats(); s.Next != 1 || s.Committed != 1 {
			t.Errorf("after a checkpoint: got %d counted and %d on disk, want 1 and 1", s.Next, s.Committed)
		}
		w.prod.send(time.Now(), "a")
		synctest.Wait()
		w.prod.send(time.Now(), "a") // after one that may have started a checkpoint
		synctest.Wait()
		if s := w.owner.Stats(); s.Next != 3 || s.Committed >= 3 {
			t.Errorf("before the next: got %d counted and %d on disk, want 3 and less", s.Next, s.Committed)
		}
		w.end()
		if s := w.owner.Stats(); s.Committed != 3 {
			t.Errorf("at the end: got %d on disk, want 3", s.Committed)
		}
		w.start()
		time.Sleep(time.Second)
		synctest.Wait()
		if s := w.owner.Stats(); s.Next != 3 || s.Committed != 3 {
			t.Errorf("started again: got %d counted and %d on disk, want 3 and 3", s.Next, s.Committed)
		}
		w.end()
	})
}
