//go:build failpoint

package failpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// Enabled reports whether this program crashes where it is told to.
const Enabled = true

// once is this process's life. A global, because so is the end of it.
var once = sync.OnceValue(func() *life { //nolint:gochecknoglobals // only in programs that are made to be killed
	plan, err := ParsePlan(os.Getenv(Variable))
	if err != nil {
		panic(err) // a test's mistake, which must not look like a point that was not reached
	}
	return &life{plan: plan, end: end}
})

// Here kills the process if the plan says so. Any goroutine may call it.
func Here(p Point) { once().here(p, time.Now()) }

// life counts how often the planned point was passed.
type life struct {
	plan Plan
	end  func(Plan)

	mu      sync.Mutex
	passed  int           // guarded by mu
	commits int           // guarded by mu: that are being written
	began   time.Time     // guarded by mu: the last of them
	took    time.Duration // guarded by mu: the last one that was written
}

func (l *life) here(p Point, now time.Time) {
	if l.plan.Point == InsideCommit {
		l.commit(p, now)
		return
	}
	if p != l.plan.Point {
		return
	}
	l.mu.Lock() // and keep it: whoever else comes here has ended as well
	if l.passed++; l.passed == l.plan.Nth {
		l.end(l.plan)
	}
	l.mu.Unlock()
}

// commit ends the process while a checkpoint is being written: at a random time within as long as the last one took. Where
// that comes too late, the next one is tried.
func (l *life) commit(p Point, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch p {
	case CommitBegins:
		l.commits++
		l.began = now
		if l.passed++; l.passed >= l.plan.Nth {
			time.AfterFunc(rand.N(max(l.took, time.Microsecond)), l.inside) //nolint:gosec // no secret
		}
	case CommitEnds:
		l.commits--
		l.took = now.Sub(l.began)
	}
}

// inside ends the process if a checkpoint is being written. None can end meanwhile.
func (l *life) inside() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commits > 0 {
		l.end(l.plan)
	}
}

// end is kill -9.
func end(p Plan) {
	fmt.Fprintln(os.Stderr, p.Reached())
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}
