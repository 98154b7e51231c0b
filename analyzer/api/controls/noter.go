package controls

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Defaults and bounds of a Noter.
const (
	defaultRetry  = 5 * time.Second
	defaultSpread = 2 * time.Second
	maxWaiting    = 64 // versions that wait to be noted; the oldest is dropped for another

	appendTime = 10 * time.Second
)

// NoterConfig configures a Noter. All but the durations, Clock and Logger are needed.
type NoterConfig struct {
	Records Versions
	Writer  api.Writer
	Author  string           // of the notes: host and process of the analyzer
	File    string           // of the rules: the notes' reason
	Retry   time.Duration    // before another attempt; 0 is 5 s
	Spread  time.Duration    // a note waits for a random part of it, so that few of many analyzers write; 0 is 2 s, less than 0 none
	Clock   func() time.Time // nil is time.Now
	Logger  *slog.Logger     // nil discards
}

// Versions is what a Noter must know of the control topic. A Follower is one.
type Versions interface {
	Ready() bool
	Version(id uint64) (api.Record, bool)
}

// Noter notes in the control topic which rules an analyzer takes over: each version once, over all analyzers. It is for
// people, and nothing depends on it: while the topic is away it waits, and nobody waits for it. NewNoter makes one; call Run once.
type Noter struct {
	config NoterConfig
	wake   chan struct{}

	mu      sync.Mutex
	waiting []*rules.Set // guarded by mu: versions to note, the oldest first

	wrote map[uint64]bool // ids that Run has noted: Records may not know them yet
}

// NewNoter returns a Noter. It does no I/O.
func NewNoter(c NoterConfig) *Noter {
	if c.Retry <= 0 {
		c.Retry = defaultRetry
	}
	if c.Spread == 0 {
		c.Spread = defaultSpread
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Author, c.File = bounded(c.Author, "an analyzer", schemas.MaxAuthor), bounded(c.File, "rules", schemas.MaxReason)
	return &Noter{config: c, wake: make(chan struct{}, 1), wrote: make(map[uint64]bool)}
}

// bounded returns a text that a record can have.
func bounded(text, empty string, length int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) > length {
		text = strings.ToValidUTF8(text[:length], "") // a character that was cut
	}
	if text == "" {
		return empty
	}
	return text
}

// Note says that the analyzer has taken over rules. It never waits. Any goroutine may call it.
func (n *Noter) Note(set *rules.Set) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.waiting {
		if w.ID() == set.ID() {
			return
		}
	}
	if len(n.waiting) >= maxWaiting {
		n.waiting = n.waiting[1:]
	}
	n.waiting = append(n.waiting, set)
	select {
	case n.wake <- struct{}{}:
	default: // it is awake
	}
}

// first returns the version that waits longest, or nil.
func (n *Noter) first() *rules.Set {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		return nil
	}
	return n.waiting[0]
}

// done ends the wait of a version.
func (n *Noter) done(set *rules.Set) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) > 0 && n.waiting[0] == set {
		n.waiting = n.waiting[1:]
	}
}

// Run notes versions until ctx ends, and then returns nil. The log has one line about the time in which it cannot.
func (n *Noter) Run(ctx context.Context) error {
	logged := false
	for ctx.Err() == nil {
		set := n.first()
		if set == nil {
			select {
			case <-ctx.Done():
			case <-n.wake:
			}
			continue
		}
		why := n.note(ctx, set)
		switch {
		case ctx.Err() != nil:
		case why == "":
			logged = false
			n.done(set)
			continue
		case !logged:
			logged = true
			n.config.Logger.Warn("the rules are not noted in the control topic yet: rules versions does not show them", "id", fmt.Sprintf("%016x", set.ID()), "because", why)
		}
		_ = kafkaio.Sleep(ctx, n.config.Retry) // the next attempt finds out if ctx has ended
	}
	return nil
}

// note notes a version, unless some analyzer has. It returns why it could not.
func (n *Noter) note(ctx context.Context, set *rules.Set) (why string) {
	if n.config.Spread > 0 {
		_ = kafkaio.Sleep(ctx, mathrand.N(n.config.Spread)) //nolint:gosec // no secret; and Append finds out if ctx has ended
	}
	if !n.config.Records.Ready() {
		return "the topic cannot be read"
	}
	if _, known := n.config.Records.Version(set.ID()); known || n.wrote[set.ID()] {
		return ""
	}
	r := schemas.Control{
		Time: n.config.Clock().UnixNano(), Author: n.config.Author, Reason: n.config.File,
		Action: schemas.ControlRules, RulesID: set.ID(), Text: set.Text(),
	}
	if len(r.Text) > schemas.MaxControlText {
		r.Text = nil
	}
	_, _ = rand.Read(r.ID[:]) // never fails
	ctx, cancel := context.WithTimeout(ctx, appendTime)
	defer cancel()
	if _, err := n.config.Writer.Append(ctx, &r); err != nil {
		return err.Error()
	}
	if len(n.wrote) >= maxVersions {
		clear(n.wrote)
	}
	n.wrote[set.ID()] = true
	n.config.Logger.Info("noted the rules in the control topic", "id", fmt.Sprintf("%016x", set.ID()), "file", n.config.File)
	return ""
}
