package kafkaio

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go/protocol/joingroup"
)

// # What proves that no other member has our partitions
//
// A coordinator gives partitions to another member only in a generation with a higher number. Such a generation begins when
// all members have joined or were removed, and when its leader has assigned the partitions (Kafka's protocol guide, "Group
// Membership API"). So the partitions of this member in generation n have no other owner at the moment of the answer, if
// the coordinator answers
//
//	a heartbeat of n        with no error, or "rebalance in progress": n is still the newest, even if members have joined since;
//	an offset commit of n   with no error, for the same reason;
//	an offset commit of n+1 with "rebalance in progress": n+1 is the newest, and its leader has not assigned anything yet.
//
// The third holds only if n+1 is the first generation that the member joined after n, and until its sync is answered: after
// a sync that failed, others may have had partitions of n+1 meanwhile.

// proofs says what can be proved about the last generation of this member.
type proofs struct {
	gen    *Generation
	stop   context.CancelFunc
	direct bool // every generation that was joined after gen has begun
}

// OnProof makes the group call f for each proof of the coordinator that no other member has the partitions of the
// generation that Next returned last. The argument is the time at which the proof was requested: the proof holds for that
// time. While the coordinator answers, there is a proof about every GroupConfig.Heartbeat, also while Next waits for a
// rebalance. The group calls f from its goroutines, from several at a time; f must not block. Call OnProof before Next.
func (g *Group) OnProof(f func(sent time.Time)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.proved = f
}

// proof reports a proof about a generation that Next has returned. Before that, the member may still work on the partitions
// of the previous generation.
func (g *Group) proof(gen *Generation, sent time.Time) {
	g.mu.Lock()
	f := g.proved
	returned := gen.returned
	g.mu.Unlock()
	if f != nil && returned {
		f(sent)
	}
}

// begun starts the heartbeats of a generation, and ends those of the one before.
func (g *Group) begun(ctx context.Context, gen *Generation) {
	ctx, stop := context.WithCancel(ctx)
	g.mu.Lock()
	if g.proofs != nil {
		g.proofs.stop()
	}
	g.proofs = &proofs{gen: gen, stop: stop, direct: true}
	g.mu.Unlock()
	g.wg.Go(func() { g.beat(ctx, gen) })
	if gen.leads && g.config.GrowthCheck > 0 {
		g.wg.Go(func() { g.watchGrowth(ctx, gen) })
	}
}

// beat sends heartbeats until there is a newer generation, also while Next waits for that one: the coordinator then answers
// that a rebalance is in progress.
func (g *Group) beat(ctx context.Context, gen *Generation) {
	defer gen.end()
	tick := time.NewTicker(g.config.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sent := time.Now()
		err := g.heartbeat(ctx, gen.ID, gen.Member)
		if err == nil || changing(err) {
			g.proof(gen, sent)
		}
		if err != nil {
			gen.end()
		}
		if err != nil && !changing(err) && rejoins(err) {
			return // the generation is no longer the newest, or the coordinator has changed
		}
	}
}

// proveWhileSyncing collects proofs of the third kind, while the leader of a new generation has not assigned anything yet,
// and keeps this member's session alive. The caller calls stop when its sync was answered.
func (g *Group) proveWhileSyncing(ctx context.Context, joined *joingroup.Response) (stop func()) {
	g.mu.Lock()
	p := g.proofs
	direct := p != nil && p.direct && p.gen.Member == joined.MemberID && p.gen.ID+1 == joined.GenerationID && len(p.gen.Partitions) > 0
	if p != nil {
		p.direct = false // unless the sync succeeds, and begins a generation
	}
	again := make(map[int]int64)
	if direct { // should the sync end meanwhile, this is stored: it must not be older than what is
		first := p.gen.Partitions[0]
		again[first] = p.gen.newest(first)
	}
	g.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	g.wg.Go(func() {
		defer close(ended)
		tick := time.NewTicker(g.config.Heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			sent := time.Now()
			if !direct {
				_ = g.heartbeat(ctx, joined.GenerationID, joined.MemberID) // the sync returns the error
				continue
			}
			if err := g.commit(ctx, joined.GenerationID, joined.MemberID, again); changing(err) {
				g.proof(p.gen, sent)
			}
		}
	})
	return func() { cancel(); <-ended }
}
