package apid

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// show is an API that answers from a board of one partition, without Kafka.
type show struct {
	board  *board.Board
	server *api.Server
	url    string
}

// newShow starts one. It is stopped when the test ends.
func newShow(t testing.TB) *show {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.New(api.Config{Address: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	s := &show{board: NewBoard(), server: server, url: "http://" + l.Addr().String()}
	s.board.Resize(1)
	s.board.Loaded(0)
	server.Attach(&api.Backend{Board: boardView{s.board}, Partitions: 1})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// close closes callers numbered from one number to before another.
func (s *show) close(from, to int) {
	now := time.Now()
	for i := from; i < to; i++ {
		s.board.Apply([]schemas.Decision{{
			Partition: 0, Epoch: 7, Seq: uint64(i + 1), Rule: "per-ip", RuleVersion: 0x261ab9ec50d8b5cb, Caller: schemas.Caller{Kind: "ip", ID: fmt.Sprintf("203.0.%d.%d", i/256, i%256)},
			Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
			Evidence: schemas.Evidence{Count: 100 + int64(i%50), Limit: 100, Window: int64(time.Minute), AsOfTime: now.UnixNano() + int64(i), AsOfOffset: int64(i), Lag: 2_700_000 + int64(i)},
		}}, now)
	}
}

// counted counts what is read.
type counted struct {
	of io.Reader
	n  int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.of.Read(p)
	c.n += int64(n)
	return n, err
}

// stream is a client of a stream.
type stream struct {
	wire  *counted // what the connection carries
	lines *bufio.Reader
	end   func()
}

// stream opens one, compressed or not.
func (s *show) stream(t testing.TB, encoding string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/decisions/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", encoding) // so that the client does not unpack it itself
	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("got %v and %v, want a stream", resp, err)
	}
	st := &stream{wire: &counted{of: resp.Body}, end: func() { cancel(); _ = resp.Body.Close(); client.CloseIdleConnections() }}
	t.Cleanup(st.end)
	var text io.Reader = st.wire
	if got := resp.Header.Get("Content-Encoding"); got == "gzip" {
		if text, err = gzip.NewReader(st.wire); err != nil {
			t.Fatal(err)
		}
	} else if got != "" || encoding == "gzip" {
		t.Fatalf("got encoding %q, want %s", got, encoding)
	}
	st.lines = bufio.NewReaderSize(text, 1<<16)
	return st
}

// next returns the next event.
func (st *stream) next() (e apiv1.DecisionEvent, err error) {
	for {
		line, err := st.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return e, json.Unmarshal([]byte(data), &e)
		}
	}
}

// until reads until an event of a kind, and returns how many events came before it.
func (st *stream) until(t testing.TB, kind string) (before int) {
	t.Helper()
	for ; ; before++ {
		e, err := st.next()
		if err != nil {
			t.Fatalf("got %v after %d events, want %s", err, before, kind)
		}
		if e.Kind == kind {
			return before
		}
	}
}

// TestTenStreamsSeeEachChange: what is in force comes whole, compressed or not, and then each change without delay.
func TestTenStreamsSeeEachChange(t *testing.T) {
	t.Parallel()
	s := newShow(t)
	s.close(0, 1000)
	var all []*stream
	for i := range 10 {
		st := s.stream(t, []string{"gzip", "identity", "br, gzip;q=0.5", "gzip;q=0"}[i%4])
		if n := st.until(t, "current"); n != 1000 {
			t.Fatalf("got %d in force, want 1000", n)
		}
		all = append(all, st)
	}
	for i := range 20 { // each change arrives before there is another one: nothing waits for more to come
		s.close(1000+i, 1001+i)
		for _, st := range all {
			if e, err := st.next(); err != nil || e.Kind != "closed" || e.Decision == nil || e.Decision.Caller.ID != fmt.Sprintf("203.0.%d.%d", (1000+i)/256, (1000+i)%256) {
				t.Fatalf("got %+v and %v, want change %d", e, err, i)
			}
		}
	}
}

// TestASlowReaderIsToldThatItLost: it gets all that is in force once more, and so ends up with what the others know.
func TestASlowReaderIsToldThatItLost(t *testing.T) {
	t.Parallel()
	s := newShow(t)
	st := s.stream(t, "gzip")
	st.until(t, "current")
	held := make(map[string]bool)
	closed := 0
	for lost := false; !lost; { // it reads nothing, until its connection is full and the board has forgotten changes
		s.close(closed, closed+20_000)
		closed += 20_000
		for {
			e, err := st.next()
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == "lost" {
				if e.Missed == 0 {
					t.Error("got none missed, want how many")
				}
				lost = true
				break
			}
			held[e.Decision.Caller.ID] = true
			if len(held) == closed {
				break // it was fast enough: more
			}
		}
	}
	clear(held)
	for {
		e, err := st.next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == "current" {
			break
		}
		if e.Kind == "lost" { // again, while changes still came: what is in force begins anew
			clear(held)
			continue
		}
		held[e.Decision.Caller.ID] = true
	}
	if len(held) != closed {
		t.Errorf("got %d in force, want %d", len(held), closed)
	}
}

// BenchmarkStream measures GET /v1/decisions/stream of 100,000 closures over loopback until all are there: time, and bytes on the wire.
//
//	go test ./cmd/floodgate/apid -run '^$' -bench 'Stream$' -benchtime 3x
func BenchmarkStream(b *testing.B) {
	s := newShow(b)
	s.close(0, 100_000)
	for _, encoding := range []string{"identity", "gzip"} {
		b.Run(encoding, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				st := s.stream(b, encoding)
				var first time.Duration
				for n := 0; ; {
					line, err := st.lines.ReadSlice('\n')
					if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
						b.Fatal(err)
					}
					if strings.HasPrefix(string(line), "event: in_force") {
						if n++; n == 1 {
							first = time.Since(began)
						}
					}
					if strings.HasPrefix(string(line), "event: current") {
						if n != 100_000 {
							b.Fatalf("got %d, want all", n)
						}
						break
					}
				}
				b.ReportMetric(float64(st.wire.n)/1e6, "MB")
				b.ReportMetric(float64(first.Microseconds())/1e3, "first-ms")
				st.end()
			}
		})
	}
}
