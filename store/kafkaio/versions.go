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

// ErrVersion says that a broker is too old, or too new, for what floodgate asks of it.
var ErrVersion = errors.New("broker does not speak the protocol's versions that are needed")

// OldestKafka is the first release of Apache Kafka that has all that is needed. Before 3.6 it can't refuse messages of
// servers whose clocks run ahead; CheckTopics says so.
const OldestKafka = "2.4"

// need is the versions of one request that are spoken here. A broker must know one of them.
type need struct {
	key         protocol.ApiKey
	least, most int
	why         string
}

// needs is what is asked of brokers, by this package and by kafka-go's groups.
func needs() []need {
	return []need{
		{protocol.Produce, 3, 8, "records with checksums (Kafka 0.11)"},
		{protocol.Fetch, 4, 11, "records with checksums (Kafka 0.11)"},
		{protocol.ListOffsets, 1, 5, "where a log begins and ends (Kafka 0.10.1)"},
		{protocol.Metadata, 1, 8, "who leads a partition"},
		{protocol.FindCoordinator, 0, 0, "consumer groups"},
		{protocol.JoinGroup, 1, 2, "consumer groups"},
		{protocol.SyncGroup, 0, 0, "consumer groups"},
		{protocol.Heartbeat, 0, 0, "consumer groups"},
		{protocol.LeaveGroup, 0, 0, "consumer groups"},
		{protocol.OffsetCommit, 2, 2, "consumer groups"},
		{protocol.OffsetFetch, 1, 1, "consumer groups"},
		{protocol.CreateTopics, 4, 5, "topics with as many replicas as the broker sees fit (Kafka 2.4)"},
		{protocol.DescribeConfigs, 1, 3, "the settings of topics (Kafka 1.1)"},
	}
}

// CheckBrokers asks every broker of the cluster which versions of the protocol it speaks. Where one lacks what is needed
// the error is ErrVersion, and says what, for what, and from which release on it is there.
func (c *Client) CheckBrokers(ctx context.Context) error {
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

// lacking returns what a broker that speaks these versions lacks.
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
			errs = append(errs, fmt.Errorf("%w: got no %v, want versions %d to %d: %s; Apache Kafka %s and later have it", ErrVersion, n.key, n.least, n.most, n.why, OldestKafka))
		case v.MaxVersion < n.least:
			errs = append(errs, fmt.Errorf("%w: got %v up to version %d, want %d: %s; Apache Kafka %s and later have it", ErrVersion, n.key, v.MaxVersion, n.least, n.why, OldestKafka))
		case v.MinVersion > n.most:
			errs = append(errs, fmt.Errorf("%w: got %v from version %d, want %d: %s; this broker is newer than this floodgate", ErrVersion, n.key, v.MinVersion, n.most, n.why))
		}
	}
	return errors.Join(errs...)
}
