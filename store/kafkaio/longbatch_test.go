package kafkaio

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// roomyTopic is a topic that takes batches of up to 100 MB, which is what Kafka's brokers take in a request.
func roomyTopic(t *testing.T, c *Client, name string) {
	t.Helper()
	spec := TopicSpec{Name: name, Partitions: 1, Settings: []Setting{{Name: "max.message.bytes", Value: "100000000"}}}
	if _, err := c.EnsureTopics(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
}

// readAll fetches from an offset to the end of partition 0, and accounts for it as one Batch.
func readAll(t *testing.T, c *Client, topic string, from int64, maxBytes int) Batch {
	t.Helper()
	_, end, err := c.Range(t.Context(), topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := Batch{Next: from}
	for all.Next < end {
		b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, Offset: all.Next, MaxWait: time.Second, MaxBytes: maxBytes})
		if err != nil {
			t.Fatal(err)
		}
		if b.Next <= all.Next {
			t.Fatalf("got next %d after %d: the partition stalls", b.Next, all.Next)
		}
		all.Records, all.Skipped, all.Next = append(all.Records, b.Records...), append(all.Skipped, b.Skipped...), b.Next
	}
	return all
}

// testLongBatch puts a batch of three records and 66 MiB between small ones. Its offsets are passed over, and no others,
// from wherever the reader comes.
func testLongBatch(t *testing.T, c *Client, topic string) {
	c = startClient(t, Config{Brokers: c.config.Brokers, Timeout: time.Minute}) // each call carries 66 MiB, on any machine
	topic += ".roomy"
	roomyTopic(t, c, topic)
	produce(t, c, topic, 0, "a", "b")
	third := Message{Value: make([]byte, 22<<20)}
	if base, err := c.Produce(t.Context(), topic, 0, third, third, third); err != nil || base != 2 {
		t.Fatalf("got offset %d and %v, want 2", base, err)
	}
	produce(t, c, topic, 0, "c", "d")
	for from, want := range map[int64]string{
		0: "0-1 5-6 skip 2-4 too_large next 7",
		1: "1-1 5-6 skip 2-4 too_large next 7",
		2: "5-6 skip 2-4 too_large next 7",
		3: "5-6 skip 3-4 too_large next 7",
		4: "5-6 skip 4-4 too_large next 7",
		5: "5-6 next 7",
	} {
		maxBytes := []int{1, maxBatch}[from%2]
		b := readAll(t, c, topic, from, maxBytes)
		if got := account(b); got != want {
			t.Errorf("from %d, %d bytes at a time: got %q, want %q", from, maxBytes, got, want)
		}
		for _, s := range b.Skipped {
			if !errors.Is(s.Err, ErrTooLarge) || !strings.Contains(s.Err.Error(), "offsets 2 to 4, 3 records") {
				t.Errorf("from %d: got %v, want the batch's size and offsets", from, s.Err)
			}
		}
	}
}

// longHeader is the beginning of a batch of three records at an offset, which is 1 GiB long by its own word.
func longHeader(base int64, change func([]byte)) []byte {
	b := sized(1<<30, stored(base, three()))
	if change != nil {
		change(b)
	}
	return b
}

func TestPassOverSkipsExactlyTheBatch(t *testing.T) {
	format := func(m byte) func([]byte) { return func(b []byte) { b[batchMagicAt] = m } }
	for name, c := range map[string]struct {
		from int64
		set  []byte
		want string
		err  error
	}{
		"whole":                        {5, longHeader(5, nil), "skip 5-7 too_large next 8", nil},
		"only its header":              {5, longHeader(5, nil)[:batchHeader], "skip 5-7 too_large next 8", nil},
		"from its middle":              {6, longHeader(5, nil), "skip 6-7 too_large next 8", nil},
		"from its last record":         {7, longHeader(5, nil), "skip 7-7 too_large next 8", nil},
		"behind a gap":                 {3, longHeader(5, nil), "skip 3-4 gap skip 5-7 too_large next 8", nil},
		"format 1":                     {3, longHeader(5, format(1)), "skip 3-5 too_large next 6", nil},
		"format 0":                     {5, longHeader(5, format(0)), "skip 5-5 too_large next 6", nil},
		"compressed":                   {5, longHeader(5, attrs(codecZstd)), "skip 5-7 too_large next 8", nil},
		"below what was asked for":     {9, longHeader(5, nil), "next 9", ErrCorrupt},
		"up to the end":                {97, longHeader(97, nil), "skip 97-99 too_large next 100", nil},
		"past the end":                 {98, longHeader(98, nil), "next 98", ErrCorrupt},
		"a last offset that swallows":  {5, longHeader(5, lastDelta(20)), "next 5", ErrCorrupt},
		"fewer offsets than records":   {5, longHeader(5, lastDelta(1)), "next 5", ErrCorrupt},
		"a last offset before it":      {5, longHeader(5, lastDelta(-1)), "next 5", ErrCorrupt},
		"a negative base":              {5, longHeader(-5, nil), "next 5", ErrCorrupt},
		"a format that isn't made yet": {5, longHeader(5, format(3)), "next 5", ErrCorrupt},
		"not even a format":            {5, longHeader(5, nil)[:batchMagicAt], "next 5", errWrongAnswer},
		"not a whole header":           {5, longHeader(5, nil)[:batchHeader-1], "next 5", errWrongAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			b := Batch{Next: c.from, HighWater: 100}
			l, err := b.passOver(c.set)
			if got := account(b); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %q and %v, want %q and %v", got, err, c.want, c.err)
			}
			if (l == longBatch{}) != (err != nil) {
				t.Errorf("got %v beside %v", l, err)
			}
		})
	}
}

// TestPassOverEveryFlippedBit flips each bit of the header in one of two fetches. They must not agree unless the bit is one
// that nothing was decided by.
func TestPassOverEveryFlippedBit(t *testing.T) {
	good := longHeader(5, nil)[:batchHeader]
	truth := Batch{Next: 5, HighWater: 100}
	want, err := truth.passOver(good)
	if err != nil {
		t.Fatal(err)
	}
	agreed := 0
	for bit := range 8 * batchHeader {
		bad := append([]byte(nil), good...)
		bad[bit/8] ^= 1 << (bit % 8)
		b := Batch{Next: 5, HighWater: 100}
		got, err := b.passOver(bad)
		if err != nil || !(doubts{long: want}).agrees(doubts{long: got}) {
			continue
		}
		agreed++
		if account(b) != account(truth) {
			t.Errorf("bit %d of byte %d: two fetches agree on %q, want %q", bit%8, bit/8, account(b), account(truth))
		}
	}
	// Leader epoch, attributes, both times, the producer's id and epoch, and the sequence decide nothing here.
	if want := 8 * (4 + 2 + 8 + 8 + 8 + 2 + 4); agreed != want {
		t.Errorf("got %d bits that change nothing, want %d", agreed, want)
	}
}

// answering makes the broker answer fetch number n (from 0) with a record set, and the last one again from then on.
func answering(t *testing.T, sets ...[]byte) (*Client, *int) {
	t.Helper()
	b, c := withTopic(t, 1, Config{})
	n := new(int)
	b.Cluster().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.FetchRequest)
		if !ok {
			return nil, io.ErrUnexpectedEOF, true
		}
		b.Cluster().KeepControl()
		set := sets[min(*n, len(sets)-1)]
		*n++
		return fetchAnswer(req, set), nil, true
	})
	return c, n
}

// padded is a batch's beginning with zeros behind it, so that an answer is over maxResponse.
func padded(beginning []byte) []byte {
	return append(slices.Clip(beginning), make([]byte, maxResponse+1-len(beginning))...)
}

// TestLongBatchIsSkippedOnceTwoFetchesAgree has a broker whose first answer is flipped on the way. The first fetch is one that may be shared
// with other partitions: what is doubtful in it is fetched again alone, twice.
func TestLongBatchIsSkippedOnceTwoFetchesAgree(t *testing.T) {
	testenv.Long(t)
	good, flipped := padded(longHeader(0, nil)), padded(longHeader(0, func(b []byte) {
		lastDelta(9)(b)
		count(10)(b)
	}))
	for name, c := range map[string]struct {
		sets    [][]byte
		want    string
		fetches int
	}{
		"both good":                        {[][]byte{good}, "skip 0-2 too_large next 3", 3},
		"the first is flipped":             {[][]byte{flipped, good}, "skip 0-2 too_large next 3", 3},
		"the second is flipped":            {[][]byte{good, flipped, good}, "skip 0-2 too_large next 3", 6},
		"the length alone was flipped":     {[][]byte{good, stored(0, three())}, "0-2 next 3", 2},
		"its beginning, as old brokers do": {[][]byte{good[:100]}, "skip 0-2 too_large next 3", 2},
		"a short one, never in full":       {[][]byte{three()[:70]}, "skip 0-2 too_large next 3", 8},
	} {
		t.Run(name, func(t *testing.T) {
			client, n := answering(t, c.sets...)
			b, err := client.Fetch(t.Context(), FetchRequest{Topic: "t"})
			if got := account(b); err != nil || got != c.want || *n != c.fetches {
				t.Errorf("got %q and %v after %d fetches, want %q after %d", got, err, *n, c.want, c.fetches)
			}
		})
	}
}

// TestLongAnswerOfShortBatches: a broker that sends more than it was asked for. What fits is read.
func TestLongAnswerOfShortBatches(t *testing.T) {
	small := stored(0, three())
	middle := stored(0, appendBatch(nil, []Message{{Value: make([]byte, 1<<20)}}))
	for name, set := range map[string][]byte{"0-2 next 3": padded(small), "0-0 next 1": padded(middle)} {
		client, _ := answering(t, set)
		b, err := client.Fetch(t.Context(), FetchRequest{Topic: "t"})
		if got := account(b); err != nil || got != name {
			t.Errorf("got %q and %v, want %q", got, err, name)
		}
	}
}

// TestLongestBatchIsRead is the last length that is read, and the first that is not.
func TestLongestBatchIsRead(t *testing.T) {
	testenv.Long(t)
	for extra, want := range map[int]SkipReason{0: "", 1: SkipTooLarge} {
		size := maxBatch + extra
		batch := make([]byte, size)
		copy(batch, appendBatch(nil, []Message{{}}))
		batch = sealed(sized(uint32(size-batchPrefix), batch), func(b []byte) { attrs(attrTransactional)(b) })
		client, _ := answering(t, batch)
		b, err := client.Fetch(t.Context(), FetchRequest{Topic: "t"})
		if err != nil || b.Next != 1 || len(b.Skipped) != 1 {
			t.Fatalf("%d bytes: got %q and %v", size, account(b), err)
		}
		if got := b.Skipped[0].Reason; (got == SkipTooLarge) != (want == SkipTooLarge) {
			t.Errorf("%d bytes: got %v", size, b.Skipped[0])
		}
	}
}
