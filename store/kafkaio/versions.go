package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// ErrVersion says that a broker is too old, or too new, for the requests of floodgate.
var ErrVersion = errors.New("broker does not support the protocol versions that are needed")

// oldestKafka is the first release of Apache Kafka that has everything that is needed. Releases before 3.6 cannot refuse
// messages from the future: the topic of requests then needs LogAppendTime.
const oldestKafka = "2.4"

// need is one request, and the range of its versions that this package can use. A broker must support one of them.
type need struct {
	key                    protocol.ApiKey
	minVersion, maxVersion int
	why                    string
}

// needs returns the requests that this package sends to brokers.
func needs() []need {
	return []need{
		{protocol.Produce, 3, 8, "records with checksums (Kafka 0.11)"},
		{protocol.Fetch, 4, 11, "records with checksums (Kafka 0.11)"},
		{protocol.ListOffsets, 1, 5, "the first and last offset of a log (Kafka 0.10.1)"},
		{protocol.Metadata, 1, 8, "the leader of a partition"},
		{protocol.FindCoordinator, 0, 2, "consumer groups"},
		{protocol.JoinGroup, 1, joinVersion, "consumer groups"},
		{protocol.SyncGroup, 0, syncVersion, "consumer groups"},
		{protocol.Heartbeat, 0, heartbeatVersion, "consumer groups"},
		{protocol.LeaveGroup, 0, leaveVersion, "consumer groups"},
		{protocol.OffsetCommit, 2, commitVersion, "consumer groups"},
		{protocol.OffsetFetch, 1, offsetsVersion, "consumer groups"},
		{protocol.CreateTopics, 4, 5, "topics with the broker's default number of replicas (Kafka 2.4)"},
		{protocol.DescribeConfigs, 1, 3, "the settings of topics (Kafka 1.1)"},
	}
}

// CheckBrokers asks every broker of the cluster which versions of the protocol it supports. If a broker lacks a version
// that is needed, the error is ErrVersion. It names the request, its purpose, and the release of Kafka that has it.
func (c *Client) CheckBrokers(ctx context.Context) (err error) {
	defer c.observe(OpOther)(&err)
	ctx, done, err := c.begin(ctx, 4*c.config.Timeout)
	if err != nil {
		return err
	}
	defer done()
	err = c.retry(ctx, fetchAttempts, func() error {
		m, err := c.admin.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{}})
		if err != nil {
			return err
		}
		for _, b := range m.Brokers {
			if err := c.checkBroker(ctx, net.JoinHostPort(b.Host, strconv.Itoa(b.Port))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return c.failed("check brokers", "", 0, Unknown, err)
	}
	return nil
}

func (c *Client) checkBroker(ctx context.Context, address string) error {
	r, err := c.admin.ApiVersions(ctx, &kafka.ApiVersionsRequest{Addr: kafka.TCP(address)})
	if err == nil {
		err = r.Error
	}
	if err != nil {
		return err
	}
	if err := lacking(r.ApiKeys); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}

// lacking returns an error for each request that a broker with these versions lacks.
func lacking(has []kafka.ApiVersionsResponseApiKey) error {
	versions := make(map[protocol.ApiKey]kafka.ApiVersionsResponseApiKey, len(has))
	for _, v := range has {
		versions[protocol.ApiKey(v.ApiKey)] = v
	}
	var errs []error
	for _, n := range needs() {
		v, ok := versions[n.key]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%w: got no %v, want versions %d to %d: %s; Apache Kafka %s and later have it", ErrVersion, n.key, n.minVersion, n.maxVersion, n.why, oldestKafka))
		case v.MaxVersion < n.minVersion:
			errs = append(errs, fmt.Errorf("%w: got %v up to version %d, want %d: %s; Apache Kafka %s and later have it", ErrVersion, n.key, v.MaxVersion, n.minVersion, n.why, oldestKafka))
		case v.MinVersion > n.maxVersion:
			errs = append(errs, fmt.Errorf("%w: got %v from version %d, want %d: %s; this broker is newer than this floodgate", ErrVersion, n.key, v.MinVersion, n.maxVersion, n.why))
		}
	}
	return errors.Join(errs...)
}
