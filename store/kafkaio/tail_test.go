package kafkaio_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// others returns n messages that no log of numbered has.
func others(n int) (msgs []kafkaio.Message) {
	for i := range n {
		msgs = append(msgs, kafkaio.Message{Value: fmt.Appendf(nil, "other %d", i)})
	}
	return msgs
}

// TestALogThatHasGrownAgain: a partition loses records that a cursor has read, and has more than before when the cursor looks again. Every
// moment at which that can happen is noticed before a record of the other log is returned.
func TestALogThatHasGrownAgain(t *testing.T) {
	remake := func(k *kafkaiotest.Kafka) {
		k.Recreate("t")
		k.Append("t", 0, others(20)...)
	}
	cut := func(k *kafkaiotest.Kafka) { k.Cut("t", 0, 5, others(20)...) }
	for _, tc := range []struct {
		name   string
		change func(k *kafkaiotest.Kafka)
	}{
		{"a leader is elected while a fetch waits", func(k *kafkaiotest.Kafka) { time.AfterFunc(time.Second/4, func() { cut(k) }) }},
		{"a leader is elected between two fetches", cut},
		{"a leader is elected while the cluster is away", func(k *kafkaiotest.Kafka) {
			k.SetDown(true)
			cut(k)
			time.AfterFunc(time.Second, func() { k.SetDown(false) })
		}},
		{"leaders are elected twice", func(k *kafkaiotest.Kafka) {
			k.Cut("t", 0, 8, others(1)...) // behind what was read: nothing is lost
			k.Cut("t", 0, 7, others(20)...)
		}},
		{"the topic is made anew while a fetch waits", func(k *kafkaiotest.Kafka) { time.AfterFunc(time.Second/4, func() { remake(k) }) }},
		{"the topic is made anew when a fetch has just begun", func(k *kafkaiotest.Kafka) { time.AfterFunc(time.Millisecond, func() { remake(k) }) }},
		{"the topic is made anew while the cluster is away", func(k *kafkaiotest.Kafka) {
			k.SetDown(true)
			remake(k)
			time.AfterFunc(time.Second, func() { k.SetDown(false) })
		}},
		{"the topic is missing for a while", func(k *kafkaiotest.Kafka) {
			k.Delete("t")
			time.AfterFunc(time.Second, func() {
				k.Create(1, "t")
				k.Append("t", 0, others(20)...)
			})
		}},
		{"the topic is made anew while the process stands still", func(k *kafkaiotest.Kafka) {
			remake(k)
			time.Sleep(time.Second)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := numbered(8)
				c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Retry: kafkaio.Always})
				read(t, c, 8)
				tc.change(k)
				for {
					b, err := c.Next(t.Context())
					if errors.Is(err, kafkaio.ErrTruncated) {
						break
					}
					if err != nil || len(b.Records) > 0 {
						t.Fatalf("got %q and %v, want ErrTruncated", valuesOf(b.Records), err)
					}
				}
				if c.Offset() != 8 {
					t.Errorf("the cursor is at %d, want 8", c.Offset())
				}
				c.MoveTo(kafkaio.Earliest)
				if values, _ := read(t, c, 20); !slices.Contains(values, "other 12") {
					t.Errorf("afterwards: got %q, want the log that exists now", values)
				}
			})
		})
	}
}

// lateAnswers is a log whose next answers wait to be read.
type lateAnswers struct {
	*kafkaiotest.Kafka

	waits []func() // one for each fetch
	again bool     // it asks once more afterwards, as a Client does for an answer that had no room for the partition
}

func (l *lateAnswers) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	b, err := l.Kafka.Fetch(ctx, r)
	if len(l.waits) > 0 {
		wait := l.waits[0]
		l.waits = l.waits[1:]
		if wait(); l.again {
			b, err = l.Kafka.Fetch(ctx, r)
		}
	}
	return b, err
}

// TestALogThatHasGrownAgainBehindAnAnswer: a process stands still between the answer of a broker and the moment when it reads that answer.
// Before that it may have stood still once already, so that this answer is the one that verifies the log.
func TestALogThatHasGrownAgainBehindAnAnswer(t *testing.T) {
	standStill := func() { time.Sleep(2 * time.Second) }
	for name, tc := range map[string]struct {
		records int
		again   bool
	}{
		"that is empty": {}, "with a record": {records: 1}, "that had no room": {again: true},
	} {
		for before := range 2 {
			t.Run(fmt.Sprint(name, ", the late one number ", before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := &lateAnswers{Kafka: numbered(8), again: tc.again}
					c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t"})
					read(t, c, 8)
					k.Append("t", 0, others(tc.records)...)
					k.waits = append(slices.Repeat([]func(){standStill}, before), func() {
						k.Recreate("t")
						k.Append("t", 0, others(20)...)
						standStill()
					})
					var b kafkaio.Batch
					var err error
					for range 3 {
						if b, err = c.Next(t.Context()); err != nil || len(b.Records) > tc.records {
							break
						}
					}
					if !errors.Is(err, kafkaio.ErrTruncated) {
						t.Errorf("got %q and %v, want ErrTruncated", valuesOf(b.Records), err)
					}
				})
			})
		}
	}
}

// TestALogThatOnlyLooksLikeAnother: elections, failures and retention that lose nothing that was read are no reason to stop.
func TestALogThatOnlyLooksLikeAnother(t *testing.T) {
	for name, change := range map[string]func(k *kafkaiotest.Kafka){
		"a clean election":                    func(k *kafkaiotest.Kafka) { k.Cut("t", 0, 8) },
		"an election that loses what is next": func(k *kafkaiotest.Kafka) { k.Append("t", 0, others(3)...); k.Cut("t", 0, 8) },
		"the cluster was away": func(k *kafkaiotest.Kafka) {
			k.SetDown(true)
			time.AfterFunc(time.Second, func() { k.SetDown(false) })
		},
		"retention deletes the record that was read last": func(k *kafkaiotest.Kafka) { k.Cut("t", 0, 8); k.Trim("t", 0, 8) },
		"the record that was read last is corrupt now": func(k *kafkaiotest.Kafka) {
			k.Cut("t", 0, 8)
			k.Corrupt("t", 0, kafkaiotest.Corruption{From: 7, To: 7})
		},
		"a pause": func(*kafkaiotest.Kafka) { time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := numbered(8)
				c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Retry: kafkaio.Always})
				read(t, c, 8)
				change(k)
				time.AfterFunc(2*time.Second, func() { k.Append("t", 0, kafkaio.Message{Value: []byte("8")}) })
				if values, _ := read(t, c, 9); !slices.Equal(values, []string{"8"}) {
					t.Errorf("got %q, want the record that follows", values)
				}
			})
		})
	}
}

// TestACursorKnowsATailFromBefore: a reader that starts again says which record it has read last.
func TestACursorKnowsATailFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(8)
		tail := k.Records("t", 0)[6].Tail()
		c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Offset: 7, Tail: tail})
		if values, _ := read(t, c, 8); !slices.Equal(values, []string{"7"}) {
			t.Errorf("the same log: got %q, want 7", values)
		}
		if err := c.Verify(t.Context(), tail); err != nil || c.Offset() != 8 {
			t.Errorf("verify: got %v at %d", err, c.Offset())
		}
		k.Cut("t", 0, 6, others(4)...)
		c = kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Offset: 7, Tail: tail})
		if b, err := c.Next(t.Context()); !errors.Is(err, kafkaio.ErrTruncated) {
			t.Errorf("another log: got %q and %v, want ErrTruncated", valuesOf(b.Records), err)
		}
		for name, tail := range map[string]kafkaio.Tail{"another record": tail, "beyond the end": {Offset: 99, CRC: 1}} {
			if err := c.Verify(t.Context(), tail); !errors.Is(err, kafkaio.ErrTruncated) {
				t.Errorf("verify, %s: got %v, want ErrTruncated", name, err)
			}
		}
		if err := c.Verify(t.Context(), kafkaio.Tail{Offset: 99}); err != nil {
			t.Errorf("verify, no record: got %v", err)
		}
		k.SetDown(true)
		time.AfterFunc(time.Minute, func() { k.SetDown(false) })
		if err := c.Verify(t.Context(), k.Records("t", 0)[0].Tail()); err != nil {
			t.Errorf("verify, away for a while: got %v", err)
		}
	})
}

// TestATailIsOfTimeKeyAndValue, and never looks like none.
func TestATailIsOfTimeKeyAndValue(t *testing.T) {
	seen := make(map[uint32]string)
	for name, r := range map[string]kafkaio.Record{
		"plain": {Time: 1, Key: []byte("k"), Value: []byte("v")}, "time": {Time: 2, Key: []byte("k"), Value: []byte("v")},
		"key": {Time: 1, Key: []byte("l"), Value: []byte("v")}, "value": {Time: 1, Key: []byte("k"), Value: []byte("w")}, "empty": {},
	} {
		crc := r.Tail().CRC
		if crc == 0 || seen[crc] != "" {
			t.Errorf("%s: got checksum %d, that of %q", name, crc, seen[crc])
		}
		seen[crc] = name
	}
}

// TestARecordIsVerifiedOnlyInDoubt: a reader that keeps up fetches nothing twice, though its brokers are on the other side of the world.
func TestARecordIsVerifiedOnlyInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &lateAnswers{Kafka: numbered(8)}
		k.waits = slices.Repeat([]func(){func() { time.Sleep(400 * time.Millisecond) }}, 100)
		c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t"})
		read(t, c, 8)
		before := k.Calls()[kafkaiotest.OpFetch]
		for i := range 10 {
			k.Append("t", 0, kafkaio.Message{Value: fmt.Append(nil, i)})
			read(t, c, int64(9+i))
		}
		if got := k.Calls()[kafkaiotest.OpFetch] - before; got != 10 {
			t.Errorf("got %d fetches, want 10", got)
		}
		time.Sleep(time.Second)
		read(t, c, 18)
		if _, err := c.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := k.Calls()[kafkaiotest.OpFetch] - before; got != 12 {
			t.Errorf("got %d fetches after a pause, want 12: one of the last record read", got)
		}
		if _, err := c.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := k.Calls()[kafkaiotest.OpFetch] - before; got != 13 {
			t.Errorf("got %d fetches after one that has waited for nothing, want 13", got)
		}
	})
}
