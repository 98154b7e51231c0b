package bouncer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServe: over a real connection, which a bouncer keeps, until the process stops.
func TestServe(t *testing.T) {
	s, b, stop := large(t, 3*pieces)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	var serving sync.WaitGroup
	serving.Go(func() { served <- s.Serve(ctx, l) })
	client := &http.Client{Transport: &http.Transport{}}
	get := func(path, key string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %v and %v", path, err, resp.Header)
		}
		return resp.StatusCode, string(text)
	}
	if status, text := get("/v1/decisions/stream?startup=true", "a"); status != http.StatusOK || strings.Count(text, `"id"`) != 3*pieces {
		t.Errorf("got %d and %d items, want %d", status, strings.Count(text, `"id"`), 3*pieces)
	}
	b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 5}, time.Now())
	if status, text := get("/v1/decisions/stream", "a"); status != http.StatusOK || text != `{"deleted":null,"new":null}` {
		t.Errorf("got %d %s, want nothing new", status, text)
	}
	if status, _ := get("/v1/decisions/stream", "b"); status != http.StatusForbidden {
		t.Errorf("got %d with a key of nobody, want 403", status)
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
	serving.Wait()
	if err := s.Serve(t.Context(), l); err == nil {
		t.Error("on a listener that is closed: got no error")
	}
}

// TestALongAnswerOutlastsTheTimeToRead: a bouncer that waits for decisions, or takes a long answer slowly, is not cut off when the time is
// over in which its request had to be read.
func TestALongAnswerOutlastsTheTimeToRead(t *testing.T) {
	t.Parallel()
	s, b, stop := large(t, 1)
	defer stop()
	s.reading = 50 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	b.Resize(2)
	time.AfterFunc(10*s.reading, func() { b.Loaded(0); b.Loaded(1) })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/v1/decisions/stream?startup=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "a")
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "10.0.0.0") {
		t.Errorf("got %s, %s and %v, want the closed address", resp.Status, text, err)
	}
	if n := s.Stats().Errors["cut"]; n != 0 {
		t.Errorf("got %d answers that count as cut, want none", n)
	}
}

// TestWhileNobodyAsksNothingPilesUp: addresses that close and open again while no bouncer asks are forgotten.
func TestWhileNobodyAsksNothingPilesUp(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		now := time.Now()
		for i := range 20 * pieces {
			d := schemas.Decision{
				Rule: "r", Caller: schemas.Caller{Kind: schemas.KindIP, ID: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}, Mode: schemas.ModeEnforce,
				CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(), Epoch: 1, Seq: uint64(10*i + 10),
			}
			w.board.Apply([]schemas.Decision{d}, now)
			w.settle()
			d.Seq, d.Until = d.Seq+1, d.CloseAt
			w.board.Apply([]schemas.Decision{d}, now)
			w.settle()
		}
		v := w.view(ruleFilter{}, now)
		if n := len(v.table.slots); n > 2*pieces {
			t.Errorf("got %d addresses, want %d at most: none is closed, and no bouncer knows of one", n, 2*pieces)
		}
	})
}

// TestALongHeaderIsRefused before anybody looks at the key.
func TestALongHeaderIsRefused(t *testing.T) {
	t.Parallel()
	s, _, stop := large(t, 1)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /v1/decisions HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n", strings.Repeat("a", 4*maxHeaderBytes))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s, want 431", resp.Status)
	}
}

// TestKeysAreReadAgain: a key that is taken out of the file is refused within a second or so, without a restart.
func TestKeysAreReadAgain(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		path := filepath.Join(t.TempDir(), "keys")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		const anna = "anna ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\n" // of "a"
		write(anna)
		keys, err := OpenKeys(path, time.Now(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		w.options.Keys = keys
		status := func() int { code, _ := w.ask(http.MethodGet, "/v1/decisions"); return code }
		if got := status(); got != http.StatusOK {
			t.Errorf("got %d, want 200", got)
		}
		write("anna")
		w.pass(2 * time.Second)
		if got := status(); got != http.StatusOK {
			t.Errorf("a broken file: got %d, want 200 by the keys before", got)
		}
		write("# nobody")
		w.pass(2 * time.Second)
		if got := status(); got != http.StatusForbidden {
			t.Errorf("taken out: got %d, want 403", got)
		}
		write(anna + "bert 3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d\n")
		w.pass(2 * time.Second)
		if got := status(); got != http.StatusOK {
			t.Errorf("there again: got %d, want 200", got)
		}
	})
}

// TestAClockThatJumps: five minutes forwards, and back. Durations stay within their bounds, and in the end everything is as it is.
func TestAClockThatJumps(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("r", "192.0.2.7", 0, 200)
		w.decide("r", "192.0.2.8", 0, 7200)
		check(t, "at first", w.start(), "+192.0.2.7 3m20s, +192.0.2.8 2h0m0s")
		w.jump = 5 * time.Minute
		w.beat()
		check(t, "ahead", w.poll(), "-192.0.2.7")
		check(t, "for one that starts", w.start(), "+192.0.2.8 1h55m0s")
		w.jump = 0
		w.beat()
		check(t, "back", w.poll(), "+192.0.2.7 3m20s")
		w.jump = -5 * time.Minute
		w.beat()
		check(t, "behind: neither has begun", w.poll(), "-192.0.2.7, -192.0.2.8")
		w.jump = 0
		w.beat()
		check(t, "right again", w.poll(), "+192.0.2.7 3m20s, +192.0.2.8 2h0m0s")
	})
}

// TestAViewForgetsNoMoreThanItMust: an address that is open again is kept until each bouncer knows, or there are too many.
// Whoever is too far behind then gets everything.
func TestAViewForgetsNoMoreThanItMust(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		v := w.view(ruleFilter{}, time.Now())
		v.maxGone = 3
		w.decide("r", "192.0.2.100", 0, 3600)
		w.agent = "slow/1"
		w.start()
		w.agent = "fast/1"
		w.start()
		for i := range 3 {
			w.decide("r", fmt.Sprint("192.0.2.", i), 0, 60)
			w.poll()
			w.decide("r", fmt.Sprint("192.0.2.", i), 0, 0)
			check(t, "the fast one", w.poll(), fmt.Sprint("-192.0.2.", i))
		}
		if n := len(v.table.slots); n != 4 {
			t.Errorf("got %d addresses, want those of which the slow one knows nothing, too", n)
		}
		w.agent = "slow/1"
		check(t, "the slow one never saw them", w.poll(), "")
		if n := len(v.table.slots); n != 1 {
			t.Errorf("got %d addresses, want the closed one only: all know of the others", n)
		}
		w.agent = "fast/1"
		for i := range 5 {
			w.decide("r", fmt.Sprint("192.0.2.", i), 0, 60)
			w.decide("r", fmt.Sprint("192.0.2.", i), 0, 0)
			w.poll()
		}
		if n := len(v.table.slots); n != 4 {
			t.Errorf("got %d addresses, want the closed one and three others", n)
		}
		w.agent = "slow/1"
		check(t, "the slow one is too far behind", w.poll(), "+192.0.2.100 1h0m0s, -192.0.2.2, -192.0.2.3, -192.0.2.4")
		check(t, "and knows all then", w.poll(), "")
	})
}

// TestABoardThatLosesItsSubscriber: more changes at once than the board keeps. The view finds out what ended meanwhile.
func TestABoardThatLosesItsSubscriber(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("r", "192.0.2.7", 0, 3600)
		w.decide("r", "192.0.2.8", 0, 3600)
		w.start()
		var ds []schemas.Decision
		now := time.Now()
		for i := range 2 * board.MaxChanges {
			ds = append(ds, schemas.Decision{
				Rule: "r", Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint(i)}, Mode: schemas.ModeEnforce,
				CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(), Epoch: 1, Seq: uint64(1000 + i),
			})
		}
		opening := ds[0]
		opening.Caller = schemas.Caller{Kind: schemas.KindIP, ID: "192.0.2.7"}
		opening.Until = opening.CloseAt
		w.board.Apply(append([]schemas.Decision{opening}, ds...), now)
		w.settle()
		if lost := w.board.Status().Lost; lost == 0 {
			t.Error("got no changes lost, want some: the test shows nothing")
		}
		check(t, "after that", w.poll(), "-192.0.2.7")
	})
}

// TestManyAtATime: in a storm of changes that is faster than the board's subscribers, bouncers, filters, changes and statistics, all at the
// same time. No answer fails, and in the end the items are right; the race detector looks on.
func TestManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, stop := large(t, 2*pieces)
		defer stop()
		done := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			for seq := uint64(1); ; seq++ {
				select {
				case <-done:
					return
				default:
				}
				now := time.Now()
				b.Apply([]schemas.Decision{{
					Rule: "per-ip", Caller: schemas.Caller{Kind: schemas.KindIP, ID: fmt.Sprintf("10.0.0.%d", seq%256)}, Mode: schemas.ModeEnforce,
					CloseAt: now.UnixNano(), Until: now.Add(time.Duration(seq%3) * time.Hour).UnixNano(), Epoch: 1, Seq: 1e6 + seq,
				}}, now)
				b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 1e6 + seq}, now)
				b.Expire(now)
			}
		})
		var asking sync.WaitGroup
		for i := range 8 {
			asking.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 3))
				for range 30 {
					query := []string{"", "startup=true", "scenarios_containing=per", fmt.Sprint("scenarios_not_containing=", i, "&startup=true"), "scopes=range"}[random.IntN(5)]
					if out := s.streamed(query); out.status > http.StatusOK {
						t.Errorf("%s: got %d, want 200", query, out.status)
					}
					r := request("/v1/decisions" + []string{"", "?ip=10.0.0.7", "?range=10.0.0.0/24&contains=false"}[random.IntN(3)])
					s.ServeHTTP(&sink{header: http.Header{}}, r)
					if n := s.Stats(); n.Views > maxViews || n.Closed > 2*pieces {
						t.Errorf("got %+v", n)
					}
				}
			})
		}
		asking.Wait()
		close(done)
		all.Wait()
		want := 0
		for d := range b.All {
			if d.Until-time.Now().UnixNano() > int64(time.Second) {
				want++
			}
		}
		b.Beat(&schemas.Heartbeat{Epoch: 2, Seq: 1}, time.Now())
		synctest.Wait()
		if n := s.Stats().Closed; n != want {
			t.Errorf("got %d closed, want %d", n, want)
		}
		if out := s.streamed("startup=true"); out.items != want {
			t.Errorf("got %d items, want %d", out.items, want)
		}
	})
}
