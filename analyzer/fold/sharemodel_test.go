package fold

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// shareLoop is one caller at a few servers, their gates, and a lag around a fold, in virtual time. It is the model of package gate
// that shares need: each gate keeps the newest share until the next one begins, and knows how many requests it had at each
// millisecond of its clock.
type shareLoop struct {
	t       foldtest.T
	fold    *Fold
	lag     int64
	now     int64 // Unix nanoseconds
	servers []*modelGate
	toLog   []modelFrame // on their way to the fold
	log     []Record     // all that came
	toGates []modelWord  // on their way to the gates
	words   []schemas.Decision
	changes []Change
	flushed int64
}

type modelFrame struct {
	at  int64
	rec Record
}

type modelWord struct {
	at int64
	d  schemas.Decision
}

// modelGate is one server and its gate.
type modelGate struct {
	skew     int64
	seq      uint64
	entries  []schemas.Entry
	word     schemas.Decision // the newest
	shares   []modelShare
	demand   map[int64]int64 // by 10 ms of its clock
	admitted map[int64]int64 // by 10 ms of its clock
	since    int64           // it measures from here on
}

// modelShare is a gate's part of a share.
type modelShare struct {
	schemas.Share
	part   float64 // permits a period
	period int64   // the one in which spent was spent
	spent  float64
}

func newShareLoop(t foldtest.T, servers int, lag time.Duration, skew int64, rule string, predict rules.Predict) *shareLoop {
	t.Helper()
	l := &shareLoop{t: t, fold: New(foldtest.Rules(t, rule), Options{Predict: predict, NoStore: true}), lag: int64(lag), now: frameNow / second * second}
	l.flushed = l.now
	for i := range servers {
		l.servers = append(l.servers, &modelGate{
			skew: skew * int64(2*i-servers+1), demand: make(map[int64]int64), admitted: make(map[int64]int64), since: -1,
		})
	}
	return l
}

const tick = 10 * millisecond

// run sends requests as they come at random at a rate a second for some time, to servers by weights, which may change.
func (l *shareLoop) run(rng *rand.Rand, rate float64, length time.Duration, weights func(at int64) []float64) {
	end := l.now + int64(length)
	for next := l.now; ; {
		next += int64(rng.ExpFloat64() / rate * float64(second))
		for ; l.flushed+5*millisecond <= min(next, end); l.flushed += 5 * millisecond {
			l.flush(max(l.flushed, l.now))
		}
		if next > end {
			l.now = end
			return
		}
		l.now = next
		of := weights(next)
		draw, at := rng.Float64(), 0
		for ; at < len(of)-1 && draw >= of[at]; at++ {
			draw -= of[at]
		}
		l.servers[at].request(next)
	}
}

// evenly sends to all servers alike.
func (l *shareLoop) evenly(int64) []float64 {
	w := make([]float64, len(l.servers))
	for i := range w {
		w[i] = 1 / float64(len(w))
	}
	return w
}

// flush lets frames and decisions go and come.
func (l *shareLoop) flush(now int64) {
	for i, g := range l.servers {
		if now%second < 5*millisecond {
			g.entries = append(g.entries, schemas.Entry{Time: now + g.skew, Kind: schemas.KindCanary, ID: fmt.Sprint(i), Count: 1, Cost: l.lag})
		}
		if len(g.entries) == 0 {
			continue
		}
		g.seq++
		fr := foldtest.Frame(g.seq, now+g.skew, g.entries...)
		fr.Producer = foldtest.Producer(i + 1)
		l.toLog = append(l.toLog, modelFrame{now + l.lag/2, Record{Time: now + g.skew, Value: foldtest.Encode(l.t, fr)}})
		g.entries = g.entries[:0]
	}
	folded := false
	for len(l.toLog) > 0 && l.toLog[0].at <= now {
		rec := l.toLog[0].rec
		rec.Offset = int64(len(l.log))
		l.toLog, l.log, folded = l.toLog[1:], append(l.log, rec), true
		if err := l.fold.Frame(rec); err != nil {
			l.t.Fatal(err)
		}
	}
	if folded {
		l.decide(now)
	}
	for len(l.toGates) > 0 && l.toGates[0].at <= now {
		for _, g := range l.servers {
			g.receive(l.toGates[0].d, now)
		}
		l.toGates = l.toGates[1:]
	}
}

// decide publishes what the fold has decided, as the owner of a partition does: the newest word about the caller.
func (l *shareLoop) decide(now int64) {
	for _, c := range l.fold.TakeChanges() {
		if c.Kind == policy.Same {
			continue
		}
		l.changes = append(l.changes, c)
		if !c.Covered {
			d := policy.Decision(c.Rule, c.Caller, c.Closure, c.At, c.Limit, c.Count)
			d.Next, d.Share = c.Next, c.Share
			l.send(now, d)
		}
	}
	for _, p := range l.fold.TakePlans() {
		l.send(now, p.Decision)
	}
}

func (l *shareLoop) send(now int64, d schemas.Decision) {
	d.Epoch, d.Seq = 1, uint64(len(l.words))+1
	if _, err := pb.AppendDecision(nil, &d); err != nil {
		l.t.Fatalf("%v of %+v", err, d)
	}
	l.words = append(l.words, d)
	l.toGates = append(l.toGates, modelWord{now + l.lag/2, d})
}

// receive takes a decision over.
func (g *modelGate) receive(d schemas.Decision, at int64) {
	now := at + g.skew
	before := g.word.Share
	g.word = d
	if d.Share == nil {
		g.shares, g.since = nil, -1
		return
	}
	if g.since < 0 {
		g.since = now
	}
	if before != nil && *before == *d.Share {
		return
	}
	s := modelShare{Share: *d.Share, period: -1}
	if own := g.measured(d.Share.DemandFrom, d.Share.DemandUntil); d.Share.DemandFrom >= g.since && own > 0 {
		s.part = float64(d.Share.Permits) * float64(own) / float64(d.Share.Demand)
	} else {
		s.part = 1
	}
	for len(g.shares) > 0 && g.shares[0].Until <= now {
		g.shares = g.shares[1:]
	}
	if n := len(g.shares); n > 0 && g.shares[n-1].From > now {
		g.shares = g.shares[:n-1] // the newest takes its place
	}
	if s.From < now && len(g.shares) > 0 {
		s.From += (1 + (now-s.From-1)/s.Period) * s.Period
	}
	g.shares = append(g.shares, s)
}

// measured returns the demand of a time, in ticks.
func (g *modelGate) measured(from, until int64) (sum int64) {
	for at := from; at < until; at += tick {
		sum += g.demand[at/tick]
	}
	return sum
}

// request is one request.
func (g *modelGate) request(at int64) {
	now := at + g.skew
	e := schemas.Entry{Time: now, Kind: "key", ID: "a", Count: 1}
	for _, s := range []schemas.Span{{CloseAt: g.word.CloseAt, Until: g.word.Until, Early: g.word.Early}, g.word.Next} {
		if s.Covers(now) {
			e.Blocked, e.Early = true, s.Early
		}
	}
	if !e.Blocked {
		e.Blocked = !g.spend(now)
	}
	g.demand[now/tick]++
	if !e.Blocked {
		g.admitted[now/tick]++
	}
	g.entries = append(g.entries, e)
}

// spend takes a permit of the share in force, if there is one. Fractions are saved for the next period.
func (g *modelGate) spend(now int64) bool {
	var s *modelShare
	for i := range g.shares {
		if g.shares[i].Covers(now) {
			s = &g.shares[i]
		}
	}
	if s == nil {
		return true
	}
	if n := now / s.Period; n != s.period {
		whole := float64(int64(s.part))
		s.spent, s.period = -float64(int64((s.part-whole)*float64(n+1))-int64((s.part-whole)*float64(n))), n
	}
	if s.spent+1 > float64(int64(s.part)) {
		return false
	}
	s.spent++
	return true
}

// admitted returns what all gates have admitted in a time.
func (l *shareLoop) admitted(from, until int64) (sum int64) {
	for _, g := range l.servers {
		for at := from; at < until; at += tick {
			sum += g.admitted[at/tick]
		}
	}
	return sum
}

// shared returns the words with shares that come into force: those that only announce do not.
func (l *shareLoop) shared() (list []schemas.Decision) {
	for _, d := range l.words {
		if d.Share != nil && d.Share.Until > d.Share.From+1 && (len(list) == 0 || *list[len(list)-1].Share != *d.Share) {
			list = append(list, d)
		}
	}
	return list
}
