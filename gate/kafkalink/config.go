package kafkalink

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Defaults of Config.
const (
	DefaultDrain    = 2 * time.Second
	DefaultBacklog  = 32_768
	DefaultMaxDelay = 5 * time.Millisecond
	DefaultRetry    = 2 * time.Minute
	DefaultCanary   = time.Second
)

// Config says which Kafka a Link speaks to, and how. Brokers, Log or Source is needed; the zero value of the rest is ready to use.
type Config struct {
	// Log is used in place of Kafka: then Brokers, ClientID, TLS, SASL and Calls are not used. The caller closes it, after the Link. nil is
	// Kafka.
	Log Log

	// Source is used in place of Kafka and Log. The Link closes it. No answer to a canary comes from it: set Canary to -1.
	Source Source

	Brokers  []string // host:port, to find the cluster by
	ClientID string   // shown in the brokers' logs; empty is "floodgate"
	TLS      *tls.Config
	SASL     sasl.Mechanism

	Topics       schemas.TopicNames   // of which Requests and Decisions are used; empty names are the defaults
	PartitionKey schemas.PartitionKey // the installation's secret; zero is schemas.DefaultPartitionKey

	Drain    time.Duration // how long Close sends what was recorded; 0 is DefaultDrain
	Backlog  int           // how many entries may wait for Kafka, of about 250 bytes each while they wait; 0 is DefaultBacklog
	MaxDelay time.Duration // longest wait of a request before it is sent; with few requests it is 1 ms. 0 is DefaultMaxDelay
	Retry    time.Duration // after this time a frame that could not be sent is dropped; 0 is DefaultRetry
	Canary   time.Duration // between two measurements of the lag; 0 is DefaultCanary, negative is never

	// Observe, if set, is called for each decision after it was applied. The reader of the partition calls it and waits: it must
	// return quickly.
	Observe func(d schemas.Decision, applied time.Time)

	// Watch, if set, gets each call of Handler after the Link has applied it to the Set. So a program that also watches decisions needs
	// no second reader: board.Handler is one.
	Watch Handler

	// Calls, if set, is called for each call to Kafka that has ended, by many goroutines at once, which wait: it must return quickly.
	// kafkaprom.Calls makes metrics of them.
	Calls func(kafkaio.Call)

	Logger *slog.Logger // for changes of state; nil is slog.Default()
}

func (c *Config) setDefaults() {
	names := schemas.DefaultTopicNames()
	c.Topics.Requests = cmp.Or(c.Topics.Requests, names.Requests)
	c.Topics.Decisions = cmp.Or(c.Topics.Decisions, names.Decisions)
	c.PartitionKey = cmp.Or(c.PartitionKey, schemas.DefaultPartitionKey())
	c.Drain = cmp.Or(max(c.Drain, 0), DefaultDrain)
	c.Backlog = cmp.Or(max(c.Backlog, 0), DefaultBacklog)
	c.MaxDelay = max(cmp.Or(max(c.MaxDelay, 0), DefaultMaxDelay), minDelay)
	c.Retry = cmp.Or(max(c.Retry, 0), DefaultRetry)
	c.Canary = cmp.Or(c.Canary, DefaultCanary)
	if c.Watch == nil {
		c.Watch = nobody{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

// Client returns the client of Kafka that a Link makes for itself, for a program that does more with it: as Log it is that of the Link,
// too. The caller closes it, after the Link. It does no I/O.
func (c Config) Client() *kafkaio.Client {
	c.setDefaults()
	return kafkaio.New(c.kafka())
}

func (c *Config) kafka() kafkaio.Config {
	return kafkaio.Config{
		Brokers: c.Brokers, ClientID: c.ClientID, Topics: []string{c.Topics.Requests, c.Topics.Decisions},
		TLS: c.TLS, SASL: c.SASL, Observe: c.Calls,
	}
}
