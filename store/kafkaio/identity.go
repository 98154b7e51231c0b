package kafkaio

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Identity identifies a cluster and topics, also among others with the same names. A cluster or topic that is deleted and created again
// has another identity.
type Identity struct {
	Cluster string            // the id of the cluster; "" if the broker does not know it
	Topics  map[string]string // ids of topics, as 32 hexadecimal digits, by name; Apache Kafka has them since 2.8
}

// Identity returns the identity of the cluster and of some of its topics. A topic that does not exist is ErrNoTopic. It never makes a
// topic.
func (c *Client) Identity(ctx context.Context, topics ...string) (id Identity, err error) {
	defer c.observe(OpOther)(&err)
	ctx, done, err := c.begin(ctx, c.config.Timeout)
	if err != nil {
		return Identity{}, err
	}
	defer done()
	topics = append([]string{}, topics...) // nil is all there are
	err = c.retry(ctx, fetchAttempts, func() error {
		m, err := c.admin.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
		if err != nil {
			return err
		}
		id = Identity{Cluster: m.ClusterID}
		has, err := c.hasTopicIDs(ctx)
		if err == nil && has {
			id.Topics, err = c.topicIDs(ctx, topics)
		}
		return err
	})
	if err != nil {
		return Identity{}, c.failed("identify", "", 0, Unknown, err)
	}
	return id, nil
}

// hasTopicIDs reports whether brokers say the ids of topics.
func (c *Client) hasTopicIDs(ctx context.Context) (bool, error) {
	r, err := c.admin.ApiVersions(ctx, &kafka.ApiVersionsRequest{Addr: c.addr})
	if err == nil {
		err = r.Error
	}
	if err != nil {
		return false, err
	}
	for _, v := range r.ApiKeys {
		if protocol.ApiKey(v.ApiKey) == protocol.Metadata {
			return v.MinVersion <= topicIDsVersion && topicIDsVersion <= v.MaxVersion, nil
		}
	}
	return false, nil
}

func (c *Client) topicIDs(ctx context.Context, topics []string) (map[string]string, error) {
	body, _, _, err := c.exchange(ctx, func() protocol.Message { return &topicIDsRequest{topics} }, 0)
	if err != nil {
		return nil, err
	}
	ids, err := decodeTopicIDs(body)
	if err != nil {
		return nil, err
	}
	for _, name := range topics {
		if ids[name] == "" {
			return nil, fmt.Errorf("%w: got no id of %q", errWrongAnswer, name)
		}
	}
	return ids, nil
}

// topicIDsVersion is the version of the request for metadata from which on the answer has the ids of topics. kafka-go does not speak it.
const topicIDsVersion = 10

// topicIDsRequest is that request. It can be sent to any broker.
type topicIDsRequest struct{ topics []string }

// ApiKey implements protocol.Message.
func (*topicIDsRequest) ApiKey() protocol.ApiKey { return protocol.Metadata } //nolint:revive // the interface's name

// Broker implements protocol.BrokerMessage.
func (*topicIDsRequest) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: -1}, nil
}

// encode returns the request as it is sent: its size, a header with tagged fields, and the body.
func (r *topicIDsRequest) encode(correlationID int32, clientID string) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(protocol.Metadata))
	b = binary.BigEndian.AppendUint16(b, topicIDsVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(correlationID))
	b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	b = append(b, 0)
	b = binary.AppendUvarint(b, uint64(len(r.topics))+1)
	for _, name := range r.topics {
		b = append(b, make([]byte, 16)...) // no id: the name is what is asked for
		b = binary.AppendUvarint(b, uint64(len(name))+1)
		b = append(append(b, name...), 0)
	}
	b = append(b, 0, 0, 0, 0) // make no topic, list no rights, no tagged fields
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// decodeTopicIDs reads the answer: its header and its body.
func decodeTopicIDs(body []byte) (map[string]string, error) {
	w := &wire{b: body}
	w.tags()
	w.int32() // throttle time
	for range w.compactCount() {
		w.int32() // broker
		w.compact()
		w.int32() // port
		w.compact()
		w.tags()
	}
	w.compact() // cluster
	w.int32()   // controller
	ids := make(map[string]string)
	for range w.compactCount() {
		code, name, id := w.int16(), string(w.compact()), w.take(16)
		w.take(1) // internal
		for range w.compactCount() {
			w.take(2 + 4 + 4 + 4) // error, number, leader, its epoch
			for range 3 {         // replicas, those in sync, those that are away
				w.take(4 * w.compactCount())
			}
			w.tags()
		}
		w.int32() // rights
		w.tags()
		if w.err != nil {
			break
		}
		if err := brokerError(code); err != nil {
			return nil, err
		}
		ids[name] = hex.EncodeToString(id)
	}
	return ids, w.err
}
