package feed_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas"
	lines "github.com/509da70d/floodgate/schemas/feed"
)

// world is a server of a feed, in a bubble of synctest. Its clients reach it through pipes.
type world struct {
	t      *testing.T
	board  *board.Board
	server *feed.Server
	conns  chan net.Conn
}

// inWorld runs a test with a board that is ready and has a partition.
func inWorld(t *testing.T, o feed.Options, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, board: board.New(board.Options{MaxSubscribers: 3, FirstChange: 1000}), conns: make(chan net.Conn)}
		o.Board = w.board
		w.server = feed.New(o)
		w.board.Resize(1)
		w.board.Loaded(0)
		server := &http.Server{Handler: w.server}
		go func() { _ = server.Serve(w) }()
		defer server.Close()
		defer w.server.Close()
		test(w)
	})
}

// Accept implements net.Listener, as Close and Addr do.
func (w *world) Accept() (net.Conn, error) {
	c, ok := <-w.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (w *world) Close() error { close(w.conns); return nil }

func (*world) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// get asks for the feed. The answer's body is to be closed.
func (w *world) get(query string, header ...string) *http.Response {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		w.conns <- there
		return here, nil
	}}}
	r, err := http.NewRequest(http.MethodGet, "http://feed"+feed.PathClosed+query, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.CloseIdleConnections)
	return answer
}

// reader reads a feed.
type reader struct {
	t     *testing.T
	lines chan string // closed at the end
	body  io.Closer
}

// read begins to read a feed.
func (w *world) read(query string, header ...string) *reader {
	w.t.Helper()
	answer := w.get(query, header...)
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: got status %d", query, answer.StatusCode)
	}
	r := &reader{w.t, make(chan string), answer.Body}
	go func() {
		defer close(r.lines)
		for scan := bufio.NewScanner(answer.Body); scan.Scan(); {
			r.lines <- scan.Text()
		}
	}()
	return r
}

// next returns the next lines that are no heartbeats, in short form, as far as they are there.
func (r *reader) next() (short []string) {
	for {
		synctest.Wait()
		select {
		case text, ok := <-r.lines:
			if !ok {
				return append(short, "end")
			}
			l, err := lines.Parse([]byte(text))
			if err != nil {
				r.t.Fatalf("%s: %v", text, err)
			}
			if l.Type != lines.Heartbeat {
				short = append(short, shortOf(&l))
			}
		default:
			return short
		}
	}
}

// shortOf returns what a line says in short.
func shortOf(l *lines.Line) string {
	d := &l.Decision
	switch {
	case l.Type == lines.Start && l.Resumed:
		return "resumed"
	case l.Type != lines.Decision:
		return l.Type
	case d.Until > d.CloseAt && d.Share != nil:
		return d.Caller.ID + " closed by " + d.Rule + " in " + d.Mode.String() + ", shared"
	case d.Until > d.CloseAt:
		return d.Caller.ID + " closed by " + d.Rule + " in " + d.Mode.String()
	case d.Share != nil:
		return d.Caller.ID + " shared"
	}
	return d.Caller.ID + " open"
}

// stop closes the reader's connection.
func (r *reader) stop() { _ = r.body.Close() }

func (r *reader) want(want ...string) {
	r.t.Helper()
	if got := r.next(); !reflect.DeepEqual(got, want) {
		r.t.Errorf("got %q, want %q", got, want)
	}
}

// decide applies decisions.
func (w *world) decide(ds ...schemas.Decision) { w.board.Apply(ds, time.Now()) }

// closing closes a caller of kind key for a minute.
func closing(id string) schemas.Decision {
	now := time.Now()
	return schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(time.Minute).UnixNano(),
		Evidence: schemas.Evidence{Limit: 9, Window: 60e9},
	}
}

func opening(id string) schemas.Decision {
	return schemas.Decision{Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}}
}

func inShadow(d schemas.Decision) schemas.Decision {
	d.Mode = schemas.ModeShadow
	return d
}

func shared(d schemas.Decision) schemas.Decision {
	now := time.Now().UnixNano()
	d.Share = &schemas.Share{From: now, Until: now + 6e9, Period: 1e9, Permits: 5, DemandFrom: now - 2e9, DemandUntil: now, Demand: 30}
	return d
}

// TestAReaderIsToldWhatIsInForceAndWhatChanges, and where it may continue.
func TestAReaderIsToldWhatIsInForceAndWhatChanges(t *testing.T) {
	inWorld(t, feed.Options{}, func(w *world) {
		w.decide(closing("a"), closing("b"))
		r := w.read("")
		r.want("start", "a closed by r in enforce", "b closed by r in enforce", "current")
		w.decide(closing("c"), opening("a"), closing("c"))
		r.want("c closed by r in enforce", "a open")
		for range 61 {
			time.Sleep(time.Second)
			w.board.Expire(time.Now())
			r.want() // it knows itself when closures end
		}
		r.stop()
	})
}

// TestAReaderContinuesWhereItWas, unless the feed has lost that place: then it is told to start anew.
func TestAReaderContinuesWhereItWas(t *testing.T) {
	inWorld(t, feed.Options{}, func(w *world) {
		w.decide(closing("a"))
		w.decide(closing("b"))
		for _, test := range []struct {
			since string
			want  []string
		}{
			{"1001", []string{"resumed", "b closed by r in enforce", "current"}},
			{"1002", []string{"resumed", "current"}},
			{"1003", []string{"start", "a closed by r in enforce", "b closed by r in enforce", "current"}}, // of another process
			{"999", []string{"start", "a closed by r in enforce", "b closed by r in enforce", "current"}},
			{"later", []string{"start", "a closed by r in enforce", "b closed by r in enforce", "current"}},
		} {
			r := w.read("?since=" + test.since)
			r.want(test.want...)
			r.stop()
			synctest.Wait()
		}
		w.board.Resize(2)
		r := w.read("?since=1002")
		r.want("start") // not current: a partition was not read yet
		w.board.Loaded(0)
		w.board.Loaded(1)
		r.want("a closed by r in enforce", "b closed by r in enforce", "current")
		r.stop()
	})
}

// TestAReaderGetsWhatItAskedFor: kinds, modes and shares. What it did not ask for is left out, unless it opens what it has.
func TestAReaderGetsWhatItAskedFor(t *testing.T) {
	for _, test := range []struct {
		query       string
		shadow      bool
		start, then []string
	}{
		{
			"", false, []string{"e closed by r in enforce", "s closed by r in shadow"},
			[]string{"e closed by r in shadow", "s closed by r in enforce", "p closed by r in enforce", "p open", "s open"},
		},
		{
			"?shares=true", false, []string{"e closed by r in enforce", "s closed by r in shadow, shared", "p shared"},
			[]string{"e closed by r in shadow", "s closed by r in enforce", "p shared", "p closed by r in enforce, shared", "p shared", "s open"},
		},
		{
			"?mode=enforce", false, []string{"e closed by r in enforce"},
			[]string{"e open", "s closed by r in enforce", "p closed by r in enforce", "p open", "s open"},
		},
		{"?mode=enforce", true, nil, []string{"e open", "s open", "p open", "s open"}},
		{"?kind=ip&kind=_other", false, nil, nil},
	} {
		inWorld(t, feed.Options{Shadow: test.shadow}, func(w *world) {
			p := opening("p")
			p.Mode = schemas.ModeEnforce
			w.decide(closing("e"), inShadow(shared(closing("s"))), shared(p))
			r := w.read(test.query)
			r.want(append(append([]string{"start"}, test.start...), "current")...)
			time.Sleep(time.Second)
			w.decide(inShadow(closing("e")), closing("s"), shared(p), shared(closing("p")), shared(p), opening("s"))
			r.want(test.then...)
			r.stop()
		})
	}
}

// TestHeartbeatsSayHowFreshAPartitionIs each second, also while nothing is known.
func TestHeartbeatsSayHowFreshAPartitionIs(t *testing.T) {
	inWorld(t, feed.Options{}, func(w *world) {
		r := w.read("")
		began := time.Now()
		w.board.Beat(&schemas.Heartbeat{Epoch: 7, Seq: 5, Watermark: 3, Lag: 4e6}, began.Add(500*time.Millisecond))
		var got []string
		for range 6 {
			synctest.Wait()
			text := <-r.lines
			if l, _ := lines.Parse([]byte(text)); l.Type == lines.Heartbeat {
				p := l.Partitions[0]
				got = append(got, fmt.Sprintln(time.Unix(0, l.At).Sub(began), l.Cursor, p.State, p.Age, p.Lag, p.Epoch, p.Seq, p.Watermark))
			}
		}
		want := []string{
			"0s  cold 0s 0s 0 0 0", "1s 1000 fresh 500ms 4ms 7 5 3", "2s 1000 fresh 1.5s 4ms 7 5 3", "3s 1000 fresh 2.5s 4ms 7 5 3",
		}
		if strings.Join(got, "") != strings.Join(want, "\n")+"\n" {
			t.Errorf("got %q, want %q", got, want)
		}
		r.stop()
	})
}

// TestEventsHaveTheirCursorsAsIDs, so that a browser continues by itself.
func TestEventsHaveTheirCursorsAsIDs(t *testing.T) {
	inWorld(t, feed.Options{}, func(w *world) {
		w.decide(closing("a"))
		answer := w.get("", "Accept", "text/event-stream")
		defer answer.Body.Close()
		var text strings.Builder
		for scan := bufio.NewScanner(answer.Body); !strings.Contains(text.String(), "current") && scan.Scan(); {
			text.WriteString(scan.Text() + "\n")
		}
		want := "event: start\ndata: {\"type\":\"start\",\"version\":1}\n\nevent: heartbeat\ndata: {"
		if got := text.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\n\nevent: current\n") || answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("got %v %q, want %q … and the event current", answer.Header, got, want)
		}
	})
	inWorld(t, feed.Options{}, func(w *world) {
		w.decide(closing("a"))
		answer := w.get("", "Accept", "text/event-stream", "Last-Event-ID", "1001")
		defer answer.Body.Close()
		first := make([]byte, 67)
		if _, err := io.ReadFull(answer.Body, first); err != nil || !strings.Contains(string(first), `"resumed":true`) {
			t.Errorf("got %q and %v, want it to resume", first, err)
		}
	})
}

// TestAReaderThatReadsNothingIsCutOff after ten seconds, and counted. The others go on.
func TestAReaderThatReadsNothingIsCutOff(t *testing.T) {
	inWorld(t, feed.Options{}, func(w *world) {
		for i := range 100 { // more than the client's connection buffers
			w.decide(closing(fmt.Sprint(i)))
		}
		slow := w.get("")
		defer slow.Body.Close()
		good := w.read("")
		go func() {
			for range good.lines { // heartbeats
			}
		}()
		time.Sleep(15 * time.Second)
		if s := w.server.Stats(); s.Readers != 1 || s.Cut["slow"] != 1 || s.Cut["behind"] != 0 {
			t.Errorf("got %+v, want the slow reader cut off", s)
		}
		good.stop()
		synctest.Wait()
		if s := w.server.Stats(); s.Readers != 0 || s.Cut["slow"] != 1 {
			t.Errorf("got %+v, want the reader that left not counted as slow", s)
		}
	})
}

// TestAReaderThatFallsBehindIsCutOff: it connects again, and starts anew.
func TestAReaderThatFallsBehindIsCutOff(t *testing.T) {
	inWorld(t, feed.Options{}, func(w *world) {
		slow := w.get("")
		defer slow.Body.Close()
		time.Sleep(2 * time.Second) // its connection is full
		for range board.MaxChanges {
			w.decide(closing("a"), opening("a"))
		}
		if text, err := io.ReadAll(slow.Body); err != nil || strings.Count(string(text), `"decision"`) > board.MaxChanges {
			t.Errorf("got %d bytes and %v, want an end", len(text), err)
		}
		if s := w.server.Stats(); s.Cut["behind"] != 1 {
			t.Errorf("got %+v, want the reader cut off", s)
		}
	})
}

// TestStrangersAreRefused: those without a key, those who ask for what there is not, and those who are too many.
func TestStrangersAreRefused(t *testing.T) {
	sum := sha256.Sum256([]byte("secret"))
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("nginx "+hex.EncodeToString(sum[:])+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := feed.OpenKeys(path, time.Now(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	inWorld(t, feed.Options{Keys: keys}, func(w *world) {
		for _, test := range []struct {
			query, key string
			status     int
			body       string
		}{
			{"", "", 401, "want Authorization: Bearer KEY"},
			{"", "Bearer", 401, ""},
			{"", "Bearer wrong", 401, ""},
			{"", "Basic secret", 401, ""},
			{"?kinds=ip", "Bearer secret", 400, `parameter "kinds": want kind, mode, shares or since`},
			{"?kind=IP", "Bearer secret", 400, "parameter kind"},
			{"?mode=off", "bearer secret", 400, `parameter mode: got "off", want enforce or shadow`},
			{"?shares=1", "Bearer secret", 400, `parameter shares: got "1", want true or false`},
			{"?since=1&since=2", "Bearer secret", 400, "parameter since: got several"},
			{"?%zz", "Bearer secret", 400, "invalid URL escape"},
		} {
			answer := w.get(test.query, "Authorization", test.key)
			body, _ := io.ReadAll(answer.Body)
			if answer.Body.Close(); answer.StatusCode != test.status || !strings.Contains(string(body), test.body) {
				t.Errorf("%s %q: got %d %s, want %d %s", test.query, test.key, answer.StatusCode, body, test.status, test.body)
			}
		}
		var readers []*reader
		for range 3 {
			readers = append(readers, w.read("", "Authorization", "Bearer secret"))
		}
		answer := w.get("", "Authorization", "Bearer secret")
		answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "1" {
			t.Errorf("got %d, want 503 for a reader too many", answer.StatusCode)
		}
		if s := w.server.Stats(); s.Refused["key"] != 4 || s.Refused["parameter"] != 6 || s.Refused["full"] != 1 || s.Readers != 3 {
			t.Errorf("got %+v, want all refusals counted", s)
		}
		w.server.Close()
		for _, r := range readers {
			r.want("start", "current", "end")
		}
		late := w.get("", "Authorization", "Bearer secret")
		late.Body.Close()
		if late.StatusCode != http.StatusServiceUnavailable || late.Header.Get("Retry-After") != "1" {
			t.Errorf("got %d, want 503 for a reader of a feed that has ended", late.StatusCode)
		}
	})
}
