package control

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// encode returns a record as the topic has it. The first byte of the id is given.
func encode(t testing.TB, id byte, a schemas.ControlAction, caller string) kafkaio.Message {
	t.Helper()
	c := schemas.Control{
		ID: schemas.ControlID{id}, Time: 1000, Author: "ann", Reason: "ticket 4711", Action: a, Until: 2000,
		Caller: schemas.Caller{Kind: "key", ID: caller}, Target: schemas.ControlID{99},
	}
	value, err := pb.AppendControl(nil, &c)
	if err != nil {
		t.Fatal(err)
	}
	return kafkaio.Message{Time: 1000, Value: value}
}

// following runs a follower of a topic until the test ends.
func following(t *testing.T, log *kafkaiotest.Kafka, offset int64) *Follower {
	t.Helper()
	f := NewFollower(log, NewTopic("control", "requests", schemas.PartitionKey{}, 0, 1), offset, nil)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return f
}

// next returns the next batch, within ten seconds.
func next(t *testing.T, f *Follower) Batch {
	t.Helper()
	select {
	case b, ok := <-f.Batches():
		if !ok {
			t.Fatal("batches are closed")
		}
		return b
	case <-time.After(10 * time.Second):
		t.Fatalf("got nothing within 10 s: %+v", f.Status())
	}
	return Batch{}
}

func TestAFollowerPassesOnWhatConcernsItsPartition(t *testing.T) {
	ids := [2]string{}
	for id := "x"; ids[0] == "" || ids[1] == ""; id += "x" {
		ids[schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), 2)] = id
	}
	for _, c := range []struct {
		name   string
		action schemas.ControlAction
		caller string
		want   [2]bool // by partition
	}{
		{"a caller of partition 0", schemas.ControlClose, ids[0], [2]bool{true, false}},
		{"a caller of partition 1", schemas.ControlReset, ids[1], [2]bool{false, true}},
		{"a mode", schemas.ControlMode, "", [2]bool{true, true}},
		{"an undo", schemas.ControlUndo, "", [2]bool{true, true}},
		{"a note of rules", schemas.ControlRules, "", [2]bool{true, true}},
	} {
		for p, want := range c.want {
			topic := NewTopic("control", "requests", schemas.DefaultPartitionKey(), p, 2)
			b := topic.read(&kafkaio.Batch{Next: 8, Records: []kafkaio.Record{{Offset: 7, Value: encode(t, 1, c.action, c.caller).Value}}})
			if got := len(b.Records) == 1 && b.Records[0].Offset == 7; got != want || b.Next != 8 {
				t.Errorf("%s: partition %d got %+v, want it passed on: %v", c.name, p, b, want)
			}
		}
	}
}

func TestWithoutAKeyTheDefaultOneCounts(t *testing.T) {
	topic, keyed := NewTopic("control", "requests", schemas.PartitionKey{}, 1, 3), NewTopic("control", "requests", schemas.DefaultPartitionKey(), 1, 3)
	if topic != keyed {
		t.Errorf("got %+v, want %+v, as the fold has it", topic, keyed)
	}
	if one := NewTopic("control", "requests", schemas.PartitionKey{}, 0, 0); one.partitions != 1 {
		t.Errorf("got %d partitions, want 1", one.partitions)
	}
}

func TestAFollowerReadsFromItsOffsetOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := kafkaiotest.New()
		log.Create(1, "control")
		for i := range byte(5) {
			log.Append("control", 0, encode(t, 1+i, schemas.ControlClose, "a"))
		}
		f := following(t, log, 3)
		b := next(t, f)
		if b.First != 3 || b.Next != 5 || b.Again || len(b.Records) != 2 || b.Records[0].Control.ID != (schemas.ControlID{4}) {
			t.Errorf("got %+v, want the records from 3 on", b)
		}
		time.Sleep(2 * time.Second)
		log.Append("control", 0, encode(t, 9, schemas.ControlOpen, "a"))
		if b := next(t, f); b.First != 5 || b.Next != 6 || len(b.Records) != 1 {
			t.Errorf("got %+v, want what came since", b)
		}
		if s := f.Status(); s.End != 6 || s.Trouble != nil || s.Again != 0 {
			t.Errorf("got %+v, want the topic's end", s)
		}
	})
}

func TestAFollowerSaysWhyItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := kafkaiotest.New()
		f := following(t, log, 0)
		time.Sleep(time.Second)
		if s := f.Status(); !errors.Is(s.Trouble, kafkaio.ErrNoTopic) {
			t.Errorf("got %v, want %v", s.Trouble, kafkaio.ErrNoTopic)
		}
		log.Create(1, "control")
		log.Append("control", 0, encode(t, 1, schemas.ControlClose, "a"))
		if b := next(t, f); len(b.Records) != 1 {
			t.Errorf("got %+v, want the record", b)
		}
		if s := f.Status(); s.Trouble != nil {
			t.Errorf("got %v, want none", s.Trouble)
		}
		log.SetDown(true)
		time.Sleep(5 * time.Second)
		if s := f.Status(); s.Trouble == nil {
			t.Errorf("got %v, want the brokers' absence", s.Trouble)
		}
		log.SetDown(false)
	})
}

func TestAFollowerReadsATopicThatWasMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := kafkaiotest.New()
		log.Create(1, "control")
		f := following(t, log, 40) // the old one had forty records
		if b := next(t, f); !b.Again || b.First != 0 || b.Next != 0 || len(b.Records) != 0 {
			t.Errorf("got %+v, want to be told that it is another, and empty", b)
		}
		log.Append("control", 0, encode(t, 1, schemas.ControlClose, "a"))
		if b := next(t, f); b.Again || b.First != 0 || b.Next != 1 || len(b.Records) != 1 {
			t.Errorf("got %+v, want its first record", b)
		}
		if s := f.Status(); s.Again != 1 {
			t.Errorf("got %+v, want it counted", s)
		}
	})
}

// A topic that was made anew, and has more records than were read of the old one, is known by the record in the place of the last one
// that was read.
func TestAFollowerNoticesAnotherTopicThatHasGrownPastItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := kafkaiotest.New()
		log.Create(1, "control")
		log.Append("control", 0, encode(t, 1, schemas.ControlClose, "a"), encode(t, 2, schemas.ControlClose, "a"))
		f := following(t, log, 0)
		next(t, f)
		log.SetDown(true)
		time.Sleep(5 * time.Second) // no fetch waits any more: the follower sees nothing of the new topic before it has grown
		log.Recreate("control")
		for i := range byte(5) {
			log.Append("control", 0, encode(t, 11+i, schemas.ControlClose, "a"))
		}
		log.SetDown(false)
		if b := next(t, f); !b.Again || b.First != 0 || len(b.Records) != 5 || b.Records[0].Control.ID != (schemas.ControlID{11}) {
			t.Errorf("got %+v, want all of the new topic", b)
		}
		if s := f.Status(); s.Again != 1 {
			t.Errorf("got %+v, want it counted", s)
		}
	})
}

// A topic whose old records were deleted is the same topic.
func TestATopicThatNoLongerHoldsItsTailIsTheSameTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := kafkaiotest.New()
		log.Create(1, "control")
		log.Append("control", 0, encode(t, 1, schemas.ControlClose, "a"), encode(t, 2, schemas.ControlClose, "a"))
		f := following(t, log, 0)
		next(t, f)
		log.Trim("control", 0, 2)
		log.Append("control", 0, encode(t, 3, schemas.ControlClose, "a"))
		if b := next(t, f); b.Again || b.First != 2 || len(b.Records) != 1 || b.Skipped.Sum() != 0 {
			t.Errorf("got %+v, want the next record of the same topic", b)
		}
	})
}

func TestLostRecordsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := kafkaiotest.New()
		log.Create(1, "control")
		for i := range byte(5) {
			log.Append("control", 0, encode(t, 1+i, schemas.ControlClose, "a"))
		}
		log.Trim("control", 0, 3)
		f := following(t, log, 0)
		lost, records := uint64(0), 0
		for at := int64(0); at < 5; {
			b := next(t, f)
			lost, records, at = lost+b.Skipped.Lost, records+len(b.Records), b.Next
		}
		if lost != 3 || records != 2 {
			t.Errorf("got %d lost and %d records, want 3 and 2", lost, records)
		}
		if _, skipped, _, err := Read(t.Context(), log, NewTopic("control", "requests", schemas.PartitionKey{}, 0, 1), Mark{}, nil); skipped.Lost != 3 || err != nil {
			t.Errorf("read: got %+v, %v, want to be told of 3", skipped, err)
		}
	})
}

// Read finds the place that a mark names, and begins behind what that has applied. Another topic does not have it.
func TestReadBeginsBehindAMark(t *testing.T) {
	log := kafkaiotest.New()
	log.Create(1, "control")
	owned := func(c schemas.Control) kafkaio.Message {
		c.Author, c.Topic = "owner", cmp.Or(c.Topic, "requests")
		value, err := pb.AppendControl(nil, &c)
		if err != nil {
			t.Fatal(err)
		}
		return kafkaio.Message{Value: value}
	}
	log.Append("control", 0,
		owned(schemas.Control{Action: schemas.ControlTake, Epoch: 7}),
		encode(t, 1, schemas.ControlClose, "a"),
		owned(schemas.Control{Action: schemas.ControlPlace, Epoch: 7, Seq: 1, UpTo: 2}),
		owned(schemas.Control{Action: schemas.ControlPlace, Topic: "other", Epoch: 8, Seq: 1, UpTo: 2}),
		encode(t, 2, schemas.ControlClose, "a"),
		owned(schemas.Control{Action: schemas.ControlPlace, Epoch: 7, Seq: 2, Before: 10, UpTo: 5}),
		owned(schemas.Control{Action: schemas.ControlPlace, Partition: 1, Epoch: 7, Seq: 3, Before: 11, UpTo: 5}),
		encode(t, 3, schemas.ControlClose, "a"))
	topic := NewTopic("control", "requests", schemas.PartitionKey{}, 0, 1)
	for _, c := range []struct {
		name  string
		at    Mark
		found bool
		steps int
	}{
		{"none", Mark{}, false, 2}, {"the first place", Mark{3, 7}, true, 1}, {"the last place", Mark{6, 7}, true, 0},
		{"a place of another epoch", Mark{6, 6}, false, 2}, {"a place of another topic", Mark{4, 8}, false, 2},
		{"one of another partition", Mark{7, 7}, false, 2}, {"no place", Mark{5, 7}, false, 2}, {"beyond the end", Mark{9, 7}, false, 2},
	} {
		o, _, found, err := Read(t.Context(), log, topic, c.at, nil)
		if err != nil || found != c.found || len(o.Steps()) != c.steps || o.Next() != 8 || o.Epoch() != 7 || len(o.Waiting()) != 1 {
			t.Errorf("%s: got found %v, %+v, %v; want %v and %d steps", c.name, found, o, err, c.found, c.steps)
		}
	}
	if _, _, _, err := Read(t.Context(), log, NewTopic("other", "requests", schemas.PartitionKey{}, 0, 1), Mark{}, nil); !errors.Is(err, kafkaio.ErrNoTopic) {
		t.Errorf("got %v, want %v", err, kafkaio.ErrNoTopic)
	}
}

// Rules are those of a note if its text is theirs.
func TestRulesAreReadFromTheirNote(t *testing.T) {
	log := kafkaiotest.New()
	log.Create(1, "control")
	const text = "version: 1\nrules:\n  - {name: r, callers: key, limit: 3, window: 1m}\n"
	set, err := rules.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{text, "version: 1\nrules:\n  - {name: r, callers: key, limit: 4, window: 1m}\n", "", "garbage"} {
		value, err := pb.AppendControl(nil, &schemas.Control{
			ID: schemas.ControlID{1}, Author: "a", Reason: "r", Action: schemas.ControlRules, RulesID: set.ID(), Text: []byte(text),
		})
		if err != nil {
			t.Fatal(err)
		}
		log.Append("control", 0, kafkaio.Message{Value: value})
	}
	log.Append("control", 0, encode(t, 1, schemas.ControlClose, "a"))
	topic := NewTopic("control", "requests", schemas.PartitionKey{}, 0, 1)
	for offset := range int64(7) {
		got, err := Rules(t.Context(), log, topic, set.ID(), offset, nil)
		switch {
		case offset == 0 && (err != nil || got.ID() != set.ID()):
			t.Errorf("got %v, %v, want the rules", got, err)
		case offset > 0 && !errors.Is(err, ErrNoRules):
			t.Errorf("offset %d: got %v, want %v", offset, err, ErrNoRules)
		}
	}
}

// Whoever can write the topic can write anything into it: none of it is applied but records.
func FuzzTopic(f *testing.F) {
	f.Add(encode(f, 1, schemas.ControlClose, "a").Value)
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, value []byte) {
		topic := NewTopic("control", "requests", schemas.PartitionKey{}, 0, 1)
		b := topic.read(&kafkaio.Batch{Next: 1, Records: []kafkaio.Record{{Value: value}}})
		for _, r := range b.Records {
			if _, err := pb.AppendControl(nil, &r.Control); err != nil {
				t.Fatalf("got %+v, which cannot be written: %v", r.Control, err)
			}
		}
		if n := uint64(len(b.Records)) + b.Skipped.Sum(); n > 1 {
			t.Fatalf("got %d of one record", n)
		}
	})
}
