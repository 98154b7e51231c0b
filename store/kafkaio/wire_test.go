package kafkaio

import (
	"encoding/binary"
	"errors"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franzFetch is an answer as franz-go writes it, of a version.
func franzFetch(version int16) []byte {
	r := kmsg.NewPtrFetchResponse()
	r.Version = version
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = "t"
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.HighWatermark, p.LogStartOffset = 2, 9, 4
	p.RecordBatches = []byte("records")
	p.AbortedTransactions = append(p.AbortedTransactions, kmsg.NewFetchResponseTopicPartitionAbortedTransaction())
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	return r.AppendTo(nil)
}

func franzProduce(version, code int16) []byte {
	r := kmsg.NewPtrProduceResponse()
	r.Version = version
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic = "t"
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition, p.BaseOffset, p.ErrorCode = 2, 41, code
	if code != 0 {
		p.BaseOffset = -1
		e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		e.ErrorMessage = new("this record")
		p.ErrorRecords = append(p.ErrorRecords, e)
	}
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	return r.AppendTo(nil)
}

func TestParseFetchOfEachVersion(t *testing.T) {
	r := FetchRequest{Topic: "t", Partition: 2, Offset: 7}
	for version := int16(4); version <= 11; version++ {
		body := franzFetch(version)
		b, set, err := parseFetch(body, version, r, false)
		start := int64(4)
		if version < 5 {
			start = -1
		}
		if err != nil || string(set) != "records" || b.Next != 7 || b.HighWater != 9 || b.LogStart != start {
			t.Errorf("version %d: got %+v, %q and %v", version, b, set, err)
		}
		for n := range body {
			if _, _, err := parseFetch(body[:n], version, r, false); !errors.Is(err, errWrongAnswer) {
				t.Errorf("version %d, %d of %d bytes: got %v, want errWrongAnswer", version, n, len(body), err)
			}
		}
		for _, other := range []FetchRequest{{Topic: "u", Partition: 2}, {Topic: "t", Partition: 1}} {
			if _, _, err := parseFetch(body, version, other, false); !errors.Is(err, errWrongAnswer) {
				t.Errorf("version %d, asked for %v: got %v, want errWrongAnswer", version, other, err)
			}
		}
	}
}

func TestParseOffsetOfEachVersion(t *testing.T) {
	for version := int16(1); version <= 5; version++ {
		r := kmsg.NewPtrListOffsetsResponse()
		r.Version = version
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = "t"
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Partition, p.Offset, p.Timestamp, p.LeaderEpoch = 2, 41, 5, 7
		topic.Partitions = append(topic.Partitions, p)
		r.Topics = append(r.Topics, topic)
		body := r.AppendTo(nil)
		if got, err := parseOffset(body, version, "t", 2); got != 41 || err != nil {
			t.Errorf("version %d: got %d and %v, want 41", version, got, err)
		}
		for n := range body {
			if _, err := parseOffset(body[:n], version, "t", 2); !errors.Is(err, errWrongAnswer) {
				t.Errorf("version %d, %d of %d bytes: got %v, want errWrongAnswer", version, n, len(body), err)
			}
		}
		for _, other := range []partitionKey{{"u", 2}, {"t", 1}} {
			if _, err := parseOffset(body, version, other.topic, other.partition); !errors.Is(err, errWrongAnswer) {
				t.Errorf("version %d, asked for %v: got %v, want errWrongAnswer", version, other, err)
			}
		}
		r.Topics[0].Partitions[0].ErrorCode = int16(kafka.NotLeaderForPartition)
		if _, err := parseOffset(r.AppendTo(nil), version, "t", 2); !errors.Is(err, kafka.NotLeaderForPartition) {
			t.Errorf("version %d: got %v, want the broker's error", version, err)
		}
	}
}

// parseProduce returns what an answer says about one partition.
func parseProduce(body []byte, version int16, topic string, partition int) (base int64, o Outcome, err error) {
	answers, err := parseProduces(body, version)
	if err != nil {
		return -1, Unknown, err
	}
	a := answers.about(partitionKey{topic, partition})
	return a.base, a.outcome, a.err
}

func TestParseProduceOfEachVersion(t *testing.T) {
	for version := int16(3); version <= 8; version++ {
		body := franzProduce(version, 0)
		if base, o, err := parseProduce(body, version, "t", 2); base != 41 || o != Acked || err != nil {
			t.Errorf("version %d: got %d, %v and %v, want 41 and acked", version, base, o, err)
		}
		refusal := franzProduce(version, int16(kafka.InvalidTimestamp))
		if _, o, err := parseProduce(refusal, version, "t", 2); o != Refused || !errors.Is(err, ErrTimestamp) {
			t.Errorf("version %d: got %v and %v, want refused", version, o, err)
		} else if version == 8 && err.Error() != `message time refused: [32] Invalid Timestamp: the timestamp of the message is out of acceptable range: the broker answered "this record"` {
			t.Errorf("got %q, want the broker's word", err)
		}
		for n := range len(body) - 4 { // the throttle time at the end is not read
			if _, o, err := parseProduce(body[:n], version, "t", 2); !errors.Is(err, errWrongAnswer) || o != Unknown {
				t.Errorf("version %d, %d of %d bytes: got %v and %v, want unknown", version, n, len(body), o, err)
			}
		}
		if _, o, err := parseProduce(body, version, "t", 3); !errors.Is(err, errWrongAnswer) || o != Unknown {
			t.Errorf("version %d: got %v and %v for another partition, want unknown", version, o, err)
		}
	}
	r := kmsg.NewPtrProduceResponse()
	r.Version = 3
	if _, o, err := parseProduce(r.AppendTo(nil), 3, "t", 2); err == nil || o != Unknown {
		t.Errorf("no topics: got %v and %v, want unknown", o, err)
	}
}

func TestWireBounds(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<30)
	if w := (wire{b: huge}); w.count(16) != 0 || w.err == nil {
		t.Error("an array of 2^30 in 4 bytes: got no error")
	}
	if w := (wire{b: huge}); w.bytes() != nil || w.err == nil {
		t.Error("2^30 bytes in 4: got no error")
	}
	null := []byte{0xff, 0xff, 0xff, 0xff}
	if w := (wire{b: null}); w.count(16) != 0 || w.err != nil {
		t.Error("a null array: got an error, want 0")
	}
	if w := (wire{b: null}); w.bytes() != nil || w.err != nil {
		t.Error("null bytes: got an error, want nil")
	}
	if w := (wire{b: null}); w.string() != "" || w.err != nil {
		t.Error("a null string: got an error, want empty")
	}
	w := wire{b: []byte{1}}
	if w.int16() != 0 || w.int32() != 0 || w.int64() != 0 || w.err == nil || w.string() != "" || w.take(0) != nil {
		t.Error("after the end: got something, want zeros and the first error")
	}
}

// FuzzParse reads any bytes as answers. It never panics, and what it accepts is within what it was given.
func FuzzParse(f *testing.F) {
	f.Add(franzFetch(11), int16(11))
	f.Add(franzFetch(4), int16(4))
	f.Add(franzProduce(8, 32), int16(8))
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		b, set, err := parseFetch(body, version, FetchRequest{Topic: "t", Partition: 2, Offset: 7}, false)
		if err == nil && (len(set) > len(body) || b.Next != 7 || b.Records != nil) {
			t.Fatalf("got %+v and %d bytes of %d", b, len(set), len(body))
		}
		base, o, err := parseProduce(body, version, "t", 2)
		if (err == nil) != (o == Acked) || err == nil && base < 0 {
			t.Fatalf("got offset %d, %v and %v", base, o, err)
		}
	})
}
