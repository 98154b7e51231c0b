package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// circuit is one server, the log and an analyzer, for the lines of a replay. It is a replay.Circuit and a watcher. Each decision
// is in force exactly one lag after the request that led to it, and the analyzer knows the lag. One goroutine uses a circuit.
type circuit struct {
	w         *world
	events    replay.Events
	kinds     []string
	isCounted []bool // of kinds: whether some rule counts its callers
	request   Request
	callers   []schemas.Caller
	end       int64 // of the request that ends last
}

// Circuit is a replay.Config's Circuit: a replay with a lag runs with the gates, recorder, fold and outbox of production.
func Circuit(c *replay.Config, events replay.Events) (replay.Circuit, error) {
	circuit := &circuit{events: events, kinds: c.Format.Kinds()}
	kinds := 0
	for _, kind := range circuit.kinds {
		counted := len(c.Rules.ForKind(kind)) > 0
		if circuit.isCounted = append(circuit.isCounted, counted); counted {
			kinds++
		}
	}
	if kinds > gate.MaxCallers {
		return nil, fmt.Errorf("simulate: got rules for %d kinds of callers, want at most %d where there is a lag: a request has no more callers", kinds, gate.MaxCallers)
	}
	responses := slices.ContainsFunc(c.Rules.Rules, (*rules.Rule).ReadsResponses)
	config := Config{
		Rules: c.Rules, Predict: c.Predict, LagCap: c.PredictLagCap, Servers: 1, Partitions: 1,
		Lag: Lag{ToGate: c.Lag}, LagKnown: true, Responses: responses, Holds: responses && c.Format.Holds(), MaxRows: c.MaxRows,
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	circuit.w = newWorld(&config, circuit)
	return circuit, nil
}

// Request implements replay.Circuit. A line that is older than the one before is taken to be as old as that.
func (c *circuit) Request(line *ingest.Line) (replay.Answer, error) {
	c.callers = c.callers[:0]
	for i, id := range line.IDs {
		if id != "" && c.isCounted[i] {
			c.callers = append(c.callers, schemas.Caller{Kind: c.kinds[i], ID: id})
		}
	}
	c.request = Request{
		At: max(line.Time, c.w.now), Callers: c.callers, Resource: line.Resource, Status: line.Status, Cost: line.Cost, Refused: line.Blocked,
		Duration: time.Duration(max(line.End-line.Time, 0)), Declared: line.Declared,
	}
	c.end = max(c.end, line.End)
	v, err := c.w.request(&c.request)
	return replay.Answer{Blocked: v.Closed, Shadowed: v.Shadow}, err
}

// Finish implements replay.Circuit.
func (c *circuit) Finish() (*fold.Fold, error) {
	c.w.finish(max(c.w.now, c.end) + 1)
	return c.w.partitions[0].fold, c.w.err
}

func (c *circuit) requested(r *Request, at *server, v *gate.Verdict) {
	for i := range r.Callers {
		if v.EarlyFor(i) {
			c.events.Refused(&r.Callers[i], at.clock())
		}
	}
}

func (c *circuit) sent(entries []schemas.Entry) {
	for i := range entries {
		c.events.Entry(&entries[i])
	}
}

func (c *circuit) counted(changes []fold.Change) { c.events.Changes(changes) }

func (c *circuit) publishing(items []outbox.Item) {
	for i := range items {
		if !items[i].Spared {
			c.events.Published(&items[i])
		}
	}
}

func (*circuit) published(int64, *published) {}

func (c *circuit) applied(at *server, ds []schemas.Decision) {
	for i := range ds {
		c.events.Applied(&ds[i], at.clock())
	}
}

func (*circuit) measured(int64, int64) {}
