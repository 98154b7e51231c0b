package kafkaiotest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestWhatAFaultDoes to a produce: whether it is in the log, what is known of it, whether it may succeed later, and how long
// the call takes.
func TestWhatAFaultDoes(t *testing.T) {
	for _, tc := range []struct {
		name      string
		fault     Fault
		outcome   kafkaio.Outcome
		temporary bool
		appended  bool
		took      time.Duration
	}{
		{"none", Fault{}, kafkaio.Acked, false, true, 0},
		{"down", Down(), kafkaio.Unsent, true, false, 0},
		{"lost request", LostRequest(), kafkaio.Unknown, true, false, 0},
		{"lost answer", LostAnswer(), kafkaio.Unknown, true, true, 0},
		{"silent", Silent(), kafkaio.Unknown, true, false, kafkaio.DefaultTimeout},
		{"slow", Slow(time.Second), kafkaio.Acked, false, true, time.Second},
		{"not leader", NotLeader(), kafkaio.Refused, true, false, 0},
		{"no space", NoSpace(), kafkaio.Unknown, true, false, 0},
		{"unauthorized", Unauthorized(), kafkaio.Refused, false, false, 0},
		{"no such topic", Returns(kafkaio.ErrNoTopic), kafkaio.Refused, false, false, 0},
		{"too large", Returns(kafkaio.ErrTooLarge), kafkaio.Refused, false, false, 0},
		{"from the future", Returns(kafkaio.ErrTimestamp), kafkaio.Refused, false, false, 0},
		{"anything else", Returns(errors.New("on fire")), kafkaio.Unknown, false, false, 0},
		{"an outcome of its own", Returns(&kafkaio.RequestError{Outcome: kafkaio.Unsent, Err: errors.New("on fire")}), kafkaio.Unsent, false, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := New()
				k.Create(1, "t")
				k.SetFault(func(Call) Fault { return tc.fault })
				began := time.Now()
				_, err := k.Produce(t.Context(), "t", 0, kafkaio.Message{})
				if kafkaio.OutcomeOf(err) != tc.outcome || kafkaio.Temporary(err) != tc.temporary || time.Since(began) != tc.took {
					t.Errorf("got %v, outcome %v, temporary %v, after %v; want %v, %v, %v",
						err, kafkaio.OutcomeOf(err), kafkaio.Temporary(err), time.Since(began), tc.outcome, tc.temporary, tc.took)
				}
				if n := len(k.Records("t", 0)); (n == 1) != tc.appended {
					t.Errorf("got %d records, want it in the log: %v", n, tc.appended)
				}
				for op, call := range calls(t.Context(), k) {
					if err := call(); op != OpProduce && (err == nil) != (tc.fault.Err == nil) {
						t.Errorf("%s: got %v", op, err)
					}
				}
			})
		})
	}
}

// calls returns a call of each Op to partition 0 of topic "t".
func calls(ctx context.Context, k *Kafka) map[Op]func() error {
	return map[Op]func() error{
		OpFetch:      func() error { _, err := k.Fetch(ctx, kafkaio.FetchRequest{Topic: "t"}); return err },
		OpProduce:    func() error { _, err := k.Produce(ctx, "t", 0, kafkaio.Message{Value: []byte("x")}); return err },
		OpRange:      func() error { _, _, err := k.Range(ctx, "t", 0); return err },
		OpPartitions: func() error { _, err := k.Partitions(ctx, "t"); return err },
	}
}

// TestTheFaultSeesTheCall: what it is about, how many came before, and how many to the same partition have no answer yet.
func TestTheFaultSeesTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New()
		k.Create(2, "t", "u")
		var seen []string
		hold := make(chan struct{})
		k.SetFault(func(c Call) Fault {
			seen = append(seen, fmt.Sprintf("%s %s/%d %d %d %d", c.Op, c.Topic, c.Partition, len(c.Messages), c.N, c.InFlight))
			return Fault{Until: hold}
		})
		var all sync.WaitGroup
		for _, call := range []func() error{
			func() error { _, err := k.Produce(t.Context(), "t", 1, make([]kafkaio.Message, 3)...); return err },
			func() error { _, err := k.Produce(t.Context(), "t", 1, make([]kafkaio.Message, 2)...); return err },
			func() error { _, err := k.Produce(t.Context(), "u", 1, make([]kafkaio.Message, 1)...); return err },
			func() error {
				_, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Partition: 1})
				return err
			},
		} {
			all.Go(func() {
				if err := call(); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if len(k.Records("t", 1)) != 0 {
			t.Error("got records before the cluster may act")
		}
		close(hold)
		all.Wait()
		want := []string{"produce t/1 3 1 1", "produce t/1 2 2 2", "produce u/1 1 3 1", "fetch t/1 0 4 1"}
		if fmt.Sprint(seen) != fmt.Sprint(want) || len(k.Records("t", 1)) != 5 {
			t.Errorf("got %v and %d records, want %v and 5", seen, len(k.Records("t", 1)), want)
		}
		if got := k.Calls(); got[OpProduce] != 3 || got[OpFetch] != 1 || got[OpRange] != 0 {
			t.Errorf("got %v calls, want three produces and a fetch", got)
		}
	})
}

// TestAFaultEndsWithItsCaller, whatever it waits for.
func TestAFaultEndsWithItsCaller(t *testing.T) {
	for name, fault := range map[string]Fault{"delay": {Delay: time.Hour}, "until": {Until: make(chan struct{})}, "silent": Silent()} {
		synctest.Test(t, func(t *testing.T) {
			k := New()
			k.Create(1, "t")
			k.SetFault(func(Call) Fault {
				if fault.Until != nil {
					return Fault{Until: make(chan struct{})} // of this bubble
				}
				return fault
			})
			for op, call := range map[Op]func(context.Context) error{
				OpProduce: func(ctx context.Context) error { return calls(ctx, k)[OpProduce]() },
				OpFetch:   func(ctx context.Context) error { return calls(ctx, k)[OpFetch]() },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				began := time.Now()
				if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second || kafkaio.OutcomeOf(err) != kafkaio.Unknown {
					t.Errorf("%s, %s: got %v, outcome %v, after %v", name, op, err, kafkaio.OutcomeOf(err), time.Since(began))
				}
				cancel()
				if err := call(ctx); kafkaio.OutcomeOf(err) != kafkaio.Unsent {
					t.Errorf("%s, %s: with an ended context: got %v, want it unsent", name, op, err)
				}
			}
			if n := len(k.Records("t", 0)); n != 0 {
				t.Errorf("%s: got %d records, want none", name, n)
			}
		})
	}
}
