package analyzer

import (
	"context"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/timejudge"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// clockGuard keeps messages from the future out of the fold where the brokers bound no times (OwnerConfig.JudgeTimes), and
// stops the owner while its own clock is wrong. Only the owner's goroutine may use it, but for wrong.
type clockGuard struct {
	ledger   *ledger
	log      kafkaio.Fetcher
	refusals *refusalLog
	born     time.Time   // zero of the steady clock
	wrong    atomic.Bool // our clock seems to be behind
	from     int64       // messages before this offset were folded by others, if they are not on the list

	judge timejudge.Judge
	named map[schemas.ProducerID]bool // producers that were logged
}

// Bounds of a clockGuard.
const (
	maxNamed  = 100 // producers that one owner logs
	clockPoll = 250 * time.Millisecond
)

func (g *clockGuard) now() timejudge.Instant {
	return timejudge.Instant{Wall: g.ledger.config.Clock().UnixNano(), Steady: time.Since(g.born)}
}

// admit puts messages from the future on the list of refusals, before the batch is folded. While our own clock is wrong it
// waits.
func (g *clockGuard) admit(ctx context.Context, b *kafkaio.Batch) error {
	l := g.ledger
	l.fold.Refusals().Prune(min(b.LogStart, l.next.Load()))
	if !l.config.JudgeTimes || len(b.Records) == 0 {
		return nil
	}
	isNew := func(offset int64) bool { return offset >= g.from && !l.fold.Refusals().Has(offset) }
	g.judge.Listen(b.Records, g.now())
	for next := b.Next; ; {
		at := g.now()
		v := g.judge.Judge(b.Records, isNew, at)
		g.note(&v)
		if !v.Stop {
			return g.refuse(ctx, b.Records, v.Refused, at)
		}
		if err := kafkaio.Sleep(ctx, clockPoll); err != nil {
			return err
		}
		next = g.listenAhead(ctx, next)
	}
}

// listenAheadBy is how many records before the log's end are read to learn which producers send at present.
const listenAheadBy = 1000

// listenAhead listens to newer messages, without folding them, and returns the offset behind them. A log that cannot be
// read now is read later.
func (g *clockGuard) listenAhead(ctx context.Context, next int64) int64 {
	c := &g.ledger.config
	_, end, err := g.log.Range(ctx, c.Requests, c.Fold.Partition)
	from := max(next, end-listenAheadBy)
	if err != nil || from >= end {
		return next
	}
	b, err := kafkaio.NewCursor(g.log, kafkaio.CursorConfig{
		Topic: c.Requests, Partition: c.Fold.Partition, Offset: from, MaxWait: clockPoll, MaxBytes: fetchBytes,
		SameTopic: true, Retry: kafkaio.Never,
	}).Next(ctx)
	if err != nil {
		return next
	}
	g.judge.Listen(b.Records, g.now())
	return max(next, b.Next)
}

// poll finds out that our clock is right again, or that no producer is left to show that it is wrong.
func (g *clockGuard) poll() {
	if !g.ledger.config.JudgeTimes {
		return
	}
	v := g.judge.Poll(g.now())
	g.note(&v)
}

// note logs once that our clock seems to be wrong, and once that it is right again.
func (g *clockGuard) note(v *timejudge.Verdict) {
	wrong := v.Wrong()
	if g.wrong.Swap(wrong) == wrong {
		return
	}
	switch logger := g.ledger.logger; {
	case v.Stop, v.Outvoted():
		logger.Error("this machine's clock is behind that of most servers: nothing is counted until it is right",
			"ahead", v.Ahead, "producers", v.Voters)
	case wrong:
		logger.Error("all servers' clocks are ahead of this machine's: their requests are refused", "producers", v.Voters)
	default:
		logger.Info("this machine's clock is right again")
	}
}

// refuse records which messages of a batch are refused, and logs their producers.
func (g *clockGuard) refuse(ctx context.Context, records []kafkaio.Record, indexes []int, at timejudge.Instant) error {
	if len(indexes) == 0 {
		return nil
	}
	offsets := make([]int64, len(indexes))
	for n, i := range indexes {
		offsets[n] = records[i].Offset
		g.name(&records[i], at)
	}
	return g.refusals.add(ctx, offsets)
}

// name logs once for each producer that its clock is ahead.
func (g *clockGuard) name(r *kafkaio.Record, at timejudge.Instant) {
	id, _ := schemas.FrameProducer(r.Value)
	if g.named[id] || len(g.named) >= maxNamed {
		return
	}
	if g.named == nil {
		g.named = make(map[schemas.ProducerID]bool)
	}
	g.named[id] = true
	logger := g.ledger.logger
	logger.Error("refused a message from the future: its server's clock is ahead, or somebody forges",
		"producer", hex.EncodeToString(id[:]), "offset", r.Offset, "time", time.Unix(0, r.Time).UTC(), "now", time.Unix(0, at.Wall).UTC())
	if len(g.named) == maxNamed {
		logger.Error("naming no more producers whose clocks are ahead; the topic of rejects shows them", "named", maxNamed)
	}
}
