package embedded

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// afterMax is the setting of a topic that bounds how far a message's time may be ahead of the broker's clock, in
// milliseconds. Apache Kafka has it since 3.6; kfake stores it and ignores it.
const afterMax = "message.timestamp.after.max.ms"

// boundTimes makes the cluster refuse messages from the future, for topics that have the setting, as Apache Kafka does:
// with INVALID_TIMESTAMP, and nothing of the request is appended. Apache Kafka appends the request's batches for other
// partitions; here the whole request is refused.
func boundTimes(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.ProduceRequest)
		if !ok {
			return nil, nil, false
		}
		refusal := judgeTimes(c, req, time.Now().UnixMilli())
		if refusal == nil {
			return nil, nil, false
		}
		c.KeepControl()
		if req.Acks == 0 {
			return nil, nil, true
		}
		return refuse(req, refusal), nil, true
	})
}

// judgeTimes returns why a request is refused at now, in Unix milliseconds, or nil. Topics are looked up only if a time is
// ahead of now, or cannot be seen.
func judgeTimes(c *kfake.Cluster, req *kmsg.ProduceRequest, now int64) *kerr.Error {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			newest, packed := newestTime(t.Partitions[j].Records)
			if newest <= now && !packed {
				continue
			}
			maxAhead, bounded := bound(c, t)
			switch {
			case bounded && packed:
				return kerr.UnsupportedCompressionType
			case bounded && newest > now && newest-now > maxAhead:
				return kerr.InvalidTimestamp
			}
		}
	}
	return nil
}

// bound returns how many milliseconds a topic's messages may be ahead, and whether it bounds them.
func bound(c *kfake.Cluster, t *kmsg.ProduceRequestTopic) (maxAhead int64, ok bool) {
	info := c.TopicInfo(t.Topic)
	if t.Topic == "" {
		info = c.TopicIDInfo(t.TopicID)
	}
	if info == nil || info.Configs[afterMax] == nil {
		return 0, false
	}
	maxAhead, err := strconv.ParseInt(*info.Configs[afterMax], 10, 64)
	return maxAhead, err == nil && 0 <= maxAhead && maxAhead < math.MaxInt64 // in Kafka 3.6 the largest number means no bound
}

// refuse answers every partition of a request with an error.
func refuse(req *kmsg.ProduceRequest, why *kerr.Error) kmsg.Response {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = req.Version
	for i := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		for _, asked := range req.Topics[i].Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode, p.BaseOffset = asked.Partition, why.Code, -1
			p.ErrorMessage = &why.Description
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// attrCodec is the bits of a batch's attributes that say how its records are compressed.
const attrCodec = 0x07

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
