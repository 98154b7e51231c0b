package store

import (
	"fmt"
	"log/slog"
	"strings"
)

// logger passes Badger's warnings and errors on, and drops the rest.
type logger struct{ to *slog.Logger }

func (l logger) Errorf(format string, args ...any)   { l.to.Error(message(format, args)) }
func (l logger) Warningf(format string, args ...any) { l.to.Warn(message(format, args)) }
func (logger) Infof(string, ...any)                  {}
func (logger) Debugf(string, ...any)                 {}

func message(format string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}
