package kafkalink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// topics asks how many partitions topics have, which must be one number for all of them.
type topics struct {
	log    Log
	names  []string
	health *health
	once   bool // the first error of Kafka ends the wait for it
}

// errPartitions says that topics have no partitions, or not the same number of them.
var errPartitions = errors.New("topics without partitions, or with different numbers of them")

// partitions returns how many partitions each topic has. It waits until Kafka can be reached, unless once is set.
func (t *topics) partitions(ctx context.Context) (int, error) {
	var wait kafkaio.Backoff
	for {
		n, err := t.ask(ctx)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		t.health.note("find topics", err)
		if err == nil || t.once {
			return n, err
		}
		if err := wait.Pause(ctx); err != nil {
			return 0, err
		}
	}
}

func (t *topics) ask(ctx context.Context) (partitions int, err error) {
	for i, name := range t.names {
		n, err := t.log.Partitions(ctx, name)
		if err != nil {
			return 0, err
		}
		if n <= 0 || i > 0 && n != partitions {
			return 0, fmt.Errorf("%w: got %d in %s and %d in %s", errPartitions, partitions, t.names[0], n, name)
		}
		partitions = n
	}
	return partitions, nil
}

// watchInterval is the time between two checks of the number of partitions.
const watchInterval = 30 * time.Second

// watch calls end when the topics have another number of partitions than n, because callers then hash elsewhere.
func (t *topics) watch(ctx context.Context, n int, end func()) {
	for kafkaio.Sleep(ctx, watchInterval) == nil {
		if now, err := t.ask(ctx); err == nil && now != n {
			t.health.logger.Info("kafka topics changed", "partitions", now, "before", n)
			end()
			return
		}
	}
}
