package control

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

func TestEachReasonIsCounted(t *testing.T) {
	topic := NewTopic("control", "requests", schemas.PartitionKey{}, 0, 1)
	for _, c := range []struct {
		reason kafkaio.SkipReason
		want   Skipped
	}{
		{kafkaio.SkipControl, Skipped{}},
		{kafkaio.SkipGap, Skipped{}},
		{kafkaio.SkipLost, Skipped{Lost: 4}},
		{kafkaio.SkipCorrupt, Skipped{Unreadable: 4}},
		{kafkaio.SkipTooLarge, Skipped{Unreadable: 4}},
	} {
		b := topic.read(&kafkaio.Batch{Next: 9, Skipped: []kafkaio.Skip{{From: 5, To: 8, Reason: c.reason}}})
		if b.Skipped != c.want || b.Next != 9 || b.Skipped.Sum() != c.want.Sum() {
			t.Errorf("%v: got %+v, want %+v", c.reason, b, c.want)
		}
	}
	var sum Skipped
	sum.Add(Skipped{Later: 1, Unreadable: 2, Lost: 3})
	sum.Add(Skipped{Later: 1, Unreadable: 2, Lost: 3})
	if sum != (Skipped{2, 4, 6}) || sum.Sum() != 12 {
		t.Errorf("got %+v, want twice as many", sum)
	}
}

// A follower whose owner does not take what it has read stops all the same.
func TestAFollowerThatNobodyReadsStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := kafkaiotest.New()
		log.Create(1, "control")
		log.SetMaxRecords(1)
		for i := range byte(9) {
			log.Append("control", 0, encode(t, 1+i, schemas.ControlClose, "a"))
		}
		f := following(t, log, 0) // whose end the test waits for
		time.Sleep(time.Minute)
		if s := f.Status(); s.End != 9 || s.Trouble != nil {
			t.Errorf("got %+v, want the end known", s)
		}
		if b := next(t, f); b.First != 0 || b.Next != 1 {
			t.Errorf("got %+v, want the first record still", b)
		}
	})
}

// Which takes and places count does not depend on when the topic is read: an epoch is measured by its own message's time.
func TestATakeOrPlaceOfAnAbsurdEpochIsPassedOver(t *testing.T) {
	const at = 1_700_000_000_000 // Unix milliseconds
	topic := NewTopic("control", "requests", schemas.PartitionKey{}, 0, 1)
	last := uint64(at + schemas.MaxEpochLead.Milliseconds())
	for _, action := range []schemas.ControlAction{schemas.ControlTake, schemas.ControlPlace} {
		for epoch, want := range map[uint64]Skipped{1: {}, at: {}, last: {}, last + 1: {Unreadable: 1}, math.MaxUint64: {Unreadable: 1}} {
			value, err := pb.AppendControl(nil, &schemas.Control{Action: action, Time: math.MaxInt64, Author: "o", Topic: "requests", Epoch: epoch, Seq: 1})
			if err != nil {
				t.Fatal(err)
			}
			record := kafkaio.Record{Offset: 7, Time: at * 1e6, Value: value}
			if b := topic.read(&kafkaio.Batch{Next: 8, Records: []kafkaio.Record{record}}); b.Skipped != want || len(b.Records) != 1-int(want.Sum()) {
				t.Errorf("%v of epoch %d: got %+v, want %+v passed over", action, epoch, b, want)
			}
		}
	}
}
