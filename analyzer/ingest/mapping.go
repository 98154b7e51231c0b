package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// ErrMapping says that a mapping does not fit its format, or does not make sense. Test with errors.Is.
var ErrMapping = errors.New("bad mapping")

// MaxCallers is the most caller kinds of a mapping.
const MaxCallers = 8

// maxParts is the most fields that make one caller.
const maxParts = 4

// CompositeSeparator stands between the parts of a composite caller's id, as in gatehttp. Only the last part may contain
// it: a request with another such part has no composite caller, or different ones would be counted as one.
const CompositeSeparator = "|"

// CallerField says where callers of one kind are found: in one field, or in several that together make a composite id.
type CallerField struct {
	Kind   string
	Fields []string // in the format's own names; for JSON a key, or a path of keys with dots
}

// Mapping says what the callers of a line are, and for JSON where the other fields stand. The zero value takes a format's
// defaults: the caller ip for combined and common, and none for JSON, which therefore needs callers.
type Mapping struct {
	Callers  []CallerField
	Time     string     // JSON: the time's field; "time" if empty
	Layout   TimeLayout // JSON: how the time is written
	Resource string     // JSON: field of the resource, "" for none
	Status   string     // JSON: field of the HTTP status, "" for none
	Cost     string     // JSON: field of the cost, "" for none
}

// ParseCallerField parses kind=field, or kind=field+field for a composite caller such as ip_route=ip+resource.
func ParseCallerField(s string) (CallerField, error) {
	kind, fields, found := strings.Cut(s, "=")
	if !found || fields == "" {
		return CallerField{}, fmt.Errorf("%w: got callers %q, want kind=field", ErrMapping, s)
	}
	if err := schemas.ValidateKind(kind); err != nil {
		return CallerField{}, fmt.Errorf("%w: callers %q: %w", ErrMapping, s, err)
	}
	c := CallerField{Kind: kind, Fields: strings.Split(fields, "+")}
	if len(c.Fields) > maxParts {
		return CallerField{}, fmt.Errorf("%w: callers %q: got %d fields, want at most %d", ErrMapping, s, len(c.Fields), maxParts)
	}
	if slices.Contains(c.Fields, "") {
		return CallerField{}, fmt.Errorf("%w: callers %q: an empty field name", ErrMapping, s)
	}
	return c, nil
}

// check reports what is wrong with the callers of m.
func (m *Mapping) check() error {
	if len(m.Callers) > MaxCallers {
		return fmt.Errorf("%w: got %d caller kinds, want at most %d", ErrMapping, len(m.Callers), MaxCallers)
	}
	seen := map[string]bool{}
	for _, c := range m.Callers {
		if err := schemas.ValidateKind(c.Kind); err != nil {
			return fmt.Errorf("%w: %w", ErrMapping, err)
		}
		if c.Kind == schemas.KindCanary {
			return fmt.Errorf("%w: callers of kind %q are floodgate's own", ErrMapping, c.Kind)
		}
		if seen[c.Kind] {
			return fmt.Errorf("%w: two fields for callers of kind %q", ErrMapping, c.Kind)
		}
		if len(c.Fields) == 0 || len(c.Fields) > maxParts {
			return fmt.Errorf("%w: callers of kind %q: got %d fields, want 1 to %d", ErrMapping, c.Kind, len(c.Fields), maxParts)
		}
		seen[c.Kind] = true
	}
	return nil
}

// caller sets the i-th id of l from its parts, each "" where the line lacks the field. It returns OK also where the line
// has no such caller; the reasons are for an id that is there and cannot be used.
func (l *Line) caller(i int, kind string, parts []string) Reason {
	for j, p := range parts {
		if p == "" || j < len(parts)-1 && strings.Contains(p, CompositeSeparator) {
			return OK
		}
	}
	id := parts[0]
	if kind == schemas.KindIP {
		if id = address(id, l); id == "" {
			return BadAddress
		}
	}
	if len(parts) > 1 {
		n := len(l.scratch)
		for j, p := range parts {
			if j > 0 {
				l.scratch = append(l.scratch, CompositeSeparator...)
			}
			l.scratch = append(l.scratch, p...)
		}
		id = view(l.scratch[n:])
	}
	if len(id) > schemas.MaxCallerID {
		return LongCaller
	}
	l.IDs[i] = id
	return OK
}
