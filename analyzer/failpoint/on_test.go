//go:build failpoint

package failpoint

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheEndComesAtTheNthTime(t *testing.T) {
	ends := 0
	l := &life{plan: Plan{Published, 3}, end: func(p Plan) {
		if p != (Plan{Published, 3}) {
			t.Errorf("got %v", p)
		}
		ends++
	}}
	for i := range 10 {
		for _, p := range All() {
			l.here(p, time.Now())
		}
		want := 0
		if i >= 2 {
			want = 1
		}
		if ends != want {
			t.Errorf("after %d times: got %d ends, want %d", i+1, ends, want)
		}
	}
}

func TestWithoutAPlanThereIsNoEnd(t *testing.T) {
	l := &life{end: func(Plan) { t.Error("got an end") }}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, p := range All() {
				l.here(p, time.Now())
			}
		})
	}
	all.Wait()
}

// TestInsideACommit: never outside, and not before the n-th.
func TestInsideACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, commits atomic.Int32
		ends := 0
		l := &life{plan: Plan{InsideCommit, 3}}
		l.end = func(Plan) {
			ends++
			if inside.Load() == 0 || commits.Load() < 3 {
				t.Errorf("ended inside %d commits, in commit %d", inside.Load(), commits.Load())
			}
		}
		for range 200 {
			commits.Add(1)
			l.here(CommitBegins, time.Now())
			inside.Add(1)
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			l.here(CommitEnds, time.Now())
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if ends < 150 { // one each time, in a life that goes on
			t.Errorf("got %d ends, want about one for each commit from the third", ends)
		}
	})
}
