package kafkalink

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Handler gets what readers of partitions find in the decisions topic. Each partition has a reader of its own. So calls about several
// partitions may come at the same time; those about one partition come one after the other, in the order of the log. The reader waits
// for each call: it must return quickly.
type Handler interface {
	// Partitions says how many partitions there are: before all other calls, and when the number has changed.
	Partitions(n int)

	// Decisions gets the next decisions of a partition that count, 1 to 1024 of them: without those of replaced owners, which
	// schemas.Fence refuses, and without answers to canaries. The slice is valid during the call only. now is when they were read; no
	// decision lasts longer than schemas.MaxClosure after it.
	Decisions(partition int, ds []schemas.Decision, now time.Time)

	// Heartbeat gets a heartbeat that counts, after the decisions before it.
	Heartbeat(h *schemas.Heartbeat, now time.Time)

	// CaughtUp says that everything was read that the partition held when its reader began. It is called once for each partition
	// after Partitions, for an empty one too.
	CaughtUp(partition int)

	// Refused says that n records do not count; reason is of decisions.Reason, or a kafkaio.SkipReason.
	Refused(partition int, reason string, n uint64)

	// Restarted says that a reader lost its place, and looks for the newest heartbeat again. Decisions may then come again.
	Restarted(partition int)
}

// FollowConfig says which decisions Follow reads. Brokers or Log is needed; the zero value of the rest is ready to use.
type FollowConfig struct {
	Log      Log      // read in place of Kafka: then Brokers, ClientID, TLS and SASL are not used. Follow does not close it. nil is Kafka
	Brokers  []string // host:port, to find the cluster by
	ClientID string   // shown in the brokers' logs; empty is "floodgate"
	TLS      *tls.Config
	SASL     sasl.Mechanism
	Topic    string // of decisions; empty is the default

	// Once makes Follow return when all partitions have caught up, or at the first error of Kafka: for a command that a person
	// waits for.
	Once bool

	Logger *slog.Logger // for changes of state; nil is slog.Default()
}

// Follow reads all partitions of decisions until ctx ends, by the rules of schemas/DECISIONS.md, and gives what counts to h. It
// needs no Set and records nothing.
//
// While Kafka cannot be reached it tries again, and says so in the log once. The error is nil when ctx has ended. It is
// kafkaio.ErrNoBrokers without Brokers and Log, and with Once the first error of Kafka. All goroutines have ended when it returns.
func Follow(ctx context.Context, c FollowConfig, h Handler) error {
	if c.Log == nil && len(c.Brokers) == 0 {
		return kafkaio.ErrNoBrokers
	}
	log, hangUp := dial(c.Log, kafkaio.Config{Brokers: c.Brokers, ClientID: c.ClientID, TLS: c.TLS, SASL: c.SASL})
	defer hangUp()
	c.Topic = cmp.Or(c.Topic, schemas.DefaultTopicNames().Decisions)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	t := &topics{
		log: log, names: []string{c.Topic}, once: c.Once,
		health: &health{logger: c.Logger, name: "follower of decisions"},
	}
	if err := readTopic(ctx, t, h, nil); ctx.Err() == nil {
		return err
	}
	return nil
}

// readTopic reads the decisions of the first topic, also after its number of partitions has changed. canary gets answers to canaries; nil
// drops them. When ctx ends it returns an error or not.
func readTopic(ctx context.Context, t *topics, h Handler, canary func(*schemas.Decision, time.Time)) error {
	for {
		n, err := t.partitions(ctx)
		if err != nil {
			return err
		}
		h.Partitions(n)
		if err := readPartitions(ctx, t, n, h, canary); t.once || ctx.Err() != nil {
			return err
		}
	}
}

// readPartitions reads n partitions, each with a reader of its own, until ctx ends, the number changes or, with once, all have caught up.
func readPartitions(ctx context.Context, t *topics, n int, h Handler, canary func(*schemas.Decision, time.Time)) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var watching sync.WaitGroup
	if !t.once {
		watching.Go(func() { t.watch(ctx, n, end) })
	}
	reading, each := errgroup.WithContext(ctx)
	for p := range n {
		reading.Go(func() error {
			return newReader(t.log, readerConfig{
				topic: t.names[0], partition: p, handler: h, canary: canary, health: t.health, once: t.once,
			}).run(each)
		})
	}
	err := reading.Wait()
	end()
	watching.Wait()
	return err
}
