package gatecaddy

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// logs is a slog.Handler that passes what gates log to the configuration that runs: gates outlive configurations and their files.
// Any goroutine may use it.
type logs struct{ now atomic.Pointer[slog.Logger] }

func newLogs(l *slog.Logger) *logs {
	h := new(logs)
	h.use(l)
	return h
}

func (h *logs) use(l *slog.Logger)   { h.now.Store(l) }
func (h *logs) logger() *slog.Logger { return slog.New(h) }

// Enabled implements slog.Handler.
func (h *logs) Enabled(ctx context.Context, l slog.Level) bool {
	return h.now.Load().Handler().Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *logs) Handle(ctx context.Context, r slog.Record) error {
	return h.now.Load().Handler().Handle(ctx, r)
}

// WithAttrs implements slog.Handler. No part of a gate uses it, so what it returns stays with the configuration of this moment.
func (h *logs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.now.Load().Handler().WithAttrs(attrs)
}

// WithGroup implements slog.Handler, as WithAttrs does.
func (h *logs) WithGroup(name string) slog.Handler { return h.now.Load().Handler().WithGroup(name) }
