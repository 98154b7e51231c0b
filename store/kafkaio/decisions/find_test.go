package decisions

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

func TestFind(t *testing.T) {
	otherPartition := beat(99, 99, 0)
	otherPartition.Heartbeat.Partition = 1
	for name, test := range map[string]struct {
		log  []pb.Record
		want Place // End is filled in
	}{
		"an empty log":            {nil, Place{}},
		"a claim alone":           {[]pb.Record{claim(5)}, Place{}},
		"a heartbeat":             {[]pb.Record{claim(5), beat(5, 1, 1)}, Place{Read: 1, Apply: 1, Beat: *beat(5, 1, 1).Heartbeat}},
		"a cycle":                 {[]pb.Record{claim(5), closes(5, 1, "a"), closes(5, 2, "b"), beat(5, 3, 2)}, Place{Read: 0, Apply: 2, Beat: *beat(5, 3, 2).Heartbeat}},
		"the newest of two":       {[]pb.Record{claim(5), beat(5, 1, 1), closes(5, 2, "b"), beat(5, 3, 2)}, Place{Read: 1, Apply: 2, Beat: *beat(5, 3, 2).Heartbeat}},
		"a cycle from the future": {[]pb.Record{claim(5), beat(5, 1, 1<<40)}, Place{Read: 1, Apply: 1, Beat: *beat(5, 1, 1<<40).Heartbeat}},
		"a cycle before the log":  {[]pb.Record{claim(5), beat(5, 1, math.MinInt64)}, Place{Beat: *beat(5, 1, math.MinInt64).Heartbeat}},
		"another partition's":     {[]pb.Record{claim(5), beat(5, 1, 1), otherPartition}, Place{Read: 1, Apply: 1, Beat: *beat(5, 1, 1).Heartbeat}},
		"an epoch of nobody":      {[]pb.Record{claim(5), beat(5, 1, 1), beat(math.MaxUint64, 1, 0)}, Place{Read: 1, Apply: 1, Beat: *beat(5, 1, 1).Heartbeat}},
		"epoch 0":                 {[]pb.Record{claim(5), beat(5, 1, 1), beat(0, 9, 0)}, Place{Read: 1, Apply: 1, Beat: *beat(5, 1, 1).Heartbeat}},
		"sequence number 0":       {[]pb.Record{claim(5), beat(5, 1, 1), beat(6, 0, 0)}, Place{Read: 1, Apply: 1, Beat: *beat(5, 1, 1).Heartbeat}},
	} {
		t.Run(name, func(t *testing.T) {
			var log memory
			log.say(t, test.log...)
			test.want.End = log.end()
			if got, err := Find(t.Context(), &log, 0, atNoon); got != test.want || err != nil {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, test.want)
			}
		})
	}
}

// The newest heartbeat is of an owner that was replaced, and the higher epoch was announced before its cycle began. A reader
// that believes this heartbeat applies what all other gates refuse. An owner that starts so, and whose clock is behind, takes
// an epoch that all gates refuse.
func TestAHigherEpochAnnouncedBeforeTheCycle(t *testing.T) {
	for name, announced := range map[string]pb.Record{"by a claim": claim(20), "by a heartbeat": beat(20, 1, 1)} {
		t.Run(name, func(t *testing.T) {
			var log memory
			log.say(t, claim(10), announced, closes(20, 2, "guilty"))
			from := log.say(t, closes(10, 1, "innocent"))
			for seq := range uint64(600) { // so many that the higher epoch is out of sight from the end
				log.say(t, opens(10, 2+seq, "padding"))
			}
			log.say(t, beat(10, 700, from))
			got, at := log.fromTheHeartbeat(t)
			want := log.fromTheStart()
			if _, guilty := want["r key:guilty"]; !maps.Equal(got, want) || len(want) != 1 || !guilty {
				t.Errorf("got %v closed, want %v, and guilty alone", got, want)
			}
			if at.Apply != 1 && at.Apply != 0 {
				t.Errorf("got %+v, want to start before the higher epoch's decisions", at)
			}
			if announced.Claim != nil && at.Beat != (schemas.Heartbeat{}) || announced.Heartbeat != nil && at.Beat.Epoch != 20 {
				t.Errorf("got heartbeat %+v, want none but of epoch 20", at.Beat)
			}
			var f Follower
			f.Start(at)
			if err := f.Replay(t.Context(), &log, atNoon, func(*pb.Record) {}); err != nil || f.Epoch() != 20 {
				t.Errorf("got epoch %d, %v, want 20: what an owner must go beyond", f.Epoch(), err)
			}
		})
	}
}

// A late copy of an old claim or heartbeat lies right before the cycle, and the owner's own announcements are out of sight. A
// gate that takes the old epoch for the one of the cycle refuses all of it.
func TestAnOldAnnouncementRightBeforeTheCycle(t *testing.T) {
	for name, old := range map[string]pb.Record{"a claim": claim(10), "a heartbeat": beat(10, 1, 0)} {
		t.Run(name, func(t *testing.T) {
			var log memory
			log.say(t, claim(10), beat(10, 1, 1), claim(20), beat(20, 1, 3))
			for seq := range uint64(600) {
				log.say(t, opens(20, 2+seq, "padding"))
			}
			log.say(t, old)
			from := log.say(t, closes(20, 700, "guilty"))
			log.say(t, beat(20, 701, from))
			if got, at := log.fromTheHeartbeat(t); len(got) != 1 || at.Apply != from || at.Read != 3 {
				t.Errorf("got %v closed from %+v, want guilty, from the heartbeat of epoch 20 on", got, at)
			}
		})
	}
}

// A produce whose answer was lost is repeated, and the first copy arrives late. A gate that has read everything refuses it,
// and so must one that starts: by the sequence numbers of what it reads before the cycle, and of the newest announcement.
func TestALateCopyIsRefusedByAGateThatStarts(t *testing.T) {
	for name, write := range map[string]func(log *memory){
		"of a decision before an empty cycle": func(log *memory) {
			log.say(t, claim(5), beat(5, 1, 1), closes(5, 2, "a"), opens(5, 3, "a"))
			from := log.end()
			log.say(t, closes(5, 2, "a"), beat(5, 4, from))
		},
		"and one of the heartbeat": func(log *memory) {
			log.say(t, claim(5), beat(5, 1, 1), closes(5, 2, "a"), opens(5, 3, "a"), beat(5, 4, 1), beat(5, 1, 1))
			from := log.end()
			log.say(t, closes(5, 2, "a"), beat(5, 5, from))
		},
		"and one of the claim": func(log *memory) {
			log.say(t, claim(5), beat(5, 1, 1), closes(5, 2, "a"), opens(5, 3, "a"), claim(5))
			from := log.end()
			log.say(t, closes(5, 2, "a"), beat(5, 4, from))
		},
		"of the newest heartbeat but one": func(log *memory) {
			log.say(t, claim(5), closes(5, 1, "a"), beat(5, 2, 1), opens(5, 3, "a"))
			from := log.end()
			log.say(t, beat(5, 4, from), beat(5, 2, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log memory
			write(&log)
			got, at := log.fromTheHeartbeat(t)
			if want := log.fromTheStart(); !maps.Equal(got, want) || len(want) != 0 {
				t.Errorf("got %v closed from %+v, want %v, and nobody", got, at, want)
			}
		})
	}
}

// Searching costs what lies between the heartbeat and the end, not the whole log.
func TestFindReadsTheEndOfALongLog(t *testing.T) {
	var log memory
	log.say(t, claim(5))
	for range 100 {
		from := log.end()
		for range 999 {
			log.say(t, opens(5, uint64(log.end()), "padding"))
		}
		log.say(t, beat(5, uint64(log.end()), from))
	}
	for _, noise := range []int{0, 700, 20_000} { // records behind the newest heartbeat
		for range noise {
			log.say(t, opens(5, uint64(log.end()), "padding"))
		}
		log.asked = 0
		if _, err := Find(t.Context(), &log, 0, atNoon); err != nil || log.asked > 4*(noise+2*firstLook) {
			t.Errorf("%d records behind the heartbeat: got %d read, %v, want few of %d", noise, log.asked, err, log.end())
		}
	}
}

func TestTheErrorOfFindIsTheLogs(t *testing.T) {
	log := memory{err: errors.New("disk on fire")}
	if _, err := Find(t.Context(), &log, 0, atNoon); !errors.Is(err, log.err) {
		t.Errorf("got %v, want %v", err, log.err)
	}
}

// Whatever is in the log, a reader starts within it, and reads it without a panic.
func FuzzFind(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	var seed []byte
	for _, r := range []pb.Record{claim(5), closes(5, 1, "a"), beat(5, 2, 1), claim(7), beat(6, 1, 1<<40), beat(7, 1, math.MinInt64), closes(7, 9, "b")} {
		b := encode(f, r)
		seed = append(append(seed, byte(len(b))), b...)
	}
	f.Add(seed, uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, start uint8) {
		var log memory
		for len(b) > 0 {
			n := min(int(b[0])+1, len(b))
			log.append(slices.Clone(b[1:n]))
			b = b[n:]
		}
		log.start = min(int64(start), log.end())
		got, at := log.fromTheHeartbeat(t)
		again, place := log.fromTheHeartbeat(t)
		if !maps.Equal(got, again) || at != place {
			t.Errorf("got %v from %+v, then %v from %+v", got, at, again, place)
		}
		if at.Beat.Epoch == 0 && at.Apply != log.start {
			t.Errorf("got %+v without a heartbeat, want the start of the log, %d", at, log.start)
		}
	})
}
