package timejudge

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// sentAhead is a message of a producer whose clock is ahead of noon by so much.
func sentAhead(t foldtest.T, offset int64, producer byte, ahead time.Duration) kafkaio.Record {
	fr := foldtest.Frame(1, noonNanos+int64(ahead))
	fr.Producer = schemas.ProducerID{producer}
	return kafkaio.Record{Offset: offset, Time: noonNanos + int64(ahead), Value: foldtest.Encode(t, fr)}
}

const noonNanos = int64(1_800_000_000_000_000_000)

func allNew(int64) bool { return true }

// TestJudgingABatch is what is refused of the first batch that an owner sees, and when it stops instead.
func TestJudgingABatch(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		ahead   []time.Duration // one producer each
		refused []int
		stop    bool
		wrong   bool
	}{
		"nothing":                            {nil, nil, false, false},
		"on time":                            {[]time.Duration{0, time.Second, 2 * time.Second}, nil, false, false},
		"a backlog":                          {[]time.Duration{-time.Hour, -48 * time.Hour, -year}, nil, false, false},
		"a nanosecond more than is allowed":  {[]time.Duration{0, 2*time.Second + 1}, []int{1}, false, false},
		"one of two is ahead":                {[]time.Duration{0, time.Hour}, []int{1}, false, false},
		"one of three is ahead":              {[]time.Duration{0, 70 * year, 0}, []int{1}, false, false},
		"half of four are ahead":             {[]time.Duration{0, time.Hour, time.Hour, 0}, []int{1, 2}, false, false},
		"the only one is ahead":              {[]time.Duration{time.Hour}, []int{0}, false, true},
		"both are ahead":                     {[]time.Duration{time.Hour, 3 * time.Second}, []int{0, 1}, false, true},
		"two of three are ahead":             {[]time.Duration{time.Hour, time.Hour, 0}, nil, true, true},
		"all of five are ahead":              {[]time.Duration{9e9, 9e9, 9e9, 9e9, 9e9}, nil, true, true},
		"one of three is the last of times":  {[]time.Duration{0, 0, math.MaxInt64 - time.Duration(noonNanos)}, []int{2}, false, false},
		"one of three is the first of times": {[]time.Duration{0, 0, -time.Duration(noonNanos)}, nil, false, false},
	} {
		var j Judge
		var records []kafkaio.Record
		for i, ahead := range c.ahead {
			records = append(records, sentAhead(t, int64(i), byte(i), ahead))
		}
		at := Instant{Wall: noonNanos}
		j.Listen(records, at)
		v := j.Judge(records, allNew, at)
		if !slices.Equal(v.Refused, c.refused) || v.Stop != c.stop || v.Wrong() != c.wrong {
			t.Errorf("%s: got %+v and wrong %v, want refused %v, stop %v, wrong %v", name, v, v.Wrong(), c.refused, c.stop, c.wrong)
		}
	}
}

// TestJudgedMessagesAreNotJudgedAgain: an owner whose clock is slow takes what another has folded.
func TestJudgedMessagesAreNotJudgedAgain(t *testing.T) {
	var j Judge
	records := []kafkaio.Record{sentAhead(t, 7, 1, time.Hour), sentAhead(t, 8, 2, time.Hour), {Offset: 9, Time: noonNanos * 2, Value: []byte("no frame")}}
	if v := j.Judge(records, func(offset int64) bool { return offset > 7 }, Instant{Wall: noonNanos}); !slices.Equal(v.Refused, []int{1}) {
		t.Errorf("got %v refused, want offset 8 alone: 7 was folded, and 9 is no frame", v.Refused)
	}
}

// steps is a judge and its two clocks.
type steps struct {
	t  *testing.T
	j  Judge
	at Instant
}

func (s *steps) pass(d time.Duration) {
	s.at.Wall += int64(d)
	s.at.Steady += d
}

// sent lets producers send a message each, by clocks that are right while ours is off.
func (s *steps) sent(off time.Duration, producers ...byte) []kafkaio.Record {
	var list []kafkaio.Record
	for _, p := range producers {
		list = append(list, sentAhead(s.t, 0, p, time.Duration(s.at.Wall-noonNanos)+off))
	}
	s.j.Listen(list, s.at)
	return list
}

func (s *steps) want(when string, records []kafkaio.Record, refused int, stop bool) {
	s.t.Helper()
	if v := s.j.Judge(records, allNew, s.at); len(v.Refused) != refused || v.Stop != stop {
		s.t.Errorf("%s: got %+v, want %d refused and stop %v", when, v, refused, stop)
	}
}

// TestOurClockIsSetBack: nothing is refused, and it goes on at once when the clock is right again.
func TestOurClockIsSetBack(t *testing.T) {
	s := &steps{t: t, at: Instant{Wall: noonNanos}}
	s.want("all is well", s.sent(0, 1, 2, 3), 0, false)
	s.pass(10 * time.Second)
	s.at.Wall -= int64(time.Hour)
	first := s.sent(time.Hour, 1)
	s.want("the first message after the clock was set back", first, 0, true)
	for range 600 { // servers go on, a message each in a second
		s.pass(time.Second)
		s.sent(time.Hour, 2, 3)
		s.want("while it is wrong", first, 0, true)
	}
	s.at.Wall += int64(time.Hour)
	s.want("once it is right", first, 0, false)
	s.want("what was sent meanwhile", s.sent(-time.Minute, 1, 2, 3), 0, false)
}

// TestServersFallSilentWhileOurClockIsWrong: nothing of what they sent is refused because nobody is left to say so.
func TestServersFallSilentWhileOurClockIsWrong(t *testing.T) {
	s := &steps{t: t, at: Instant{Wall: noonNanos}}
	held := s.sent(time.Hour, 1, 2, 3)
	s.want("all are ahead", held, 0, true)
	s.pass(59 * time.Minute)
	s.want("nobody has sent for an hour", held, 0, true)
	s.pass(time.Minute)
	s.want("our clock has come to where theirs were", held, 0, false)
}

// TestSomebodyForgesProducers: whoever may write can stop a partition for a minute by more made-up producers than there
// are servers, and for no longer than it goes on.
func TestSomebodyForgesProducers(t *testing.T) {
	s := &steps{t: t, at: Instant{Wall: noonNanos}}
	s.want("servers", s.sent(0, 1, 2), 0, false)
	forged := s.sent(70*365*24*time.Hour, 101, 102, 103)
	s.want("three that nobody knows", forged, 0, true)
	for range 59 {
		s.pass(time.Second)
		s.sent(0, 1, 2)
		s.want("for a minute", forged, 0, true)
	}
	s.pass(2 * time.Second)
	s.sent(0, 1, 2)
	s.want("a minute later", forged, 3, false)
}

// TestOneServerIsAheadForADay: its messages are refused, all others' are taken, and the analyzer never stops.
func TestOneServerIsAheadForADay(t *testing.T) {
	s := &steps{t: t, at: Instant{Wall: noonNanos}}
	for range 24 * 60 {
		s.pass(time.Minute)
		s.want("the servers that are right", s.sent(0, 1, 2), 0, false)
		s.want("the one that is ahead", s.sent(30*time.Second, 3), 1, false)
	}
}

// TestSightingsAreBounded: ten thousand producers have a say, be there millions.
func TestSightingsAreBounded(t *testing.T) {
	s := &steps{t: t, at: Instant{Wall: noonNanos}}
	for i := range 3 * maxSightings {
		s.j.note(schemas.ProducerID([]byte(fmt.Sprintf("%016d", i))), sighting{noonNanos, s.at.Steady}, s.at)
	}
	if len(s.j.seen) != maxSightings {
		t.Errorf("got %d producers, want %d", len(s.j.seen), maxSightings)
	}
	s.pass(2 * time.Minute)
	s.want("two minutes later", s.sent(0, 1), 0, false)
	if len(s.j.seen) != 1 {
		t.Errorf("got %d producers, want the one that has sent since", len(s.j.seen))
	}
}
