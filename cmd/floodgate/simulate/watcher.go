package simulate

import (
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// watcher sees what happens in a world, in the order in which it happens. It changes nothing there, and keeps nothing that it is
// given.
type watcher interface {
	requested(r *Request, at *server, v *gate.Verdict) // a server has decided on a request
	sent(entries []schemas.Entry)                      // a server has sent entries to a partition
	counted(changes []fold.Change)                     // an analyzer has counted entries
	publishing(items []outbox.Item)                    // an analyzer publishes decisions; those that are spared are among them
	published(now int64, b *published)                 // the log has acknowledged them
	applied(at *server, ds []schemas.Decision)         // a server has applied them
	measured(now, lag int64)                           // a server's canary has come back
}

// measuring is a watcher that measures.
type measuring struct {
	reference *reference
	pools     []*replay.Pooled // of the rules with a capacity
	result    *Result
}

func newMeasuring(c *Config) *measuring {
	m := &measuring{reference: newReference(c), result: newResult(c)}
	for _, r := range c.Rules.Pools() {
		if r.Mode == schemas.ModeEnforce {
			m.pools = append(m.pools, replay.NewPooled(r))
		}
	}
	return m
}

func (m *measuring) requested(r *Request, at *server, v *gate.Verdict) {
	m.reference.request(r, at, v)
	for i := range r.Callers {
		for _, p := range m.pools {
			p.Ask(&schemas.Entry{Time: r.At, Kind: r.Callers[i].Kind, ID: r.Callers[i].ID, Resource: r.Resource, Count: 1}, v.Closed, v.ClosedFor(i))
		}
	}
	m.result.Requests++
	if !v.Closed {
		m.result.Admitted++
	}
}

func (*measuring) sent([]schemas.Entry) {}

func (*measuring) counted([]fold.Change) {}

func (*measuring) publishing([]outbox.Item) {}

func (m *measuring) published(now int64, b *published) {
	m.result.published(now, b)
	m.reference.foreseen(b.decisions)
}

func (*measuring) applied(at *server, ds []schemas.Decision) {
	for i := range ds {
		at.closures.apply(&ds[i], at.clock())
	}
}

func (m *measuring) measured(now, lag int64) { m.result.lag(now, lag) }
