package kafkaio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// three is a batch of three records, at offset 0.
func three() []byte {
	return appendBatch(nil, []Message{
		{Time: 1e18, Key: []byte("a"), Value: []byte("alpha")},
		{Time: 1e18, Key: []byte("b"), Value: []byte("beta")},
		{Time: 1e18, Key: []byte("c"), Value: []byte("gamma")},
	})
}

// transactionMarker is what Kafka writes when a transaction ends.
func transactionMarker() []byte {
	return sealed(appendBatch(nil, []Message{{Key: []byte{0, 0, 0, 1}, Value: []byte{0, 0, 0, 0, 0, 0}}}), func(b []byte) {
		binary.BigEndian.PutUint16(b[batchAttrsAt:], attrControl|attrTransactional)
	})
}

func attrs(a uint16) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint16(b[batchAttrsAt:], a) }
}

func count(n int32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[57:], uint32(n)) }
}

func lastDelta(n int32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[23:], uint32(n)) }
}

// sized is batch with another length written into it.
func sized(n uint32, batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[batchLengthAt:], n)
	return batch
}

// joined returns all batches as one record set.
func joined(batches ...[]byte) []byte { return bytes.Join(batches, nil) }

// account is what a Batch says of its offsets, in short: "0-2 skip 3-3 control, next 4".
func account(b Batch) string {
	s := ""
	for i := 0; i < len(b.Records); {
		j := i
		for j+1 < len(b.Records) && b.Records[j+1].Offset == b.Records[j].Offset+1 {
			j++
		}
		s += fmt.Sprintf("%d-%d ", b.Records[i].Offset, b.Records[j].Offset)
		i = j + 1
	}
	for _, k := range b.Skipped {
		s += fmt.Sprintf("skip %d-%d %s ", k.From, k.To, k.Reason)
	}
	return s + fmt.Sprintf("next %d", b.Next)
}

func TestUnpackAccountsForEveryOffset(t *testing.T) {
	old := func(base int64, magic byte) []byte { // a message of format 0 or 1
		b := make([]byte, 40)
		binary.BigEndian.PutUint64(b, uint64(base))
		binary.BigEndian.PutUint32(b[8:], 28)
		b[16] = magic
		return b
	}
	flipped := bytes.Clone(three())
	flipped[len(flipped)-1] ^= 1
	partial := three()[:70]
	for name, c := range map[string]struct {
		from   int64
		set    []byte
		want   string
		doubts []int64
	}{
		"nothing":                         {7, nil, "next 7", nil},
		"one batch":                       {0, stored(0, three()), "0-2 next 3", nil},
		"batches one behind the other":    {0, joined(stored(0, three()), stored(3, three())), "0-5 next 6", nil},
		"from the middle of a batch":      {11, stored(10, three()), "11-12 next 13", []int64{10}},
		"from the last of a batch":        {12, joined(stored(10, three()), stored(13, three())), "12-15 next 16", []int64{10}},
		"a batch wholly below":            {5, joined(stored(0, three()), stored(3, three())), "5-5 next 6", []int64{0}},
		"the end is cut":                  {0, joined(stored(0, three()), partial), "0-2 next 3", nil},
		"the end is cut within a length":  {0, joined(stored(0, three()), three()[:11]), "0-2 next 3", nil},
		"a gap between":                   {0, joined(stored(0, three()), stored(7, three())), "0-2 7-9 skip 3-6 gap next 10", []int64{7}},
		"a gap before":                    {5, stored(7, three()), "7-9 skip 5-6 gap next 10", []int64{7}},
		"a transaction's marker":          {0, joined(stored(0, three()), stored(3, transactionMarker()), stored(4, three())), "0-2 4-6 skip 3-3 control next 7", nil},
		"only a marker":                   {3, stored(3, transactionMarker()), "skip 3-3 control next 4", nil},
		"a transaction's records":         {0, stored(0, sealed(three(), attrs(attrTransactional))), "skip 0-2 transactional next 3", nil},
		"from the middle of what to skip": {1, stored(0, sealed(three(), attrs(attrTransactional))), "skip 1-2 transactional next 3", []int64{0}},
		"a later batch is corrupt":        {0, joined(stored(0, three()), stored(3, flipped)), "0-2 next 3", nil},
		"a later batch lies behind":       {0, joined(stored(0, three()), stored(2, three())), "0-2 next 3", []int64{2}},
		"unknown codec":                   {0, stored(0, sealed(three(), attrs(5))), "skip 0-2 codec next 3", nil},
		"not what its codec says":         {0, stored(0, sealed(three(), attrs(codecGzip))), "skip 0-2 codec next 3", nil},
		"fewer records than it says":      {0, stored(0, sealed(three(), count(4))), "0-2 next 3", nil},
		"more records than it says":       {0, stored(0, sealed(three(), count(2))), "0-1 skip 2-2 malformed next 3", nil},
		"a negative number of records":    {0, stored(0, sealed(three(), count(-1))), "skip 0-2 malformed next 3", nil},
		"two thousand million records":    {0, stored(0, sealed(three(), count(math.MaxInt32))), "0-2 next 3", nil},
		"a record outside of its batch":   {0, stored(0, sealed(three(), lastDelta(1))), "0-1 next 2", nil},
		"holes that compaction left":      {0, stored(0, sealed(three(), lastDelta(9))), "0-2 next 10", nil},
		"good, bad, good":                 {0, joined(stored(0, three()), stored(3, sealed(three(), count(2))), stored(6, three())), "0-4 6-8 skip 5-5 malformed next 9", nil},
		"format 1":                        {4, joined(old(4, 1), stored(5, three())), "5-7 skip 4-4 format next 8", []int64{4}},
		"format 0, packed":                {4, joined(old(9, 0), stored(10, three())), "10-12 skip 4-9 format next 13", []int64{9}},
		"format 0, below":                 {4, joined(old(3, 0), stored(4, three())), "4-6 next 7", []int64{3}},
	} {
		t.Run(name, func(t *testing.T) {
			b := Batch{Next: c.from, HighWater: -1}
			doubts, err := newUnpacker(defaultMaxDecompressed).unpack(&b, c.set)
			if err != nil {
				t.Fatal(err)
			}
			if got := account(b); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if !slices.Equal(doubts, c.doubts) {
				t.Errorf("got doubts %v, want %v", doubts, c.doubts)
			}
		})
	}
}

func TestUnpackRefuses(t *testing.T) {
	change := func(at int, to byte) []byte {
		b := three()
		b[at] = to
		return b
	}
	for name, c := range map[string]struct {
		set  []byte
		want error
		to   int64
	}{
		"a flipped bit":                  {change(len(three())-1, 0xff), ErrCorrupt, 2},
		"a flipped bit of the checksum":  {change(batchCRCAt, three()[batchCRCAt]^1), ErrCorrupt, 2},
		"a format that isn't made yet":   {change(batchMagicAt, 3), ErrCorrupt, 0},
		"a negative base offset":         {stored(-1, three()), ErrCorrupt, 0},
		"a base offset at the very end":  {stored(math.MaxInt64-1, three()), ErrCorrupt, 0},
		"offsets past the end":           {stored(98, three()), ErrCorrupt, 0},
		"a negative length":              {change(8, 0x80), ErrCorrupt, 0},
		"a length that is no batch":      {sized(3, three()), ErrCorrupt, 0},
		"a batch that isn't there":       {three()[:30], errPartial, 0},
		"last delta before first":        {sealed(three(), lastDelta(-1)), ErrCorrupt, 0},
		"only a length":                  {sized(5, three())[:batchPrefix], errPartial, 0},
		"a length shorter than a header": {sized(30, three()), ErrCorrupt, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := Batch{Next: 0, HighWater: 100}
			_, err := newUnpacker(defaultMaxDecompressed).unpack(&b, c.set)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			var corrupt *CorruptError
			if errors.As(err, &corrupt) && (corrupt.From != 0 || corrupt.To != c.to) {
				t.Errorf("got offsets %d to %d, want 0 to %d", corrupt.From, corrupt.To, c.to)
			}
			if got := account(b); got != "next 0" {
				t.Errorf("got %q, want nothing", got)
			}
		})
	}
}

// TestUnpackEveryFlippedBit flips each bit of three batches. Whatever comes back without a doubt is the truth, or less of
// it with Next saying so.
func TestUnpackEveryFlippedBit(t *testing.T) {
	set := joined(stored(0, three()), stored(3, three()), stored(6, three()))
	truth := Batch{HighWater: 9}
	u := newUnpacker(defaultMaxDecompressed)
	if _, err := u.unpack(&truth, set); err != nil || len(truth.Records) != 9 {
		t.Fatalf("got %d records and %v", len(truth.Records), err)
	}
	caught := 0
	for bit := range 8 * len(set) {
		bad := bytes.Clone(set)
		bad[bit/8] ^= 1 << (bit % 8)
		b := Batch{HighWater: 9}
		doubts, err := u.unpack(&b, bad)
		if err != nil || len(doubts) > 0 {
			caught++
			continue
		}
		if len(b.Skipped) > 0 || b.Next != int64(len(b.Records)) {
			t.Fatalf("bit %d of byte %d: got %q without a doubt", bit%8, bit/8, account(b))
		}
		if len(b.Records) < 9 {
			caught++
		}
		for i, r := range b.Records {
			want := truth.Records[i]
			if r.Offset != want.Offset || r.Time != want.Time || !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Value, want.Value) {
				t.Fatalf("bit %d of byte %d: got record %+v, want %+v", bit%8, bit/8, r, want)
			}
		}
	}
	// The leader epoch, four bytes a batch, says nothing that is used.
	if want := 8*len(set) - 3*32; caught != want {
		t.Errorf("caught %d flipped bits, want %d", caught, want)
	}
}

func TestUnpackEveryTruncation(t *testing.T) {
	set := joined(stored(0, three()), stored(3, three()))
	for n := range set {
		b := Batch{HighWater: -1}
		_, err := newUnpacker(defaultMaxDecompressed).unpack(&b, set[:n])
		want := 0
		if n >= len(set)/2 {
			want = 3
		}
		if len(b.Records) != want || b.Next != int64(want) || (err == nil) != (n == 0 || want > 0) {
			t.Fatalf("%d of %d bytes: got %q and %v", n, len(set), account(b), err)
		}
	}
}

// TestUnpackEveryTruncationOfARecord cuts the records of a batch whose checksum fits: a hostile or broken producer's. What
// is whole before the cut is read.
func TestUnpackEveryTruncationOfARecord(t *testing.T) {
	whole, size := three(), []int{}
	for rest := whole[batchHeader:]; len(rest) > 0; {
		length, n := binary.Varint(rest)
		size = append(size, n+int(length))
		rest = rest[n+int(length):]
	}
	for n := batchHeader; n < len(whole); n++ {
		want := "skip 0-2 malformed next 3"
		switch left := n - batchHeader; {
		case left >= size[0]+size[1]:
			want = "0-1 skip 2-2 malformed next 3"
		case left >= size[0]:
			want = "0-0 skip 1-2 malformed next 3"
		}
		cut := sealed(whole[:n], func(b []byte) { binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(n-batchPrefix)) })
		b := Batch{HighWater: -1}
		_, err := newUnpacker(defaultMaxDecompressed).unpack(&b, cut)
		if got := account(b); err != nil || got != want {
			t.Fatalf("%d of %d bytes: got %q and %v, want %q", n, len(whole), got, err, want)
		}
	}
}

func TestUnpackTakesTheBrokersTimeWhereItIsKept(t *testing.T) {
	set := sealed(three(), func(b []byte) {
		attrs(attrAppendTime)(b)
		binary.BigEndian.PutUint64(b[35:], 1234)
	})
	b := Batch{HighWater: -1}
	if _, err := newUnpacker(defaultMaxDecompressed).unpack(&b, set); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.Records {
		if r.Time != 1234*nanosPerMilli {
			t.Errorf("offset %d: got time %d, want the batch's", r.Offset, r.Time)
		}
	}
}

func TestUnpackStopsAtTheCap(t *testing.T) {
	big := appendBatch(nil, []Message{{Value: make([]byte, 1000)}})
	b := Batch{HighWater: -1}
	u := newUnpacker(1500)
	if _, err := u.unpack(&b, joined(stored(0, big), stored(1, big), stored(2, big))); err != nil {
		t.Fatal(err)
	}
	if got := account(b); got != "0-1 next 2" {
		t.Errorf("got %q, want to stop after the batch that went over", got)
	}
	huge := appendBatch(nil, []Message{{Value: make([]byte, 2000)}})
	b = Batch{HighWater: -1}
	if _, err := u.unpack(&b, joined(stored(0, huge), stored(1, big))); err != nil {
		t.Fatal(err)
	}
	if got := account(b); got != "1-1 skip 0-0 too_large next 2" {
		t.Errorf("got %q, want to skip the batch over the cap", got)
	}
	many := appendBatch(nil, make([]Message, 30)) // 30 × 64 bytes of bookkeeping
	b = Batch{HighWater: -1}
	if _, err := u.unpack(&b, many); err != nil {
		t.Fatal(err)
	}
	if got := account(b); got != "0-5 next 6" || b.open == nil {
		t.Errorf("got %q, open %v, want records to count against the cap, and a piece of the batch", got, b.open != nil)
	}
}

// FuzzUnpack gives the unpacker bytes, with and without a checksum that fits. It never panics, never goes backwards, never
// takes more than its cap, and every offset it passes is a record or a skip, or a hole in a batch that says so.
func FuzzUnpack(f *testing.F) {
	f.Add(stored(0, three()), int64(0), true)
	f.Add(joined(stored(5, three()), stored(8, transactionMarker())), int64(6), false)
	f.Add(three()[:70], int64(0), true)
	f.Add(sealed(three(), attrs(codecZstd)), int64(0), true)
	f.Add(sealed(three(), attrs(codecSnappy)), int64(0), true)
	f.Fuzz(func(t *testing.T, set []byte, from int64, seal bool) {
		if from < 0 {
			from = ^from
		}
		if seal && len(set) > batchHeader {
			binary.BigEndian.PutUint32(set[batchLengthAt:], uint32(len(set)-batchPrefix))
			set[batchMagicAt] = 2
			set = sealed(set, func([]byte) {})
		}
		const limit = 1 << 16
		b := Batch{Next: from, HighWater: -1}
		_, err := newUnpacker(limit).unpack(&b, set)
		if err != nil && (b.Next != from || len(b.Records) > 0 || len(b.Skipped) > 0) {
			t.Fatalf("got %q beside error %v", account(b), err)
		}
		at, used := from, 0
		for _, r := range b.Records {
			if r.Offset < at || r.Offset >= b.Next {
				t.Fatalf("got offset %d, want %d to %d", r.Offset, at, b.Next-1)
			}
			at = r.Offset + 1
			used += len(r.Key) + len(r.Value) + recordOverhead
		}
		if used > 2*limit {
			t.Fatalf("got %d bytes, want under %d", used, 2*limit)
		}
		if b.open != nil && b.Next > b.open.last {
			t.Fatalf("got a batch that is open behind its last offset, %q", account(b))
		}
		at = from
		for _, s := range b.Skipped {
			if s.From < at || s.To < s.From || s.To >= b.Next || s.Reason == "" {
				t.Fatalf("got skip %+v behind offset %d, next %d", s, at, b.Next)
			}
			at = s.To + 1
		}
	})
}
