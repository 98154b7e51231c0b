//go:build failpoint

package failpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// Enabled reports whether this program was built with -tags failpoint.
const Enabled = true

// once returns the life of this process. It is global, because a crash ends the whole process.
var once = sync.OnceValue(func() *life { //nolint:gochecknoglobals // only in programs that are made to be killed
	plan, err := parsePlan(os.Getenv(Variable))
	if err != nil {
		panic(err) // a mistake of the test; ignored, it would look like a point that was never reached
	}
	return &life{plan: plan, end: end}
})

// Here kills the process if the plan says so. Any goroutine may call it.
func Here(p Point) { once().here(p, time.Now()) }

// life counts how often the planned point was reached.
type life struct {
	plan Plan
	end  func(Plan)

	mu      sync.Mutex
	passed  int           // guarded by mu
	commits int           // guarded by mu: checkpoints that are being written
	began   time.Time     // guarded by mu: start of the last checkpoint
	took    time.Duration // guarded by mu: duration of the last checkpoint
}

func (l *life) here(p Point, now time.Time) {
	if l.plan.Point == InsideCommit {
		l.commit(p, now)
		return
	}
	if p != l.plan.Point {
		return
	}
	l.mu.Lock() // end keeps it, so that other goroutines stop here too
	if l.passed++; l.passed == l.plan.Nth {
		l.end(l.plan)
	}
	l.mu.Unlock()
}

// commit ends the process while a checkpoint is being written: after a random time of at most the duration of the last one.
// If the checkpoint is finished by then, commit tries the next one.
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

// inside ends the process if a checkpoint is being written. No checkpoint can finish while it holds mu.
func (l *life) inside() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commits > 0 {
		l.end(l.plan)
	}
}

// end kills the process, as kill -9 does.
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
