package ingest

import (
	"fmt"
	"slices"
	"strings"
)

// Format is how a log writes its requests, together with the mapping of its fields. It does not change, and any number of
// goroutines may use it.
type Format struct {
	name   string
	kinds  []string
	headed bool // see Headed
	silent bool // see Mapping.NoResponses
	open   func() Scanner
}

// FormatAuto is the name of the format that finds out the format of each log: its first line that some format can read
// decides.
const FormatAuto = "auto"

// Formats returns the names of the known formats, auto first.
func Formats() []string {
	names := []string{FormatAuto}
	for _, s := range styles() {
		names = append(names, s.name)
	}
	return names
}

// NewFormat returns the format of that name with the mapping m, or an error that wraps ErrMapping.
func NewFormat(name string, m Mapping) (*Format, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if name == FormatAuto {
		return newAuto(m)
	}
	if s, ok := styleOf(name); ok {
		return s.format(m)
	}
	return nil, fmt.Errorf("%w: got format %q, want one of %s", ErrMapping, name, strings.Join(Formats(), ", "))
}

// format makes the Format of a style.
func (s style) format(m Mapping) (*Format, error) {
	if s.native && (m.Time != "" || m.Layout != TimeAuto) {
		return nil, fmt.Errorf("%w: format %s has its own time", ErrMapping, s.name)
	}
	m = m.withDefaults(s.defaults)
	names, open, err := s.make(m)
	if err != nil {
		return nil, fmt.Errorf("%w: format %s: %w", ErrMapping, s.name, err)
	}
	p, err := newMapper(m, names, s.native)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", s.name, err)
	}
	p.dash = s.dash
	made := &Format{name: s.name, headed: s.headed(m), silent: m.NoResponses}
	for _, c := range m.Callers {
		made.kinds = append(made.kinds, c.Kind)
	}
	size := names.size()
	made.open = func() Scanner {
		return &scan{m: p, decoder: open(), clock: clock{layout: p.layout}, values: make([]string, size)}
	}
	if len(m.Unwrap) > 0 {
		made.headed = true // a line may go on in the next
		if made.open, err = unwrapped(made.open, m.Unwrap); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// Name returns the format's name.
func (f *Format) Name() string { return f.name }

// Kinds returns the kinds of a line's callers, in the order of Line.IDs.
func (f *Format) Kinds() []string { return slices.Clone(f.kinds) }

// Headed reports whether the first line of a log is needed to read the others: it names the columns, or it shows which format
// the log has. A reader that begins in the middle of a log scans the first line before.
func (f *Format) Headed() bool { return f.headed }

// Responses reports whether status and cost are to be passed on: see Mapping.NoResponses.
func (f *Format) Responses() bool { return !f.silent }

// Scanner returns a new scanner of the format.
func (f *Format) Scanner() Scanner { return f.open() }
