package repeats

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Every is how often the log repeats that something fails and is tried again.
const Every = time.Minute

// away is the class of all warnings that Kafka cannot be reached now, of any call.
const away = "away"

// Handler is a slog.Handler that passes records on, except warnings that repeat. The messages of such warnings end in
// "trying again". All whose error is temporary (see kafkaio.Temporary) share one class, whatever the call was. Others are
// in one class if message and topic are the same. New makes a Handler; any goroutine may use it.
type Handler struct {
	next   slog.Handler
	shared *shared
	topic  string // of Logger.With
}

var _ slog.Handler = (*Handler)(nil)

// shared is what a Handler and those that are derived from it share.
type shared struct {
	mu      sync.Mutex
	classes map[string]*class // guarded by mu: as many as messages in the code times topics
	better  time.Time         // guarded by mu: when the log last said that a call works again
}

type class struct {
	logged time.Time
	hidden int // since then
}

// New returns a handler that passes records on to next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, shared: &shared{classes: make(map[string]*class)}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{next: h.next.WithAttrs(attrs), shared: h.shared, topic: topicIn(attrs, h.topic)}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), shared: h.shared, topic: h.topic}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	hidden, show := 0, true
	switch {
	case r.Level == slog.LevelWarn && strings.HasSuffix(r.Message, "trying again"):
		hidden, show = h.shared.fails(h.class(r), r.Time)
	case r.Level == slog.LevelInfo && strings.HasPrefix(r.Message, "can ") && strings.HasSuffix(r.Message, " again"):
		hidden, show = h.shared.works(r.Time)
	}
	if !show {
		return nil
	}
	if hidden > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("not_shown", hidden))
	}
	return h.next.Handle(ctx, r)
}

// class returns the class of a warning.
func (h *Handler) class(r slog.Record) string {
	topic, temporary := h.topic, false
	r.Attrs(func(a slog.Attr) bool {
		topic = topicIn([]slog.Attr{a}, topic)
		if err, ok := a.Value.Any().(error); ok && kafkaio.Temporary(err) {
			temporary = true
		}
		return true
	})
	if temporary {
		return away
	}
	return r.Message + "\x00" + topic
}

func topicIn(attrs []slog.Attr, topic string) string {
	for _, a := range attrs {
		if a.Key == "topic" {
			topic = a.Value.String()
		}
	}
	return topic
}

// fails reports whether a warning of a class is shown, and how many were not since the last that was.
func (s *shared) fails(name string, now time.Time) (hidden int, show bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.classes[name]
	if c != nil && now.Sub(c.logged) < Every {
		c.hidden++
		return 0, false
	}
	if c == nil {
		c = new(class)
		s.classes[name] = c
	}
	hidden = c.hidden
	c.logged, c.hidden = now, 0
	return hidden, true
}

// works reports whether to log that a call works again. Many calls recover at the same moment, so that is logged once in a
// while. The next failure is then logged at once.
func (s *shared) works(now time.Time) (hidden int, show bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.better) < Every {
		return 0, false
	}
	s.better = now
	if c := s.classes[away]; c != nil {
		hidden = c.hidden
		delete(s.classes, away)
	}
	return hidden, true
}
