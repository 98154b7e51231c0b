package board

import (
	"context"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
)

// Run fills the board from the topic of decisions until ctx ends. It returns what kafkalink.Follow returns. One Run at a time.
func (b *Board) Run(ctx context.Context, c kafkalink.FollowConfig) error {
	expiring, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { b.RunClock(expiring) })
	defer wait.Wait()
	defer stop()
	return kafkalink.Follow(ctx, c, b.Handler())
}

// expireEvery is how often RunClock looks for closures that have ended.
const expireEvery = 250 * time.Millisecond

// RunClock calls Expire until ctx ends. A board that Run does not fill needs it.
func (b *Board) RunClock(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			b.Expire(now)
		case <-ctx.Done():
			return
		}
	}
}

// Handler returns what fills the board. A board that Run does not fill can be the Watch of a Link, so that the topic has one reader.
func (b *Board) Handler() kafkalink.Handler { return feed{b} }

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
