package tail

import (
	"slices"
	"testing"
	"time"
)

// atEachStep tells a story once for each call to the disk that a follower makes in the second after prepare: what prepare returns happens just
// before that call. Each line counts once, and at most so many logs are undecided.
func atEachStep(t *testing.T, undecided int, prepare func(p plan) (happens func())) {
	t.Helper()
	for at, reached := 1, true; reached; at++ {
		p := newPlan(t)
		happens := prepare(p)
		n := 0
		p.disk.step = func() {
			if n++; n == at {
				happens()
			}
		}
		p.pass(time.Second)
		p.disk.step = nil
		if reached = n >= at; !reached {
			happens()
		}
		p.once(0)
		if p.undecided > undecided {
			t.Errorf("got %d undecided logs, want %d", p.undecided, undecided)
		}
		if t.Failed() {
			t.Fatalf("it happened before step %d of %d", at, n)
		}
	}
}

// older makes a log that was rotated before: what logs have in common is known then.
func (p plan) older() {
	p.write(p.server, 20)
	p.rename(logPath + ".9").Close()
	p.pass(3 * time.Second)
}

// copy copies the log, with lines that are not read yet.
func (p plan) copy() {
	p.lines(p.server, 3)
	p.disk.copy(logPath, logPath+".1", false)
}

// anew truncates the log, of which there is a copy, and writes more to it than it had.
func (p plan) anew() {
	p.server.f.truncate(0)
	p.server.write([]byte(constant))
	p.lines(p.server, 100)
}

// TestALogIsTruncatedDuringALook that meets its copy, which was made before the look or during it.
func TestALogIsTruncatedDuringALook(t *testing.T) {
	for _, before := range []bool{true, false} {
		atEachStep(t, 0, func(p plan) func() {
			p.older()
			p.write(p.server, 20)
			p.follower.renamed.Store(true)
			if before {
				p.copy()
				return p.anew
			}
			return func() { p.copy(); p.anew() }
		})
	}
}

// TestALogIsTruncatedDuringTheFirstLook after a restart: reading goes on in its copy, from where Kafka has it.
func TestALogIsTruncatedDuringTheFirstLook(t *testing.T) {
	for _, acked := range []bool{true, false} {
		atEachStep(t, 0, func(p plan) func() {
			if acked {
				p.older()
			}
			p.write(p.server, 10)
			if acked {
				p.save()
			}
			p.drop()
			p.copy()
			p.start()
			if acked {
				return p.anew
			}
			return func() {
				p.server.f.truncate(0)
				p.server.write([]byte(constant))
			}
		})
	}
}

// TestALogIsTruncatedWhileAnotherFileTakesItsPlace: the same file under another device number.
func TestALogIsTruncatedWhileAnotherFileTakesItsPlace(t *testing.T) {
	atEachStep(t, 0, func(p plan) func() {
		p.older()
		p.write(p.server, 20)
		p.copy()
		p.disk.device++
		return p.anew
	})
}

// TestALogIsTruncatedWhileItsTwinIsPassedOver: a log is read under two device numbers, and one reader passes over what the other has read.
func TestALogIsTruncatedWhileItsTwinIsPassedOver(t *testing.T) {
	atEachStep(t, 0, func(p plan) func() {
		p.older()
		p.write(p.server, 20)
		p.disk.device++
		p.turn()
		p.copy()
		return p.anew
	})
}

// TestALogIsTruncatedBesideItsBackup, which is read: the log goes on where the backup ends.
func TestALogIsTruncatedBesideItsBackup(t *testing.T) {
	atEachStep(t, 0, func(p plan) func() {
		p.write(p.server, 20)
		p.rename(logPath + ".9").Close() // and no look comes before the copy
		p.lines(p.server, 48)
		p.copy()
		p.lines(p.server, 5)
		p.disk.copy(logPath, logPath+".2", false)
		return p.anew
	})
}

// TestATwinFinishes: a log is read under two device numbers, and its last lines come while one of the two readers finishes.
func TestATwinFinishes(t *testing.T) {
	atEachStep(t, 0, func(p plan) func() {
		p.write(p.server, 20)
		p.disk.device++
		p.write(p.server, 1)
		old := p.rename(logPath + ".1")
		p.write(p.server, 1)
		return func() { p.lines(old, 2); old.Close() }
	})
}

// TestAShortFileUnderTwoDeviceNumbers: it is the first log of all, so that nobody knows what others have in common with it. It has one reader,
// and its lines count once when that has given it up.
func TestAShortFileUnderTwoDeviceNumbers(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 5)
	old := p.rename(logPath + ".1")
	p.write(old, 1)
	p.pass(p.follower.KeepOpen / 2)
	p.disk.device++
	p.pass(p.follower.KeepOpen * 3 / 4)
	p.write(old, 5)
	old.Close()
	p.once(0)
}

// TestAFileUnderAnOldDeviceNumberIsClosed while the log goes on under the new one: nothing keeps the old file system busy for longer.
func TestAFileUnderAnOldDeviceNumberIsClosed(t *testing.T) {
	p := newPlan(t)
	p.older()
	p.write(p.server, 20)
	p.disk.device++
	for range 3 {
		p.pass(p.follower.KeepOpen / 2)
		p.write(p.server, 1)
	}
	if n := len(p.follower.readers); n != 1 {
		t.Errorf("got %d readers, want 1", n)
	}
	p.once(0)
}

// TestALogIsTruncatedBeforeItIsRead, and goes on under another device number, still shorter than it was when it was opened.
func TestALogIsTruncatedBeforeItIsRead(t *testing.T) {
	atEachStep(t, 0, func(p plan) func() {
		p.write(p.server, 20)
		p.rename(logPath + ".9").Close()
		p.lines(p.server, 10)
		opened := func(r *reader) bool { return r.log == nil && r.id.Size() > 1000 }
		p.disk.step = func() {
			if p.rotated == 0 && slices.ContainsFunc(p.follower.readers, opened) {
				p.copytruncate()
			}
		}
		p.turn()
		p.disk.step = nil
		p.write(p.server, 3)
		p.disk.device++
		return func() { p.lines(p.server, 60) }
	})
}
