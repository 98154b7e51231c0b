package analyzer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// batchLog is a testLog that remembers how many records its largest produce had.
type batchLog struct {
	*testLog
	maxBatch int
}

func (l *batchLog) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (int64, error) {
	l.maxBatch = max(l.maxBatch, len(msgs))
	return l.testLog.Produce(ctx, topic, partition, msgs...)
}

// aPublisher returns a publisher that has claimed an empty decisions/0.
func aPublisher(t *testing.T) (*publisher, *batchLog) {
	t.Helper()
	log := &batchLog{testLog: newTestLog()}
	p := newPublisher(log, OwnerConfig{Requests: "requests", Decisions: "decisions"}.withDefaults(), func(*schemas.Heartbeat) {})
	p.setEpoch(1, 0)
	return p, log
}

// closing returns a change that closes a caller for a minute from now.
func closing(t *testing.T, id string) fold.Change {
	t.Helper()
	now := time.Now().UnixNano()
	return fold.Change{
		Rule: mustRules(t, threeAMinute).Rules[0], Caller: schemas.Caller{Kind: "key", ID: id}, Kind: policy.Closed,
		Closure: policy.Closure{CloseAt: now, Until: now + int64(time.Minute), Nth: 1}, At: now,
	}
}

// published returns the callers that decisions/0 is about, in its order, without repeats.
func (m *testLog) published(t *testing.T) []string {
	t.Helper()
	var ids []string
	seen := make(map[string]bool)
	for _, r := range m.decisions(t) {
		if d := r.Decision; d != nil && !seen[d.Caller.ID] {
			seen[d.Caller.ID] = true
			ids = append(ids, d.Caller.ID)
		}
	}
	return ids
}

// A cycle of repeats is under way when more closes come than fit one produce.
func TestAllThatIsNewIsPublishedBesideACycle(t *testing.T) {
	p, log := aPublisher(t)
	p.offer([]fold.Change{closing(t, "old-1"), closing(t, "old-2")}, nil, nil, outbox.Terms{})
	if err := p.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"old-1", "old-2"}
	var changes []fold.Change
	for i := range 2*maxProduce + 500 {
		changes = append(changes, closing(t, fmt.Sprint("new-", i)))
		want = append(want, changes[i].Caller.ID)
	}
	p.inForce.BeginCycle(time.Now().UnixNano(), p.end)
	p.offer(changes, nil, nil, outbox.Terms{})
	if err := p.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := log.published(t); !slices.Equal(got, want) {
		t.Errorf("got decisions about %d callers, want all %d in their order", len(got), len(want))
	}
	if p.inForce.Left() > 0 || p.inForce.From() != 2 {
		t.Errorf("cycle: got %d left to repeat and from %d, want none and 2", p.inForce.Left(), p.inForce.From())
	}
	if log.maxBatch > maxProduce {
		t.Errorf("largest produce: got %d records, want at most %d", log.maxBatch, maxProduce)
	}
}

// A caller that opens while a cycle repeats that it is closed stays open.
func TestARepeatRevivesNothing(t *testing.T) {
	p, log := aPublisher(t)
	p.offer([]fold.Change{closing(t, "a"), closing(t, "b")}, nil, nil, outbox.Terms{})
	if err := p.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var changes []fold.Change
	for i := range maxProduce {
		changes = append(changes, closing(t, fmt.Sprint("new-", i)))
	}
	opened := closing(t, "a")
	opened.Kind, opened.Closure.Until = policy.Opened, opened.Closure.CloseAt
	p.inForce.BeginCycle(time.Now().UnixNano(), p.end)
	p.offer(append(changes, opened), nil, nil, outbox.Terms{}) // in the second produce
	if err := p.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	until := int64(0)
	for _, r := range log.decisions(t) {
		if d := r.Decision; d != nil && d.Caller.ID == "a" {
			until = d.Until - d.CloseAt
		}
	}
	if until > 0 {
		t.Errorf("the last word about a: got closed for %v, want open", time.Duration(until))
	}
}

// What comes faster than it is published is published once, as it is in the end: a close that was taken back closes nobody,
// now or in a later cycle, and one that came after an opening stands. Each close is observed.
func TestOnlyTheLastWordAboutACallerIsPublished(t *testing.T) {
	shut := func(t *testing.T) fold.Change { t.Helper(); return closing(t, "a") }
	open := func(t *testing.T) fold.Change {
		t.Helper()
		c := closing(t, "a")
		c.Kind, c.Closure.Until = policy.Opened, c.Closure.CloseAt
		return c
	}
	for name, test := range map[string]struct {
		before, words []func(*testing.T) fold.Change // published before, and coalesced
		closed        bool
		observed      int
	}{
		"closed and opened":                  {nil, []func(*testing.T) fold.Change{shut, open}, false, 1},
		"opened and closed":                  {nil, []func(*testing.T) fold.Change{open, shut}, true, 1},
		"closed, opened and closed":          {nil, []func(*testing.T) fold.Change{shut, open, shut}, true, 2},
		"closed, opened, closed and opened":  {nil, []func(*testing.T) fold.Change{shut, open, shut, open}, false, 2},
		"known closed; opened":               {[]func(*testing.T) fold.Change{shut}, []func(*testing.T) fold.Change{open}, false, 1},
		"known closed; closed and opened":    {[]func(*testing.T) fold.Change{shut}, []func(*testing.T) fold.Change{shut, open}, false, 2},
		"known closed; opened and closed":    {[]func(*testing.T) fold.Change{shut}, []func(*testing.T) fold.Change{open, shut}, true, 2},
		"known open; closed and opened anew": {[]func(*testing.T) fold.Change{shut, open}, []func(*testing.T) fold.Change{shut, open}, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p, log := aPublisher(t)
			observed := 0
			p.config.Observe = func(fold.Change, int64) { observed++ }
			publish := func(words []func(*testing.T) fold.Change) {
				for _, word := range words {
					p.offer([]fold.Change{word(t)}, nil, nil, outbox.Terms{}) // each by itself, as batches come
				}
				if err := p.flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			publish(test.before)
			before := len(log.decisions(t))
			publish(test.words)
			if got := len(log.decisions(t)) - before; got != 1 {
				t.Errorf("got %d records, want 1", got)
			}
			p.inForce.BeginCycle(time.Now().UnixNano(), p.end) // and what is in force again
			publish(nil)
			for _, from := range []int{0, before} { // a gate that was there, and one that was not
				closed := false
				for _, r := range log.decisions(t)[from:] {
					closed = r.Decision.Until > r.Decision.CloseAt
				}
				if closed != test.closed {
					t.Errorf("the last word since record %d: got closed %v, want %v", from, closed, test.closed)
				}
			}
			if in := p.inForce.Has(outbox.Key{Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "a"}}); in != test.closed {
				t.Errorf("in force: got %v, want %v", in, test.closed)
			}
			if observed != test.observed {
				t.Errorf("got %d closes observed, want %d", observed, test.observed)
			}
		})
	}
}

// An opening comes between the pieces of a cycle that began when the caller was closed: no piece, and no later cycle,
// closes it again.
func TestACycleUnderWayRevivesNoClosure(t *testing.T) {
	p, log := aPublisher(t)
	var changes []fold.Change
	for i := range 2*maxProduce + 500 {
		changes = append(changes, closing(t, fmt.Sprint("c-", i)))
	}
	p.offer(changes, nil, nil, outbox.Terms{})
	if err := p.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.inForce.BeginCycle(time.Now().UnixNano(), p.end)
	opened := make(map[string]bool)
	for piece := 0; p.inForce.Left() > 0; piece++ {
		var openings []fold.Change
		left := p.inForce.Next(p.inForce.Left(), time.Now().UnixNano())
		for _, at := range []int{0, len(left) / 2, len(left) - 1} { // of those to be repeated next, later and last
			c := closing(t, left[at].Caller.ID)
			c.Kind, c.Closure.Until = policy.Opened, c.Closure.CloseAt
			openings = append(openings, c)
			opened[c.Caller.ID] = true
		}
		p.offer(openings, nil, nil, outbox.Terms{})
		if err := p.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.inForce.BeginCycle(time.Now().UnixNano(), p.end)
	for p.inForce.Left() > 0 {
		if err := p.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(map[string]bool)
	for _, r := range log.decisions(t) {
		closed[r.Decision.Caller.ID] = r.Decision.Until > r.Decision.CloseAt
	}
	for id, shut := range closed {
		if shut == opened[id] {
			t.Errorf("the last word about %s: got closed %v, want %v", id, shut, !opened[id])
		}
	}
	if len(opened) < 6 || len(closed) != len(changes) {
		t.Errorf("got %d opened of %d, want two pieces' worth of %d", len(opened), len(closed), len(changes))
	}
}

// While decisions can't be published, canaries and closes pile up: what is kept of them is bounded, and so is a produce.
func TestEntriesForAnAbsentBrokerAreBounded(t *testing.T) {
	p, log := aPublisher(t)
	observed := 0
	p.config.Observe = func(fold.Change, int64) { observed++ }
	canary := schemas.Entry{Kind: schemas.KindCanary, ID: "c", Count: 1}
	for i := range 40 {
		canary.Time = int64(i)
		p.offer([]fold.Change{closing(t, "a"), closing(t, "a")}, nil, slices.Repeat([]schemas.Entry{canary}, 100), outbox.Terms{})
	}
	if got := len(p.waiting.canaries); got != maxProduce {
		t.Errorf("canaries kept: got %d, want %d", got, maxProduce)
	}
	if err := p.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if observed != outbox.MaxCloses {
		t.Errorf("closes kept: got %d, want %d", observed, outbox.MaxCloses)
	}
	records := log.decisions(t)
	if newest := records[len(records)-1].Decision; newest.CloseAt != 39 || log.maxBatch > maxProduce {
		t.Errorf("got canary %d last and %d records in a produce, want the newest, 39, and at most %d", newest.CloseAt, log.maxBatch, maxProduce)
	}
}

// The broker goes away just when the publisher wants to know what stands before its records.
func TestAPublisherStopsThoughTheBrokerIsAway(t *testing.T) {
	testenv.Long(t)
	tests := map[string]func(log *testLog){
		"before a produce": func(log *testLog) { log.SetDown(true) },
		"after one that was repeated": func(log *testLog) {
			calls := 0
			log.SetFault(produces("decisions", func() kafkaiotest.Fault {
				if calls++; calls == 1 {
					return kafkaiotest.LostAnswer()
				}
				log.SetDown(true) // from the next call on
				return kafkaiotest.Fault{}
			}))
		},
	}
	for name, broken := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, log := aPublisher(t)
				done := make(chan error, 1)
				p.start()
				broken(log.testLog)
				var changes []fold.Change
				for i := range 5 * maxProduce {
					changes = append(changes, closing(t, fmt.Sprint(i)))
				}
				p.offer(changes, nil, nil, outbox.Terms{})
				go func() { done <- p.run(t.Context()) }()
				time.Sleep(time.Minute)
				p.close()
				stopped := time.Now()
				select {
				case err := <-done:
					if err != nil {
						t.Errorf("got %v, want no error: the next owner says what is left", err)
					}
				case <-time.After(time.Hour):
					t.Fatal("still running an hour later")
				}
				if took := time.Since(stopped); took > 2*kafkaio.DefaultMaxPause {
					t.Errorf("took %v to stop, want at most %v", took, 2*kafkaio.DefaultMaxPause)
				}
			})
		})
	}
}

func TestWithoutALeaseNothingIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var leased atomic.Bool
		w.conf.Lease = func(time.Time) bool { return leased.Load() }
		w.start()
		time.Sleep(time.Minute)
		if got := w.log.decisions(t); len(got) != 0 {
			t.Errorf("got %d records without a lease, want none: a claim fences the rightful owner", len(got))
		}
		leased.Store(true)
		time.Sleep(5 * time.Second)
		if got := w.log.decisions(t); len(got) == 0 || got[0].Claim == nil {
			t.Errorf("got %+v with a lease, want a claim first", got)
		}
		w.end()
	})
}

// What gates refuse is not what they were told: a late copy of an older decision, and a word of an owner that was
// replaced.
func TestOnlyDecisionsThatGatesTakeCountAsPublished(t *testing.T) {
	log := newTestLog()
	say := func(epoch, seq uint64, id string, until int64) {
		t.Helper()
		value, err := pb.AppendDecision(nil, &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, Until: until, Epoch: epoch, Seq: seq,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Produce(t.Context(), "decisions", 0, kafkaio.Message{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	say(7, 5, "a", 100)
	say(7, 6, "a", 0)
	say(7, 5, "a", 100) // an answer was lost, and the copy came late
	say(8, 1, "b", 200)
	say(7, 7, "b", 0) // a zombie's
	conf := OwnerConfig{Requests: "requests", Decisions: "decisions"}.withDefaults()
	at, err := newDecisionsReader(log, &conf, 0).view(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int64{"a": 0, "b": 200} {
		if got := at.published[outbox.Key{Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}}].Until; got != want {
			t.Errorf("%s: got published until %d, want %d", id, got, want)
		}
	}
}

// Somebody has written what no gate takes: decisions of an epoch that nobody has claimed, and anything about another
// partition. They hide nothing from the owner that starts, nor do they stop one that runs.
func TestStrayRecordsHideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.prod.send(time.Now(), "a", "a", "a")
		time.Sleep(3 * time.Second)
		epoch := w.epoch()
		about := func(id string, epoch, seq uint64, partition int32) *schemas.Decision {
			now := time.Now().UnixNano()
			return &schemas.Decision{
				Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: now, Until: now + int64(time.Hour),
				Epoch: epoch, Seq: seq, Partition: partition,
			}
		}
		strays := []pb.Record{
			{Decision: about("of-nobody", math.MaxUint64, 1, 0)},
			{Decision: about("elsewhere", epoch, math.MaxUint64, 1)},
			{Claim: &schemas.Claim{Partition: 1, Epoch: math.MaxUint64, Nonce: 1, Owner: "elsewhere"}},
			{Heartbeat: &schemas.Heartbeat{Partition: 1, Epoch: math.MaxUint64, Seq: 1, From: 1 << 40}},
		}
		usurped := []pb.Record{
			{Claim: &schemas.Claim{Epoch: epoch + 1, Nonce: 1, Owner: "somebody"}},
			{Decision: about("usurped", epoch+1, 1, 0)},
		}
		w.log.say(t, strays...)
		time.Sleep(3 * time.Second)
		if got := w.epoch(); got != epoch {
			t.Errorf("got epoch %d, want %d still: nobody has claimed this partition", got, epoch)
		}
		w.log.say(t, usurped...)
		if err := <-w.done; !errors.Is(err, errFenced) {
			t.Fatalf("owner: got %v, want %v", err, errFenced)
		}
		w.start()
		time.Sleep(3 * time.Second)
		if got := w.log.follow(t, time.Now().UnixNano()).closed; len(got) != 1 {
			t.Errorf("got %v closed, want nobody but whom the owner has closed", got)
		}
		w.end()
	})
}

// A log of which nothing is left, as on a quiet site after a long stop, is as good as one that was read.
func TestAnOwnerRunsOverALogThatRetentionEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prod.send(time.Now(), "a")
		w.atRest()
		w.prod.send(time.Now(), "a")
		w.prod.send(time.Now(), "a")
		w.log.Trim("requests", 0, 3)
		w.start()
		time.Sleep(5 * time.Second)
		s := w.owner.Stats()
		if s.State != stateRunning || s.Next != 3 || s.Fold.Lost != 2 {
			t.Errorf("got %v at offset %d with %d lost, want running at 3 with 2", s.State, s.Next, s.Fold.Lost)
		}
		w.end()
	})
}
