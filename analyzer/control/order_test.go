package control

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// drawnOwner is an owner as far as the topic goes: it has read so much of it, and appends places under its epoch. It may have been
// replaced, and not know it yet.
type drawnOwner struct {
	order *Order
	epoch uint64
	seq   uint64
	at    int64 // of requests[p]
}

// drawTopic draws what owners and people have written, in any interleaving: owners that come late, places of owners that were
// replaced, copies, and a log of requests that loses its end.
func drawTopic(t *rapid.T) (topic []Record) {
	var owners []*drawnOwner
	epoch, end := uint64(0), int64(10)
	write := func(c schemas.Control) { topic = append(topic, Record{int64(len(topic)), c}) }
	for range rapid.IntRange(0, 40).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"decide", "decide", "take", "read", "place", "place", "copy", "lose", "grow"}).Draw(t, "step") {
		case "decide":
			write(schemas.Control{Action: schemas.ControlReset, ID: schemas.ControlID{byte(len(topic))}})
		case "take":
			epoch += rapid.Uint64Range(1, 3).Draw(t, "epoch")
			write(schemas.Control{Action: schemas.ControlTake, Epoch: epoch})
			o := &drawnOwner{order: NewOrder(nil), epoch: epoch}
			o.read(topic)
			o.at = end
			owners = append(owners, o)
		case "grow":
			end += rapid.Int64Range(1, 20).Draw(t, "by")
		case "lose":
			end -= rapid.Int64Range(0, min(end, 15)).Draw(t, "by")
		case "copy":
			if len(topic) > 0 {
				write(topic[rapid.IntRange(0, len(topic)-1).Draw(t, "of")].Control)
			}
		case "read", "place":
			if len(owners) == 0 {
				continue
			}
			o := owners[rapid.IntRange(0, len(owners)-1).Draw(t, "owner")]
			if rapid.Bool().Draw(t, "reads first") {
				o.read(topic)
			}
			o.at = max(o.at, min(end, o.at+rapid.Int64Range(0, 9).Draw(t, "folded")))
			if o.order.Epoch() > o.epoch {
				continue // it knows that it was replaced
			}
			o.seq++
			write(schemas.Control{
				Action: schemas.ControlPlace, Epoch: o.epoch, Seq: o.seq, Before: o.at, UpTo: o.order.Next(),
				RulesID: rapid.Uint64Range(1, 4).Draw(t, "rules"),
			})
		}
	}
	return topic
}

func (o *drawnOwner) read(topic []Record) {
	for range topic[o.order.Next():] {
		r := &topic[o.order.Next()]
		o.order.Add(r)
		o.order.ReadTo(r.Offset + 1)
	}
}

// orderOf returns what an order says of a topic, from a record on.
func orderOf(topic []Record, after *Record) *Order {
	o := NewOrder(after)
	for i := range topic {
		if topic[i].Offset >= o.Next() {
			o.Add(&topic[i])
		}
	}
	o.ReadTo(int64(len(topic)))
	return o
}

// wantSteps says which places count, and what they apply, by the words of ARCHITECTURE.
func wantSteps(topic []Record) (steps []Step) {
	valid := func(i int) bool {
		c := &topic[i].Control
		for j := range topic[:i] {
			b := &topic[j].Control
			if (b.Action == schemas.ControlTake || b.Action == schemas.ControlPlace) && b.Epoch > c.Epoch {
				return false
			}
			if b.Action == schemas.ControlPlace && b.Epoch == c.Epoch && b.Seq >= c.Seq {
				return false
			}
		}
		return true
	}
	applied := make(map[int64]bool)
	for i := range topic {
		if topic[i].Control.Action != schemas.ControlPlace || !valid(i) {
			continue
		}
		c := &topic[i].Control
		s := Step{Place: int64(i), Epoch: c.Epoch, Before: c.Before, RulesID: c.RulesID, RulesAt: c.RulesAt}
		for j := range topic[:min(int64(i), c.UpTo)] {
			if topic[j].Control.OfPeople() && !applied[int64(j)] {
				applied[int64(j)] = true
				s.Records = append(s.Records, topic[j])
			}
		}
		for j := range topic[i:] { // a later place that is lower
			if b := &topic[i+j].Control; b.Action == schemas.ControlPlace && valid(i+j) {
				s.Before = min(s.Before, b.Before)
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// Which places count follows from the topic alone, however owners interleave: also for one who starts behind any place that counts.
func TestTheOrderIsThatOfTheTopic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := drawTopic(t)
		want := wantSteps(topic)
		got := orderOf(topic, nil)
		if !sameSteps(got.Steps(), want) {
			t.Fatalf("got  %+v\nwant %+v\nof   %+v", got.Steps(), want, topic)
		}
		for i := range want {
			o := orderOf(topic, &topic[want[i].Place])
			if !sameSteps(o.Steps(), want[i+1:]) {
				t.Fatalf("behind place %d: got %+v, want %+v", want[i].Place, o.Steps(), want[i+1:])
			}
			if o.Epoch() != got.Epoch() || !sameSteps([]Step{{Records: o.Waiting()}}, []Step{{Records: got.Waiting()}}) {
				t.Fatalf("behind place %d: got epoch %d and %v waiting, want %d and %v", want[i].Place, o.Epoch(), o.Waiting(), got.Epoch(), got.Waiting())
			}
		}
	})
}

func sameSteps(a, b []Step) bool {
	return slices.EqualFunc(a, b, func(a, b Step) bool {
		if len(a.Records)+len(b.Records) == 0 {
			a.Records, b.Records = nil, nil
		}
		return reflect.DeepEqual(a, b)
	})
}

// What was true of the first half of a topic stays true, but for a log that lost its end: no later record makes a place count, or not.
func TestALaterRecordChangesNoEarlierPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := drawTopic(t)
		half := topic[:rapid.IntRange(0, len(topic)).Draw(t, "read")]
		before, after := orderOf(half, nil).Steps(), orderOf(topic, nil).Steps()
		if len(after) < len(before) {
			t.Fatalf("got %d places of the whole, and %d of a part", len(after), len(before))
		}
		for i := range before {
			b, a := before[i], after[i]
			if a.Before > b.Before {
				t.Fatalf("place %d: got it before %d, and later before %d", a.Place, b.Before, a.Before)
			}
			a.Before = b.Before
			if !sameSteps([]Step{a}, []Step{b}) {
				t.Fatalf("got %+v, and later %+v", b, a)
			}
		}
	})
}

// Each step is due once, in its order, before the record where it stands.
func TestStepsAreDueWhereTheyStand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := orderOf(drawTopic(t), nil)
		want := slices.Clone(o.Steps())
		var got []Step
		for offset := int64(0); len(got) < len(want); offset++ {
			if len(o.Steps()) > 0 && o.PassedOver(offset, 0) != (o.Steps()[0].Before < offset) {
				t.Fatalf("passed over before %d: got %v", offset, o.PassedOver(offset, 0))
			}
			for {
				s, ok := o.Due(offset)
				if !ok {
					break
				}
				if s.Before != offset {
					t.Fatalf("got %+v due before %d", s, offset)
				}
				got = append(got, s)
			}
		}
		if !sameSteps(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// In a topic that was made anew, what people decided is not lost with the places that were counted already.
func TestWhatIsForgottenWaitsForTheNextPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := drawTopic(t)
		from := rapid.Int64Range(0, 60).Draw(t, "from")
		records := func(o *Order) (list []Record) {
			for _, s := range o.Steps() {
				list = append(list, s.Records...)
			}
			return append(list, o.Waiting()...)
		}
		o := orderOf(topic, nil)
		want := records(o)
		o.Forget(from)
		if len(o.Steps()) > 0 && o.Steps()[0].Before < from {
			t.Fatalf("got %+v, want no step before %d", o.Steps()[0], from)
		}
		if got := records(o); !sameSteps([]Step{{Records: got}}, []Step{{Records: want}}) {
			t.Fatalf("got %v, want all that people decided: %v", got, want)
		}
	})
}
