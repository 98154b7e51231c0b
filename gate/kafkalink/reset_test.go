package kafkalink

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// fragile is a connection that breaks after so many bytes, in either direction together.
type fragile struct {
	net.Conn
	left atomic.Int64
}

func (c *fragile) spend(n int) {
	if c.left.Add(-int64(n)) < 0 {
		_ = c.Close()
	}
}

// Read returns the part that still fits, so that answers are lost too: the request was then carried out.
func (c *fragile) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if fits := max(int(c.left.Load()), 0); n > fits {
		n, err = fits, net.ErrClosed
		c.spend(1 << 30)
	}
	c.spend(n)
	return n, err
}

// Write sends the part that still fits, so that brokers see requests that are cut anywhere.
func (c *fragile) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:min(len(b), max(int(c.left.Load()), 0))])
	if c.spend(len(b)); err == nil && n < len(b) {
		err = net.ErrClosed
	}
	return n, err
}

// Connections break after any number of bytes: no request is lost or counted twice without saying so.
func TestConnectionsThatBreakAfterSoManyBytes(t *testing.T) {
	testenv.Long(t)
	const callers, rounds = 20, 40
	b, c := realKafka(t, 2)
	set := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)})
	keys := set.Gate("key")
	var next [2]int64
	var retries uint64
	for n := int64(150); n < 9000; n += n/4 + 37 {
		rec := record.New(record.Options{})
		var mended atomic.Bool
		client := kafkaio.New(kafkaio.Config{
			Brokers: []string{b.Addr()},
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err != nil || mended.Load() {
					return conn, err
				}
				f := &fragile{Conn: conn}
				f.left.Store(n)
				return f, nil
			},
		})
		t.Cleanup(client.Close)
		link := newLink(set, rec, Config{Log: client, Logger: slog.New(slog.DiscardHandler), Canary: -1})
		link.start()
		t.Cleanup(link.Close)
		for range rounds {
			for i := range callers {
				var c gate.Callers
				c.Add(keys, fmt.Sprint("key-", i))
				rec.Record(&c, gate.Verdict{}, record.Request{})
			}
			<-time.After(3 * time.Millisecond)
		}
		mended.Store(true)
		eventually(t, "everything settled", func() bool { return rec.Stats().Queued == 0 })
		link.Close()
		retries += link.Stats().Retries
		logged, s := countSince(t, c, &next), rec.Stats()
		if s.Acked+s.Unknown != callers*rounds || logged < s.Acked || logged > s.Acked+s.Unknown {
			t.Errorf("breaking after %d bytes: got %d requests in the log and %+v, want all %d", n, logged, s, callers*rounds)
		}
	}
	if retries == 0 {
		t.Error("nothing was sent twice: connections did not break where it matters")
	}
}

// countSince returns how many requests were logged since the last call, each frame counted once.
func countSince(t *testing.T, c *kafkaio.Client, next *[2]int64) (sum uint64) {
	t.Helper()
	for p := range next {
		var seen []uint64
		for {
			b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "floodgate.requests", Partition: p, Offset: next[p]})
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Records) == 0 {
				break
			}
			next[p] = b.Next
			for _, r := range b.Records {
				var f schemas.Frame
				if err := f.Decode(r.Value); err != nil {
					t.Fatal(err)
				}
				if slices.Contains(seen, f.Seq) {
					continue
				}
				seen = append(seen, f.Seq)
				for _, e := range f.Entries {
					sum += uint64(e.Count)
				}
			}
		}
	}
	return sum
}
