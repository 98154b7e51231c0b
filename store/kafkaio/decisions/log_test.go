package decisions

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// failer is a test of any kind: testing.TB or *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// noon is when the tests take place.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// memory is a Log in memory, which keeps what a test appends.
type memory struct {
	start   int64 // the first offset that is left
	records []kafkaio.Record
	next    int64
	asked   int // records that were read
	err     error
}

func (m *memory) end() int64 { return int64(len(m.records)) }

func (m *memory) Range(context.Context) (start, end int64, err error) { return m.start, m.end(), m.err }

func (m *memory) MoveTo(offset int64) { m.next = offset }

func (m *memory) Scan(_ context.Context, end int64, f func(b *kafkaio.Batch) error) error {
	for m.next < end {
		to := min(m.next+100, end) // small batches, so that there are several
		b := kafkaio.Batch{Records: slices.Clone(m.records[m.next:to]), Next: to}
		m.next = to
		m.asked += len(b.Records)
		if err := f(&b); err != nil {
			return err
		}
	}
	return m.err
}

// append appends values and returns the offset of the first.
func (m *memory) append(values ...[]byte) int64 {
	base := m.end()
	for _, v := range values {
		m.records = append(m.records, kafkaio.Record{Offset: m.end(), Time: noon.UnixNano(), Value: v})
	}
	return base
}

// say appends records and returns the offset of the first.
func (m *memory) say(t testing.TB, records ...pb.Record) int64 {
	t.Helper()
	base := m.end()
	for _, r := range records {
		m.append(encode(t, r))
	}
	return base
}

// encode returns a record as an owner writes it.
func encode(t failer, r pb.Record) []byte {
	t.Helper()
	var b []byte
	var err error
	switch {
	case r.Decision != nil:
		b, err = pb.AppendDecision(nil, r.Decision)
	case r.Claim != nil:
		b, err = pb.AppendClaim(nil, r.Claim)
	default:
		b, err = pb.AppendHeartbeat(nil, r.Heartbeat)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func claim(epoch uint64) pb.Record { return pb.Record{Claim: &schemas.Claim{Epoch: epoch, Nonce: 1}} }

func beat(epoch, seq uint64, from int64) pb.Record {
	return pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: epoch, Seq: seq, From: from}}
}

// closes is a decision that closes a caller for an hour.
func closes(epoch, seq uint64, id string) pb.Record {
	return pb.Record{Decision: &schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, Epoch: epoch, Seq: seq,
		CloseAt: noon.UnixNano(), Until: noon.Add(time.Hour).UnixNano(),
	}}
}

// opens is a decision that opens a caller.
func opens(epoch, seq uint64, id string) pb.Record {
	r := closes(epoch, seq, id)
	r.Decision.Until = r.Decision.CloseAt
	return r
}

// closed is who is closed: the newest decision of each rule and caller, by its Until.
type closed map[string]int64

func (c closed) take(r *pb.Record) {
	d := r.Decision
	if d == nil {
		return
	}
	key := fmt.Sprint(d.Rule, " ", d.Caller)
	if c[key] = d.Until; d.Until <= d.CloseAt {
		delete(c, key)
	}
}

// at returns who is closed at a time.
func (c closed) at(now int64) closed {
	out := make(closed)
	for key, until := range c {
		if until > now {
			out[key] = until
		}
	}
	return out
}

// fromTheStart returns who is closed for a gate that has read all of the log as it was written.
func (m *memory) fromTheStart() closed {
	c := make(closed)
	var f Follower
	for i := range m.records {
		if r, err := f.Take(&m.records[i], noon.UnixNano()); err == nil {
			c.take(&r)
		}
	}
	return c
}

// fromTheHeartbeat returns who is closed for a gate that starts now, and where it started.
func (m *memory) fromTheHeartbeat(t testing.TB) (closed, Place) {
	t.Helper()
	c := make(closed)
	var f Follower
	for {
		at, err := Find(t.Context(), m, 0, atNoon)
		if err != nil {
			t.Fatal(err)
		}
		if at.Read < m.start || at.Read > at.Apply || at.Apply > at.End || at.End != m.end() {
			t.Fatalf("got %+v, want places of [%d, %d) in order", at, m.start, m.end())
		}
		f.Start(at)
		if f.Replay(t.Context(), m, atNoon, c.take) == nil {
			return c, at
		}
	}
}
