package snapshot

import (
	"context"
	"slices"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// Places says where control records were applied: what state[p] holds of it. What an owner wrote after another one of a higher
// epoch does not count. The zero value is empty.
type Places struct {
	List  []schemas.ControlPlace // by From and by First; no two of them overlap
	Epoch uint64                 // the highest of any record
}

// take adds what a record says.
func (p *Places) take(rec *pb.StateRecord) {
	epoch, ok := epochOf(rec)
	if !ok || epoch < p.Epoch {
		return
	}
	p.Epoch = epoch
	if begin := rec.GetBegin(); begin != nil {
		p.cut(begin.GetControl()) // what this owner has not applied has never happened
		p.add(begin.GetPlace())
	}
	p.add(rec.GetControl())
}

// epochOf returns the epoch under which a record was written.
func epochOf(rec *pb.StateRecord) (epoch uint64, ok bool) {
	switch m := rec.GetRecord().(type) {
	case *pb.StateRecord_Begin:
		return m.Begin.GetEpoch(), true
	case *pb.StateRecord_Row:
		return m.Row.GetEpoch(), true
	case *pb.StateRecord_End:
		return m.End.GetEpoch(), true
	case *pb.StateRecord_Rules:
		return m.Rules.GetEpoch(), true
	case *pb.StateRecord_Control:
		return m.Control.GetEpoch(), true
	}
	return 0, false
}

// cut removes the places of records at an offset of the control topic and behind it.
func (p *Places) cut(control int64) {
	n := len(p.List)
	for n > 0 && p.List[n-1].Next > control {
		n--
	}
	p.List = p.List[:n]
}

// add adds a place, unless it is there, in place of those that contradict it.
func (p *Places) add(c *pb.StateControl) {
	place := PlaceOf(c)
	if place.First >= place.Next || slices.Contains(p.List, place) {
		return
	}
	p.cut(place.First)
	n := len(p.List)
	for n > 0 && p.List[n-1].From > place.From {
		n--
	}
	p.List = append(p.List[:n], place)
}

// PlaceOf returns the place that a record says; the zero value for none.
func PlaceOf(c *pb.StateControl) schemas.ControlPlace {
	return schemas.ControlPlace{From: c.GetFrom(), First: c.GetFirst(), Next: c.GetNext(), Chain: c.GetChain()}
}

// PlaceRecord returns the record that says a place.
func PlaceRecord(p schemas.ControlPlace) *pb.StateControl {
	return &pb.StateControl{From: p.From, First: p.First, Next: p.Next, Chain: p.Chain}
}

// Places returns where control records were applied, from one offset of state[p] up to another. Where these cannot be read, it
// returns none.
func (r *Reader) Places(ctx context.Context, from, to int64) (Places, error) {
	var p Places
	err := r.each(ctx, from, to, func(_ int64, rec *pb.StateRecord) error {
		p.take(rec)
		return nil
	})
	if err != nil {
		return Places{}, IgnoreIncomplete(err)
	}
	return p, nil
}
