package tail

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

var stepsSeed = flag.Uint64("steps.seed", 0, "of the only story of TestAnySteps; 0: many")

// next returns a new name for a rotated log.
func (p plan) next() string {
	p.rotated++
	return fmt.Sprintf("%s-202401%05d", logPath, p.rotated)
}

// copytruncate copies the log, with lines that are not read yet, and truncates it.
func (p plan) copytruncate() (to string) {
	to = p.next()
	p.lines(p.server, 3)
	p.disk.copy(logPath, to, p.rotated%2 == 0)
	p.server.f.truncate(0)
	return to
}

func (p plan) kill() { p.drop(); p.start() }

// beginnings are what a follower meets when something happens to its log.
var beginnings = []func(p plan){
	func(p plan) { p.write(p.server, 10) }, // the first log of all
	func(p plan) { p.write(p.server, 10); p.down(); p.start() },
	func(p plan) { p.write(p.server, 10); p.kill() },
	func(p plan) { p.write(p.server, 10); p.disk.device++ },
	func(p plan) { p.write(p.server, 60); p.kill() }, // it is long
	func(p plan) { p.write(p.server, 60); p.disk.device++ },
	func(p plan) { p.older() },
	func(p plan) { p.older(); p.write(p.server, 10) },
	func(p plan) { p.older(); p.write(p.server, 10); p.down(); p.start() },
	func(p plan) { p.older(); p.write(p.server, 10); p.kill() },
	func(p plan) { p.older(); p.write(p.server, 10); p.rename(p.next()).Close() },
	func(p plan) { p.older(); p.write(p.server, 10); p.copytruncate(); p.anew() },
	func(p plan) { p.older(); p.write(p.server, 60) },
	func(p plan) { // new logs
		p.older()
		p.down()
		p.rename(p.next()).Close()
		p.lines(p.server, 5)
		p.rename(p.next()).Close()
		p.lines(p.server, 5)
		p.start()
	},
}

// happenings are what may happen to a log.
var happenings = []func(p plan){
	func(p plan) { p.copytruncate() },
	func(p plan) { p.copytruncate(); p.server.write([]byte(constant)) },
	func(p plan) { p.copytruncate(); p.anew() }, // it is longer than before
	func(p plan) { p.copytruncate(); p.anew(); p.copytruncate(); p.anew() },
	func(p plan) { to := p.copytruncate(); p.anew(); p.disk.gzip(to) },
	func(p plan) { p.lines(p.server, 3); p.rename(p.next()).Close() },
	func(p plan) { p.lines(p.server, 3); old := p.rename(p.next()); p.lines(old, 2) },
	func(p plan) { p.lines(p.server, 3); to := p.next(); p.rename(to).Close(); p.disk.gzip(to) },
	func(p plan) {
		for range 3 {
			p.lines(p.server, 3)
			p.rename(p.next()).Close()
		}
	},
	func(p plan) {
		p.lines(p.server, 3)
		to := p.next()
		p.disk.copy(logPath, to, p.rotated%2 == 0)
		p.lines(p.server, 3)
	},
	func(p plan) { p.lines(p.server, 3); p.disk.device++ },
	func(p plan) { p.lines(p.server, 3); p.disk.device++; old := p.rename(p.next()); p.lines(old, 3) },
	func(p plan) { p.lines(p.server, 3); panic(errKilled) },
}

// TestAnyStep: whatever happens to a log, before any call that a follower makes to the disk in a second, each line counts once, and nothing is
// reported. Without FLOODGATE_LONG=1 it is one call of 20.
func TestAnyStep(t *testing.T) {
	stride := 20
	if testenv.IsLong() {
		stride = 1
	}
	for b, begin := range beginnings {
		for h, happen := range happenings {
			for at, reached := 1+(b+h)%stride, true; reached && !t.Failed(); at += stride {
				p := newPlan(t)
				begin(p)
				n := 0
				p.disk.step = func() {
					if n++; n == at {
						happen(p)
					}
				}
				p.pass(time.Second)
				p.disk.step = nil
				if p.follower == nil {
					p.start()
				}
				p.once(0)
				if reached = n >= at; t.Failed() {
					t.Errorf("it began with %d, and %d happened before call %d", b, h, at)
				}
			}
		}
	}
}

// TestAnySteps: three things happen, at random, soon after each other.
func TestAnySteps(t *testing.T) {
	first, n := uint64(1), uint64(200)
	if testenv.IsLong() {
		n *= 20
	}
	if *stepsSeed > 0 {
		first, n = *stepsSeed, 1
	}
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		p := newPlan(t)
		rnd := rand.New(rand.NewPCG(seed, 3))
		beginnings[rnd.IntN(len(beginnings))](p)
		calls, at := 0, 1+rnd.IntN(120)
		left := 3
		p.disk.step = func() {
			if calls++; calls == at && left > 0 {
				left--
				at += 1 + rnd.IntN(5+55*rnd.IntN(2))
				happenings[rnd.IntN(len(happenings))](p)
			}
		}
		for range 8 {
			p.pass(look)
			if p.follower == nil {
				p.start()
			}
		}
		p.disk.step = nil
		if p.once(0); t.Failed() {
			t.Errorf("seed %d", seed)
		}
	}
}
