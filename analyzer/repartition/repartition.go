package repartition

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Config configures a Repartitioner.
type Config struct {
	Fold    fold.Options // Key is both topics'; Partitions is From's
	From    string       // topic of requests to read
	To      string       // topic of requests to write, which must be another
	Targets int          // partitions of To
	Follow  bool         // go on when all that From held at the start is written
	Logger  *slog.Logger // nil discards
}

// Repartitioner writes the requests of one topic to another with another number of partitions, each entry that would be
// counted there once. Make one with New and call Run once; Behind may be called from any goroutine.
type Repartitioner struct {
	log    kafkaio.Log
	config Config
	behind []atomic.Int64 // records, by partition
}

// New returns a repartitioner that has done nothing yet.
func New(log kafkaio.Log, c Config) *Repartitioner {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Fold.Partitions = max(c.Fold.Partitions, 1)
	if c.Fold.Key == (schemas.PartitionKey{}) {
		c.Fold.Key = schemas.DefaultPartitionKey()
	}
	return &Repartitioner{log: log, config: c, behind: make([]atomic.Int64, c.Fold.Partitions)}
}

// Behind returns how many records are still to be read, as far as is known.
func (r *Repartitioner) Behind() int64 {
	var sum int64
	for i := range r.behind {
		sum += r.behind[i].Load()
	}
	return sum
}

// Run reads all partitions until ctx ends, or without Config.Follow until everything is written that was there at the
// start. It waits for as long as the brokers are away.
//
// Errors: kafkaio.ErrTruncated where the topic is no longer the one that was read, and what the brokers answer that is not
// temporary.
func (r *Repartitioner) Run(ctx context.Context) error {
	if r.config.From == r.config.To || r.config.Targets < 1 {
		return fmt.Errorf("repartition %s to %d partitions of %s: want another topic, and at least one", r.config.From, r.config.Targets, r.config.To)
	}
	g, ctx := errgroup.WithContext(ctx)
	for p := range r.config.Fold.Partitions {
		g.Go(func() error {
			err := newPartition(r, p).run(ctx)
			if err == nil || ctx.Err() != nil {
				return nil //nolint:nilerr // to be stopped is no failure
			}
			return fmt.Errorf("repartition partition %d: %w", p, err)
		})
	}
	return g.Wait()
}
