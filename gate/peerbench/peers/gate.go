package peers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// Gate is floodgate's gate of one kind of caller, with its coarse clock running, as a link runs it.
type Gate struct {
	Set  *gate.Set
	Gate *gate.Gate

	quit  context.CancelFunc
	clock sync.WaitGroup
}

// Kind is the kind of caller of all keys.
const Kind = "key"

// NewGate returns a gate that is closed for these callers, for an hour, with some room for more. Close ends its clock.
func NewGate(closed []string) *Gate { return newGate(closed, schemas.IDs{}) }

// NewHashingGate is NewGate for callers whose ids are hashed with a secret.
func NewHashingGate(closed []string) (*Gate, error) {
	hash, err := schemas.NewIDHasher([]string{Kind}, bytes.Repeat([]byte("s"), schemas.MinIDSecret))
	if err != nil {
		return nil, fmt.Errorf("hash ids: %w", err)
	}
	hashed := make([]string, len(closed))
	for i, id := range closed {
		hashed[i] = hash.Kind(Kind).ID(id)
	}
	return newGate(hashed, schemas.IDs{Hash: hash}), nil
}

func newGate(closed []string, ids schemas.IDs) *Gate {
	s := gate.New(gate.Options{
		IDs:       ids,
		MaxClosed: len(closed)*21/20 + 1000,
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	now := time.Now()
	s.ApplyAt(now, Decisions(closed, now, now.Add(time.Hour)))
	ctx, quit := context.WithCancel(context.Background())
	g := &Gate{Set: s, Gate: s.Gate(Kind), quit: quit}
	g.clock.Go(func() { s.RunClock(ctx) })
	return g
}

// Close implements io.Closer. The gate still answers, by the exact clock.
func (g *Gate) Close() error {
	g.quit()
	g.clock.Wait()
	return nil
}

// Decisions returns a decision for each of these callers, as an analyzer would publish it: closed from one time to
// another.
func Decisions(closed []string, from, until time.Time) []schemas.Decision {
	ds := make([]schemas.Decision, len(closed))
	for i, id := range closed {
		ds[i] = schemas.Decision{
			Rule: "per-key", RuleVersion: 1, Caller: schemas.Caller{Kind: Kind, ID: id}, Mode: schemas.ModeEnforce,
			CloseAt: from.UnixNano(), Until: until.UnixNano(), Epoch: 1, Seq: uint64(i + 1),
			Evidence: schemas.Evidence{Count: 100, Limit: 100, Window: int64(time.Minute)},
		}
	}
	return ds
}

// Ask implements Subject.
func (g *Gate) Ask(keys []string) (refused int) {
	for _, k := range keys {
		if g.Gate.Closed(k) {
			refused++
		}
	}
	return refused
}
