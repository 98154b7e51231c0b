package controls

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

const topic = "floodgate.control"

func id(n int) (id schemas.ControlID) {
	id[0], id[1], id[15] = byte(n>>8), 1, byte(n)
	return id
}

// reset returns a record that resets a caller.
func reset(n int) *schemas.Control {
	return &schemas.Control{
		ID: id(n), Time: int64(n + 1), Author: "anna", Reason: "r", Action: schemas.ControlReset, Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint(n)},
	}
}

func undo(n, target int) *schemas.Control {
	return &schemas.Control{ID: id(n), Time: int64(n + 1), Author: "bert", Reason: "r", Action: schemas.ControlUndo, Target: id(target)}
}

func note(n int, text string) *schemas.Control {
	return &schemas.Control{ID: id(n), Time: int64(n + 1), Author: "host/1", Reason: "r", Action: schemas.ControlRules, RulesID: uint64(n), Text: []byte(text)}
}

// place is a cluster with a control topic and a Follower.
type place struct {
	t     *testing.T
	kafka *kafkaiotest.Kafka
	f     *Follower
}

// follow runs a test in a bubble with a Follower of a topic that holds some records already.
func follow(t *testing.T, most int, first []*schemas.Control, story func(p *place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, kafka: kafkaiotest.New()}
		p.kafka.Create(1, topic)
		p.write(first...)
		p.f = New(Config{Log: p.kafka.Client(), Topic: topic, Max: most})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.f.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: got %v, want nil", err)
			}
		}()
		p.await(func() bool { return p.f.Ready() })
		story(p)
	})
}

func (p *place) write(list ...*schemas.Control) {
	p.t.Helper()
	for _, c := range list {
		b, err := pb.AppendControl(nil, c)
		if err != nil {
			p.t.Fatal(err)
		}
		p.raw(b)
	}
}

func (p *place) raw(b []byte) {
	p.t.Helper()
	p.kafka.Append(topic, 0, kafkaio.Message{Value: b, Time: time.Now().UnixNano()})
}

// await waits in the bubble's time.
func (p *place) await(is func() bool) {
	p.t.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.t.Fatal("it never came")
}

// ids returns the records before an offset by their number, the newest first.
func (p *place) ids(before int64) (list []int) {
	for r := range p.f.Before(before) {
		list = append(list, int(r.ID[0])<<8|int(r.ID[15]))
	}
	return list
}

// TestAllThatWasDecidedIsKnown: what was there at the start, and what comes.
func TestAllThatWasDecidedIsKnown(t *testing.T) {
	follow(t, 0, []*schemas.Control{reset(1), reset(2), note(3, "rules: one"), undo(4, 1)}, func(p *place) {
		if got := p.ids(math.MaxInt64); !slices.Equal(got, []int{4, 3, 2, 1}) {
			t.Errorf("got %v, want all four", got)
		}
		if r, ok := p.f.Find(id(2)); !ok || r.Offset != 1 || r.Caller.ID != "2" {
			t.Errorf("got %+v, want the second record", r)
		}
		if r, ok := p.f.Undone(id(1)); !ok || r.Author != "bert" {
			t.Errorf("got %+v, want who undid the first", r)
		}
		if _, ok := p.f.Undone(id(2)); ok {
			t.Error("the second is undone, want it not to be")
		}
		if r, _ := p.f.Find(id(3)); r.Text != nil {
			t.Errorf("got %d bytes of text in memory, want none", len(r.Text))
		}
		if text, err := p.f.Text(p.t.Context(), 2); err != nil || string(text) != "rules: one" {
			t.Errorf("got %q and %v, want the text of the note", text, err)
		}
		for _, offset := range []int64{0, 99} {
			if _, err := p.f.Text(p.t.Context(), offset); err == nil {
				t.Errorf("offset %d: got no error, want one: no note is there", offset)
			}
		}
		p.write(reset(5), reset(2)) // a record that was written twice
		p.await(func() bool { return p.f.Next() == 6 })
		if r, _ := p.f.Find(id(2)); r.Offset != 1 {
			t.Errorf("got offset %d, want the first record with the id", r.Offset)
		}
		if got := p.ids(3); !slices.Equal(got, []int{3, 2, 1}) {
			t.Errorf("before offset 3: got %v, want 3, 2, 1", got)
		}
	})
}

// TestMemoryIsBounded: the oldest records are forgotten, and what referred to them.
func TestMemoryIsBounded(t *testing.T) {
	const most = 100
	var first []*schemas.Control
	for n := range 3 * pieceRecords {
		first = append(first, reset(2*n), undo(2*n+1, 2*n))
	}
	follow(t, most, first, func(p *place) {
		p.await(func() bool { return p.f.Next() == int64(len(first)) })
		f := p.f
		if len(f.records) > most || len(f.byID) != len(f.records) || len(f.undone) > len(f.records) {
			t.Errorf("got %d records, %d ids, %d undone, want at most %d", len(f.records), len(f.byID), len(f.undone), most)
		}
		if _, ok := f.Find(id(0)); ok {
			t.Error("the first record is known, want it forgotten")
		}
		last := len(first) - 1
		if r, ok := f.Find(id(last)); !ok || r.Offset != int64(last) {
			t.Errorf("got %+v, want the newest", r)
		}
		for n, got := range p.ids(math.MaxInt64) {
			if got != last-n {
				t.Fatalf("record %d is %d, want %d", n, got, last-n)
			}
		}
	})
	follow(t, 0, first, func(p *place) { // in many pieces
		if got := p.ids(math.MaxInt64); len(got) != len(first) || got[0] != len(first)-1 || got[len(got)-1] != 0 {
			t.Errorf("got %d records, want all %d", len(got), len(first))
		}
	})
}

// TestRecordsOfALaterVersionAreCounted, and the others are read.
func TestRecordsOfALaterVersionAreCounted(t *testing.T) {
	follow(t, 0, []*schemas.Control{reset(1)}, func(p *place) {
		p.raw([]byte("\xff\xff damaged"))
		p.raw(nil)
		later, err := pb.AppendControl(nil, undo(9, 1))
		if err != nil {
			t.Fatal(err)
		}
		p.raw(append(later[:len(later)-20], 0xf2, 0x01, 0x00)) // field 30 in place of field 10
		p.write(reset(2))
		p.await(func() bool { return p.f.Next() == 5 })
		if got := p.ids(math.MaxInt64); !slices.Equal(got, []int{2, 1}) {
			t.Errorf("got %v, want 2 and 1", got)
		}
	})
}

// TestATopicThatWasMadeAnewAndHasGrownIsReadAnew: nothing but the records themselves says that it is another one.
func TestATopicThatWasMadeAnewAndHasGrownIsReadAnew(t *testing.T) {
	follow(t, 0, []*schemas.Control{reset(1), reset(2)}, func(p *place) {
		p.kafka.SetDown(true)
		time.Sleep(5 * time.Second) // no fetch waits any more: the follower sees nothing of the new topic before it has grown
		p.kafka.Recreate(topic)
		p.write(reset(11), reset(12), reset(13), reset(14))
		p.kafka.SetDown(false)
		p.await(func() bool { return p.f.Next() == 4 && p.f.Ready() })
		if got := p.ids(math.MaxInt64); !slices.Equal(got, []int{14, 13, 12, 11}) {
			t.Errorf("got %v, want the records of the new topic, and no others", got)
		}
	})
}

// TestATopicThatWasMadeAnewIsReadAnew, and one that lost its end.
func TestATopicThatWasMadeAnewIsReadAnew(t *testing.T) {
	follow(t, 0, []*schemas.Control{reset(1), reset(2), reset(3)}, func(p *place) {
		p.kafka.Cut(topic, 0, 1)
		p.await(func() bool { return slices.Equal(p.ids(math.MaxInt64), []int{1}) && p.f.Ready() })
		p.kafka.SetDown(true)
		time.Sleep(time.Minute)
		if got := p.ids(math.MaxInt64); !slices.Equal(got, []int{1}) {
			t.Errorf("while Kafka is away: got %v, want what was known", got)
		}
		p.kafka.SetDown(false)
		p.write(reset(7))
		p.await(func() bool { return slices.Equal(p.ids(math.MaxInt64), []int{7, 1}) })
	})
}

// TestManyVersionsAreBounded: a follower forgets the oldest, and knows the newest.
func TestManyVersionsAreBounded(t *testing.T) {
	f := New(Config{Max: 16})
	for i := range uint64(3 * maxVersions) {
		f.add(api.Record{Control: schemas.Control{Action: schemas.ControlRules, RulesID: i}, Offset: int64(i)})
		f.add(api.Record{Control: schemas.Control{Action: schemas.ControlRules, RulesID: i, Author: "late"}, Offset: int64(i)})
	}
	list := f.Versions()
	if len(list) > maxVersions || len(list) < maxVersions/2 || list[0].RulesID != 3*maxVersions-1 || list[0].Author != "" {
		t.Errorf("got %d versions, the newest %+v", len(list), list[0])
	}
	for i, r := range list {
		if v, ok := f.Version(r.RulesID); !ok || v.Offset != r.Offset || r.RulesID != list[0].RulesID-uint64(i) {
			t.Fatalf("version %d: got %+v, %v", r.RulesID, v, ok)
		}
	}
	if _, ok := f.Version(0); ok {
		t.Error("the oldest version is still there")
	}
	f.clear()
	if len(f.Versions()) != 0 {
		t.Error("versions of a topic that was made anew are shown")
	}
}
