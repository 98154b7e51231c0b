package kafkaio

import (
	"context"
	"time"
)

// watchGrowth ends a generation of which this member is the leader as soon as the topic has more partitions than it has
// assigned. A join of the leader makes the coordinator ask all members to join again. A topic that has become smaller was
// created anew; whoever reads it finds that out from its offsets.
func (g *Group) watchGrowth(ctx context.Context, gen *Generation) {
	tick := time.NewTicker(g.config.GrowthCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gen.ended:
			return
		case <-tick.C:
		}
		partitions, err := g.partitions(ctx, []string{g.config.Topic})
		if err == nil && len(partitions) > gen.assigned {
			gen.end()
			return
		}
	}
}
