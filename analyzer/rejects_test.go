package analyzer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// shown returns what is in the topic of rejects.
func (w *world) shown() []reject.Reject {
	w.t.Helper()
	var all []reject.Reject
	for _, rec := range w.log.Records("rejects", 0) {
		r, err := reject.Decode(rec.Value)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// damaged appends records that can't be folded, and returns how many.
func (w *world) damaged() (reasons []string) {
	w.t.Helper()
	for _, bad := range []struct {
		value  string
		reason string
	}{
		{"\x1b[2Jnot a frame" + strings.Repeat(".", 100), "magic"},
		{"", "short"},
	} {
		if _, err := w.log.Produce(w.t.Context(), "requests", 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte(bad.value)}); err != nil {
			w.t.Fatal(err)
		}
		reasons = append(reasons, bad.reason)
	}
	return reasons
}

func TestRecordsThatAnOwnerRefusesCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rejects = "rejects"
		w.start()
		w.prod.send(time.Now(), "a")
		want := w.damaged()
		w.prod.send(time.Now(), "a")
		time.Sleep(time.Second)
		got := w.shown()
		if len(got) != len(want) {
			t.Fatalf("got %d rejects, want %d: %+v", len(got), len(want), got)
		}
		for i, r := range got {
			if r.Reason != want[i] || r.Source != "kafka:requests/0" || r.Offset != int64(i+1) {
				t.Errorf("got %+v, want %s at offset %d of kafka:requests/0", r, want[i], i+1)
			}
		}
		if got[0].Line != `\x1b[2Jnot a frame`+strings.Repeat(".", 100) || got[0].Bytes != 115 {
			t.Errorf("got %q of %d bytes, want it escaped", got[0].Line, got[0].Bytes)
		}
		w.end()
		if got := w.counts("r")["a"]; got != 2 {
			t.Errorf("store: got %d, want 2: what is between the two changes nothing", got)
		}
	})
}

// The topic of rejects is for people. While it can't be written, counting goes on, little is kept, and the rest is counted.
func TestRejectsWaitForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rejects = "rejects"
		w.log.SetFault(produces("rejects", func() kafkaiotest.Fault { return kafkaiotest.Returns(errInjected) }))
		w.start()
		sent := 0
		for range 300 {
			sent += len(w.damaged())
		}
		w.prod.send(time.Now(), "a", "a", "a")
		time.Sleep(time.Second)
		if got := w.log.follow(t, time.Now().UnixNano()).closed; len(got) != 1 {
			t.Errorf("closed: got %v, want a, whatever becomes of rejects", got)
		}
		dropped := w.owner.Stats().Unshown
		if minimum := uint64(sent - maxRejectsQueued - maxRejectsSent); dropped < minimum || dropped > uint64(sent-maxRejectsQueued) {
			t.Errorf("got %d of %d dropped, want %d, and a batch less at most", dropped, sent, sent-maxRejectsQueued)
		}
		w.log.SetFault(nil)
		time.Sleep(time.Minute)
		if got := len(w.shown()); uint64(got)+dropped != uint64(sent) {
			t.Errorf("got %d shown and %d dropped of %d", got, dropped, sent)
		}
		w.end()
	})
}

// An owner that ends writes what it has left, if it can do so soon, or counts it.
func TestAnOwnerThatEndsShowsWhatItRefused(t *testing.T) {
	for name, away := range map[string]bool{"with a broker": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newTestLog()
				log.SetDown(away)
				w := newRejectWriter(log, OwnerConfig{Requests: "requests", Rejects: "rejects"}.withDefaults())
				for i := range int64(maxRejectsQueued) {
					w.offer(time.Now(), i, "magic", nil)
				}
				ctx, stop := context.WithCancel(t.Context())
				stop()
				began := time.Now()
				w.run(ctx)
				if took := time.Since(began); took > lastRejects+kafkaio.DefaultMaxPause {
					t.Errorf("took %v, want %v at most", took, lastRejects)
				}
				wrote := len(log.Records("rejects", 0))
				if dropped := int(w.dropped.Load()); wrote+dropped != maxRejectsQueued || away != (wrote == 0) {
					t.Errorf("got %d written and %d dropped, want %d in all", wrote, dropped, maxRejectsQueued)
				}
			})
		})
	}
}

func TestNothingIsShownWithoutATopic(t *testing.T) {
	w := newRejectWriter(newTestLog(), OwnerConfig{Requests: "requests"}.withDefaults())
	for i := range int64(2 * maxRejectsQueued) {
		w.offer(time.Now(), i, "magic", nil)
	}
	if len(w.queue) != 0 || w.dropped.Load() != 0 {
		t.Errorf("got %d queued and %d dropped, want none: nobody asked for them", len(w.queue), w.dropped.Load())
	}
}

// The reason that people read is the one that is counted.
func TestReasonsAreThoseThatAreCounted(t *testing.T) {
	f := fold.New(mustRules(t, threeAMinute), fold.Options{})
	frame := func(key schemas.PartitionKey, partitions uint32) []byte {
		fr := schemas.Frame{Seq: 1, Fingerprint: key.Fingerprint(), Partitions: partitions}
		b, err := fr.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, test := range []struct {
		name  string
		value []byte
	}{
		{"nothing", nil},
		{"no frame", []byte("what is this?")},
		{"another partition key", frame(schemas.PartitionKey{1}, 1)},
		{"another number of partitions", frame(schemas.DefaultPartitionKey(), 7)},
	} {
		before := f.Stats().Rejected
		err := f.Frame(fold.Record{Value: test.value, Time: 1})
		if err == nil {
			t.Fatalf("%s: was folded", test.name)
		}
		if reason := fold.Reason(err); f.Stats().Rejected[reason] != before[reason]+1 {
			t.Errorf("%s: got reason %q, want the one that was counted in %v", test.name, reason, f.Stats().Rejected)
		}
	}
	if got := fold.Reason(errors.New("who knows")); got != "other" {
		t.Errorf("got %q, want other", got)
	}
}
