package board

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// FuzzBody stores a decision of any numbers, and reads it again.
func FuzzBody(f *testing.F) {
	f.Add("ip", "203.0.113.9", int64(1), int64(2), int64(0), int64(0), int64(0), 0.5, uint64(3), uint8(0))
	f.Add("ip", "2001:db8:1:2::", int64(5), int64(2), int64(7), int64(9), int64(100), 0.1234, uint64(1)<<63, uint8(255))
	f.Add("ip", "::ffff:1.2.3.4", int64(math.MinInt64), int64(math.MaxInt64), int64(1), int64(-1), int64(-5), -1e300, uint64(0), uint8(0x1f))
	f.Add("ip", "01.2.3.4", int64(math.MaxInt64), int64(math.MinInt64), int64(-1), int64(1), int64(1), 1e18, uint64(7), uint8(6))
	f.Add("key", strings.Repeat("\xff", 256), int64(0), int64(0), int64(0), int64(0), int64(0), 123.456, uint64(9), uint8(8))
	f.Add("key", "", int64(0), int64(1), int64(0), int64(0), int64(0), 0.0, uint64(0), uint8(0))
	f.Add("key", "held", int64(3), int64(9), int64(0), int64(14), int64(21_400), 0.5, uint64(9), uint8(1+16+32+64))
	f.Add("key", "no count", int64(0), int64(1), int64(0), int64(0), int64(0), 123.456, uint64(9), uint8(16))
	f.Fuzz(func(t *testing.T, kind, id string, closeAt, until, from, length, number int64, rate float64, seq uint64, parts uint8) {
		if len(id) > schemas.MaxCallerID || math.IsNaN(rate) {
			return // a board drops the one, and nobody sends the other
		}
		d := schemas.Decision{
			Rule: kind + "s", RuleVersion: seq, Caller: schemas.Caller{Kind: kind, ID: id}, Mode: schemas.Mode(parts), CloseAt: closeAt, Until: until,
			Early: parts&1 != 0, Held: parts&32 != 0, Partition: int32(number), Epoch: seq, Seq: seq,
		}
		if parts&2 != 0 {
			d.Next = schemas.Span{CloseAt: from, Until: from + length, Early: parts&4 != 0}
		}
		if parts&8 != 0 {
			d.Share = &schemas.Share{From: from, Until: length, Period: number, Permits: closeAt, DemandFrom: until, DemandUntil: from, Demand: int64(seq)}
		}
		if parts&16 != 0 {
			d.Evidence = schemas.Evidence{
				Count: number, Limit: length, Window: from, WindowStart: until, Rate: rate, AsOfOffset: int64(seq), AsOfTime: closeAt,
				Lag: number, Expected: rate / 3, Bound: rate,
			}
			if parts&64 != 0 {
				d.Evidence.Held, d.Evidence.InFlight, d.Evidence.Margin, d.Evidence.Learned = number, from, length, closeAt
			}
		}
		tab := newTable(0)
		of := callerOf(d.Caller, new(keyRoom))
		for i := range 2 { // as it is inserted, and as it is updated
			if d.Seq += uint64(i); i == 0 {
				tab.insert(&of, &d)
			} else {
				slot, _ := tab.find(&of, d.Rule)
				before := tab.head(tab.at(slot))
				tab.update(slot, &before, &of, &d)
			}
			slot, ok := tab.find(&of, d.Rule)
			if !ok {
				t.Fatalf("got nothing, want %+v", d)
			}
			if got := tab.decision(tab.at(slot)); !reflect.DeepEqual(got, d) {
				t.Fatalf("got %+v %+v, want %+v %+v", got, got.Share, d, d.Share)
			}
		}
	})
}

// TestABodyHoldsWhatIsNotZero: a million closures must fit, so no byte is spent on what a decision does not have.
func TestABodyHoldsWhatIsNotZero(t *testing.T) {
	bare := closing("r", "203.0.113.9", 0, 60)
	bare.Caller.Kind, bare.Seq = schemas.KindIP, 1
	bytes := func(change func(*schemas.Decision)) int {
		d := bare
		change(&d)
		of := callerOf(d.Caller, new(keyRoom))
		return len(appendBody(nil, &of, 0, &d, end(&d)))
	}
	none := bytes(func(*schemas.Decision) {})
	for _, test := range []struct {
		name   string
		change func(*schemas.Decision)
		more   int
	}{
		{"an id of text", func(d *schemas.Decision) { d.Caller.ID = "203.0.113.09" }, 1 + 12 - 4},
		{"a next closure", func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: d.Until, Until: d.Until + 50} }, 2 + 1}, // and the distance of the ends
		{"a window, which many have", func(d *schemas.Decision) { d.Evidence.Window = 60e9 }, 0},
		{"a count", func(d *schemas.Decision) { d.Evidence.Count = 50 }, 1 + 1},
		{"a rate in thousandths", func(d *schemas.Decision) { d.Evidence.Rate = 0.05 }, 1 + 1},
		{"another rate", func(d *schemas.Decision) { d.Evidence.Rate = 0.0501 }, 1 + 1 + 8},
		{"an overshoot", func(d *schemas.Decision) { d.Evidence.Bound = 0.5 }, 2 + 16},
		{"a hold, which many have", func(d *schemas.Decision) { d.Early, d.Held = true, true }, 0},
		{"what is in flight", func(d *schemas.Decision) { d.Evidence.InFlight, d.Evidence.Margin = 14, 8900 }, 2 + 1 + 1 + 3 + 1},
	} {
		if got := bytes(test.change) - none; got != test.more {
			t.Errorf("%s: got %d bytes more, want %d", test.name, got, test.more)
		}
	}
}

// TestTermsAreForgotten: each change of the rules and each new owner makes new terms of all decisions.
func TestTermsAreForgotten(t *testing.T) {
	b := ready(1, Options{})
	for epoch := range uint64(100) {
		for _, id := range []string{"a", "b"} {
			d := closing("r", id, 0, 60)
			d.Epoch, d.RuleVersion = epoch+1, epoch
			b.Apply([]schemas.Decision{d}, at(1))
		}
	}
	if l := &b.table.terms; len(l.number) != 1 || len(l.list) > 2 {
		t.Errorf("got %d terms in room for %d, want those in force", len(l.number), len(l.list))
	}
	b.Expire(at(60))
	if l := &b.table.terms; len(l.number) != 0 || l.list[0].rule+l.list[1].rule != "" {
		t.Errorf("got %v after the last closure, want none", l.list)
	}
}
