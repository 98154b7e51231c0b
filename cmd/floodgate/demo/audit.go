package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Audit compares three counts of the same requests, to the unit: the generator's, the log's and the store's. Callers that a person has
// reset are left out of all three.
type Audit struct {
	Generator int64    `json:"generator"`
	Log       int64    `json:"log"`
	Store     int64    `json:"store"`
	Wrong     []string `json:"wrong,omitempty"`
	Reset     []string `json:"reset,omitempty"` // callers that are left out
}

// logCount is the count of one caller in the log.
type logCount struct{ admitted, blocked int64 }

// summarize audits a demo that has stopped, and sums it up.
func (d *installation) summarize(ctx context.Context) (*Summary, error) {
	logged, err := readLog(ctx, d.client, d.config.Partitions)
	if err != nil {
		return nil, fmt.Errorf("audit the log: %w", err)
	}
	stored, last, err := d.readStores()
	if err != nil {
		return nil, fmt.Errorf("audit the store: %w", err)
	}
	decided, err := readDecided(ctx, d.client)
	if err != nil {
		return nil, fmt.Errorf("audit what was decided by hand: %w", err)
	}
	s := &Summary{Type: "summary", Closed: []Closed{}, HotPath: d.hotPath()}
	for _, c := range d.load.callers {
		t := c.totals()
		s.Requests += t.requests()
		caller := "key:" + c.id
		if decided.reset[c.id] {
			s.Audit.Reset = append(s.Audit.Reset, caller)
		} else {
			s.Audit.compare(c.id, t, logged[c.id], stored[c.id])
		}
		if d.closes.closes[caller] == 0 {
			continue
		}
		s.Closed = append(s.Closed, Closed{
			Caller: caller, Admitted: t.admitted, Blocked: t.blocked, Closes: d.closes.closes[caller],
			Overshoot: max(last[c.id].overshoot, d.closes.worst[caller]),
		})
		if innocent := !c.noisy; !decided.closed[c.id] && (d.config.Fair && innocent || !d.config.Fair && !c.reached(d.config.Limit, d.config.Window)) {
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
	s.Accuracy = d.closes.accuracy(last)
	if d.config.Fair {
		s.Fair = d.fair(d.began)
	}
	return s, nil
}

// compare audits one caller. A request without an answer may have been counted or not.
func (a *Audit) compare(id string, t totals, logged logCount, stored int64) {
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

// readLog counts the requests topic without the analyzer's code, each frame once.
func readLog(ctx context.Context, client *kafkaio.Client, partitions int) (map[string]logCount, error) {
	topic := schemas.DefaultTopicNames().Requests
	counts := make(map[string]logCount)
	type frameID struct {
		producer schemas.ProducerID
		seq      uint64
	}
	for p := range partitions {
		seen := make(map[frameID]bool)
		cursor := kafkaio.NewCursor(client, kafkaio.CursorConfig{Topic: topic, Partition: p, Offset: kafkaio.Earliest, MaxBytes: 4 << 20})
		_, end, err := cursor.Range(ctx)
		if err != nil {
			return nil, err
		}
		if err := cursor.Scan(ctx, end, func(b *kafkaio.Batch) error {
			for _, r := range b.Records {
				var f schemas.Frame
				if err := f.Decode(r.Value); err != nil {
					return fmt.Errorf("partition %d, offset %d: %w", p, r.Offset, err)
				}
				if id := (frameID{f.Producer, f.Seq}); !seen[id] {
					seen[id] = true
					countFrame(counts, &f)
				}
			}
			return nil
		}); err != nil {
			return nil, err
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

// lastClose is the last close of a caller: when it began, in Unix nanoseconds, and its overshoot.
type lastClose struct {
	at        int64
	overshoot float64
}

// readStores returns, for each caller, the requests that the stores have counted, and its last close.
func (d *installation) readStores() (stored map[string]int64, last map[string]lastClose, err error) {
	stored, last = make(map[string]int64), make(map[string]lastClose)
	for p := range d.config.Partitions {
		dir := filepath.Join(d.storeDir(), strconv.Itoa(p))
		if !store.Exists(dir) { // Inspect would create an empty store
			return nil, nil, fmt.Errorf("partition %d: got no store in %s, want what its owner counted", p, dir)
		}
		counts, _, err := analyzer.Inspect(dir, d.rules, fold.Options{})
		if err != nil {
			return nil, nil, fmt.Errorf("partition %d: %w", p, err)
		}
		counts.View().Rows(counts.LogTime(), func(r fold.Row) bool {
			if r.Rule.Name == auditRule {
				stored[r.ID] += r.Total
			} else if r.Closure.Nth > 0 {
				last[r.ID] = lastClose{r.Closure.CloseAt, r.Closure.Overshoot(r.Rule, r.Limit)}
			}
			return true
		})
	}
	return stored, last, nil
}

// hotPath measures what the gate adds to a request, in nanoseconds: to name its caller and to check it. It takes a batch of quiet
// callers, while noisy ones may be closed.
func (d *installation) hotPath() float64 {
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

// canaryLag is the lag that the links measured during the whole demo, of the worst server.
func (d *installation) canaryLag() Lag {
	var worst Lag
	for _, s := range d.servers {
		l := s.link.Stats().Lag
		worst.P50 = max(worst.P50, float64(l.P50.Microseconds())/1000)
		worst.P99 = max(worst.P99, float64(l.P99.Microseconds())/1000)
		worst.Samples += int(l.Samples)
	}
	return worst
}

// quantiles returns nearest-rank quantiles in milliseconds, or zero without samples.
func quantiles(lags []time.Duration) Lag {
	if len(lags) == 0 {
		return Lag{}
	}
	slices.Sort(lags)
	at := func(q float64) float64 {
		return float64(lags[min(len(lags)-1, int(q*float64(len(lags))))].Microseconds()) / 1000
	}
	return Lag{P50: at(0.50), P99: at(0.99), Samples: len(lags)}
}
