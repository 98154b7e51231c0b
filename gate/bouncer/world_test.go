package bouncer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// world is a board that a test writes, and a server on it. It is used in a bubble of synctest.
type world struct {
	*Server

	t       testing.TB
	board   *board.Board
	dead    []bool        // partitions whose owners say nothing
	jump    time.Duration // by which the clock is wrong
	seq     uint64
	agent   string
	address string
}

// story runs a test in a bubble, with a world of one partition that has caught up and is fresh.
func story(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, 1, Options{})) })
}

func newWorld(t testing.TB, partitions int, o Options) *world {
	t.Helper()
	w := emptyWorld(t, o)
	w.load(partitions)
	return w
}

// emptyWorld is one whose topic is not read yet.
func emptyWorld(t testing.TB, o Options) *world {
	t.Helper()
	o.Board = board.New(board.Options{})
	w := &world{t: t, board: o.Board, agent: "test/1", address: "192.0.2.1:1000"}
	o.Clock = func() time.Time { return time.Now().Add(w.jump) }
	o.Logger = slog.New(slog.DiscardHandler)
	o.Keys = keys(t, "anna a\nbert b\n")
	w.serve(o)
	return w
}

// serve makes a server that follows the board: the first one, or that of a process which knows nothing of the one before it.
func (w *world) serve(o Options) {
	server := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() { cancel(); running.Wait(); server.filling.Wait() })
	w.Server = server
}

// keys returns the keys of lines NAME KEY.
func keys(t testing.TB, lines string) *Keys {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(lines) {
		name, key, _ := strings.Cut(strings.TrimSpace(line), " ")
		sum := sha256.Sum256([]byte(key))
		fmt.Fprintln(&text, name, hex.EncodeToString(sum[:]))
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := OpenKeys(path, time.Now(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// load says that all partitions are read.
func (w *world) load(partitions int) {
	w.dead = make([]bool, partitions)
	w.board.Resize(partitions)
	for p := range partitions {
		w.board.Loaded(p)
	}
	w.beat()
}

func (w *world) beat() {
	for p := range w.dead {
		if w.seq++; !w.dead[p] {
			w.board.Beat(&schemas.Heartbeat{Partition: int32(p), Epoch: 1, Seq: w.seq}, w.options.Clock())
		}
	}
	w.settle()
}

// settle waits until the server has heard of everything.
func (w *world) settle() { synctest.Wait() }

// pass lets time pass, second by second, as Run and owners do.
func (w *world) pass(d time.Duration) {
	for d > 0 {
		step := min(d, time.Second)
		time.Sleep(step)
		d -= step
		w.board.Expire(w.options.Clock())
		w.beat()
	}
}

// decide applies a decision about an address, whose times are in seconds from now. edit changes the rest.
func (w *world) decide(rule, id string, from, until float64, edit ...func(*schemas.Decision)) {
	now := w.options.Clock()
	at := func(seconds float64) int64 { return now.Add(time.Duration(seconds * float64(time.Second))).UnixNano() }
	w.seq++
	d := schemas.Decision{
		Rule: rule, Caller: schemas.Caller{Kind: schemas.KindIP, ID: id}, Mode: schemas.ModeEnforce,
		CloseAt: at(from), Until: at(until), Epoch: 1, Seq: w.seq,
	}
	for _, f := range edit {
		f(&d)
	}
	w.board.Apply([]schemas.Decision{d}, now)
	w.settle()
}

// decision is an item as bouncers read it.
type decision struct {
	ID                                             int64
	Origin, Type, Scope, Value, Duration, Scenario string
}

// stream is an answer of the stream.
type stream struct{ New, Deleted []decision }

// String shows values with the seconds that remain, and deleted ones after a minus.
func (s stream) String() string {
	var list []string
	for _, d := range s.Deleted {
		list = append(list, "-"+d.Value)
	}
	for _, d := range s.New {
		left, _ := time.ParseDuration(d.Duration)
		list = append(list, fmt.Sprintf("+%s %s", d.Value, left.Round(time.Second)))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// ask asks as anna, and returns status and body.
func (w *world) ask(method, path string) (int, string) {
	r := httptest.NewRequestWithContext(context.Background(), method, path, http.NoBody)
	r.Header.Set("X-Api-Key", "a")
	r.Header.Set("User-Agent", w.agent)
	r.RemoteAddr = w.address
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// get asks the stream, checks what holds for every item, and returns the answer.
func (w *world) get(query string) (s stream) {
	w.t.Helper()
	status, body := w.ask(http.MethodGet, "/v1/decisions/stream?"+query)
	if status != http.StatusOK {
		w.t.Fatalf("%s: got %d %s, want 200", query, status, body)
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		w.t.Fatalf("%s: got %v of %s", query, err, body)
	}
	if strings.Contains(body, "[]") {
		w.t.Errorf("got %s, want null for an empty list", body)
	}
	for _, d := range s.Deleted {
		if slices.Contains(values(s.New), d.Value) {
			w.t.Errorf("%s: got %s in new and in deleted, want it in one of them: bouncers differ in what they apply first", query, d.Value)
		}
	}
	for i, d := range append(slices.Clone(s.New), s.Deleted...) {
		if left, err := time.ParseDuration(d.Duration); err != nil || left < time.Second {
			w.t.Errorf("got %+v: %v, want a second at least", d, err)
		}
		_, err := netip.ParsePrefix(d.Value)
		if _, addrErr := netip.ParseAddr(d.Value); (d.Scope != "Ip" || addrErr != nil) && (d.Scope != "Range" || err != nil) {
			w.t.Errorf("got %+v, want an address of scope Ip or a network of scope Range", d)
		}
		if d.Origin != "floodgate" || d.Type != "ban" || d.Scenario == "" || d.ID <= 0 || d.ID >= 1<<53 {
			w.t.Errorf("item %d: got %+v", i, d)
		}
	}
	return s
}

// start and poll are what a bouncer asks.
func (w *world) start() string { w.t.Helper(); return w.get("startup=true").String() }
func (w *world) poll() string  { w.t.Helper(); return w.get("startup=false").String() }

// check compares.
func check(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }
