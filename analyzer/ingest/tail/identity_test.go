package tail

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// plan is a history without chance: a test says what happens.
type plan struct{ *history }

func newPlan(t *testing.T) plan {
	t.Helper()
	h := newHistory(t, 1)
	h.quiet = true // all is acknowledged at once, and nothing happens by chance
	h.server.write([]byte(constant))
	h.start()
	h.turn()
	return plan{h}
}

// write writes lines, and reads them unless ingest is down.
func (p plan) write(to *handle, n int) {
	p.lines(to, n)
	p.pass(time.Second)
}

// pass lets time pass, with a look each quarter of a second.
func (p plan) pass(d time.Duration) {
	for end := p.clock.Add(d); p.clock.Before(end); {
		p.clock = p.clock.Add(look)
		p.turn()
	}
}

// rename renames the log, and makes the server write to a new one with the constant first line. It returns the old one.
func (p plan) rename(to string) *handle {
	old := p.server
	p.disk.rename(logPath, to)
	p.server = p.disk.create(logPath)
	p.server.write([]byte(constant))
	return old
}

func (p plan) down() { p.save(); p.drop() }

// once fails unless each line counts once, and reports say so many logs.
func (p plan) once(reports int) {
	p.t.Helper()
	p.pass(30 * time.Second)
	for _, line := range p.written {
		if n := p.counted[line]; n != 1 && !p.t.Failed() {
			p.t.Errorf("line %.6s of %d counts %d times, want once", line, len(p.written), n)
		}
	}
	if len(p.reports) != reports {
		p.t.Errorf("got reports at %d, want %d", p.reports, reports)
	}
}

// TestANumberOfAFileComesBack: 60 rotations of a log with a constant first line, whose file gets the number of a deleted one each time.
func TestANumberOfAFileComesBack(t *testing.T) {
	p := newPlan(t)
	for i := range 60 {
		p.write(p.server, 5)
		p.rename(fmt.Sprintf("%s.%d", logPath, i)).Close()
		p.pass(2 * time.Second)
		p.disk.remove(fmt.Sprintf("%s.%d", logPath, i))
	}
	if n := p.server.f.number; n > 3 {
		t.Fatalf("file number %d: want numbers that come back", n)
	}
	p.once(0)
}

// TestARestartAfterManyRotations finds each log where it was left, and none of those before.
func TestARestartAfterManyRotations(t *testing.T) {
	p := newPlan(t)
	for i := range 40 {
		p.write(p.server, 5)
		p.down()
		p.start()
		p.rename(fmt.Sprintf("%s.%d", logPath, i)).Close()
		p.write(p.server, 1)
	}
	p.once(0)
}

// TestATruncatedLogThatIsLongerThanBefore at the next look, while ingest runs and while it does not.
func TestATruncatedLogThatIsLongerThanBefore(t *testing.T) {
	for _, down := range []bool{false, true} {
		p := newPlan(t)
		p.write(p.server, 20)
		if down {
			p.down()
		}
		p.lines(p.server, 3) // only the copy has these
		p.disk.copy(logPath, logPath+".1", false)
		p.server.f.truncate(0)
		p.server.write([]byte(constant))
		p.lines(p.server, 100)
		if down {
			p.start()
		}
		p.once(0)
	}
}

// TestATruncatedLogWithoutACopy: what was not read of it is lost, and that is said.
func TestATruncatedLogWithoutACopy(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 20)
	p.lines(p.server, 3)
	lost := slices.Clone(p.written[20:])
	p.server.f.truncate(0)
	p.lines(p.server, 100)
	p.written = slices.DeleteFunc(p.written, func(line string) bool { return slices.Contains(lost, line) })
	p.once(1)
}

// TestAHeaderIsNoCopy: a log is truncated without a copy, and an older log has no more than the header. That lines may be missing is said.
func TestAHeaderIsNoCopy(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 20)
	p.rename(logPath + ".2").Close()
	p.rename(logPath + ".1").Close() // it has no line
	p.write(p.server, 3)
	p.lines(p.server, 1)
	p.written = p.written[:len(p.written)-1]
	p.server.f.truncate(0)
	p.write(p.server, 3)
	p.once(1)
}

// TestAnotherDeviceNumber: after a restart, while ingest runs, and together with a rotation.
func TestAnotherDeviceNumber(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 50)
	p.disk.device++
	p.write(p.server, 5)
	p.down()
	p.disk.device++
	p.start()
	p.write(p.server, 5)
	p.disk.device++
	p.lines(p.server, 5)
	old := p.rename(logPath + ".1")
	p.write(p.server, 5)
	p.write(old, 5)
	p.down()
	p.disk.closed = true // not mounted yet when ingest starts
	p.start()
	p.pass(time.Minute)
	p.disk.closed = false
	p.disk.device++
	p.write(old, 1)
	p.once(0)
}

// TestLinesInARenamedLog count whenever they come: minutes later, as long as a process has the log open, and also after that.
func TestLinesInARenamedLog(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 5)
	old := p.rename(logPath + ".1")
	for range 10 {
		p.write(p.server, 1)
		p.pass(p.follower.KeepOpen * 9 / 10)
		p.write(old, 1)
	}
	p.pass(3 * p.follower.KeepOpen)
	p.lines(old, 1) // nobody watches it, but its directory
	p.pass(scanEvery)
	old.Close()
	p.once(0)
}

// TestALogIsWatchedUntilNobodyHasItOpen, and not longer.
func TestALogIsWatchedUntilNobodyHasItOpen(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 5)
	old := p.rename(logPath + ".1")
	p.write(p.server, 5)
	p.pass(10 * time.Second)
	if n := len(p.follower.readers); n != 2 {
		t.Errorf("got %d logs watched, want 2", n)
	}
	old.Close()
	p.pass(2 * time.Second)
	if n := len(p.follower.readers); n != 1 {
		t.Errorf("got %d logs watched, want 1", n)
	}
	p.once(0)
}

// TestAFinishedLogIsMetBeforeKafkaHasIt: it gets no second reader, which would make its positions those of another sink.
func TestAFinishedLogIsMetBeforeKafkaHasIt(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 20)
	p.stuck = true
	p.lines(p.server, 5)
	p.rename(logPath + ".1").Close()
	for range 10 {
		p.pass(2 * time.Second) // fails if a log has two readers
		p.follower.renamed.Store(true)
	}
	p.stuck = false
	p.pass(2 * time.Second)
	log := p.follower.Positions.of(logPath)[0]
	if !log.Finished || log.Acked.End != log.Read.End || len(p.follower.readers) != 1 {
		t.Errorf("got %d readers, log at %d of %d, finished: %v; want 1 at the end, finished", len(p.follower.readers), log.Acked.End, log.Read.End, log.Finished)
	}
	p.once(0)
}

// TestALogWithOnlyAHeader that is rotated does not count, and it is said how many such logs there were.
func TestALogWithOnlyAHeader(t *testing.T) {
	p := newPlan(t)
	p.write(p.server, 20)
	p.rename(logPath + ".2").Close()
	p.pass(time.Second)
	p.rename(logPath + ".1").Close()
	p.write(p.server, 5)
	p.once(0)
	if p.undecided != 1 {
		t.Errorf("got %d undecided logs, want 1", p.undecided)
	}
}

// TestTheLogWithMostInCommon continues in a file, though a newer one begins in the same way: a log is rotated and restored to an earlier state,
// and both logs are written on. While ingest is down the restored one is moved away, which is reported. The rotated one is no copy of it.
func TestTheLogWithMostInCommon(t *testing.T) {
	p := newPlan(t)
	for len(p.server.f.data) < 6000 {
		p.write(p.server, 1)
	}
	text := p.server.f.data
	begin := text[:enough+bytes.IndexByte(text[enough:], '\n')+1]
	old := p.rename(logPath + ".1")
	p.server.f.data = bytes.Clone(begin)
	p.pass(time.Second)
	p.write(p.server, 100)
	p.down()
	p.lines(old, 2)
	if n := len(old.f.data); n >= 2*enough {
		t.Fatalf("the rotated log has %d bytes: want less than the next mark", n)
	}
	p.rename("/elsewhere/access.log").Close()
	p.start()
	p.write(p.server, 1)
	old.Close()
	p.once(1)
}

// TestNamesOfRotatedLogs: what was renamed, copied, linked or compressed while ingest was down is found.
func TestNamesOfRotatedLogs(t *testing.T) {
	for name, rotate := range map[string]func(p plan){
		"dateext":           func(p plan) { p.rename("/logs/access.log-20240102").Close() },
		"dateext before it": func(p plan) { p.rename("/logs/access-20240102.log").Close() },
		"olddir":            func(p plan) { p.rename("/logs/old/access.log.1").Close() },
		"gzip": func(p plan) {
			p.rename(logPath + ".1").Close()
			p.disk.gzip(logPath + ".1")
		},
		"three of them, two compressed": func(p plan) {
			for i := range 3 {
				to := fmt.Sprintf("%s.%d", logPath, 9-i)
				p.rename(to).Close()
				p.lines(p.server, 5)
				if i < 2 {
					p.disk.gzip(to)
				}
			}
		},
		"a copy beside it": func(p plan) {
			p.disk.copy(logPath, logPath+".bak", false)
			p.lines(p.server, 5)
		},
		"a copy of a renamed one": func(p plan) {
			p.rename(logPath + ".1").Close()
			p.disk.copy(logPath+".1", logPath+".1.bak", false)
		},
		"a hard link":     func(p plan) { p.disk.names[logPath+".link"] = p.disk.names[logPath]; p.server.f.names++ },
		"a symbolic link": func(p plan) { p.disk.links[logPath+".link"] = logPath },
		"a symbolic link instead of it": func(p plan) {
			p.rename("/logs/app-1.log").Close()
			p.server.Close()
			p.disk.rename(logPath, "/logs/app-2.log")
			p.disk.links[logPath] = "/logs/app-2.log"
			p.server = p.disk.create("/logs/app-2.log")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlan(t)
			p.write(p.server, 20)
			p.down()
			p.clock = p.clock.Add(time.Hour)
			p.lines(p.server, 5)
			rotate(p)
			p.lines(p.server, 5)
			p.start()
			p.pass(time.Second)
			want := 0
			if name == "a symbolic link instead of it" { // the log has a name that nobody can know
				want = 1
				p.written = slices.Delete(p.written, 20, 25)
			}
			p.once(want)
		})
	}
}

// TestASymbolicLinkMoves to another file while ingest runs, and while it does not: the log that was read is found where it was.
func TestASymbolicLinkMoves(t *testing.T) {
	p := newPlan(t)
	p.server.Close()
	p.disk.rename(logPath, "/logs/app-1")
	p.disk.links[logPath] = "/logs/app-1"
	p.server = p.disk.names["/logs/app-1"].open(true)
	p.write(p.server, 20)
	p.pass(scanEvery)
	for i := 2; i < 6; i++ {
		if i%2 == 0 {
			p.down()
		}
		p.lines(p.server, 5)
		p.server.Close()
		to := fmt.Sprintf("/logs/app-%d", i)
		p.server = p.disk.create(to)
		p.server.write([]byte(constant))
		p.disk.links[logPath] = to
		p.lines(p.server, 5)
		if p.follower == nil {
			p.start()
		}
		p.write(p.server, 5)
	}
	p.once(0)
}

// TestAFileThatGivesNothing is named after ten seconds, once, with the likely cause.
func TestAFileThatGivesNothing(t *testing.T) {
	for want, prepare := range map[string]func(d *modelDisk){
		"there is no such file":      func(d *modelDisk) { d.remove(logPath); d.create("/logs/other").Close() },
		"its directory is not there": func(d *modelDisk) { d.closed = true },
		"it is empty":                func(*modelDisk) {},
		"it has no line end yet":     func(d *modelDisk) { d.names[logPath].data = []byte("half a line") },
		"all of it was read before":  func(d *modelDisk) { d.names[logPath].data = []byte("a line\n") },
		"":                           func(d *modelDisk) { d.names[logPath].data = []byte("a line\n") },
	} {
		now := time.Unix(1_700_000_000, 0)
		d := newModelDisk(func() time.Time { return now })
		d.create(logPath)
		prepare(d)
		var log bytes.Buffer
		var saved []byte
		run := func(seconds int) {
			p, err := loadPositions(saved, func(b []byte) error { saved = bytes.Clone(b); return nil })
			if err != nil {
				t.Fatal(err)
			}
			f := &Follower{
				Path: logPath, Positions: p, Now: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil)), disk: d,
				Open: func(_ schemas.ProducerID, _ string, at int64) Sink { return &takes{at} },
			}
			f.start()
			for range seconds {
				if err := f.turn(t.Context()); err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Second)
			}
			if err := p.Save(); err != nil {
				t.Fatal(err)
			}
		}
		if want == "all of it was read before" {
			run(1)
		}
		run(10)
		const message = "no line has come from a file yet"
		if strings.Contains(log.String(), message) {
			t.Errorf("%s: said before ten seconds:\n%s", want, log.String())
		}
		run(30)
		times := strings.Count(log.String(), message)
		if want == "" {
			log.Reset()
			if times > 1 { // the second run finds nothing new
				t.Errorf("got it %d times", times)
			}
		} else if times != 1 || !strings.Contains(log.String(), want) || !strings.Contains(log.String(), "path="+logPath) {
			t.Errorf("got %d times, want once, with %q:\n%s", times, want, log.String())
		}
	}
}

// takes is a sink that has all in Kafka at once.
type takes struct{ acked int64 }

func (s *takes) Head([]byte)                                           {}
func (s *takes) Text(_ context.Context, _ []byte, _, next int64) error { s.acked = next; return nil }
func (s *takes) End(int64)                                             {}
func (s *takes) Acked() int64                                          { return s.acked }
func (s *takes) Close() error                                          { return nil }
