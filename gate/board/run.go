package board

import (
	"context"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
)

// expireEvery is how often Run looks for closures that have ended.
const expireEvery = 250 * time.Millisecond

// Run fills the board from the topic of decisions until ctx ends. It returns what kafkalink.Follow returns. One Run at a time.
func (b *Board) Run(ctx context.Context, c kafkalink.FollowConfig) error {
	expiring, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(expireEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				b.Expire(now)
			case <-expiring.Done():
				return
			}
		}
	})
	defer wait.Wait()
	defer stop()
	return kafkalink.Follow(ctx, c, newFeed(b))
}

// newFeed returns the Handler that fills a board, for kafkalink.Follow.
func newFeed(b *Board) kafkalink.Handler { return feed{b} }

type feed struct{ board *Board }

func (f feed) Partitions(n int) { f.board.Resize(n) }

func (f feed) Decisions(_ int, ds []schemas.Decision, now time.Time) { f.board.Apply(ds, now) }

func (f feed) Heartbeat(h *schemas.Heartbeat, now time.Time) { f.board.Beat(h, now) }

func (f feed) CaughtUp(partition int) { f.board.Loaded(partition) }

func (f feed) Refused(_ int, reason string, n uint64) {
	f.board.mu.Lock()
	defer f.board.mu.Unlock()
	if f.board.counts.refused == nil {
		f.board.counts.refused = map[string]uint64{}
	}
	f.board.counts.refused[reason] += n
}

func (f feed) Restarted(int) {
	f.board.mu.Lock()
	defer f.board.mu.Unlock()
	f.board.counts.restarts++
}
