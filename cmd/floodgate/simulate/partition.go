package simulate

import (
	"encoding/binary"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
)

// partition is one partition of the log with its analyzer.
type partition struct {
	w          *world
	index      int
	fold       *fold.Fold
	newFold    func() *fold.Fold
	offset     int64 // of the next record
	toAnalyzer orderedWay
	queue      outbox.Queue
	canaries   []schemas.Entry // to be answered
	publishAt  int64           // when a look at the queue is planned, in Unix nanoseconds; 0: none is
	producing  bool
	measured   int64 // when the analyzer got the lag, if it is known

	pools    *outbox.Pools
	toLog    []orderedWay // of tallies and levels, by partition
	stops    []Stop       // of this partition alone
	restarts int
	levels   []fold.PoolLevel // that this partition has made

	keeps    bool // what a restart needs
	counted  []fold.Record
	believed map[outbox.Key]schemas.Decision // by gates
}

// published is what one produce has put into the topic of decisions.
type published struct {
	decisions []schemas.Decision
	canaries  []schemas.Entry
}

// running returns t, or the end of the stop of the analyzer in which t lies.
func (p *partition) running(t int64) int64 {
	return stopped(p.stops, p.w.ways.start, p.w.ways.running(t))
}

// append puts a frame into the log now. clock is what its server's clock showed when it was sent.
func (p *partition) append(clock int64, value []byte) {
	rec := fold.Record{Offset: p.offset, Time: clock, Value: value}
	p.offset++
	at := p.toAnalyzer.arrive(p.running(p.w.now + p.w.ways.take(p.w.ways.ToAnalyzer, p.w.now)))
	p.w.at(at, func() { p.receive(rec) })
}

// receive folds a record. All records that arrive at one instant are one batch.
func (p *partition) receive(rec fold.Record) {
	if lag := p.w.lagKnown; lag > 0 && (p.measured == 0 || rec.Time-p.measured >= int64(canaryEvery)) {
		p.fold.Measure(rec.Time, lag)
		p.measured = rec.Time
	}
	if p.keeps {
		p.counted = append(p.counted, rec)
	}
	if err := p.fold.Frame(rec); err != nil {
		p.w.fail(fmt.Errorf("fold: %w", err))
		return
	}
	p.canaries = append(p.canaries, p.fold.TakeCanaries()...)
	p.sendPools()
	p.schedulePublish(p.w.now)
}

// sendPools sends tallies and levels, as a server sends requests.
func (p *partition) sendPools() {
	tallies, levels := p.fold.TakePools()
	p.levels = append(p.levels, levels...)
	targets, _ := p.pools.Offer(tallies, levels)
	for _, target := range targets {
		value, err := p.pools.Frame(target, p.w.now)
		if err != nil {
			p.w.fail(err)
			return
		}
		p.pools.Acked(target)
		clock := p.w.now
		p.w.at(p.toLog[target].arrive(clock+p.w.ways.take(p.w.ways.ToLog, clock)), func() { p.w.partitions[target].append(clock, value) })
	}
}

// schedulePublish plans a look at the queue, unless an earlier one is planned.
func (p *partition) schedulePublish(at int64) {
	if p.publishAt != 0 && p.publishAt <= at {
		return
	}
	p.publishAt = at
	p.w.at(at, func() {
		if p.publishAt == at {
			p.publishAt = 0
			p.publish()
		}
	})
}

// publish sends what is due, unless a produce is under way: then it follows when that is acknowledged.
func (p *partition) publish() {
	p.offer()
	if p.producing {
		return
	}
	b := &published{canaries: p.canaries}
	p.canaries = nil
	items := p.queue.Take(p.w.now, maxProduce)
	p.w.watch.publishing(items)
	for _, item := range items {
		if !item.Spared {
			b.decisions = append(b.decisions, item.Decision)
		}
	}
	if len(b.decisions)+len(b.canaries) == 0 {
		if at, ok := p.queue.Due(); ok {
			p.schedulePublish(p.running(max(at, p.w.now+1)))
		}
		return
	}
	p.producing = true
	p.w.at(p.running(p.w.now+p.w.ways.take(p.w.ways.Publish, p.w.now)), func() { p.acknowledged(b) })
}

// maxProduce is how many decisions one produce holds at most.
const maxProduce = 1000

// offer queues what the fold has changed and predicted. The analyzer's clock shows virtual time.
func (p *partition) offer() {
	t := outbox.Terms{Now: p.w.now, AsOf: p.fold.LogTime()}
	if mean, deviation, ok := p.fold.View().Lag(); ok {
		t.Lag, t.Margin, t.Measured = mean, outbox.MarginOf(deviation), mean
	}
	changes := p.fold.TakeChanges()
	p.w.watch.counted(changes)
	p.queue.Offer(changes, p.fold.TakePlans(), t)
}

// acknowledged makes what is in the log now readable for servers.
func (p *partition) acknowledged(b *published) {
	p.w.watch.published(p.w.now, b)
	if p.keeps {
		p.believe(b.decisions)
	}
	for _, s := range p.w.servers {
		at := s.toGate[p.index].arrive(p.w.now + p.w.ways.take(p.w.ways.ToGate, p.w.now))
		p.w.at(at, func() { s.receive(b) })
	}
	p.producing = false
	p.schedulePublish(p.w.now)
}

// takePools makes the partition's analyzer a new producer of tallies and levels.
func (p *partition) takePools() {
	producer := schemas.ProducerID{0xff, byte(p.restarts)}
	binary.BigEndian.PutUint32(producer[2:], uint32(p.index)) // < MaxPartitions
	p.pools = outbox.NewPools(p.w.key, producer, p.index, len(p.w.partitions))
}

// believe notes what gates hold closed.
func (p *partition) believe(decisions []schemas.Decision) {
	if p.believed == nil {
		p.believed = make(map[outbox.Key]schemas.Decision)
	}
	for i := range decisions {
		p.believed[outbox.KeyOf(&decisions[i])] = decisions[i]
	}
}

// restart puts another analyzer in the place of this one. It counts the log again, and then does what an owner does that takes a partition
// over: it opens the callers that gates hold closed by count and that are not closed, and repeats all counted closures. What its
// predecessor has predicted ends by itself.
func (p *partition) restart() {
	p.fold, p.queue, p.canaries = p.newFold(), outbox.Queue{}, nil
	p.restarts++
	p.takePools()
	for _, rec := range p.counted {
		if err := p.fold.Frame(rec); err != nil {
			p.w.fail(fmt.Errorf("fold again: %w", err))
			return
		}
		p.fold.TakeChanges()
		p.fold.TakePlans()
		p.fold.TakeCanaries()
		p.fold.TakePools()
	}
	inForce := outbox.NewInForce(p.w.maxRows)
	for _, d := range inForce.Reconcile(p.believed, p.fold.View().Closures(p.w.now), p.w.now, func(*schemas.Decision) bool { return false }) {
		p.queue.Add(d, outbox.Opened)
	}
	inForce.BeginCycle(p.w.now, 0)
	for _, d := range inForce.Next(inForce.Left(), p.w.now) {
		p.queue.Add(d, outbox.Moved)
	}
	p.schedulePublish(p.w.now)
}
