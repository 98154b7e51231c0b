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

// filled returns a cluster whose topic "t" holds n records, each with its offset as its value.
func filled(n int) *Kafka {
	k := New()
	k.Create(2, "t")
	for i := range n {
		k.Append("t", 0, kafkaio.Message{Value: fmt.Append(nil, i)})
	}
	return k
}

// fetch returns the values, holes and the next offset of one fetch.
func fetch(t *testing.T, k *Kafka, from int64) string {
	t.Helper()
	b, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Offset: from})
	if r, ok := errors.AsType[*kafkaio.RangeError](err); ok {
		return fmt.Sprintf("out of %d-%d", r.Start, r.End)
	}
	if c, ok := errors.AsType[*kafkaio.CorruptError](err); ok {
		return fmt.Sprintf("corrupt %d-%d", c.From, c.To)
	}
	if err != nil {
		return err.Error()
	}
	text := ""
	for _, r := range b.Records {
		text += string(r.Value) + " "
	}
	for _, s := range b.Skipped {
		text += fmt.Sprintf("%s %d-%d ", s.Reason, s.From, s.To)
	}
	return text + fmt.Sprintf("next %d of %d-%d", b.Next, b.LogStart, b.HighWater)
}

// TestWhatHappensToAPartition is what fetches from an offset say afterwards.
func TestWhatHappensToAPartition(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(k *Kafka)
		want map[int64]string
	}{
		{"nothing", func(*Kafka) {}, map[int64]string{0: "0 1 2 3 next 4 of 0-4", 3: "3 next 4 of 0-4", 4: "next 4 of 0-4", 5: "out of 0-4"}},
		{"trim", func(k *Kafka) { k.Trim("t", 0, 2) }, map[int64]string{1: "out of 2-4", 2: "2 3 next 4 of 2-4"}},
		{"trim of all", func(k *Kafka) { k.Trim("t", 0, 4) }, map[int64]string{3: "out of 4-4", 4: "next 4 of 4-4"}},
		{"cut", func(k *Kafka) { k.Cut("t", 0, 2) }, map[int64]string{0: "0 1 next 2 of 0-2", 3: "out of 0-2"}},
		{"cut, then others", func(k *Kafka) {
			k.Cut("t", 0, 2)
			k.Append("t", 0, kafkaio.Message{Value: []byte("x")})
		}, map[int64]string{1: "1 x next 3 of 0-3"}},
		{"recreate", func(k *Kafka) { k.Recreate("t") }, map[int64]string{0: "next 0 of 0-0", 1: "out of 0-0"}},
		{"skip", func(k *Kafka) {
			k.Skip("t", 0, 3, kafkaio.SkipCodec)
			k.Append("t", 0, kafkaio.Message{Value: []byte("x")})
		}, map[int64]string{3: "3 x codec 4-6 next 8 of 0-8", 5: "x codec 5-6 next 8 of 0-8"}},
		{"a skip that is cut", func(k *Kafka) {
			k.Skip("t", 0, 3, kafkaio.SkipCodec)
			k.Cut("t", 0, 4)
		}, map[int64]string{3: "3 next 4 of 0-4"}},
		{"corrupt", func(k *Kafka) { k.Corrupt("t", 0, Corruption{From: 1, To: 2}) }, map[int64]string{0: "0 next 1 of 0-4", 1: "corrupt 1-2", 2: "corrupt 2-2", 3: "3 next 4 of 0-4"}},
		{"corrupt in its header", func(k *Kafka) { k.Corrupt("t", 0, Corruption{From: 1, To: 2, HeaderTo: 99}) }, map[int64]string{1: "corrupt 1-99", 3: "3 next 4 of 0-4"}},
		{"corrupt, and cut", func(k *Kafka) {
			k.Corrupt("t", 0, Corruption{From: 3, To: 3})
			k.Cut("t", 0, 3)
			k.Append("t", 0, kafkaio.Message{Value: []byte("x")})
		}, map[int64]string{3: "x next 4 of 0-4"}},
		{"edit", func(k *Kafka) {
			k.Edit("t", 0, func(r []kafkaio.Record) []kafkaio.Record { return []kafkaio.Record{r[1], r[3]} })
		}, map[int64]string{0: "out of 1-4", 1: "1 3 gap 2-2 next 4 of 1-4"}},
		{"edit to nothing", func(k *Kafka) {
			k.Edit("t", 0, func([]kafkaio.Record) []kafkaio.Record { return nil })
		}, map[int64]string{0: "next 0 of 0-0"}},
		{"two records a fetch", func(k *Kafka) { k.SetMaxRecords(2) }, map[int64]string{0: "0 1 next 2 of 0-4", 3: "3 next 4 of 0-4"}},
		{"delete", func(k *Kafka) { k.Delete("t") }, map[int64]string{0: "fetch t/0: no such topic or partition, or hidden by ACLs: [3] Unknown Topic Or Partition: the request is for a topic or partition that does not exist on this broker"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := filled(4)
			tc.do(k)
			for from, want := range tc.want {
				if got := fetch(t, k, from); got != want {
					t.Errorf("from %d: got %q, want %q", from, got, want)
				}
			}
		})
	}
}

func TestACorruptionThatEnds(t *testing.T) {
	k := filled(2)
	k.Corrupt("t", 0, Corruption{From: 0, To: 0, Fetches: 2})
	for i, want := range []string{"corrupt 0-0", "corrupt 0-0", "0 1 next 2 of 0-2"} {
		if got := fetch(t, k, 0); got != want {
			t.Errorf("fetch %d: got %q, want %q", i, got, want)
		}
	}
}

// TestAPollWakes at once for a record, and for whatever else happens to its partition.
func TestAPollWakes(t *testing.T) {
	for name, do := range map[string]func(k *Kafka){
		"a record": func(k *Kafka) { k.Append("t", 0, kafkaio.Message{}) }, "a hole": func(k *Kafka) { k.Skip("t", 0, 1, kafkaio.SkipControl) },
		"a cut": func(k *Kafka) { k.Cut("t", 0, 1) }, "no topic": func(k *Kafka) { k.Delete("t") },
	} {
		synctest.Test(t, func(t *testing.T) {
			k := filled(2)
			time.AfterFunc(time.Second, func() { k.Append("t", 1, kafkaio.Message{}) }) // which is another's
			time.AfterFunc(2*time.Second, func() { do(k) })
			began := time.Now()
			b, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Offset: 2, MaxWait: time.Hour})
			if took := time.Since(began); took != 2*time.Second || err == nil && b.Next != 3 {
				t.Errorf("%s: got %+v and %v after %v, want it after 2 s", name, b, err, took)
			}
		})
	}
}

// TestNothingIsShared: a producer may change its bytes after the call, and a clone of the cluster keeps what it has.
func TestNothingIsShared(t *testing.T) {
	k := New()
	k.Create(1, "t")
	value := []byte("a")
	if _, err := k.Produce(t.Context(), "t", 0, kafkaio.Message{Key: value, Value: value}); err != nil {
		t.Fatal(err)
	}
	value[0] = 'x'
	k.Skip("t", 0, 1, kafkaio.SkipCodec)
	c := k.Clone()
	k.Cut("t", 0, 0)
	c.Append("t", 0, kafkaio.Message{Value: []byte("c")})
	k.Append("t", 0, kafkaio.Message{Value: []byte("k")})
	if got := fetch(t, c, 0); got != "a c codec 1-1 next 3 of 0-3" {
		t.Errorf("the copy: got %q", got)
	}
	if got := fetch(t, k, 0); got != "k next 1 of 0-1" {
		t.Errorf("the first: got %q", got)
	}
	if start, end := c.Ends("t", 0); start != 0 || end != 3 {
		t.Errorf("got %d to %d, want 0 to 3", start, end)
	}
}

// TestAClientThatIsClosed ends its calls and no others.
func TestAClientThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := filled(1)
		c, other := k.Client(), k.Client()
		var all sync.WaitGroup
		for client, want := range map[*Client]error{c: kafkaio.ErrClosed, other: nil} {
			all.Go(func() {
				_, err := client.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Offset: 1, MaxWait: time.Minute})
				if !errors.Is(err, want) || kafkaio.Temporary(err) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		c.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
		c.Close() // again
		for name, call := range map[string]func(c *Client) error{
			"fetch":      func(c *Client) error { _, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t"}); return err },
			"produce":    func(c *Client) error { _, err := c.Produce(t.Context(), "t", 0, kafkaio.Message{}); return err },
			"range":      func(c *Client) error { _, _, err := c.Range(t.Context(), "t", 0); return err },
			"partitions": func(c *Client) error { _, err := c.Partitions(t.Context(), "t"); return err },
		} {
			if err := call(c); !errors.Is(err, kafkaio.ErrClosed) || name == "produce" && kafkaio.OutcomeOf(err) != kafkaio.Unsent {
				t.Errorf("%s, closed: got %v, want ErrClosed", name, err)
			}
			if name != "produce" { // which would wake the other's poll
				if err := call(other); err != nil {
					t.Errorf("%s, not closed: got %v", name, err)
				}
			}
		}
		all.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := other.Fetch(ctx, kafkaio.FetchRequest{Topic: "t"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the caller's own end", err)
		}
	})
}
