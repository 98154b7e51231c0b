//go:build failpoint

package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"strings"
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

// TestAProcessKillsItself is the whole of it, in another process: this test again.
func TestAProcessKillsItself(t *testing.T) {
	if os.Getenv(Variable) != "" {
		for _, p := range All() {
			Here(p)
		}
		return
	}
	for _, p := range All() {
		if p == InsideCommit {
			continue // takes a commit, and time
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProcessKillsItself$")
		cmd.Env = append(os.Environ(), Variable+"="+p.String())
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Exited() || !strings.Contains(string(out), Plan{p, 1}.Reached()) {
			t.Errorf("%v: got %v, want it killed, and that it says so:\n%s", p, err, out)
		}
	}
}

// A plan that can't be read must not look like a point that was not reached.
func TestAWrongPlanIsReported(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProcessKillsItself$")
	cmd.Env = append(os.Environ(), Variable+"=opende")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `got "opende", which is no point`) {
		t.Errorf("got %v, want a panic that says what is wrong:\n%s", err, out)
	}
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
