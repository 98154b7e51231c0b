package kafkaio

import (
	"encoding/binary"
	"testing"
	"time"
)

// TestABatchSaysWhichLeadersAppendedItsRecords, whether its records were fetched whole or in pieces.
func TestABatchSaysWhichLeadersAppendedItsRecords(t *testing.T) {
	var set []byte
	next := int64(10)
	for _, epoch := range []uint32{5, 5, 7} {
		raw := appendBatch(nil, []Message{{Value: []byte("a")}, {Value: []byte("b")}})
		binary.BigEndian.PutUint64(raw, uint64(next))
		binary.BigEndian.PutUint32(raw[batchEpochAt:], epoch)
		set, next = append(set, raw...), next+2
	}
	for _, tc := range []struct {
		from        int64
		first, last int32
	}{{10, 5, 7}, {13, 5, 7}, {14, 7, 7}, {16, 0, 0}} {
		b := Batch{Next: tc.from, HighWater: next}
		if _, err := newUnpacker(defaultMaxDecompressed).unpack(&b, set); err != nil {
			t.Fatal(err)
		}
		if b.FirstEpoch != tc.first || b.LastEpoch != tc.last {
			t.Errorf("from %d: got epochs %d to %d, want %d to %d", tc.from, b.FirstEpoch, b.LastEpoch, tc.first, tc.last)
		}
	}
}

// TestARecordIsVerifiedAfterConnectionsWereDropped: within one call of Fetch, a Client may reach another log than before.
func TestARecordIsVerifiedAfterConnectionsWereDropped(t *testing.T) {
	fetches := 0
	_, client := withTopic(t, 1, Config{Observe: func(c Call) {
		if c.Op == OpFetch {
			fetches++
		}
	}})
	produce(t, client, "t", 0, "a")
	cursor := NewCursor(client, CursorConfig{Topic: "t", MaxWait: time.Minute}) // which none of these fetches waits
	next := func() Batch {
		t.Helper()
		b, err := cursor.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	next()
	produce(t, client, "t", 0, "b")
	cursor.witness.answered = time.Now().Add(time.Hour) // however slow this machine is, it was no pause
	if b := next(); len(b.Records) != 1 || b.FirstEpoch < 0 || fetches != 2 {
		t.Errorf("got %+v after %d fetches, want a record after 2", b, fetches)
	}
	produce(t, client, "t", 0, "c")
	client.refresh(client.currentEra())
	cursor.witness.answered = time.Now().Add(time.Hour)
	if b := next(); len(b.Records) != 1 || fetches != 4 {
		t.Errorf("got %+v after %d fetches, want a record after 4: one of them of the record before it", b, fetches)
	}
}
