package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// audit compares what the generator sent with what the log says and what the store holds, to the unit.
type audit struct {
	Generator int64    `json:"generator"`
	Log       int64    `json:"log"`
	Store     int64    `json:"store"`
	Wrong     []string `json:"wrong,omitempty"`
}

// logCount is what the log says of one caller.
type logCount struct{ admitted, blocked int64 }

// summarize audits a demo that has stopped, and sums it up.
func (d *demo) summarize(ctx context.Context) (*demoSummary, error) {
	logged, err := readLog(ctx, d.client, d.config.partitions)
	if err != nil {
		return nil, fmt.Errorf("audit the log: %w", err)
	}
	stored, worst, err := d.readStores()
	if err != nil {
		return nil, fmt.Errorf("audit the store: %w", err)
	}
	s := &demoSummary{Type: "summary", Closed: []demoClosed{}, HotPath: d.hotPath()}
	for _, c := range d.load.callers {
		t := c.totals()
		s.Requests += t.requests()
		s.Audit.compare(c.id, t, logged[c.id], stored[c.id])
		caller := "key:" + c.id
		if d.closes.closes[caller] == 0 {
			continue
		}
		s.Closed = append(s.Closed, demoClosed{
			Caller: caller, Admitted: t.admitted, Blocked: t.blocked, Closes: d.closes.closes[caller],
			Overshoot: max(worst[c.id], d.closes.worst[caller]),
		})
		if !c.reached(d.config.limit, d.config.window) {
			s.Innocents++
		}
	}
	for id := range logged {
		if !slices.ContainsFunc(d.load.callers, func(c *caller) bool { return c.id == id }) {
			s.Audit.Wrong = append(s.Audit.Wrong, fmt.Sprintf("%s: in the log, but never sent", id))
		}
	}
	s.Lag = quantiles(d.closes.lags)
	s.Canaries = d.canaryLag()
	return s, nil
}

// compare audits one caller. A request without an answer may have been counted or not.
func (a *audit) compare(id string, t loadTotals, logged logCount, stored int64) {
	a.Generator += t.requests()
	a.Log += logged.admitted + logged.blocked
	a.Store += stored
	sum := logged.admitted + logged.blocked
	switch {
	case t.failed > 0:
		a.Wrong = append(a.Wrong, fmt.Sprintf("%s: %d requests had no answer", id, t.failed))
	case logged.admitted != t.admitted || logged.blocked != t.blocked:
		a.Wrong = append(a.Wrong, fmt.Sprintf("%s: generator saw %d admitted and %d blocked, the log %d and %d",
			id, t.admitted, t.blocked, logged.admitted, logged.blocked))
	case stored != sum:
		a.Wrong = append(a.Wrong, fmt.Sprintf("%s: the log holds %d requests, the store %d", id, sum, stored))
	}
}

// readLog counts the requests topic without the analyzer's help: by hand, each frame once.
func readLog(ctx context.Context, client *kafkaio.Client, partitions int) (map[string]logCount, error) {
	topic := kafkaio.DefaultTopicNames().Requests
	counts := make(map[string]logCount)
	type frameID struct {
		producer schemas.ProducerID
		seq      uint64
	}
	for p := range partitions {
		seen := make(map[frameID]bool)
		next, end, err := client.Range(ctx, topic, p)
		if err != nil {
			return nil, err
		}
		for next < end {
			b, err := client.Fetch(ctx, kafkaio.FetchRequest{Topic: topic, Partition: p, Offset: next, MaxBytes: 4 << 20})
			if err != nil {
				return nil, err
			}
			for _, r := range b.Records {
				var f schemas.Frame
				if err := f.Decode(r.Value); err != nil {
					return nil, fmt.Errorf("partition %d, offset %d: %w", p, r.Offset, err)
				}
				if id := (frameID{f.Producer, f.Seq}); !seen[id] {
					seen[id] = true
					countFrame(counts, &f)
				}
			}
			next = b.Next
		}
	}
	return counts, nil
}

func countFrame(counts map[string]logCount, f *schemas.Frame) {
	for i := range f.Entries {
		e := &f.Entries[i]
		if e.Kind != "key" {
			continue
		}
		n := counts[e.ID]
		if e.Blocked {
			n.blocked += int64(e.Count)
		} else {
			n.admitted += int64(e.Count)
		}
		counts[e.ID] = n
	}
}

// readStores returns all requests that the stores hold of each caller, and the overshoot of its last close.
func (d *demo) readStores() (stored map[string]int64, worst map[string]float64, err error) {
	partitions, err := openStores(d.storeDir(), d.rules)
	if err != nil {
		return nil, nil, err
	}
	stored, worst = make(map[string]int64), make(map[string]float64)
	for _, sp := range partitions {
		sp.fold.Rows(sp.fold.LogTime(), func(r analyzer.Row) bool {
			if r.Rule.Name == auditRule {
				stored[r.ID] += r.Total
			} else if r.Closure.Nth > 0 {
				worst[r.ID] = r.Closure.Overshoot(r.Rule, r.Limit)
			}
			return true
		})
	}
	return stored, worst, nil
}

// hotPath measures what the gate adds to a request, in nanoseconds: naming its caller and checking it, over a batch of
// quiet callers while noisy ones may be closed.
func (d *demo) hotPath() float64 {
	const rounds = 200_000
	set := d.servers[0].set
	g := set.Gate("key")
	ids := make([]string, 0, 256)
	for i := range 256 {
		ids = append(ids, d.load.callers[i%len(d.load.callers)].id)
	}
	closed := 0
	start := time.Now()
	for i := range rounds {
		var c gate.Callers
		c.Add(g, ids[i&255])
		if set.Check(&c).Closed {
			closed++
		}
	}
	took := time.Since(start)
	if closed > rounds {
		panic("BUG: more verdicts than checks")
	}
	return float64(took.Nanoseconds()) / rounds
}

// canaryLag is what the links measured themselves, all through the demo: of the servers, the worst.
func (d *demo) canaryLag() demoLag {
	var worst demoLag
	for _, s := range d.servers {
		l := s.link.Stats().Lag
		worst.P50 = max(worst.P50, float64(l.P50.Microseconds())/1000)
		worst.P99 = max(worst.P99, float64(l.P99.Microseconds())/1000)
		worst.Samples += int(l.Samples)
	}
	return worst
}

// quantiles returns nearest-rank quantiles in milliseconds; zero where nothing was measured.
func quantiles(lags []time.Duration) demoLag {
	if len(lags) == 0 {
		return demoLag{}
	}
	slices.Sort(lags)
	at := func(q float64) float64 {
		return float64(lags[min(len(lags)-1, int(q*float64(len(lags))))].Microseconds()) / 1000
	}
	return demoLag{P50: at(0.50), P99: at(0.99), Samples: len(lags)}
}
