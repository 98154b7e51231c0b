package decisions_test

import (
	"encoding/hex"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// story writes a partition.
type story struct {
	t    *testing.T
	p    partitionJSON
	next int64
}

func tell(t *testing.T, what string) *story {
	t.Helper()
	return &story{t: t, p: partitionJSON{Story: what, Partition: part, Now: vectorTime, Present: -1}}
}

// raw appends a value at a time.
func (s *story) raw(at int64, value []byte) int64 {
	s.p.Records = append(s.p.Records, recordJSON{Offset: s.next, Time: at, Value: hex.EncodeToString(value)})
	s.next++
	return s.next - 1
}

func (s *story) say(r pb.Record) int64 { return s.raw(vectorTime, mustEncode(s.t, r)) }

func (s *story) claim(epoch uint64) int64 {
	return s.say(pb.Record{Claim: &schemas.Claim{Partition: part, Epoch: epoch, Nonce: epoch, Owner: "owner"}})
}

func (s *story) beat(epoch, seq uint64, from int64) int64 {
	return s.say(pb.Record{Heartbeat: &schemas.Heartbeat{Partition: part, Epoch: epoch, Seq: seq, Time: vectorTime, From: from}})
}

func (s *story) closes(epoch, seq uint64, id string) int64 {
	return s.until(epoch, seq, id, vectorTime+hour)
}

func (s *story) opens(epoch, seq uint64, id string) int64 { return s.until(epoch, seq, id, 0) }

func (s *story) until(epoch, seq uint64, id string, until int64) int64 {
	return s.say(pb.Record{Decision: &schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: vectorTime - hour, Until: until,
		Partition: part, Epoch: epoch, Seq: seq,
	}})
}

// copies appends the last record again.
func (s *story) copies(n int) {
	s.p.Records[len(s.p.Records)-1].Copies += n
	s.next += int64(n)
}

// present says that what was written so far is there when the gate starts.
func (s *story) present() { s.p.Present = len(s.p.Records) }

func (s *story) end() partitionJSON {
	if s.p.Present < 0 {
		s.present()
	}
	if s.p.Records == nil {
		s.p.Records = []recordJSON{}
	}
	return s.p
}

// partitions are the stories of the vectors, by name.
func partitions(t *testing.T) map[string]partitionJSON {
	t.Helper()
	return map[string]partitionJSON{
		"empty": tell(t, "nothing was ever written").end(), "cycle": cycle(t), "replaced": replaced(t), "copies": lateCopies(t),
		"hidden_claim": hiddenClaim(t), "old_claim": oldClaim(t), "moved": movedStory(t), "strays": strays(t),
		"kinds": kindsOfDecisions(t), "shortened": shortened(t), "silent": silent(t), "early": early(t),
	}
}

func early(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "a newer decision replaces both closures and the share; one that is refused replaces nothing")
	seq := uint64(1)
	say := func(id string, change func(d *schemas.Decision)) {
		seq++
		s.say(decision(func(d *schemas.Decision) {
			d.Rule, d.Caller, d.Seq = "r", schemas.Caller{Kind: "key", ID: id}, seq
			change(d)
		}))
	}
	next := schemas.Span{CloseAt: vectorTime + 2*hour, Until: vectorTime + 2*hour + second, Early: true}
	later := schemas.Span{CloseAt: vectorTime - second, Until: vectorTime + second, Early: true}
	both := func(d *schemas.Decision) { d.Next, d.Share = next, newShare() }
	s.claim(20)
	s.beat(20, 1, 0)
	say("both", both)
	say("early, then counted", func(d *schemas.Decision) { d.Early = true })
	say("early, then counted", func(*schemas.Decision) {})
	say("nothing next any more", both)
	say("nothing next any more", func(*schemas.Decision) {})
	say("next in force", func(d *schemas.Decision) { d.Until, d.Next = vectorTime-2*second, later })
	say("both over", func(d *schemas.Decision) {
		d.Until, d.Next = vectorTime-2*second, schemas.Span{CloseAt: vectorTime - second, Until: vectorTime, Early: true}
	})
	say("opened", both)
	say("opened", func(d *schemas.Decision) { d.Until = 0 })
	say("opened with a share", func(d *schemas.Decision) { d.Until, d.Share = 0, newShare() })
	say("kept", both)
	garbage := []func(d *pb.Decision){
		func(d *pb.Decision) { d.Next = &pb.Span{CloseAt: d.GetUntil() - 1, Until: d.GetUntil() + 1} },
		func(d *pb.Decision) { d.Next = &pb.Span{CloseAt: d.GetUntil() + 2, Until: d.GetUntil() + 1} },
		func(d *pb.Decision) { d.Share = &pb.Share{} },
	}
	for i, change := range garbage {
		s.raw(vectorTime, garbled(t, "kept", seq+uint64(i)+1, change))
	}
	say("after the garbage", func(*schemas.Decision) {}) // its number is that of the first one that was refused
	return s.end()
}

// garbled is a decision as a writer that checks nothing writes it.
func garbled(t *testing.T, id string, seq uint64, change func(d *pb.Decision)) []byte {
	t.Helper()
	var r pb.DecisionsRecord
	if err := proto.Unmarshal(mustEncode(t, decision(func(d *schemas.Decision) {
		d.Rule, d.Caller, d.Seq = "r", schemas.Caller{Kind: "key", ID: id}, seq
	})), &r); err != nil {
		t.Fatal(err)
	}
	change(r.GetDecision())
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func cycle(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "what is before the last complete cycle is not applied, what is in it and after it is")
	s.claim(20)
	s.beat(20, 1, 1)
	s.closes(20, 2, "over")
	from := s.closes(20, 3, "repeated")
	s.closes(20, 4, "opened later")
	s.beat(20, 5, from)
	s.closes(20, 6, "new")
	s.opens(20, 7, "opened later")
	return s.end()
}

func replaced(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "an owner that was replaced writes on, also its heartbeat, which is the last record")
	s.claim(10)
	s.closes(10, 1, "by both")
	s.closes(10, 2, "by the old one")
	s.beat(10, 3, 1)
	from := s.claim(20) + 1
	s.opens(20, 1, "by the old one")
	s.closes(20, 2, "by both")
	s.beat(20, 3, from)
	s.opens(10, 4, "by both")
	s.closes(10, 5, "innocent")
	s.claim(20)
	s.beat(10, 6, 1)
	return s.end()
}

func lateCopies(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "copies of a claim, of a heartbeat and of a closure come after the caller was opened, and after the cycle began")
	s.claim(20)
	s.beat(20, 1, 1)
	s.closes(20, 2, "opened")
	s.opens(20, 3, "opened")
	s.beat(20, 1, 1)
	s.claim(20)
	from := s.closes(20, 2, "opened")
	s.beat(20, 4, from)
	s.closes(20, 2, "opened")
	return s.end()
}

func hiddenClaim(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "a higher epoch was announced before the cycle of the newest heartbeat: the heartbeat does not count")
	s.claim(10)
	s.claim(20)
	s.closes(20, 1, "guilty")
	from := s.closes(10, 1, "innocent")
	s.opens(10, 2, "padding")
	s.copies(600)
	s.beat(10, 3, from)
	return s.end()
}

func oldClaim(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "a late copy of an old claim lies right before the cycle")
	s.claim(10)
	s.claim(20)
	s.beat(20, 1, 2)
	s.opens(20, 2, "padding")
	s.copies(600)
	s.claim(10)
	from := s.closes(20, 3, "guilty")
	s.beat(20, 4, from)
	return s.end()
}

func movedStory(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "an owner that was replaced wrote so much that the gate starts behind the owner's records: its next heartbeat shows it")
	s.claim(10)
	s.claim(20)
	s.closes(20, 1, "guilty")
	s.beat(20, 2, 2)
	s.beat(10, 1, 0)
	s.copies(600)
	from := s.closes(10, 2, "innocent")
	s.beat(10, 3, from)
	s.present()
	s.beat(20, 3, 2)
	s.closes(20, 4, "new")
	return s.end()
}

func strays(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "records that no gate believes, between those of the owner")
	s.claim(20)
	s.closes(20, 1, "guilty")
	s.beat(20, 2, 1)
	for _, r := range []pb.Record{
		{Claim: &schemas.Claim{Partition: part + 1, Epoch: 30}}, {Heartbeat: &schemas.Heartbeat{Partition: 0, Epoch: 30, Seq: 1}},
		{Claim: &schemas.Claim{Partition: part, Epoch: math.MaxUint64}}, {Heartbeat: &schemas.Heartbeat{Partition: part, Epoch: 1 << 63, Seq: 1}},
		{Heartbeat: &schemas.Heartbeat{Partition: part, Epoch: 30}}, {Heartbeat: &schemas.Heartbeat{Partition: part, Seq: 9}},
	} {
		s.say(r)
	}
	s.closes(25, 1, "unclaimed")
	for _, value := range [][]byte{nil, []byte("text"), {0x7a, 0x00}, member(1, varint(5, 1)), member(1, text(3, "key"), varint(5, 1)), make([]byte, 4097)} {
		s.raw(vectorTime, value)
	}
	s.raw(math.MaxInt64, mustEncode(t, pb.Record{Claim: &schemas.Claim{Partition: part, Epoch: 9_223_372_036_854}}))
	s.closes(20, 3, "also guilty")
	return s.end()
}

func kindsOfDecisions(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "shadow, two rules about one caller, moved ends, closures that are over, that begin later, and that are too long")
	s.claim(20)
	s.beat(20, 1, 1)
	seq := uint64(1)
	say := func(change func(d *schemas.Decision)) {
		seq++
		s.say(decision(func(d *schemas.Decision) {
			d.Seq = seq
			change(d)
		}))
	}
	say(func(d *schemas.Decision) { d.Mode = schemas.ModeShadow })
	say(func(d *schemas.Decision) { d.Rule = "other" })
	say(func(d *schemas.Decision) { d.Caller.ID, d.Until = "moved", vectorTime+hour })
	say(func(d *schemas.Decision) { d.Caller.ID, d.Until = "moved", vectorTime+2*hour })
	say(func(d *schemas.Decision) { d.Caller.ID, d.Until = "over", vectorTime })
	say(func(d *schemas.Decision) { d.Caller.ID, d.CloseAt = "later", vectorTime+hour/2 })
	say(func(d *schemas.Decision) { d.Caller.ID, d.Until = "too long", math.MaxInt64 })
	say(func(d *schemas.Decision) { d.Caller.ID, d.Caller.Kind = "203.0.113.9", "key" })
	say(func(d *schemas.Decision) {
		d.Caller.ID, d.Caller.Kind, d.Rule, d.Mode, d.CloseAt, d.Until = "0123-1", "_canary", "_canary", schemas.ModeShadow, vectorTime, vectorTime
	})
	return s.end()
}

func shortened(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "the log begins inside the cycle, and its offsets have gaps")
	s.next, s.p.Start = 1000, 1000
	s.closes(20, 7, "before any announcement")
	s.next += 5
	s.beat(20, 8, 990)
	s.next += 700
	s.closes(20, 9, "guilty")
	s.beat(20, 10, 990)
	return s.end()
}

func silent(t *testing.T) partitionJSON {
	t.Helper()
	s := tell(t, "no heartbeat yet: decisions count from the claim on, which comes when the gate has started")
	s.closes(20, 1, "unclaimed")
	s.present()
	s.claim(20)
	s.closes(20, 1, "guilty")
	s.beat(20, 2, 1)
	return s.end()
}
