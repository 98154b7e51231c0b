package embedded

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Settings of a topic that kfake stores and ignores. The first bounds how far a message's time may be ahead of the broker's
// clock, in milliseconds; Apache Kafka has it since 3.6. If the second is LogAppendTime, a message bears the broker's time.
const (
	afterMax = "message.timestamp.after.max.ms"
	timeType = "message.timestamp.type"
)

// boundTimes makes the cluster follow these settings. Messages from the future are refused as Apache Kafka does it: with
// INVALID_TIMESTAMP, and nothing of the request is appended. Apache Kafka appends the request's batches for other
// partitions; here they are refused, too, with an error after which clients try again.
func boundTimes(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.ProduceRequest)
		if !ok {
			return nil, nil, false
		}
		refusals := judgeTimes(c, req, time.Now().UnixMilli())
		if refusals == nil {
			return nil, nil, false
		}
		c.KeepControl()
		if req.Acks == 0 {
			return nil, nil, true
		}
		return refuse(req, refusals), nil, true
	})
}

// refusals are why batches are refused, by their places in a request.
type refusals map[*kmsg.ProduceRequestTopicPartition]*kerr.Error

// judgeTimes returns which batches of a request are refused at now, in Unix milliseconds; nil if none is. It stamps the batches for topics
// with the broker's time.
func judgeTimes(c *kfake.Cluster, req *kmsg.ProduceRequest, now int64) refusals {
	var refused refusals
	refuse := func(p *kmsg.ProduceRequestTopicPartition, why *kerr.Error) {
		if refused == nil {
			refused = make(refusals)
		}
		refused[p] = why
	}
	for i := range req.Topics {
		settings := settingsOf(c, &req.Topics[i])
		maxAhead, bounded := bound(settings)
		stamped := settings[timeType] != nil && *settings[timeType] == "LogAppendTime"
		for j := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[j]
			newest, packed := newestTime(p.Records)
			switch {
			case (stamped || bounded) && packed:
				refuse(p, kerr.UnsupportedCompressionType)
			case stamped:
				p.Records = stamp(p.Records, now)
			case bounded && newest > now && newest-now > maxAhead:
				refuse(p, kerr.InvalidTimestamp)
			}
		}
	}
	return refused
}

// settingsOf returns the settings of a topic, or nil.
func settingsOf(c *kfake.Cluster, t *kmsg.ProduceRequestTopic) map[string]*string {
	info := c.TopicInfo(t.Topic)
	if t.Topic == "" {
		info = c.TopicIDInfo(t.TopicID)
	}
	if info == nil {
		return nil
	}
	return info.Configs
}

// bound returns how many milliseconds a topic's messages may be ahead, and whether it bounds them.
func bound(settings map[string]*string) (maxAhead int64, ok bool) {
	if settings[afterMax] == nil {
		return 0, false
	}
	maxAhead, err := strconv.ParseInt(*settings[afterMax], 10, 64)
	return maxAhead, err == nil && 0 <= maxAhead && maxAhead < math.MaxInt64 // in Kafka 3.6 the largest number means no bound
}

// refuse answers every partition of a request with an error: its own, or one that says to try again.
func refuse(req *kmsg.ProduceRequest, refused refusals) kmsg.Response {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = req.Version
	for i := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		for j := range req.Topics[i].Partitions {
			asked := &req.Topics[i].Partitions[j]
			why := cmp.Or(refused[asked], kerr.LeaderNotAvailable)
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode, p.BaseOffset = asked.Partition, why.Code, -1
			p.ErrorMessage = &why.Description
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// Bits of a batch's attributes.
const (
	attrCodec      = 0x07 // how its records are compressed
	attrAppendTime = 0x08 // its records bear the batch's newest time
)

// Where the length of a batch stands, its checksum, and what the checksum covers.
const (
	lengthAt   = 8
	checksumAt = 17
	attrsAt    = 21
)

// stamp returns a batch whose records bear the time now, in Unix milliseconds. It writes that into the records: where a batch only
// has the attribute, kfake sets the time without a new checksum. What is no good batch stays as it is: kfake refuses it, or readers
// pass over it.
func stamp(b []byte, now int64) []byte {
	var batch kmsg.RecordBatch
	if batch.ReadFrom(b) != nil || uint32(batch.CRC) != checksum(b) {
		return b
	}
	var records []byte
	for rest := batch.Records; len(rest) > 0; {
		size, n := binary.Varint(rest)
		if n <= 0 || size < 1 || size > int64(len(rest)-n) {
			return b
		}
		record := rest[n : n+int(size)]
		_, m := binary.Varint(record[1:])
		if m <= 0 {
			return b
		}
		body := append([]byte{record[0], 0}, record[1+m:]...)
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
		rest = rest[n+int(size):]
	}
	batch.Attributes &^= attrAppendTime
	batch.FirstTimestamp, batch.MaxTimestamp, batch.Records = now, now, records
	b = batch.AppendTo(nil)
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-lengthAt-4))
	binary.BigEndian.PutUint32(b[checksumAt:], checksum(b))
	return b
}

// checksum returns what the checksum of a batch must be.
func checksum(b []byte) uint32 { return crc32.Checksum(b[attrsAt:], crc32.MakeTable(crc32.Castagnoli)) }

// newestTime returns the newest time of a batch's records, in Unix milliseconds, and whether they are compressed, so that
// only the header's times can be seen. The header's newest time alone is not enough: readers compute a record's time from
// the batch's first time and the record's distance from it. For bytes that are no batch it returns the smallest time: kfake
// refuses them.
func newestTime(b []byte) (newest int64, packed bool) {
	var batch kmsg.RecordBatch
	if batch.ReadFrom(b) != nil {
		return math.MinInt64, false
	}
	newest = max(batch.FirstTimestamp, batch.MaxTimestamp)
	if batch.Attributes&attrCodec != 0 {
		return newest, true
	}
	for rest := batch.Records; len(rest) > 0; {
		size, n := binary.Varint(rest)
		if n <= 0 || size < 1 || size > int64(len(rest)-n) {
			break // readers pass over a batch with such a record, and count it
		}
		delta, m := binary.Varint(rest[n+1 : n+int(size)]) // behind the record's attributes
		if m <= 0 {
			break
		}
		newest = max(newest, batch.FirstTimestamp+delta) // which wraps around for readers, too
		rest = rest[n+int(size):]
	}
	return newest, false
}
