package decisions

import (
	"errors"
	"math"
	"testing"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

func TestTake(t *testing.T) {
	elsewhere := closes(5, 9, "a")
	elsewhere.Decision.Partition = 3
	tests := map[string]struct {
		before []pb.Record
		value  []byte
		want   error // nil: it counts
		reason string
	}{
		"a claim":                            {nil, encode(t, claim(5)), nil, ""},
		"a claim of an older epoch":          {[]pb.Record{claim(6)}, encode(t, claim(5)), ErrFenced, "fenced"},
		"a claim of the same epoch":          {[]pb.Record{claim(5)}, encode(t, claim(5)), ErrFenced, "fenced"},
		"a claim of epoch 0":                 {nil, encode(t, claim(0)), ErrFenced, "fenced"},
		"a claim of the last epoch":          {nil, encode(t, claim(math.MaxUint64)), schemas.ErrEpoch, "epoch"},
		"a heartbeat before any claim":       {nil, encode(t, beat(5, 1, 0)), nil, ""},
		"a heartbeat of a replaced owner":    {[]pb.Record{claim(5), claim(6)}, encode(t, beat(5, 1, 0)), ErrFenced, "fenced"},
		"a copy of a heartbeat":              {[]pb.Record{claim(5), beat(5, 1, 0)}, encode(t, beat(5, 1, 0)), ErrFenced, "fenced"},
		"a heartbeat of the last epoch":      {nil, encode(t, beat(math.MaxUint64, 1, 0)), schemas.ErrEpoch, "epoch"},
		"a decision before any claim":        {nil, encode(t, closes(5, 1, "a")), ErrFenced, "fenced"},
		"a decision":                         {[]pb.Record{claim(5)}, encode(t, closes(5, 1, "a")), nil, ""},
		"a decision after a gap":             {[]pb.Record{claim(5), closes(5, 1, "a")}, encode(t, closes(5, 7, "a")), nil, ""},
		"a copy of a decision":               {[]pb.Record{claim(5), closes(5, 1, "a")}, encode(t, closes(5, 1, "a")), ErrFenced, "fenced"},
		"a decision of an unclaimed epoch":   {[]pb.Record{claim(5)}, encode(t, closes(6, 1, "a")), ErrFenced, "fenced"},
		"a decision of the last epoch":       {[]pb.Record{claim(5)}, encode(t, closes(math.MaxUint64, 1, "a")), ErrFenced, "fenced"},
		"a decision of another partition":    {[]pb.Record{claim(5)}, encode(t, elsewhere), ErrPartition, "partition"},
		"sequence numbers begin anew":        {[]pb.Record{claim(5), closes(5, 9, "a"), claim(6)}, encode(t, closes(6, 1, "a")), nil, ""},
		"nothing":                            {nil, nil, pb.ErrUnknown, "unknown"},
		"text":                               {nil, []byte("close all the gates"), pb.ErrMalformed, "malformed"},
		"a message that is too long to read": {nil, make([]byte, pb.MaxRecord+1), pb.ErrBounds, "bounds"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var f Follower
			for i, r := range test.before {
				if _, err := f.Take(&kafkaio.Record{Offset: int64(i), Time: noon.UnixNano(), Value: encode(t, r)}, noon.UnixNano()); err != nil {
					t.Fatalf("record %d: %v", i, err)
				}
			}
			epoch := f.Epoch()
			got, err := f.Take(&kafkaio.Record{Offset: 100, Time: noon.UnixNano(), Value: test.value}, noon.UnixNano())
			if !errors.Is(err, test.want) || (got == (pb.Record{})) != (test.want != nil) || Reason(err) != test.reason {
				t.Errorf("got %+v, %v with reason %q, want %v with reason %q", got, err, Reason(err), test.want, test.reason)
			}
			if err != nil && f.Epoch() != epoch {
				t.Errorf("got epoch %d by a record that does not count, want %d", f.Epoch(), epoch)
			}
		})
	}
}

// Decisions before the place are not applied, but their sequence numbers count.
func TestDecisionsBeforeThePlaceAreNotApplied(t *testing.T) {
	var log memory
	log.say(t, claim(5), closes(5, 7, "before"))
	f := Follower{}
	f.Start(Place{Read: 0, Apply: 2, End: 2})
	var got []pb.Record
	if err := f.Replay(t.Context(), &log, atNoon, func(r *pb.Record) { got = append(got, *r) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Claim == nil {
		t.Errorf("got %+v, want the claim alone", got)
	}
	log.say(t, closes(5, 6, "a late copy"), closes(5, 8, "after"))
	for i, want := range []error{ErrFenced, nil} {
		if _, err := f.Take(&log.records[2+i], noon.UnixNano()); !errors.Is(err, want) {
			t.Errorf("record %d: got %v, want %v", 2+i, err, want)
		}
	}
}

// A heartbeat of an owner whose claim was not read, and whose cycle began before the place, says that the place was wrong. It
// says so once for each epoch: the reader has looked again then.
func TestAHeartbeatThatShowsThatThePlaceWasWrong(t *testing.T) {
	var log memory
	log.say(t, beat(5, 1, 0), beat(6, 9, 3), beat(6, 10, 3), closes(6, 2, "a"))
	var f Follower
	f.Start(Place{Apply: 4, End: 4})
	take := func(i int) error {
		_, err := f.Take(&log.records[i], noon.UnixNano())
		return err
	}
	if err := take(0); err != nil {
		t.Fatal(err)
	}
	if err := take(1); !errors.Is(err, ErrMoved) || f.Epoch() != 6 || Reason(err) != "moved" {
		t.Fatalf("got %v at epoch %d, want %v at 6", err, f.Epoch(), ErrMoved)
	}
	f.Start(Place{Read: 3, Apply: 3, End: 4}) // and the fence begins anew
	for _, i := range []int{2, 1} {
		if err := take(i); (err == nil) != (i == 2) {
			t.Errorf("heartbeat %d: got %v, want the newer one taken, and no place lost again", i, err)
		}
	}
	if err := take(3); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v, want %v: a place that was found again keeps the fence", err, ErrFenced)
	}
}

// After ErrMoved the fence begins anew, so that the decisions that were passed over are taken.
func TestAfterAMoveDecisionsThatWerePassedOverAreTaken(t *testing.T) {
	var log memory
	log.say(t, closes(6, 2, "a"), beat(5, 1, 1), beat(6, 9, 0))
	f := Follower{}
	f.Start(Place{Read: 1, Apply: 1, End: 3})
	if err := f.Replay(t.Context(), &log, atNoon, func(*pb.Record) {}); !errors.Is(err, ErrMoved) {
		t.Fatalf("got %v, want %v", err, ErrMoved)
	}
	f.Start(Place{Read: 0, Apply: 0, End: 3, Beat: *beat(6, 9, 0).Heartbeat})
	if _, err := f.Take(&kafkaio.Record{Time: noon.UnixNano(), Value: encode(t, claim(6))}, noon.UnixNano()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Take(&log.records[0], noon.UnixNano()); err != nil {
		t.Errorf("got %v, want the decision taken", err)
	}
}

// An owner reads a log whose announcements retention has removed: gates that run for longer have read them.
func TestUnannounced(t *testing.T) {
	for name, test := range map[string]struct {
		log  []pb.Record
		want int // decisions that are taken
	}{
		"no announcement":         {[]pb.Record{closes(5, 5, "a"), closes(5, 5, "a"), closes(6, 1, "b"), opens(5, 7, "b")}, 2},
		"an epoch of nobody":      {[]pb.Record{closes(math.MaxUint64, 5, "a"), closes(6, 1, "b")}, 1},
		"a heartbeat is left":     {[]pb.Record{beat(5, 1, 0), closes(6, 1, "b"), closes(5, 2, "a")}, 1},
		"a claim is left":         {[]pb.Record{closes(4, 3, "a"), claim(5), closes(4, 4, "a"), closes(5, 1, "a")}, 2},
		"a claim, and a stranger": {[]pb.Record{claim(5), closes(6, 1, "b"), closes(5, 1, "a")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var log memory
			log.say(t, test.log...)
			at, err := Find(t.Context(), &log, 0, atNoon)
			if err != nil {
				t.Fatal(err)
			}
			taken := 0
			f := Follower{Unannounced: true}
			f.Start(at)
			if err := f.Replay(t.Context(), &log, atNoon, func(r *pb.Record) {
				if r.Decision != nil {
					taken++
				}
			}); err != nil || taken != test.want {
				t.Errorf("got %d decisions taken, %v, want %d", taken, err, test.want)
			}
		})
	}
}

func BenchmarkTake(b *testing.B) {
	var log memory
	log.say(b, claim(5), closes(5, 1, "203.0.113.9"))
	now := noon.UnixNano()
	b.ReportAllocs()
	for b.Loop() {
		var f Follower
		for i := range log.records {
			if _, err := f.Take(&log.records[i], now); err != nil {
				b.Fatal(err)
			}
		}
	}
}
