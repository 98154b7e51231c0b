package tail

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

var (
	historySeed = flag.Uint64("history.seed", 0, "of the only history of TestAnyHistory; 0: many")
	histories   = flag.Uint64("histories", 60, "how many TestAnyHistory tries")
	historyLog  = flag.Bool("history.log", false, "TestAnyHistory shows what happens")
)

// constant is the first line of each log.
const constant = "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n"

const logPath = "/logs/access.log"

// errKilled ends a follower in the midst of what it does.
var errKilled = errors.New("killed")

// history is a random history of one log: a server writes it, rotators rename, copy, compress and truncate it, and a follower is stopped,
// killed and started again. All happens in one goroutine and in virtual time. What the others do also happens between any two
// steps of the follower.
type history struct {
	t     *testing.T
	rnd   *rand.Rand
	seed  uint64
	clock time.Time
	disk  *modelDisk
	kind  rotator
	loses bool // the rotator deletes logs, too

	server  *handle   // where the server writes
	old     []*handle // where processes of it still write that have not been told to stop
	written []string
	rotated int
	todo    []func() // what the rotator does next, one step after the other

	saved     []byte
	follower  *Follower // nil while it is stopped
	last      map[schemas.ProducerID]int64
	counted   map[string]int
	excused   map[string]bool // lines that may be missing
	deleted   []*modelFile
	logs      map[string]writtenTo // by line
	turns     int                  // how many turns of followers have begun
	looked    int                  // the last turn that ended
	scanned   int                  // the last turn that ended with a look at all files during which nothing moved
	reports   []int64              // the place of each
	undecided int
	inside    bool         // the follower is at work
	meanwhile int          // how much may still happen before this ends
	deadly    bool         // it may be killed at each step
	quiet     bool         // nothing happens any more
	stuck     bool         // nothing is acknowledged
	log       bytes.Buffer // what happened, if a failure is looked into
}

// modelSink acknowledges what it got at random.
type modelSink struct {
	h           *history
	id          schemas.ProducerID
	acked, read int64
}

func (s *modelSink) Head([]byte) {}
func (s *modelSink) Text(_ context.Context, text []byte, offset, next int64) error {
	s.h.step()
	if !bytes.Contains(s.h.saved, fmt.Appendf(nil, "%x", s.id)) {
		s.h.t.Errorf("seed %d: a line is sent before its source is saved", s.h.seed)
	}
	for line := range bytes.Lines(text) {
		if last, seen := s.h.last[s.id]; !seen || offset > last {
			s.h.last[s.id] = offset
			s.h.note("count %.7s of %x at %d", line, s.id[:2], offset)
			s.h.counted[strings.TrimSuffix(string(line), "\n")]++
		}
		offset += int64(len(line))
	}
	s.read = next
	s.h.step()
	return nil
}
func (s *modelSink) End(int64) {}
func (s *modelSink) Acked() int64 {
	if !s.h.stuck && (s.h.quiet || s.h.rnd.IntN(3) > 0) {
		s.acked = s.read
	}
	return s.acked
}
func (s *modelSink) Close() error { s.acked = s.read; return nil }

func (h *history) note(format string, args ...any) {
	if *historyLog {
		fmt.Fprintf(&h.log, "%s %s\n", h.clock.Format("04:05.000"), fmt.Sprintf(format, args...))
	}
}

// step may let something happen while the follower is at work, or end it.
func (h *history) step() {
	if !h.inside || h.quiet || h.meanwhile == 0 {
		return
	}
	if len(h.todo) > 0 && h.rnd.IntN(4) == 0 {
		h.next()
	}
	switch n := h.rnd.IntN(400); {
	case n < 4:
		h.inside = false
		h.meanwhile--
		h.happen()
		h.inside = true
	case n == 4 && h.deadly:
		panic(errKilled)
	}
}

// run lets the follower do something, unless it is killed meanwhile.
func (h *history) run(what func()) {
	if h.follower == nil {
		return
	}
	h.inside, h.meanwhile = true, 8
	defer func() {
		h.inside = false
		if r := recover(); r != nil {
			if r != any(errKilled) {
				panic(r)
			}
			h.note("killed")
			h.drop()
		}
	}()
	what()
}

// drop forgets a follower as kill -9 does.
func (h *history) drop() {
	for _, r := range h.follower.readers {
		r.letGo()
	}
	h.follower = nil
	for _, f := range h.disk.names { // what a look had open is closed, too
		f.opened = f.writers
	}
	for _, f := range h.deleted {
		if !f.gone() {
			f.opened = f.writers
			f.free()
		}
	}
	h.excuseDeleted()
}

func (h *history) start() {
	p, err := loadPositions(h.saved, func(data []byte) error {
		h.step()
		h.saved = bytes.Clone(data)
		h.step()
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	logs := slog.New(slog.DiscardHandler)
	if *historyLog {
		logs = slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.String("time", h.clock.Format("04:05.000"))
			}
			return a
		}}))
	}
	h.follower = &Follower{
		Path: logPath, Positions: p, Now: func() time.Time { return h.clock }, Logger: logs, disk: h.disk,
		KeepOpen: time.Minute, Lost: func(at int64) { h.reports = append(h.reports, at) }, Undecided: func() { h.undecided++ }, size: 16 << 10,
		Open: func(id schemas.ProducerID, _ string, at int64) Sink {
			return &modelSink{h: h, id: id, acked: at, read: at}
		},
	}
	h.run(func() { h.follower.start() })
}

func (h *history) turn() {
	h.run(func() {
		h.turns++
		before := h.follower.scanned
		if err := h.follower.turn(h.t.Context()); err != nil {
			h.t.Errorf("seed %d: %v", h.seed, err)
		}
		h.looked = h.turns
		if f := h.follower; !f.scanned.Equal(before) && !f.confirm && !f.waiting {
			h.scanned = h.turns
		}
		read := make(map[*logFile]bool)
		for _, r := range h.follower.readers {
			if r.log != nil && read[r.log] && !h.t.Failed() {
				h.t.Errorf("seed %d: two readers of log %s", h.seed, r.log.Name)
			}
			read[r.log] = true
		}
	})
}

func (h *history) save() {
	h.run(func() {
		if err := h.follower.Positions.Save(); err != nil {
			h.t.Errorf("seed %d: %v", h.seed, err)
		}
	})
}

// lines writes n lines of the server's.
func (h *history) lines(to *handle, n int) {
	for range n {
		line := fmt.Sprintf("%06d %s", len(h.written), strings.Repeat("x", 60+h.rnd.IntN(200)))
		h.note("line %.7s of %d bytes to file %d at %d", line, len(line)+1, to.f.number, len(to.f.data))
		h.written = append(h.written, line)
		to.write([]byte(line + "\n"))
		h.logs[line] = writtenTo{oneLog{to.f, to.f.cut}, int64(len(to.f.data) - len(line) - 1), h.clock, h.turns}
		if to.f.gone() { // a deleted log that the follower has given up, or never had
			h.excuse(to.f.data)
			h.excuseLate(to.f)
		}
	}
}

func (h *history) amount() int {
	if h.rnd.IntN(10) == 0 {
		return 50 + h.rnd.IntN(100)
	}
	return 1 + h.rnd.IntN(5)
}

// reopen makes the server write to a new file, and maybe leaves a process that still writes to the old one.
func (h *history) reopen() {
	if h.rnd.IntN(3) == 0 && len(h.old) < 3 {
		h.old = append(h.old, h.server)
	} else {
		h.server.Close()
	}
	h.server = h.disk.create(logPath)
}

func (h *history) header() { h.server.write([]byte(constant)) }

// happen lets the server, the rotator or the machine do something.
func (h *history) happen() {
	for n := h.rnd.IntN(2 * (1 + len(h.todo))); n > 0 && len(h.todo) > 0; n-- {
		h.next()
	}
	switch n := h.rnd.IntN(24); {
	case n < 12:
		h.lines(h.server, h.amount())
	case n < 15:
		for _, old := range h.old {
			h.lines(old, h.rnd.IntN(3))
		}
	case n < 16 && len(h.old) > 0:
		h.old[0].Close()
		h.old = h.old[1:]
	case n < 23 && len(h.todo) > 0: // the rotator is at work
	case n < 19:
		h.rotate()
	case n < 20:
		for range 2 + h.rnd.IntN(3) {
			h.rotate()
		}
	case n < 22 && h.kind.zips:
		h.zip()
	case n < 23 && h.rnd.IntN(4) == 0:
		h.note("remount")
		h.disk.device++
	case len(h.todo) == 0 && h.loses && h.rnd.IntN(3) == 0:
		h.delete()
	}
	h.clock = h.clock.Add(time.Duration(1+h.rnd.IntN(50)) * time.Millisecond)
}

// live lets n things happen.
func (h *history) live(n int) {
	h.quiet = true // a log that was rotated before it was read for the first time is none of ours
	h.start()
	h.turn()
	h.quiet = false
	for range n {
		switch h.rnd.IntN(10) {
		case 0, 1, 2, 3:
			h.happen()
		case 4:
			h.save()
		case 5:
			if h.follower == nil {
				h.note("start")
				h.start()
			} else if h.rnd.IntN(4) == 0 {
				h.note("stop")
				h.run(func() {
					if err := h.follower.close(h.t.Context()); err != nil {
						h.t.Error(err)
					}
				})
				h.save()
				if h.follower != nil {
					h.drop()
				}
			} else if h.rnd.IntN(3) == 0 {
				h.note("kill -9")
				h.drop()
			}
		default:
			h.clock = h.clock.Add(time.Duration(h.rnd.IntN(3000)) * time.Millisecond)
			h.turn()
		}
	}
	h.quiet = true
	for len(h.todo) > 0 {
		h.next()
	}
	if h.follower == nil {
		h.start()
	}
	for range 40 {
		h.clock = h.clock.Add(5 * time.Second)
		h.turn()
	}
}

// newHistory returns a history of an empty log.
func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	h := &history{
		t: t, rnd: rnd, seed: seed, clock: time.Unix(1_700_000_000, 0), last: make(map[schemas.ProducerID]int64), counted: make(map[string]int), excused: make(map[string]bool),
		logs:  make(map[string]writtenTo),
		loses: seed%5 == 0, deadly: seed%2 == 0,
		kind: rotator{numbers: true, dates: rnd.IntN(2) == 0, apart: rnd.IntN(4) == 0, copies: rnd.IntN(3) == 0, zips: rnd.IntN(2) == 0},
	}
	h.disk = newModelDisk(func() time.Time { return h.clock })
	h.disk.step = h.step
	h.server = h.disk.create(logPath)
	return h
}

// TestAnyHistory: whatever happens, no line counts twice. If logs are only renamed, copied and compressed, each line counts once. If logs are
// deleted, that is said.
func TestAnyHistory(t *testing.T) {
	n := *histories
	if testenv.IsLong() {
		n *= 10
	}
	first := uint64(1)
	if *historySeed > 0 {
		first, n = *historySeed, 1
	}
	lines, missing, reports, falsely := 0, 0, 0, 0
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		h := newHistory(t, seed)
		h.server.write([]byte(constant))
		h.lines(h.server, 3)
		h.live(150)
		m := h.judge()
		lines, missing, reports = lines+len(h.written), missing+m, reports+len(h.reports)
		if m == 0 && len(h.reports) > 0 {
			falsely++
		}
		if *historyLog {
			t.Logf("%s", h.log.String())
		}
	}
	t.Logf("%d histories, %d lines: %d missing, %d reports; %d histories with reports miss none", n, lines, missing, reports, falsely)
}
