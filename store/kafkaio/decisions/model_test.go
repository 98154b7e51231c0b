package decisions

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// modelOwner is an owner that keeps to DECISIONS.md.
type modelOwner struct {
	epoch, seq uint64
	end        int64 // the offset behind its last acknowledged record
	from       int64 // where its last complete cycle began
	began      int64
	inForce    map[string]int64
	cycle      []string // what the cycle under way has still to repeat
	dead       bool     // before its first heartbeat: it writes nothing more
}

// lateCopy is a produce that reaches the log once more, later.
type lateCopy struct {
	due    int64 // offset from which on it arrives
	values [][]byte
}

// history is a partition that owners write in turn, with everything that may happen to it.
type history struct {
	t      *rapid.T
	log    memory
	owner  *modelOwner
	zombie *modelOwner // the owner before: it writes once more before it notices
	copies []lateCopy
	now    int64
}

// produce appends records as one produce. Its answer may be lost, so that it is repeated, and a copy may arrive late.
func (h *history) produce(o *modelOwner, records ...pb.Record) {
	var values [][]byte
	for _, r := range records {
		values = append(values, encode(h.t, r))
	}
	base := h.log.append(values...)
	switch rapid.IntRange(0, 9).Draw(h.t, "answer") {
	case 0:
		base = h.log.append(values...)
	case 1:
		h.copies = append(h.copies, lateCopy{h.log.end() + int64(rapid.IntRange(0, 200).Draw(h.t, "late")), values})
	}
	o.end = base + int64(len(values))
	for i := 0; i < len(h.copies); i++ {
		if c := h.copies[i]; c.due <= h.log.end() {
			h.log.append(c.values...)
			h.copies = append(h.copies[:i], h.copies[i+1:]...)
			i--
		}
	}
}

func (o *modelOwner) decision(id string, until int64) pb.Record {
	o.seq++
	r := closes(o.epoch, o.seq, id)
	r.Decision.Until = until
	return r
}

// takeOver makes a new owner, which opens some of what is closed and repeats the rest. It may end before its first heartbeat.
func (h *history) takeOver() {
	o := &modelOwner{epoch: uint64(noon.UnixMilli()), inForce: make(map[string]int64)}
	if h.owner != nil {
		o.epoch = h.owner.epoch + uint64(rapid.IntRange(1, 3).Draw(h.t, "epochs"))
	}
	if h.zombie != nil {
		h.lastWords()
	}
	believed := h.log.fromTheStart().at(h.now)
	h.produce(o, claim(o.epoch))
	if h.owner != nil && !h.owner.dead {
		h.zombie = h.owner
	}
	h.owner = o
	o.from, o.began = o.end, o.end
	var opened []pb.Record
	for _, key := range slices.Sorted(maps.Keys(believed)) {
		id, until := key[len("r key:"):], believed[key]
		if rapid.Bool().Draw(h.t, "still closed") {
			o.inForce[id] = until
		} else {
			opened = append(opened, o.decision(id, noon.UnixNano()))
		}
	}
	o.beginCycle(h.now)
	if len(opened) > 0 {
		h.produce(o, opened...)
	}
	if rapid.IntRange(0, 4).Draw(h.t, "dies early") == 0 {
		h.repeat(o, 1)
		o.dead = true
		return
	}
	h.repeat(o, math.MaxInt)
	h.beat(o)
}

func (o *modelOwner) beginCycle(now int64) {
	if len(o.cycle) > 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(o.inForce)) {
		if o.inForce[id] > now {
			o.cycle = append(o.cycle, id)
		}
	}
	if o.began = o.end; len(o.cycle) == 0 {
		o.from = o.began
	}
}

// repeat repeats at most n decisions of the cycle under way.
func (h *history) repeat(o *modelOwner, n int) {
	n = min(n, len(o.cycle))
	var records []pb.Record
	for _, id := range o.cycle[:n] {
		if until, ok := o.inForce[id]; ok {
			records = append(records, o.decision(id, until))
		}
	}
	o.cycle = o.cycle[n:]
	if len(records) > 0 {
		h.produce(o, records...)
	}
	if n > 0 && len(o.cycle) == 0 {
		o.from = o.began
	}
}

func (h *history) beat(o *modelOwner) {
	o.seq++
	h.produce(o, beat(o.epoch, o.seq, o.from))
}

// decide closes or opens a caller, or pads the log with decisions about others.
func (h *history) decide(o *modelOwner) {
	id := fmt.Sprint("caller-", rapid.IntRange(0, 5).Draw(h.t, "caller"))
	until := h.now + int64(rapid.IntRange(-1, 60).Draw(h.t, "minutes"))*int64(time.Minute)
	if o.inForce[id] = until; until <= noon.UnixNano() {
		delete(o.inForce, id)
		until = noon.UnixNano()
	}
	records := []pb.Record{o.decision(id, until)}
	for range rapid.SampledFrom([]int{0, 0, 0, 3, 700}).Draw(h.t, "padding") {
		records = append(records, o.decision("padding", noon.UnixNano()))
	}
	h.produce(o, records...)
}

// lastWords is the one produce of an owner that was replaced and has not noticed.
func (h *history) lastWords() {
	o := h.zombie
	if h.zombie = nil; rapid.Bool().Draw(h.t, "a heartbeat") {
		h.beat(o)
	} else {
		h.decide(o)
	}
}

// stray writes what no gate believes.
func (h *history) stray() {
	other := closes(h.owner.epoch, math.MaxUint64, "elsewhere")
	other.Decision.Partition = 1
	for _, r := range []pb.Record{
		other, claim(math.MaxUint64), beat(math.MaxUint64-1, 1, 0), closes(h.owner.epoch+100, 1, "unclaimed"), beat(0, 1, 0),
	} {
		if rapid.Bool().Draw(h.t, "stray") {
			h.log.append(encode(h.t, r))
		}
	}
	h.log.append([]byte("no record of ours"))
}

func (h *history) step() {
	o := h.owner
	if o.dead {
		h.takeOver()
		return
	}
	switch rapid.SampledFrom([]string{"decide", "decide", "beat", "cycle", "repeat", "takeover", "zombie", "stray", "wait"}).Draw(h.t, "step") {
	case "decide":
		h.decide(o)
	case "beat":
		h.beat(o)
	case "cycle":
		o.beginCycle(h.now)
	case "repeat":
		h.repeat(o, rapid.IntRange(1, 4).Draw(h.t, "repeats"))
	case "takeover":
		h.takeOver()
	case "zombie":
		if h.zombie != nil {
			h.lastWords()
		}
	case "stray":
		h.stray()
	case "wait":
		h.now += int64(10 * time.Minute)
	}
}

// Whatever owners that keep to the protocol write, and whatever a broker makes of it, a gate that starts at the newest
// heartbeat has the same callers closed as one that has read everything. It does, too, once retention has removed what lies
// before the place where it started.
func TestStartingAtTheHeartbeatIsReadingEverything(t *testing.T) {
	testenv.Fewer(t, 30)
	inside, before := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := history{t: t, now: noon.UnixNano()}
		h.takeOver()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h.step()
		}
		want := h.log.fromTheStart().at(h.now)
		got, at := h.fromTheHeartbeat(t)
		if !maps.Equal(got, want) {
			t.Fatalf("got %v closed from %+v, want %v", got, at, want)
		}
		if at.Apply > 0 {
			inside++
		}
		if at.Beat != (schemas.Heartbeat{}) {
			h.log.start = int64(rapid.IntRange(0, int(at.Read)).Draw(t, "removed"))
			if h.log.start > 0 {
				before++
			}
			if got, at = h.fromTheHeartbeat(t); !maps.Equal(got, want) {
				t.Fatalf("got %v closed from %+v of a log that begins at %d, want %v", got, at, h.log.start, want)
			}
		}
	})
	if inside == 0 || before == 0 {
		t.Errorf("got %d places inside the log and %d of shortened logs, want some of both", inside, before)
	}
}

// fromTheHeartbeat is memory's, at the time of the history.
func (h *history) fromTheHeartbeat(t *rapid.T) (closed, Place) {
	t.Helper()
	c := make(closed)
	var f Follower
	for {
		at, err := Find(t.Context(), &h.log, 0, atNoon)
		if err != nil {
			t.Fatal(err)
		}
		f.Start(at)
		if f.Replay(t.Context(), &h.log, atNoon, c.take) == nil {
			return c.at(h.now), at
		}
		clear(c)
	}
}
