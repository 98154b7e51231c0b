package bouncer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// sink takes an answer, and counts.
type sink struct {
	header http.Header
	status int
	bytes  int
	items  int
}

func (s *sink) Header() http.Header  { return s.header }
func (s *sink) WriteHeader(code int) { s.status = code }
func (*sink) Flush()                 {}

func (s *sink) Write(b []byte) (int, error) {
	s.bytes += len(b)
	s.items += bytes.Count(b, []byte(`"id":`))
	return len(b), nil
}

// large returns a server on a board of n closed addresses, and what stops it.
func large(tb testing.TB, n int) (s *Server, b *board.Board, stop func()) {
	tb.Helper()
	b = board.New(board.Options{})
	b.Resize(1)
	now := time.Now()
	batch := make([]schemas.Decision, 0, 1024)
	for i := range n {
		batch = append(batch, schemas.Decision{
			Rule: "per-ip", Caller: schemas.Caller{Kind: schemas.KindIP, ID: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)},
			Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(), Epoch: 1, Seq: uint64(i + 1),
		})
		if len(batch) == cap(batch) || i == n-1 {
			b.Apply(batch, now)
			batch = batch[:0]
		}
	}
	b.Loaded(0)
	b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 1}, now)
	s = New(Options{Board: b, Keys: keys(tb, "anna a\n")})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	if err := s.await(ctx); err != nil {
		tb.Fatal(err)
	}
	return s, b, func() { cancel(); running.Wait() }
}

func (s *Server) streamed(query string) *sink {
	out := &sink{header: http.Header{}}
	s.ServeHTTP(out, request("/v1/decisions/stream?"+query))
	return out
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAMillionClosuresAtStartup: a bouncer that starts in the middle of an attack gets all of them, in pieces: the answer is never held as a
// whole, and an address takes no more memory than doc.go says.
func TestAMillionClosuresAtStartup(t *testing.T) {
	testenv.Long(t)
	const n, most = 1_000_000, 200 // bytes for an address
	begun := time.Now()
	s, b, stop := large(t, n)
	defer stop()
	t.Logf("ready after %v", time.Since(begun))
	held := heapBytes()
	v := s.view(ruleFilter{containing: []string{"ip"}}, time.Now())
	<-v.filled
	if each := float64(heapBytes()-held) / n; each > most {
		t.Errorf("got %.0f bytes for an address, want at most %d", each, most)
	} else {
		t.Logf("%.0f bytes for an address", each)
	}
	before := heapBytes()
	out := s.streamed("startup=true")
	if out.status > http.StatusOK || out.items != n || out.bytes < n*100 {
		t.Fatalf("got status %d and %d items, want %d", out.status, out.items, n)
	}
	if more := heapBytes() - before; more > 1<<20 {
		t.Errorf("got %d bytes more after %d bytes of answer, want at most 1 MiB", more, out.bytes)
	}
	b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 2}, time.Now())
	if out := s.streamed(""); out.items != 0 {
		t.Errorf("got %d items, want none", out.items)
	}
	b.Expire(time.Now().Add(2 * time.Hour)) // all end at the same moment
	s.options.Clock = func() time.Time { return time.Now().Add(2 * time.Hour) }
	b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 3}, s.options.Clock())
	for current := false; !current || s.Stats().Closed > 0; current, _ = s.isCurrent() { // it has lost changes
		runtime.Gosched()
	}
	s.options.Clock = func() time.Time { return time.Now().Add(2*time.Hour + 2*time.Second) } // the partition was stale for a moment
	b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 4}, s.options.Clock())
	if out := s.streamed(""); out.items != n {
		t.Errorf("got %d deleted, want %d", out.items, n)
	}
}

// TestAnswersOfAnySizeAreJSON: also those that are sent in pieces.
func TestAnswersOfAnySizeAreJSON(t *testing.T) {
	for _, n := range []int{1, 2, pieces, pieces + 1, 3*pieces + 7} {
		s, _, stop := large(t, n)
		for _, path := range []string{"/v1/decisions", "/v1/decisions/stream?startup=true", "/v1/decisions/stream?scopes=ip"} {
			read, write := io.Pipe()
			go func() {
				s.ServeHTTP(&piped{sink{header: http.Header{}}, write}, request(path))
				_ = write.Close()
			}()
			text, err := io.ReadAll(read)
			if got := strings.Count(string(text), `"id"`); err != nil || !json.Valid(text) || got%n != 0 || got == 0 {
				t.Errorf("%s: got %d items and %v, want %d in JSON", path, got, err, n)
			}
		}
		stop()
	}
}

// piped is a sink that passes on.
type piped struct {
	sink

	to io.Writer
}

func (p *piped) Write(b []byte) (int, error) { return p.to.Write(b) }

// TestChangesDuringAnAnswerComeWithTheNext: nothing is lost while a long answer is on its way, also if the view forgets opened addresses
// meanwhile, as it does at each change whose number divides by pieces.
func TestChangesDuringAnAnswerComeWithTheNext(t *testing.T) {
	for before := range uint64(4) {
		t.Run(fmt.Sprint("forgets after ", before, " changes"), func(t *testing.T) { changesDuringAnAnswer(t, before) })
	}
}

func changesDuringAnAnswer(t *testing.T, before uint64) {
	t.Helper()
	const n = 20 * pieces
	s, b, stop := large(t, n)
	defer stop()
	v, filled := s.filled(t.Context(), ruleFilter{})
	if !filled {
		t.Fatal("the view is not filled")
	}
	v.mu.Lock()
	v.changed += 2*pieces - v.changed%pieces - 1 - before
	v.mu.Unlock()
	at := func(id string, until time.Duration, seq uint64) {
		now := time.Now()
		b.Apply([]schemas.Decision{{
			Rule: "per-ip", Caller: schemas.Caller{Kind: schemas.KindIP, ID: id}, Mode: schemas.ModeEnforce,
			CloseAt: now.UnixNano(), Until: now.Add(until).UnixNano(), Epoch: 1, Seq: n + seq,
		}}, now)
		for { // until the view knows
			v.mu.Lock()
			slot := v.table.find(mustAddr(id))
			known := slot != none && v.table.at(slot).closed == (until > 0) && (until == 0 || v.table.at(slot).until == now.Add(until).UnixNano())
			v.mu.Unlock()
			if known {
				return
			}
			runtime.Gosched()
		}
	}
	out := &meanwhile{sink: sink{header: http.Header{}}, do: func() {
		at("10.0.0.1", 0, 1)               // opened
		at("10.0.79.254", 0, 2)            // the same, near the end
		at("10.0.0.2", 2*time.Hour, 3)     // extended
		at("192.0.2.1", 30*time.Minute, 4) // new
	}}
	s.ServeHTTP(out, request("/v1/decisions/stream?startup=true"))
	b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 9}, time.Now())
	next := &piped{sink{header: http.Header{}}, &strings.Builder{}}
	s.ServeHTTP(next, request("/v1/decisions/stream"))
	var got stream
	if err := json.Unmarshal([]byte(fmt.Sprint(next.to)), &got); err != nil {
		t.Fatal(err)
	}
	check(t, "the next answer", got.String(), "+10.0.0.2 2h0m0s, +192.0.2.1 30m0s, -10.0.0.1, -10.0.79.254")
}

// BenchmarkStartup: 100,000 closures for a bouncer that starts.
func BenchmarkStartup(b *testing.B) {
	s, _, stop := large(b, 100_000)
	defer stop()
	before := heapBytes()
	var peak runtime.MemStats
	b.ReportAllocs()
	for b.Loop() {
		if out := s.streamed("startup=true"); out.items != 100_000 {
			b.Fatal(out.items)
		}
	}
	runtime.ReadMemStats(&peak)
	b.ReportMetric(float64(int64(peak.HeapAlloc)-before)/(1<<20), "MiB-more")
}

// BenchmarkView: what it takes to hold 100,000 closed addresses.
func BenchmarkView(b *testing.B) {
	s, _, stop := large(b, 100_000)
	defer stop()
	before, i := heapBytes(), 0
	for b.Loop() {
		v := s.view(ruleFilter{without: []string{fmt.Sprint("x", i)}}, time.Now())
		<-v.filled
		if i++; i == 1 {
			b.ReportMetric(float64(heapBytes()-before)/(1<<20), "MiB")
		}
	}
}

// BenchmarkEmptyDelta: nothing has changed among 100,000 closures.
func BenchmarkEmptyDelta(b *testing.B) {
	s, board, stop := large(b, 100_000)
	defer stop()
	s.streamed("startup=true")
	seq := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		board.Beat(&schemas.Heartbeat{Epoch: 1, Seq: seq}, time.Now())
		if out := s.streamed(""); out.items != 0 {
			b.Fatal(out.items)
		}
	}
}
