package haproxy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// Map is a map of HAProxy, which has the closed callers of one kind.
type Map struct {
	Kind string
	Name string // as HAProxy's configuration has it: mostly the path of a file
}

// ParseMap returns the map of a text KIND=NAME.
func ParseMap(text string) (Map, error) {
	kind, name, _ := strings.Cut(text, "=")
	if err := schemas.ValidateKind(kind); err != nil {
		return Map{}, err
	}
	if !plain(name, "/._-@+:#") || name == "" {
		return Map{}, fmt.Errorf("got the map %q, want letters, digits and / . _ - @ + : #, as its name stands in commands", name)
	}
	return Map{kind, name}, nil
}

// Options are the options of a Writer.
type Options struct {
	Board  *board.Board
	Socket string // path of HAProxy's stats socket, of level operator or admin
	Maps   []Map  // with different kinds and names
	IDs    schemas.IDs
	Shadow bool         // the maps stay empty
	Logger *slog.Logger // nil is slog.Default
}

// Intervals.
const (
	gatherFor    = 5 * time.Millisecond // from one connection to the next
	pollEvery    = 250 * time.Millisecond
	compareEvery = time.Minute
)

// Writer keeps HAProxy's maps equal to a board. New makes one. Stats may be called from any goroutine.
type Writer struct {
	options Options
	dial    func(context.Context) (net.Conn, error)
	clock   func() time.Time
	wake    chan struct{} // something waits that is not lazy
	stats   counters

	// Only the goroutine that writes to HAProxy uses these.
	known    state     // of HAProxy when its maps were compared last
	compared time.Time // zero: they are to be compared
	pruned   bool      // the board was ready then
	polled   time.Time
	wrote    time.Time
	failed   time.Time     // zero: HAProxy answered last
	perAdd   time.Duration // what HAProxy needs for an entry, as last measured
	perEdit  time.Duration

	mu     sync.Mutex // protects what follows
	tables []*table
	ready  bool      // all that the board held was looked at
	latest time.Time // the latest time that advance has seen
}

// New returns a Writer.
func New(o Options) *Writer {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	w := &Writer{
		options: o, dial: dialer(o.Socket), clock: time.Now, wake: make(chan struct{}, 1), perAdd: 5 * time.Microsecond, perEdit: 50 * time.Microsecond,
	}
	for _, m := range o.Maps {
		w.tables = append(w.tables, newTable(m))
	}
	return w
}

// Run writes until ctx ends. The maps then stay as they are: HAProxy refuses closed callers to the end of their closures. The error is that
// of Board.Subscribe, or nil. Call it once.
func (w *Writer) Run(ctx context.Context) error {
	sub, err := w.options.Board.Subscribe(0)
	if err != nil {
		return fmt.Errorf("write HAProxy's maps: %w", err)
	}
	defer sub.Close()
	ctx, stop := context.WithCancel(ctx)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop()
	writing.Go(func() { w.write(ctx) })
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil // it was asked to stop
			}
			return fmt.Errorf("write HAProxy's maps: %w", err)
		}
		w.handle(&e, w.clock())
	}
}

// handle applies an event of the board. Between Lost and Current everything comes again, and what does not come has ended.
func (w *Writer) handle(e *board.Event, now time.Time) {
	switch e.Kind {
	case board.Lost:
		w.setReady(false)
	case board.Current:
		w.lookAtAll(now)
		w.setReady(true)
		w.nudge()
	default:
		w.look(e, now)
	}
}

func (w *Writer) setReady(ready bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = ready
}

func (w *Writer) isReady() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready
}

// look updates the entry of an event's caller.
func (w *Writer) look(e *board.Event, now time.Time) {
	c := e.Decision.Caller
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tables {
		if t.kind != c.Kind {
			continue
		}
		key, ok := keyOf(c, w.options.IDs)
		if reason, skipped := w.skips(e, ok); skipped {
			w.stats.skipped[reason].Add(1)
		}
		if ok {
			w.lookAt(t, key, c.ID, now)
		}
	}
}

// skips returns why an event's decision is not written. ok says that the caller has a key.
func (w *Writer) skips(e *board.Event, ok bool) (reason int, skipped bool) {
	switch {
	case e.Kind == board.Opened || e.Kind == board.Ended:
		return 0, false
	case !ok:
		return skippedAddress, true
	case w.options.Shadow || e.Decision.Mode != schemas.ModeEnforce:
		return skippedShadow, true
	}
	return 0, false
}

func (w *Writer) lookAt(t *table, key, id string, now time.Time) {
	var ds []schemas.Decision
	if !w.options.Shadow {
		ds = w.options.Board.Of(schemas.Caller{Kind: t.kind, ID: id})
	}
	t.look(key, id, ds, now.UnixNano())
	if t.waits[queueAdd]+t.waits[queueUrgent] > 0 {
		w.nudge()
	}
}

// nudge lets the goroutine that writes look for work.
func (w *Writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// piece is how many entries a loop looks at before it releases the lock.
const piece = 1024

// lookAtAll looks at all entries again: changes may have been missed, or the clock was put back.
func (w *Writer) lookAtAll(now time.Time) {
	for _, t := range w.tables {
		w.each(t, func(e *entry) { w.lookAgain(t, e, now) })
	}
}

// each calls do for all entries of a table, with the lock held, which it releases after each piece.
func (w *Writer) each(t *table, do func(*entry)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range slices.Collect(maps.Values(t.entries)) {
		if t.entries[e.key] == e { // else it has left meanwhile
			do(e)
		}
		if i%piece == piece-1 {
			w.mu.Unlock()
			w.mu.Lock()
		}
	}
}

// lookAgain is lookAt of an entry.
func (w *Writer) lookAgain(t *table, e *entry, now time.Time) {
	if e.id == "" {
		t.settle(e, e.due, now.UnixNano())
		return
	}
	w.lookAt(t, e.key, e.id, now)
}

// advance looks at all entries whose time has come. It returns when the next one's comes.
func (w *Writer) advance(now time.Time) (next time.Time) {
	w.mu.Lock()
	back := now.Before(w.latest.Add(-time.Second))
	w.latest = now
	w.mu.Unlock()
	if back {
		w.options.Logger.Warn("the clock was put back: looking at all closures again")
		w.lookAtAll(now)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	due := int64(never)
	for _, t := range w.tables {
		for n := 1; ; n++ {
			e := t.firstDue()
			if e == nil || e.due > now.UnixNano() {
				break
			}
			w.lookAgain(t, e, now)
			if n%piece == 0 {
				w.mu.Unlock()
				w.mu.Lock()
			}
		}
		if e := t.firstDue(); e != nil {
			due = min(due, e.due)
		}
	}
	return time.Unix(0, due)
}
