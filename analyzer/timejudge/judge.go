package timejudge

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bounds of a Judge.
const (
	window       = time.Minute // a producer that is silent for longer has no vote
	minVoters    = 3           // so many producers can show that it is our clock which is wrong
	maxSightings = 10_000      // producers remembered, some 1 MB
)

// Instant is a moment on two clocks of one machine: the wall clock, which may be set, and a steady one.
type Instant struct {
	Wall   int64         // Unix nanoseconds
	Steady time.Duration // since any moment that stays the same
}

// sighting is the time of a producer's newest message, and when it was seen.
type sighting struct {
	time   int64 // Unix nanoseconds
	steady time.Duration
}

// ahead reports whether the producer's clock is ahead of ours, as far as its newest message shows. Where our wall clock
// was set meanwhile, this is as of now: the message's time has moved on with the steady clock.
func (s sighting) ahead(at Instant) bool {
	return Ahead(s.time, at.Wall-int64(at.Steady-s.steady))
}

// Ahead reports whether a message's time is further ahead of now, both in Unix nanoseconds, than a broker would allow.
func Ahead(message, now int64) bool {
	return message > now && uint64(message)-uint64(now) > uint64(kafkaio.MaxAhead)
}

// Judge judges messages by their times. One goroutine may use it; the zero value is ready.
type Judge struct {
	seen    map[schemas.ProducerID]sighting
	stopped bool // the last verdict: our clock is wrong
}

// Verdict is what a Judge finds about a batch of messages.
type Verdict struct {
	Refused []int // indexes of the messages from the future
	Stop    bool  // our clock is wrong: do not fold the batch yet, and refuse nothing
	Ahead   int   // voters that are ahead
	Voters  int   // producers that were heard in the last minute
}

// Listen takes note of who sent messages, whether they are to be folded now or later. Pass each message once.
func (j *Judge) Listen(records []kafkaio.Record, at Instant) {
	for i := range records {
		if id, ok := schemas.FrameProducer(records[i].Value); ok {
			j.note(id, sighting{records[i].Time, at.Steady}, at)
		}
	}
}

// Judge judges those messages of a batch that are new: neither refused before, nor folded by another owner. What is no
// frame is left for the fold to refuse. After a verdict with Stop, it stops until no message of the batch is ahead any
// more, or half of the voters are not. No voters at all is no reason to go on.
func (j *Judge) Judge(records []kafkaio.Record, isNew func(offset int64) bool, at Instant) Verdict {
	var refused []int
	for i := range records {
		r := &records[i]
		if _, ok := schemas.FrameProducer(r.Value); ok && Ahead(r.Time, at.Wall) && isNew(r.Offset) {
			refused = append(refused, i)
		}
	}
	v := j.Poll(at)
	behind := v.Outvoted()
	if j.stopped {
		behind = v.Voters == 0 || 2*v.Ahead > v.Voters
	}
	v.Stop = len(refused) > 0 && behind
	if j.stopped = v.Stop; !v.Stop {
		v.Refused = refused
	}
	return v
}

// Poll returns the votes, without a batch.
func (j *Judge) Poll(at Instant) (v Verdict) {
	j.forget(at)
	for _, s := range j.seen {
		v.Voters++
		if s.ahead(at) {
			v.Ahead++
		}
	}
	return v
}

// note remembers a sighting.
func (j *Judge) note(id schemas.ProducerID, s sighting, at Instant) {
	if j.seen == nil {
		j.seen = make(map[schemas.ProducerID]sighting)
	}
	if _, known := j.seen[id]; !known && len(j.seen) >= maxSightings {
		j.forget(at)
		if len(j.seen) >= maxSightings {
			return
		}
	}
	j.seen[id] = s
}

// forget forgets producers that were silent for a minute.
func (j *Judge) forget(at Instant) {
	for id, s := range j.seen {
		if at.Steady-s.steady > window {
			delete(j.seen, id)
		}
	}
}

// Outvoted reports whether more than half of enough voters are ahead.
func (v *Verdict) Outvoted() bool { return v.Voters >= minVoters && 2*v.Ahead > v.Voters }

// Wrong reports whether our clock seems to be wrong: we have stopped, or would stop, or all voters are ahead, even if there
// are only one or two.
func (v *Verdict) Wrong() bool {
	return v.Stop || v.Outvoted() || v.Voters > 0 && v.Ahead == v.Voters
}
