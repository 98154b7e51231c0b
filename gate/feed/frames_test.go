package feed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

const (
	requests   = "floodgate.requests"
	partitions = 4
)

// framesTo returns a handler of frames, and the Kafka behind it.
func framesTo(tb testing.TB) (*feed.Frames, *kafkaiotest.Kafka) {
	tb.Helper()
	k := kafkaiotest.New()
	k.Create(partitions, requests, "floodgate.decisions")
	link := openLink(tb, k)
	if err := link.Ready(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return feed.NewFrames(link.Forward), k
}

func openLink(tb testing.TB, k *kafkaiotest.Kafka) *kafkalink.Link {
	tb.Helper()
	quiet := slog.New(slog.DiscardHandler)
	link, err := kafkalink.Open(gate.New(gate.Options{Logger: quiet}), record.New(record.Options{}), kafkalink.Config{Log: k, Canary: -1, Logger: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(link.Close)
	return link
}

// idsOf returns n ids of kind key that belong to a partition.
func idsOf(partition, n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		id := fmt.Sprint("k", i)
		if schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), partitions) == partition {
			ids = append(ids, id)
		}
	}
	return ids
}

// frame returns a frame as a server makes it, after change.
func frame(tb testing.TB, change func(*schemas.Frame)) []byte {
	tb.Helper()
	now := time.Now().UnixNano()
	f := schemas.Frame{
		Producer: schemas.ProducerID{1}, Seq: 1, Flushed: now, Partitions: partitions, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
	}
	for _, id := range idsOf(2, 3) {
		f.Entries = append(f.Entries, schemas.Entry{Time: now, Kind: "key", ID: id, Count: 1})
	}
	if change != nil {
		change(&f)
	}
	b, err := f.AppendTo(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// post sends a body to a handler, and returns the status and the reason.
func post(h http.Handler, body []byte) (status int, reason string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, feed.PathFrames, bytes.NewReader(body)))
	var said struct{ Reason, Error string }
	if w.Code != http.StatusNoContent && (json.Unmarshal(w.Body.Bytes(), &said) != nil || said.Error == "") {
		return w.Code, "no reason: " + w.Body.String()
	}
	if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "1" {
		return w.Code, "no Retry-After"
	}
	return w.Code, said.Reason
}

// TestAFrameIsAppendedAsItIs, to the partition of its entries, at its own time. A copy is appended as well: the analyzer knows it.
func TestAFrameIsAppendedAsItIs(t *testing.T) {
	h, k := framesTo(t)
	b := frame(t, nil)
	for range 2 {
		if status, reason := post(h, b); status != http.StatusNoContent {
			t.Fatalf("got %d %s, want 204", status, reason)
		}
	}
	records := k.Records(requests, 2)
	var f schemas.Frame
	if err := f.Decode(b); err != nil || len(records) != 2 || !bytes.Equal(records[0].Value, b) || (records[0].Time-f.Flushed)/1e6 != 0 {
		t.Errorf("got %v and records %+v, want the frame twice, at its time %d", err, records, f.Flushed)
	}
	if s := h.Stats(); s.Sent != 2 || s.Frames != 0 || s.Bytes != 0 {
		t.Errorf("got %+v", s)
	}
}

// TestFramesOfStrangersAreRefused, each counted by its reason, and Kafka gets nothing of them.
func TestFramesOfStrangersAreRefused(t *testing.T) {
	h, k := framesTo(t)
	other := idsOf(1, 1)[0]
	want := map[string]uint64{}
	for _, test := range []struct {
		name   string
		body   []byte
		status int
		reason string
	}{
		{"nothing", nil, 400, "malformed"},
		{"text", []byte("GET / HTTP/1.1"), 400, "malformed"},
		{"a frame that is cut short", frame(t, nil)[:100], 400, "malformed"},
		{"a frame with a byte changed", append(frame(t, nil)[:70], frame(t, nil)[69:]...), 400, "malformed"},
		{"more than a frame can be", make([]byte, schemas.MaxFrame+1), 413, "too_large"},
		{"the most that a frame can be", make([]byte, schemas.MaxFrame), 400, "malformed"},
		{"no entries: that would begin a log", frame(t, func(f *schemas.Frame) { f.Entries = nil }), 400, "malformed"},
		{"a source", frame(t, func(f *schemas.Frame) { f.Source, f.Seq = true, 0 }), 400, "malformed"},
		{"a lag that nobody measured", frame(t, func(f *schemas.Frame) {
			f.Entries[1].Kind, f.Entries[1].Cost = schemas.KindCanary, 1e9
		}), 400, "malformed"},
		{"a tally", frame(t, func(f *schemas.Frame) { f.Entries[0].Kind = schemas.KindTally }), 400, "malformed"},
		{"a level", frame(t, func(f *schemas.Frame) { f.Entries[0].Kind = schemas.KindLevel }), 400, "malformed"},
		{"another key", frame(t, func(f *schemas.Frame) { f.Fingerprint++ }), 400, "key"},
		{"another number of partitions", frame(t, func(f *schemas.Frame) { f.Partitions = 5 }), 400, "partitions"},
		{"entries of two partitions", frame(t, func(f *schemas.Frame) { f.Entries[2].ID = other }), 400, "misplaced"},
	} {
		if status, reason := post(h, test.body); status != test.status || reason != test.reason {
			t.Errorf("%s: got %d %s, want %d %s", test.name, status, reason, test.status, test.reason)
		}
		want[test.reason]++
	}
	s := h.Stats()
	for reason, n := range s.Refused {
		if n != want[reason] {
			t.Errorf("%s: got %d, want %d", reason, n, want[reason])
		}
	}
	if k.Calls()[kafkaiotest.OpProduce] != 0 || s.Sent != 0 || s.Frames != 0 || s.Bytes != 0 {
		t.Errorf("got %v and %+v, want that Kafka heard of none", k.Calls(), s)
	}
}

// TestAnAnswerSaysWhatKafkaDid: whether it has the frame, may have it, or does not, and whether it is to be sent again.
func TestAnAnswerSaysWhatKafkaDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := framesTo(t)
		for _, test := range []struct {
			name   string
			fault  kafkaiotest.Fault
			status int
			reason string
		}{
			{"down", kafkaiotest.Down(), 503, "unsent"},
			{"another leader", kafkaiotest.NotLeader(), 503, "unsent"},
			{"no right", kafkaiotest.Unauthorized(), 503, "unsent"},
			{"silent", kafkaiotest.Silent(), 504, "unknown"},
			{"the answer is lost", kafkaiotest.LostAnswer(), 504, "unknown"},
			{"from the future", kafkaiotest.Returns(kafkaio.ErrTimestamp), 400, "time"},
			{"too large for the topic", kafkaiotest.Returns(kafkaio.ErrTooLarge), 400, "refused"},
		} {
			k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault { return test.fault })
			if status, reason := post(h, frame(t, nil)); status != test.status || reason != test.reason {
				t.Errorf("%s: got %d %s, want %d %s", test.name, status, reason, test.status, test.reason)
			}
		}
		early := feed.NewFrames(openLink(t, k).Forward)
		if status, reason := post(early, frame(t, nil)); status != 503 || reason != "unsent" {
			t.Errorf("before the number of partitions is known: got %d %s, want 503", status, reason)
		}
		hung := feed.NewFrames(func(ctx context.Context, _ []byte) error { <-ctx.Done(); return ctx.Err() })
		ctx, leave := context.WithCancel(t.Context())
		leave() // the sender does not wait
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, feed.PathFrames, bytes.NewReader(frame(t, nil)))
		began := time.Now()
		hung.ServeHTTP(httptest.NewRecorder(), r)
		if took := time.Since(began); took != 10*time.Second || hung.Stats().Refused["unknown"] != 1 {
			t.Errorf("got an end after %v and %+v, want 10 s", took, hung.Stats())
		}
	})
}

// TestSendersAreBounded: two thousand connections at once, each with a part of the largest frame or a byte each second. What there is room for
// waits for five seconds, the others are told to come again, and a good frame passes behind them.
func TestSendersAreBounded(t *testing.T) {
	var h *feed.Frames
	late := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })
	inWorld(t, feed.Options{Frames: late}, func(w *world) {
		var k *kafkaiotest.Kafka
		h, k = framesTo(w.t)
		var senders sync.WaitGroup
		var mu sync.Mutex
		answers := map[string]int{}
		for i := range 2000 {
			senders.Go(func() {
				size := 64
				if i%4 == 0 {
					size = schemas.MaxFrame
				}
				got := w.dribble(size)
				mu.Lock()
				defer mu.Unlock()
				answers[got]++
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := h.Stats(); s.Frames == 0 || s.Frames > 4096 || s.Bytes > 64<<20 || s.Refused["full"] == 0 {
			t.Errorf("got %+v, want at most 4096 frames and 64 MiB", s)
		}
		time.Sleep(10 * time.Second)
		senders.Wait()
		s := h.Stats()
		if s.Frames != 0 || s.Bytes != 0 || s.Refused["slow"]+s.Refused["full"] != 2000 || len(answers) > 2 {
			t.Errorf("got %+v and %v, want all sent away", s, answers)
		}
		dials := 0
		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials++
			return w.dial(), nil
		}}}
		defer client.CloseIdleConnections()
		for range 2 {
			answer, err := client.Post("http://feed"+feed.PathFrames, "", bytes.NewReader(frame(t, nil)))
			if err != nil {
				t.Fatal(err)
			}
			if answer.Body.Close(); answer.StatusCode != http.StatusNoContent {
				t.Errorf("got %d for a good frame, want 204", answer.StatusCode)
			}
			k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.Slow(9 * time.Second) }) // longer than a frame may take
		}
		if answer, err := client.Post("http://feed"+feed.PathFrames, "", http.NoBody); err == nil {
			answer.Body.Close()
		}
		if n := len(k.Records(requests, 2)); dials != 1 || n != 2 {
			t.Errorf("got %d connections and %d frames, want one connection for both", dials, n)
		}
	})
}

// dial returns a connection to the server.
func (w *world) dial() net.Conn {
	here, there := net.Pipe()
	w.conns <- there
	return here
}

// dribble sends the head of a request, and then a byte each second. It returns the status line, or how the connection ended.
func (w *world) dribble(size int) string {
	c := w.dial()
	defer c.Close()
	go func() {
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: feed\r\nContent-Length: %d\r\n\r\n", feed.PathFrames, size); err != nil {
			return
		}
		for range 20 {
			if _, err := c.Write([]byte("f")); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
	answer, err := io.ReadAll(c)
	if len(answer) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	line, _, _ := strings.Cut(string(answer), "\r\n")
	return line
}

// FuzzFrames: whatever a body says, what reaches Kafka is what analyzers count.
func FuzzFrames(f *testing.F) {
	f.Add(frame(f, nil))
	f.Add(frame(f, func(f *schemas.Frame) { f.Partitions = 9 }))
	f.Add(frame(f, func(f *schemas.Frame) { f.Entries[2].ID = idsOf(1, 1)[0] }))
	h, k := framesTo(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		k.Recreate(requests)
		before := h.Stats()
		status, _ := post(h, body)
		for p := range partitions {
			for _, r := range k.Records(requests, p) {
				var fr schemas.Frame
				if err := fr.Decode(r.Value); err != nil || status != http.StatusNoContent || !bytes.Equal(r.Value, body) {
					t.Fatalf("got %d and %v for what Kafka has", status, err)
				}
				for _, e := range fr.Entries {
					if got := schemas.Partition(schemas.DefaultPartitionKey().Hash(e.Kind, e.ID), partitions); got != p || e.Kind == schemas.KindCanary {
						t.Fatalf("got %s in partition %d", e.Caller(), p)
					}
				}
			}
		}
		s := h.Stats()
		n := s.Sent - before.Sent
		for reason, refused := range s.Refused {
			n += refused - before.Refused[reason]
		}
		if n != 1 || s.Frames != 0 || s.Bytes != 0 {
			t.Fatalf("got %+v, want one outcome", s)
		}
	})
}

func BenchmarkFrames(b *testing.B) {
	h := feed.NewFrames(func(context.Context, []byte) error { return nil })
	for _, entries := range []int{1, 100, 6000} {
		ids := idsOf(2, entries)
		body := frame(b, func(f *schemas.Frame) {
			f.Entries = nil
			for _, id := range ids {
				f.Entries = append(f.Entries, schemas.Entry{Time: f.Flushed, Kind: "key", ID: id, Count: 1})
			}
		})
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if status, reason := post(h, body); status != http.StatusNoContent {
					b.Fatal(status, reason)
				}
			}
		})
	}
}
