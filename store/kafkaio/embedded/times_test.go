package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// rawBatch is a record batch as a producer that means ill may write it: each number is what it likes.
type rawBatch struct {
	first, newest int64 // the header's times, in Unix milliseconds
	attrs         int16
	deltas        []int64 // of the records' times from first
	tail          []byte  // behind the records
}

func (r rawBatch) bytes() []byte {
	var records []byte
	for i, delta := range r.deltas {
		body := binary.AppendVarint([]byte{0}, delta)
		body = binary.AppendVarint(body, int64(i))
		body = append(body, 1, 2, 'x', 0) // no key, a value of one byte, no headers
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
	}
	b := kmsg.RecordBatch{
		Magic: 2, Attributes: r.attrs, LastOffsetDelta: int32(len(r.deltas) - 1), FirstTimestamp: r.first, MaxTimestamp: r.newest,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(r.deltas)), Records: append(records, r.tail...),
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// TestNewestTimeOfABatch: what the header says is not believed where a record says otherwise.
func TestNewestTimeOfABatch(t *testing.T) {
	const future = int64(4_102_444_800_000) // 2100
	for name, c := range map[string]struct {
		batch  rawBatch
		newest int64
		packed bool
	}{
		"one record":                  {rawBatch{first: 1000, newest: 1000, deltas: []int64{0}}, 1000, false},
		"a later record":              {rawBatch{first: 1000, newest: 3000, deltas: []int64{0, 2000}}, 3000, false},
		"a header that lies":          {rawBatch{first: 1000, newest: 1000, deltas: []int64{0, future}}, 1000 + future, false},
		"the last of many":            {rawBatch{first: 0, newest: 0, deltas: []int64{0, 0, 0, 0, future}}, future, false},
		"a header from the future":    {rawBatch{first: 1000, newest: future, deltas: []int64{0}}, future, false},
		"a sum that wraps around":     {rawBatch{first: math.MinInt64, newest: 0, deltas: []int64{-1}}, math.MaxInt64, false},
		"packed":                      {rawBatch{first: 1000, newest: 1000, attrs: 2, deltas: []int64{future}}, 1000, true},
		"the broker's time, it says":  {rawBatch{first: 1000, newest: 1000, attrs: 8, deltas: []int64{future}}, 1000 + future, false},
		"damaged behind the future":   {rawBatch{first: 0, newest: 0, deltas: []int64{future}, tail: []byte{0xff}}, future, false},
		"no record":                   {rawBatch{first: 7, newest: 7}, 7, false},
		"a record of nothing at all":  {rawBatch{first: 7, newest: 7, tail: []byte{0}}, 7, false},
		"a record longer than it has": {rawBatch{first: 7, newest: 7, tail: []byte{20, 0, 2}}, 7, false},
	} {
		if newest, packed := newestTime(c.batch.bytes()); newest != c.newest || packed != c.packed {
			t.Errorf("%s: got %d and packed %v, want %d and %v", name, newest, packed, c.newest, c.packed)
		}
	}
	if newest, packed := newestTime([]byte("no batch")); newest != math.MinInt64 || packed {
		t.Errorf("no batch: got %d and packed %v, want the oldest of all times", newest, packed)
	}
}

// FuzzNewestTime: it may be given anything.
func FuzzNewestTime(f *testing.F) {
	f.Add(rawBatch{first: 1000, newest: 1000, deltas: []int64{0, 5}}.bytes())
	f.Add(rawBatch{tail: []byte{2, 0, 0xff, 0xff}}.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		newest, _ := newestTime(b)
		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(b); err == nil && newest < batch.MaxTimestamp {
			t.Errorf("got %d, want at least the header's %d", newest, batch.MaxTimestamp)
		}
	})
}

// ask sends one produce of version 8 as it is, and returns the error code of each partition.
func ask(t *testing.T, addr string, req *kmsg.ProduceRequest) []int16 {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	req.Version = 8
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		t.Fatal(err)
	}
	size := make([]byte, 4)
	if _, err := conn.Read(size); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(size))
	for n := 0; n < len(answer); {
		m, err := conn.Read(answer[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	if err := resp.ReadFrom(answer[4:]); err != nil {
		t.Fatal(err)
	}
	var codes []int16
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			codes = append(codes, p.ErrorCode)
		}
	}
	return codes
}

func produceOf(topic string, batches ...rawBatch) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic = topic
	for i, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), b.bytes()
		pt.Partitions = append(pt.Partitions, p)
	}
	req.Topics = append(req.Topics, pt)
	return req
}

// TestAMessageBearsTheBrokersTime: in a topic with LogAppendTime, whatever its producer says. What is no good batch is
// refused there, too, and so is one that is packed.
func TestAMessageBearsTheBrokersTime(t *testing.T) {
	b, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := kafkaio.New(kafkaio.Config{Brokers: b.Addrs()})
	defer c.Close()
	if _, err := c.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "stamped", Partitions: 1, Settings: []kafkaio.Setting{
		{Name: timeType, Value: "LogAppendTime"}, {Name: afterMax, Value: "2000"},
	}}); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Truncate(time.Millisecond).UnixNano()
	const late = int64(4_102_444_800_000) // 2100
	for name, batch := range map[string]rawBatch{
		"2100":              {first: late, newest: late, deltas: []int64{0}},
		"hidden in a delta": {first: 1000, newest: 1000, deltas: []int64{0, late}},
		"1970":              {first: 0, newest: 0, deltas: []int64{0, 5}},
	} {
		if codes := ask(t, b.Addr(), produceOf("stamped", batch)); codes[0] != 0 {
			t.Errorf("%s: got error %d, want it taken", name, codes[0])
		}
	}
	broken := produceOf("stamped", rawBatch{first: 1000, newest: 1000, deltas: []int64{0}})
	broken.Topics[0].Partitions[0].Records[checksumAt] ^= 1
	if codes := ask(t, b.Addr(), broken); !errors.Is(kerr.ErrorForCode(codes[0]), kerr.CorruptMessage) {
		t.Errorf("a wrong checksum: got error %d, want it refused", codes[0])
	}
	packed := produceOf("stamped", rawBatch{first: 1000, newest: 1000, attrs: 1, deltas: []int64{0}})
	if codes := ask(t, b.Addr(), packed); !errors.Is(kerr.ErrorForCode(codes[0]), kerr.UnsupportedCompressionType) {
		t.Errorf("packed: got error %d, want it refused", codes[0])
	}
	got, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "stamped"})
	if err != nil {
		t.Fatal(err)
	}
	records := got.Records
	for got.Next < 5 {
		if got, err = c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "stamped", Offset: got.Next}); err != nil {
			t.Fatal(err)
		}
		records = append(records, got.Records...)
	}
	if len(records) != 5 {
		t.Errorf("got %d records, want 5", len(records))
	}
	for _, r := range records {
		if r.Time < before || r.Time > time.Now().UnixNano() {
			t.Errorf("offset %d: got the time %v, want the broker's", r.Offset, time.Unix(0, r.Time))
		}
	}
}

// TestAMessageFromTheFutureIsRefused: a topic that bounds its messages' times takes none from the future, however the
// producer wraps it; one that does not takes all.
func TestAMessageFromTheFutureIsRefused(t *testing.T) {
	dir := t.TempDir()
	b, err := Start(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := kafkaio.New(kafkaio.Config{Brokers: b.Addrs()})
	setting := kafkaio.Setting{Name: afterMax, Value: "2000"}
	if _, err := c.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "bounded", Partitions: 2, Settings: []kafkaio.Setting{setting}},
		kafkaio.TopicSpec{Name: "free", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for round := range 2 { // as made, and as read back from disk
		now := time.Now().UnixMilli()
		late := int64(4_102_444_800_000)
		fine := rawBatch{first: now, newest: now, deltas: []int64{0}}
		for name, tc := range map[string]struct {
			batches []rawBatch
			want    *kerr.Error
		}{
			"now":                   {[]rawBatch{fine}, nil},
			"a second ahead":        {[]rawBatch{{first: now + 1000, newest: now + 1000, deltas: []int64{0}}}, nil},
			"an hour ago":           {[]rawBatch{{first: now - 3600_000, newest: now - 3600_000, deltas: []int64{0}}}, nil},
			"ten seconds ahead":     {[]rawBatch{{first: now + 10_000, newest: now + 10_000, deltas: []int64{0}}}, kerr.InvalidTimestamp},
			"2100":                  {[]rawBatch{{first: late, newest: late, deltas: []int64{0}}}, kerr.InvalidTimestamp},
			"hidden in a delta":     {[]rawBatch{{first: now, newest: now, deltas: []int64{0, 0, late - now}}}, kerr.InvalidTimestamp},
			"by a sum that wraps":   {[]rawBatch{{first: math.MinInt64, newest: 0, deltas: []int64{-1}}}, kerr.InvalidTimestamp},
			"packed":                {[]rawBatch{{first: now, newest: now, attrs: 1, deltas: []int64{late - now}}}, kerr.UnsupportedCompressionType},
			"in another partition":  {[]rawBatch{fine, {first: late, newest: late, deltas: []int64{0}}}, kerr.InvalidTimestamp},
			"two partitions, today": {[]rawBatch{fine, fine}, nil},
		} {
			for topic, want := range map[string]*kerr.Error{"bounded": tc.want, "free": nil} {
				codes := ask(t, b.Addr(), produceOf(topic, tc.batches...))
				if len(codes) != len(tc.batches) {
					t.Errorf("round %d, %s to %s: got %d answers, want %d", round, name, topic, len(codes), len(tc.batches))
				}
				for i, code := range codes {
					want := want
					if want != nil && i < len(codes)-1 {
						want = kerr.LeaderNotAvailable // the last one is refused, and this one is to be sent again
					}
					if got := kerr.TypedErrorForCode(code); !errors.Is(got, want) && (got != nil || want != nil) {
						t.Errorf("round %d, %s to %s: got %v, want %v", round, name, topic, got, want)
					}
				}
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err = Start(Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	defer b.Close()
	info := b.Cluster().PartitionInfo("bounded", 0)
	if limit := time.Now().Add(2 * time.Second).UnixMilli(); info.MaxTimestamp > limit || info.HighWatermark != 8 {
		t.Errorf("got %d records, the newest of %d, want 8 of at most %d: nothing of a refused request is appended",
			info.HighWatermark, info.MaxTimestamp, limit)
	}
}

// TestAProducerThatWaitsForNoAnswerIsRefusedSilently: without acknowledgements there is nobody to tell.
func TestAProducerThatWaitsForNoAnswerIsRefusedSilently(t *testing.T) {
	b, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	two := "2000"
	if err := b.Cluster().CreateTopic("bounded", 1, map[string]string{afterMax: two}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	late := time.Now().Add(time.Hour).UnixMilli()
	for i := range 3 {
		req := produceOf("bounded", rawBatch{first: late, newest: late, deltas: []int64{0}})
		req.Version, req.Acks = 8, 0
		if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, int32(i))); err != nil {
			t.Fatal(fmt.Errorf("request %d: %w", i, err))
		}
	}
	now := time.Now().UnixMilli()
	if codes := ask(t, b.Addr(), produceOf("bounded", rawBatch{first: now, newest: now, deltas: []int64{0}})); codes[0] != 0 {
		t.Errorf("got %v for a message of today, want it taken", kerr.ErrorForCode(codes[0]))
	}
	if info := b.Cluster().PartitionInfo("bounded", 0); info.HighWatermark != 1 {
		t.Errorf("got %d records, want the one of today", info.HighWatermark)
	}
}
