package kafkaio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// logLines is a batch of access log lines, packed.
func logLines(codec int, pack func([]byte) []byte, n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	msgs := make([]Message, n)
	for i := range msgs {
		msgs[i].Value = fmt.Appendf(nil, `{"time":"2026-01-02T15:04:05.%06dZ","ip":"10.%d.%d.%d","method":"GET","path":"/v1/items/%d","status":200,"agent":"Mozilla/5.0 (X11; Linux x86_64)"}`,
			i, r.IntN(4), r.IntN(256), r.IntN(256), r.IntN(1e6))
	}
	return packed(codec, pack, n, appendBatch(nil, msgs)[batchHeader:])
}

// produceBatch appends a batch as it is.
func produceBatch(t *testing.T, c *Client, topic string, batch []byte) int64 {
	t.Helper()
	set := append(binary.BigEndian.AppendUint32(nil, uint32(len(batch))), batch...)
	base, _, err := c.produceSet(t.Context(), topic, 0, set)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// testBatchInPieces reads batches of 100,000 lines, which unpack to 22 MB, in each codec: from the beginning, and from the
// middle as after a restart. Each line is there, once, and no fetch returns more than its bound.
func testBatchInPieces(t *testing.T, c *Client, topic string) {
	testenv.Long(t)
	const lines = 100_000
	topic += ".roomy"
	roomyTopic(t, c, topic)
	names := slices.Sorted(maps.Keys(codecs))
	next := produce(t, c, topic, 0, "before") + 1
	for _, name := range names {
		base := produceBatch(t, c, topic, logLines(codecs[name].id, codecs[name].pack, lines))
		if base != next {
			t.Fatalf("%s: got offset %d, want %d", name, base, next)
		}
		next += lines
	}
	produce(t, c, topic, 0, "behind")
	for _, from := range []int64{0, lines / 2, 3*lines + 7} {
		reader := startClient(t, c.config)
		at, largest := from, 0
		for at <= next {
			b, err := reader.Fetch(t.Context(), FetchRequest{Topic: topic, Offset: at, MaxWait: time.Second})
			if err != nil || len(b.Skipped) > 0 || b.Next != at+int64(len(b.Records)) {
				t.Fatalf("offset %d: got %q and %v, want records up to %d", at, account(b), err, next)
			}
			size := 0
			for _, r := range b.Records {
				if r.Offset != at {
					t.Fatalf("got offset %d, want %d", r.Offset, at)
				}
				if i := (at - 1) % lines; at > 0 && at < next && !bytes.HasPrefix(r.Value, fmt.Appendf(nil, `{"time":"2026-01-02T15:04:05.%06dZ"`, i)) {
					t.Fatalf("offset %d: got %q, want line %d", at, r.Value, i)
				}
				size += len(r.Value) + recordOverhead
				at++
			}
			largest = max(largest, size)
		}
		if largest >= defaultMaxDecompressed {
			t.Errorf("from %d: got %d bytes in one fetch, want under %d", from, largest, defaultMaxDecompressed)
		}
		if n := len(reader.unfinished.batches); n != 0 {
			t.Errorf("from %d: got %d batches kept behind their end, want none", from, n)
		}
	}
}

// TestPiecesAreFetchedOnce counts what a batch of 22 MB costs: one request for the whole of it, and two from its middle,
// where the first answer is doubted. It is the same for each codec, and memory does not grow with the batch.
func TestPiecesAreFetchedOnce(t *testing.T) {
	t.Parallel()
	const lines = 100_000
	b, c := withTopic(t, 1, Config{})
	roomyTopic(t, c, "roomy")
	base := produceBatch(t, c, "roomy", logLines(codecGzip, packGzip, lines))
	requests := 0
	b.Cluster().ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		requests++
		return nil, nil, false
	})
	for from, want := range map[int64]int{base: 1, base + lines/2: 2, base + lines - 1: 2} {
		requests = 0
		reader, pieces := startClient(t, c.config), 0
		for at := from; at < base+lines; pieces++ {
			got, err := reader.Fetch(t.Context(), FetchRequest{Topic: "roomy", Offset: at})
			if err != nil || len(got.Records) == 0 || got.HighWater != base+lines || got.LogStart != 0 {
				t.Fatalf("offset %d: got %q, high water %d, log start %d and %v", at, account(got), got.HighWater, got.LogStart, err)
			}
			at = got.Next
		}
		if requests != want || from == base && pieces < 5 {
			t.Errorf("from %d: got %d requests for %d pieces, want %d", from, requests, pieces, want)
		}
	}
}

// reference reads a batch the plain way: all of it unpacked at once, and what cannot be read ends it.
func reference(h header, body []byte, broken bool, from, maxRecord, maxTaken int64) (offsets []int64, skips string, next int64) {
	b := Batch{Next: from}
	var taken, seen int64
	for range max(h.count, 0) {
		length, n := binary.Varint(body)
		reason := SkipReason("")
		switch {
		case n == 0 && len(body) < 10 && broken:
			reason = SkipCodec
		case n <= 0, length < 6, length > 1<<62:
			reason = SkipMalformed
		case int64(n)+length+recordOverhead > maxTaken-taken:
			reason = SkipTooLarge
		}
		if reason == "" {
			taken += int64(n) + length + recordOverhead
			f := fields{b: body[n:min(int64(len(body)), int64(n)+length)]}
			short := length > int64(len(body)-n)
			f.skip(1)
			f.varint()
			delta := f.varint()
			long := length > maxRecord
			if !long {
				f.nullable()
				f.nullable()
			}
			inOrder := delta >= seen && h.base+delta <= h.last
			switch {
			case short && (!long || len(body)-n < 21 || !f.bad && inOrder):
				reason = SkipMalformed
				if broken {
					reason = SkipCodec
				}
			case f.bad || !inOrder:
				reason = SkipMalformed
			}
			if reason == "" {
				body, seen = body[int64(n)+length:], delta+1
				at := h.base + delta
				switch {
				case at < b.Next:
				case long:
					b.Next = at
					b.skip(at, SkipTooLarge, nil)
				default:
					offsets, b.Next = append(offsets, at), at+1
				}
				continue
			}
		}
		b.skip(h.last, reason, nil)
		return offsets, skipsOf(b), max(b.Next, h.last+1)
	}
	if b.Next <= h.last && len(body) > 0 {
		b.skip(h.last, SkipMalformed, nil)
	} else if b.Next <= h.last && broken {
		b.skip(h.last, SkipCodec, nil)
	}
	return offsets, skipsOf(b), max(b.Next, h.last+1)
}

func skipsOf(b Batch) string { return account(Batch{Skipped: b.Skipped}) }

// FuzzOpenBatch reads a body in pieces of any size, from any offset, however much the codec returns at a time, and compares
// with the whole batch read at once.
func FuzzOpenBatch(f *testing.F) {
	f.Add(three()[batchHeader:], int32(3), int32(2), int64(0), uint16(1), uint16(1000), uint32(100_000), false)
	f.Add(three()[batchHeader:], int32(9), int32(20), int64(1), uint16(70), uint16(10), uint32(100_000), false)
	f.Add(three()[batchHeader:90], int32(3), int32(2), int64(0), uint16(7), uint16(1000), uint32(100_000), true)
	f.Add(appendBatch(nil, slices.Repeat([]Message{{Value: []byte("x")}}, 50))[batchHeader:], int32(50), int32(49), int64(7), uint16(300), uint16(1000), uint32(1000), false)
	f.Fuzz(func(t *testing.T, body []byte, count, delta int32, from int64, budget, maxRecord uint16, maxTaken uint32, broken bool) {
		if delta < 0 || from < 0 || from > int64(delta) {
			return
		}
		h := header{last: int64(delta), count: count}
		want, wantSkips, wantNext := reference(h, body, broken, from, int64(maxRecord), int64(maxTaken))
		for name, in := range map[string]io.Reader{
			"plain": bytes.NewReader(body), "byte by byte": iotest.OneByteReader(bytes.NewReader(body)),
			"half": iotest.HalfReader(bytes.NewReader(body)), "end with data": iotest.DataErrReader(bytes.NewReader(body)),
		} {
			if broken {
				in = io.MultiReader(in, iotest.ErrReader(errors.New("broken")))
			}
			o := &openBatch{
				header: h, in: in, release: func() {}, left: max(count, 0), maxRecord: int64(maxRecord), maxTaken: int64(maxTaken),
			}
			var got []int64
			all := Batch{Next: from}
			for first := true; first || o.left > 0; first = false {
				b := Batch{Next: all.Next}
				used := o.fill(&b, int(budget)+1)
				if used > int(budget)+1+int(maxRecord)+10+recordOverhead {
					t.Fatalf("%s: got %d bytes in a piece, want about %d", name, used, budget)
				}
				for _, r := range b.Records {
					got = append(got, r.Offset)
				}
				if o.left > 0 && b.Next == all.Next {
					t.Fatalf("%s: got a piece that goes nowhere, at %d", name, b.Next)
				}
				all.Skipped, all.Next = append(all.Skipped, b.Skipped...), b.Next
			}
			if !slices.Equal(got, want) || skipsOf(all) != wantSkips || all.Next != wantNext {
				t.Fatalf("%s: got %v %q next %d, want %v %q next %d", name, got, skipsOf(all), all.Next, want, wantSkips, wantNext)
			}
		}
	})
}

// FuzzStream unpacks in pieces what decompress unpacks at once: what it accepts comes out the same.
func FuzzStream(f *testing.F) {
	for _, c := range codecs {
		f.Add(c.id, c.pack([]byte("seed seed seed, and some more of it")), 3)
	}
	u := newUnpacker(1 << 16)
	f.Fuzz(func(t *testing.T, codec int, b []byte, piece int) {
		whole, refused := u.decompress(codec, b, 1<<16)
		in, release, err := u.stream(codec, b)
		if codec == codecNone || err != nil {
			if refused == nil && codec != codecNone {
				t.Fatalf("got %v, want %d bytes", err, len(whole))
			}
			return
		}
		defer release()
		var got []byte
		buf := make([]byte, 1+uint(piece)%5000)
		for len(got) <= 1<<16 && err == nil {
			var n int
			n, err = in.Read(buf)
			got = append(got, buf[:n]...)
		}
		if refused == nil && (!errors.Is(err, io.EOF) || !bytes.Equal(got, whole)) {
			t.Fatalf("got %d bytes and %v, want %d and the end", len(got), err, len(whole))
		}
		if refused != nil && errors.Is(err, io.EOF) && len(got) < 1<<16 && codec == codecSnappy {
			t.Fatalf("got %d bytes, want %v", len(got), refused)
		}
	})
}

// TestSnappyStreamIsSnappy unpacks blocks that are longer than the window, in reads of any size.
func TestSnappyStreamIsSnappy(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	text := bytes.Repeat([]byte("a line that comes again and again, with a number: 12345\n"), 100_000)
	for name, want := range map[string][]byte{"nothing": {}, "noise": noise, "text": text, "both": append(slices.Clone(text), noise...)} {
		for framing, pack := range map[string]func([]byte) []byte{"bare": func(b []byte) []byte { return snappy.Encode(nil, b) }, "xerial": packXerial} {
			for _, size := range []int{1 << 9, 1 << 16, 10 << 20} {
				s := newSnappyStream(pack(want))
				var got []byte
				buf := make([]byte, size)
				var err error
				for err == nil {
					var n int
					n, err = s.Read(buf)
					got = append(got, buf[:n]...)
				}
				if !errors.Is(err, io.EOF) || !bytes.Equal(got, want) {
					t.Errorf("%s, %s: got %d bytes and %v, want %d", name, framing, len(got), err, len(want))
				}
				if held := streamMemory(s); framing == "xerial" && held > 4*snappyPage {
					t.Errorf("%s: got room for %d bytes, want that of its blocks of 32 KiB", name, held)
				}
			}
		}
	}
}

// TestRecordThatIsTooLongIsSkippedAlone puts a record over the cap between two others, in one batch.
func TestRecordThatIsTooLongIsSkippedAlone(t *testing.T) {
	t.Parallel()
	msgs := []Message{{Value: []byte("a")}, {Value: make([]byte, 3<<20)}, {Value: []byte("b")}}
	body := appendBatch(nil, msgs)[batchHeader:]
	set := map[string][]byte{"none": appendBatch(nil, msgs)}
	for name, c := range codecs {
		set[name] = packed(c.id, c.pack, 3, body)
	}
	for name, raw := range set {
		u := newUnpacker(1 << 20)
		for from, want := range []string{"0-0 2-2 skip 1-1 too_large next 3", "2-2 skip 1-1 too_large next 3", "2-2 next 3"} {
			b := Batch{Next: int64(from), HighWater: 3}
			if _, err := u.unpack(&b, raw); err != nil {
				t.Fatal(err)
			}
			if got := account(b); got != want || b.open != nil {
				t.Errorf("%s, from %d: got %q, want %q", name, from, got, want)
			}
		}
		u.close()
	}
}

// TestUnpackingEnds at the cap on all pieces of a batch: what was read stays, and the rest is lost by number.
func TestUnpackingEnds(t *testing.T) {
	t.Parallel()
	const records = 100_000
	body := appendBatch(nil, slices.Repeat([]Message{{Value: make([]byte, 100)}}, records))[batchHeader:]
	for name, c := range codecs {
		u := newUnpacker(1 << 20)
		u.floor = 4 << 20
		raw := packed(c.id, c.pack, records, body)
		b := Batch{HighWater: -1}
		if _, err := u.unpack(&b, raw); err != nil {
			t.Fatal(err)
		}
		n := len(b.Records)
		for o := b.open; o.left > 0; n += len(b.Records) {
			b = Batch{Next: b.Next, HighWater: -1}
			o.fill(&b, u.piece())
		}
		allowed := int(u.floor+unpackRatio*int64(len(raw)-batchHeader)) / (100 + recordOverhead)
		if allowed >= records {
			continue // packs too little to be a bomb
		}
		if s := b.Skipped; len(s) != 1 || s[0].Reason != SkipTooLarge || s[0].From != int64(n) || s[0].To != records-1 || b.Next != records {
			t.Errorf("%s: got %d records and %q, want the rest too large", name, n, account(b))
		}
		if n > allowed || n < allowed*9/10 {
			t.Errorf("%s: got %d records, want just under %d", name, n, allowed)
		}
		u.close()
	}
}

// TestMemoryDoesNotGrowWithTheBatch unpacks 10 and 60 MB a piece at a time, and looks at what is live in between.
func TestMemoryDoesNotGrowWithTheBatch(t *testing.T) {
	testenv.Long(t)
	line := bytes.Repeat([]byte("0123456789"), 100)
	for name, c := range codecs {
		for _, records := range []int{10_000, 60_000} {
			raw := packed(c.id, c.pack, records, appendBatch(nil, slices.Repeat([]Message{{Value: line}}, records))[batchHeader:])
			u := newUnpacker(1 << 20)
			var before, during runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			b, peak, pieces := Batch{HighWater: -1}, uint64(0), 0
			if _, err := u.unpack(&b, raw); err != nil || b.open == nil {
				t.Fatal(err)
			}
			for o := b.open; o.left > 0; pieces++ {
				b = Batch{Next: b.Next, HighWater: -1}
				o.fill(&b, u.piece())
				if pieces%64 == 0 {
					runtime.GC()
					runtime.ReadMemStats(&during)
					peak = max(peak, during.HeapAlloc-min(before.HeapAlloc, during.HeapAlloc))
				}
			}
			in, _, err := u.stream(c.id, raw[batchHeader:])
			if err != nil {
				t.Fatal(err)
			}
			if peak > uint64(streamMemory(in))+(16<<20) || b.Next != int64(records) {
				t.Errorf("%s, %d records: got %d bytes live and next %d", name, records, peak, b.Next)
			}
			u.close()
		}
	}
}
