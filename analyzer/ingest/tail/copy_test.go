package tail

import (
	"fmt"
	"testing"
	"time"
)

// TestALogGoesOnInTheLongerCopy: a shorter copy is read because it was found first. Lines that only the longer file has count, under the path
// and under another name.
func TestALogGoesOnInTheLongerCopy(t *testing.T) {
	for _, current := range []bool{false, true} {
		p := newPlan(t)
		at := logPath
		p.write(p.server, 50) // more than 4 KiB
		old := p.server
		if !current {
			at = logPath + ".1"
			old = p.rename(at)
			p.write(p.server, 5)
		}
		p.down()
		p.disk.copy(at, logPath+".2", true)
		hidden := p.disk.names[at]
		delete(p.disk.names, at)
		p.start()
		p.turn()
		p.disk.names[at] = hidden
		p.lines(old, 5)
		p.follower.renamed.Store(true)
		p.turn()
		p.write(old, 5)
		p.once(0)
	}
}

// TestABackupOfANewLog that is made before the first look: both files are new. The lines that are added to the log count.
func TestABackupOfANewLog(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 20)
	p.rename(logPath + ".1").Close()
	p.lines(p.server, 48)
	p.disk.copy(logPath, logPath+".bak", false)
	p.pass(3 * time.Second)
	p.write(p.server, 5)
	p.once(0)
}

// TestABackupOfALongLog that is made before the first look: all that fits into the room of a reader is in the backup. The lines that only
// the log has count.
func TestABackupOfALongLog(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 20)
	p.rename(logPath + ".1").Close()
	for len(p.server.f.data) < 3*p.follower.size {
		p.lines(p.server, 1)
	}
	p.disk.copy(logPath, logPath+".bak", false)
	p.lines(p.server, 5)
	p.once(0)
}

// TestABackupIsMadeDuringTheFirstLook after a restart, and the log gets lines: the backup is longer than the log was when it was met.
func TestABackupIsMadeDuringTheFirstLook(t *testing.T) {
	atEachStep(t, 1, func(p plan) func() {
		p.write(p.server, 10)
		p.down()
		p.start()
		return func() {
			p.lines(p.server, 3)
			p.disk.copy(logPath, logPath+".bak", false)
			p.lines(p.server, 3)
		}
	})
}

// TestThreeBackupsOfANewLog, each longer than the one before, are all that is left of it: each goes on where another one ends.
func TestThreeBackupsOfANewLog(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 20)
	p.rename(logPath + ".1").Close()
	p.backups(3)
	p.anew()
	p.once(0)
}

// backups makes backups of the log, each with more lines than the one before.
func (p plan) backups(n int) {
	for range n {
		p.lines(p.server, 5)
		p.disk.copy(logPath, p.next(), false)
	}
}

// TestABackupOfALogThatGoesOnWhereAnotherOneEnds is no more of that one. It is made before anything is read from there on.
func TestABackupOfALogThatGoesOnWhereAnotherOneEnds(t *testing.T) {
	for more := range 20 {
		p := newPlan(t)
		p.write(p.server, 20)
		p.rename(logPath + ".1").Close()
		p.lines(p.server, 1+more/3)
		p.backups(1)
		p.turn()
		p.backups(1)
		p.lines(p.server, more)
		p.once(0)
	}
}

// TestALongerBackupComesLater, of the first log of all: a shorter one is read by then.
func TestALongerBackupComesLater(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 5)
	p.down()
	p.backups(2)
	at := fmt.Sprintf("%s-202401%05d", logPath, p.rotated)
	longer := p.disk.names[at]
	delete(p.disk.names, at)
	p.server.f.truncate(0)
	p.server.write([]byte(constant))
	p.start()
	p.turn()
	p.disk.names[at] = longer
	p.follower.renamed.Store(true)
	p.once(0)
}

// movingDisk lets something happen after each list of a directory.
type movingDisk struct {
	*modelDisk

	listed func()
}

func (d movingDisk) list(dir string) ([]entry, error) {
	entries, err := d.modelDisk.list(dir)
	d.listed()
	return entries, err
}

// TestALogIsRenamedDuringALook at the directory, and once more during the look that confirms it: no look meets the log, and yet it is not taken
// for one that was rotated before. It is renamed by a rotator that counts up, and by gzip.
func TestALogIsRenamedDuringALook(t *testing.T) {
	for _, zip := range []bool{false, true} {
		p := newPlan(t)
		p.write(p.server, 20)
		p.rename(logPath + ".5").Close()
		p.lines(p.server, 48)
		p.rename(logPath + ".1").Close()
		p.lines(p.server, 10)
		n := 1
		p.follower.disk = movingDisk{p.disk, func() {
			switch {
			case n < 3:
				p.disk.rename(fmt.Sprintf("%s.%d", logPath, n), fmt.Sprintf("%s.%d", logPath, n+1))
			case n == 3 && zip:
				p.disk.gzip(fmt.Sprintf("%s.%d", logPath, n))
			}
			n++
		}}
		for range 10 {
			p.write(p.server, 1)
		}
		p.once(0)
	}
}

// TestACopyIsMetHalfMade: ingest meets a copy of its first log before all lines are copied. It does not know yet what this log has in common
// with others. The copy then gets lines that ingest has not read. The log is truncated while ingest runs, while it is down, or never. In the
// last case, the copy stays undecided. No line counts twice.
func TestACopyIsMetHalfMade(t *testing.T) {
	const running, down, never = 0, 1, 2
	for truncated := range 3 {
		atEachStep(t, truncated/never, func(p plan) func() {
			p.write(p.server, 8)
			if truncated == down {
				p.down()
			}
			p.lines(p.server, 2)
			steps := p.disk.copying(logPath, logPath+".1", false)
			inOrder(steps[:2])
			if size := len(p.server.f.data); size >= enough {
				t.Fatalf("the log has %d bytes, want less than %d", size, enough)
			}
			if truncated == down {
				p.anew()
				p.start()
				return func() { inOrder(steps[2:]) }
			}
			p.follower.renamed.Store(true)
			p.pass(time.Second)
			return func() {
				p.lines(p.server, 1)
				late := p.server.f.data[p.logs[p.written[10]].start:]
				steps[2]()
				p.disk.names[logPath+".1"].data = append(p.disk.names[logPath+".1"].data, late...)
				steps[3]()
				if truncated == running {
					p.anew()
				}
			}
		})
	}
}

// TestALogIsForgottenBeforeItsBeginning: a backup is read, and the log goes on where the backup ends, as a log of its own. 40 logs later the backup
// is still watched. The log is not taken for more of it after a restart.
func TestALogIsForgottenBeforeItsBeginning(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 20)
	p.rename(logPath + ".1").Close()
	p.lines(p.server, 48)
	p.disk.copy(logPath, logPath+".bak", false)
	p.disk.names[logPath+".bak"].open(true)
	p.pass(3 * time.Second)
	p.write(p.server, 5)
	for i := range 40 {
		p.rename(fmt.Sprintf("%s.%d", logPath, 2+i)).Close()
		p.write(p.server, 1)
	}
	p.down()
	p.start()
	p.once(0)
}
