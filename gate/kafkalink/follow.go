package kafkalink

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Handler takes what followers read. Each partition has a follower of its own, so calls about several partitions may come at
// the same time; those about one partition come one after the other, in the order of the log. The follower waits for each
// call: it must return quickly.
type Handler interface {
	// Partitions says how many partitions there are: before all other calls, and when the number has changed.
	Partitions(n int)

	// Decisions are the next ones of a partition that count: schemas.Fence has refused those of replaced owners, and canaries
	// are left out. There are 1 to 1024, and the slice is valid during the call only. now is when they were read; no decision
	// lasts longer than schemas.MaxClosure after it.
	Decisions(partition int, ds []schemas.Decision, now time.Time)

	// Heartbeat is one that counts. It comes after the decisions before it.
	Heartbeat(h *schemas.Heartbeat, now time.Time)

	// CaughtUp says that all was read that the partition held when its follower began. It is called once for each partition
	// after Partitions, for an empty one too.
	CaughtUp(partition int)

	// Refused says that n records do not count; reason is of decisions.Reason, or a kafkaio.SkipReason.
	Refused(partition int, reason string, n uint64)

	// Restarted says that a follower lost its place, and looks for the newest heartbeat again. Decisions may then come again.
	Restarted(partition int)
}

// FollowConfig says which decisions Follow reads. Brokers is needed; the zero value of the rest is ready to use.
type FollowConfig struct {
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

// followRun is one run of Follow.
type followRun struct {
	FollowConfig
	client  client
	handler Handler
	health  *health
}

// Follow reads all partitions of decisions until ctx ends, by the rules of schemas/DECISIONS.md, and gives what counts to h. It
// needs no Set and records nothing.
//
// While Kafka cannot be reached it tries again, and says so in the log once. The error is nil when ctx has ended. It is
// kafkaio.ErrNoBrokers without brokers, and with Once the first error of Kafka. All goroutines have ended when it returns.
func Follow(ctx context.Context, c FollowConfig, h Handler) error {
	if len(c.Brokers) == 0 {
		return kafkaio.ErrNoBrokers
	}
	k := kafkaio.New(kafkaio.Config{Brokers: c.Brokers, ClientID: c.ClientID, TLS: c.TLS, SASL: c.SASL})
	defer k.Close()
	return follow(ctx, c, k, h)
}

func follow(ctx context.Context, c FollowConfig, k client, h Handler) error {
	c.Topic = cmp.Or(c.Topic, schemas.DefaultTopicNames().Decisions)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	f := &followRun{FollowConfig: c, client: k, handler: h, health: &health{logger: c.Logger, name: "follower of decisions"}}
	if err := f.loop(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// loop follows, with as many followers as there are partitions. When ctx ends it returns an error or not.
func (f *followRun) loop(ctx context.Context) error {
	for announced := 0; ; {
		n, err := f.partitions(ctx)
		if err != nil {
			return err
		}
		if n != announced {
			announced = n
			f.handler.Partitions(n)
		}
		if err := f.run(ctx, n); f.Once || ctx.Err() != nil {
			return err
		}
	}
}

// partitions returns how many partitions the topic has. Unless Once is set it waits until Kafka can be reached.
func (f *followRun) partitions(ctx context.Context) (int, error) {
	var wait kafkaio.Backoff
	for {
		n, err := f.askPartitions(ctx)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		f.health.note("find topics", err)
		if err == nil || f.Once {
			return n, err
		}
		if err := wait.Pause(ctx); err != nil {
			return 0, err
		}
	}
}

var errNoPartition = errors.New("topic without partitions")

func (f *followRun) askPartitions(ctx context.Context) (int, error) {
	n, err := f.client.Partitions(ctx, f.Topic)
	if err == nil && n <= 0 {
		err = fmt.Errorf("%w: got %d in %s", errNoPartition, n, f.Topic)
	}
	return n, err
}

// run follows n partitions until ctx ends, the number changes or, with Once, all have caught up.
func (f *followRun) run(ctx context.Context, n int) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var watching sync.WaitGroup
	if !f.Once {
		watching.Go(func() { f.watch(ctx, n, end) })
	}
	reading, each := errgroup.WithContext(ctx)
	for p := range n {
		reading.Go(func() error {
			return newFollower(f.client, followerConfig{
				topic: f.Topic, partition: p, handler: f.handler, health: f.health, logger: f.Logger, once: f.Once,
			}).run(each)
		})
	}
	err := reading.Wait()
	end()
	watching.Wait()
	return err
}

// watch ends a run when the topic has another number of partitions.
func (f *followRun) watch(ctx context.Context, n int, end func()) {
	for kafkaio.Sleep(ctx, watchInterval) == nil {
		if now, err := f.askPartitions(ctx); err == nil && now != n {
			f.Logger.Info("topic of decisions changed", "partitions", now, "before", n)
			end()
			return
		}
	}
}
