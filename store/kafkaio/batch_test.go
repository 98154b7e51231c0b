package kafkaio

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stored is a batch as a broker hands it out: with the offset it was given.
func stored(base int64, batch []byte) []byte {
	b := bytes.Clone(batch)
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

// sealed is batch after change, with a checksum that fits again.
func sealed(batch []byte, change func(b []byte)) []byte {
	b := bytes.Clone(batch)
	change(b)
	binary.BigEndian.PutUint32(b[batchCRCAt:], crc32.Checksum(b[batchAttrsAt:], castagnoli()))
	return b
}

// packed is msgs as one batch compressed by codec.
func packed(codec int, pack func([]byte) []byte, count int, records []byte) []byte {
	b := append(make([]byte, batchHeader), pack(records)...)
	batchFields{attrs: int16(codec), lastDelta: int32(count - 1), count: int32(count)}.put(b)
	return b
}

func someMessages() []Message {
	return []Message{
		{Time: 1_700_000_000_000_000_000, Key: []byte("alice"), Value: []byte("one")},
		{Time: 1_700_000_000_000_000_001, Key: nil, Value: bytes.Repeat([]byte("two"), 100)},
		{Time: 1_699_999_999_999_999_999, Key: []byte{}, Value: nil},
		{Time: 0, Key: []byte("epoch"), Value: []byte{}},
		{Time: -1_000_001, Key: []byte("before"), Value: []byte{0}},
	}
}

// TestBatchIsKafkas reads our batches with two other implementations.
func TestBatchIsKafkas(t *testing.T) {
	msgs := someMessages()
	raw := appendBatch([]byte("kept"), msgs)
	if !bytes.HasPrefix(raw, []byte("kept")) {
		t.Fatalf("got %q before the batch, want what was there", raw[:4])
	}
	raw = raw[4:]

	var franz kmsg.RecordBatch
	if err := franz.ReadFrom(raw); err != nil {
		t.Fatalf("franz-go reads our batch: %v", err)
	}
	if franz.NumRecords != int32(len(msgs)) || franz.LastOffsetDelta != int32(len(msgs)-1) || franz.Magic != 2 ||
		franz.ProducerID != -1 || franz.ProducerEpoch != -1 || franz.FirstSequence != -1 || franz.PartitionLeaderEpoch != -1 ||
		franz.FirstTimestamp != 1_700_000_000_000 || franz.MaxTimestamp != 1_700_000_000_001 || franz.Length != int32(len(raw)-12) {
		t.Errorf("got header %+v", franz)
	}

	var segment protocol.RecordSet
	sized := binary.BigEndian.AppendUint32(nil, uint32(len(raw)))
	if _, err := segment.ReadFrom(bytes.NewReader(append(sized, raw...))); err != nil {
		t.Fatalf("kafka-go reads our batch: %v", err)
	}
	for i, m := range msgs {
		r, err := segment.Records.ReadRecord()
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		key, err := protocol.ReadAll(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		value, err := protocol.ReadAll(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(key, m.Key) || !bytes.Equal(value, m.Value) || (r.Key == nil) != (m.Key == nil) || r.Offset != int64(i) {
			t.Errorf("record %d: got %q=%q at %d, want %q=%q", i, key, value, r.Offset, m.Key, m.Value)
		}
		if got, want := r.Time.UnixNano(), millis(m.Time)*nanosPerMilli; got != want {
			t.Errorf("record %d: got time %d, want %d", i, got, want)
		}
	}
}

func TestBatchSizeIsAnUpperBound(t *testing.T) {
	for _, msgs := range [][]Message{{{}}, someMessages(), make([]Message, 10_000), {{Time: math.MaxInt64}, {Time: math.MinInt64}}} {
		got, bound := len(appendBatch(nil, msgs)), batchSize(msgs)
		if got > bound {
			t.Errorf("%d messages: got %d bytes, over the bound of %d", len(msgs), got, bound)
		}
	}
	msgs := someMessages()
	buf := make([]byte, 0, batchSize(msgs))
	if n := testing.AllocsPerRun(100, func() { buf = appendBatch(buf[:0], msgs) }); n != 0 {
		t.Errorf("got %v allocations in a buffer of the bound, want 0", n)
	}
}

func TestVarintSize(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 8191, 8192, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		if got, want := varintSize(v), len(binary.AppendVarint(nil, v)); got != want {
			t.Errorf("varint of %d: got %d bytes, want %d", v, got, want)
		}
	}
}

func TestMillisRoundUpAndNanosSaturate(t *testing.T) {
	for _, c := range []struct{ ns, ms int64 }{
		{0, 0}, {1, 1}, {999_999, 1}, {1_000_000, 1}, {1_000_001, 2}, {-1, 0}, {-999_999, 0}, {-1_000_000, -1},
		{-1_000_001, -1}, {math.MaxInt64, 9_223_372_036_855}, {math.MinInt64, -9_223_372_036_854},
	} {
		if got := millis(c.ns); got != c.ms {
			t.Errorf("millis(%d): got %d, want %d", c.ns, got, c.ms)
		}
		if back := nanos(millis(c.ns)); back < c.ns {
			t.Errorf("nanos(millis(%d)): got %d, which is before", c.ns, back)
		}
	}
	for _, c := range []struct{ ms, ns int64 }{
		{math.MaxInt64, math.MaxInt64}, {math.MinInt64, math.MinInt64}, {9_223_372_036_854, 9_223_372_036_854_000_000},
		{9_223_372_036_855, math.MaxInt64}, {-9_223_372_036_855, math.MinInt64}, {-7, -7_000_000},
	} {
		if got := nanos(c.ms); got != c.ns {
			t.Errorf("nanos(%d): got %d, want %d", c.ms, got, c.ns)
		}
	}
}

// FuzzBatchRoundTrip writes what it is given as messages and reads the same back.
func FuzzBatchRoundTrip(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), int64(1_700_000_000_000_000_000), int64(5), uint8(3))
	f.Add([]byte{}, []byte{}, int64(0), int64(-5), uint8(1))
	f.Add([]byte(nil), []byte("x"), int64(math.MaxInt64), int64(math.MinInt64), uint8(0))
	f.Fuzz(func(t *testing.T, key, value []byte, at, step int64, n uint8) {
		msgs := make([]Message, int(n)+1)
		for i := range msgs {
			msgs[i] = Message{Time: at + int64(i)*step, Key: key, Value: value[:min(i, len(value))]}
		}
		const base = 1 << 40
		b := Batch{Next: base, HighWater: -1}
		doubts, err := newUnpacker(defaultMaxDecompressed).unpack(&b, stored(base, appendBatch(nil, msgs)))
		if err != nil || len(doubts) != 0 || len(b.Skipped) != 0 || len(b.Records) != len(msgs) || b.Next != base+int64(len(msgs)) {
			t.Fatalf("got %d records, next %d, doubts %v, skipped %v, error %v", len(b.Records), b.Next, doubts, b.Skipped, err)
		}
		for i, r := range b.Records {
			m := msgs[i]
			if r.Offset != base+int64(i) || !bytes.Equal(r.Key, m.Key) || !bytes.Equal(r.Value, m.Value) ||
				(r.Key == nil) != (m.Key == nil) || (r.Value == nil) != (m.Value == nil) || r.Time != nanos(millis(m.Time)) {
				t.Fatalf("record %d: got %+v, want %+v", i, r, m)
			}
		}
	})
}
