package ingest

import (
	"fmt"
	"slices"
	"strings"
)

// Format is how a log writes its requests, with the mapping of its fields. It is immutable: any number of goroutines may
// ask it for scanners.
type Format struct {
	name   string
	kinds  []string
	header bool // the first line of a log says what its fields are
	silent bool // no responses: see Mapping.NoResponses
	open   func() Scanner
}

// style is what NewFormat knows of a format.
type style struct {
	name     string
	defaults Mapping
	dash     bool // a value of "-" is none
	native   bool // the decoder reads time, status and cost
	make     func(m Mapping) (fieldNames, func() decoder, error)
}

// styles lists the formats. A new one is an entry here, and a decoder if it is not one of those there are.
func styles() []style {
	return slices.Concat(textStyles(), jsonStyles(), freeStyles())
}

// FormatAuto is the name of the format that finds out by itself: see newAuto.
const FormatAuto = "auto"

// Formats returns the names of the known formats, auto first.
func Formats() []string {
	names := []string{FormatAuto}
	for _, f := range styles() {
		names = append(names, f.name)
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
	for _, f := range styles() {
		if f.name == name {
			return f.format(m)
		}
	}
	return nil, fmt.Errorf("%w: got format %q, want one of %s", ErrMapping, name, strings.Join(Formats(), ", "))
}

// format makes the Format of a style.
func (f style) format(m Mapping) (*Format, error) {
	if f.native && (m.Time != "" || m.Layout != TimeAuto) {
		return nil, fmt.Errorf("%w: format %s has its own time", ErrMapping, f.name)
	}
	m = m.withDefaults(f.defaults)
	names, open, err := f.make(m)
	if err != nil {
		return nil, fmt.Errorf("%w: format %s: %w", ErrMapping, f.name, err)
	}
	p, err := newMapper(m, names, f.native)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", f.name, err)
	}
	p.dash = f.dash
	made := &Format{name: f.name, header: headed(f.name, m), silent: m.NoResponses}
	for _, c := range m.Callers {
		made.kinds = append(made.kinds, c.Kind)
	}
	size := names.size()
	made.open = func() Scanner {
		return &scan{m: p, decoder: open(), clock: clock{layout: p.layout}, values: make([]string, size)}
	}
	return made, nil
}

// Name returns the format's name.
func (f *Format) Name() string { return f.name }

// Kinds returns the kinds of a line's callers, in the order of Line.IDs.
func (f *Format) Kinds() []string { return slices.Clone(f.kinds) }

// Headed reports whether the first line of a log is needed to read the others: it names the columns, or is what the
// format is found out by. Whoever begins in the middle scans the first line before.
func (f *Format) Headed() bool { return f.header }

// Responses reports whether status and cost are to be passed on: see Mapping.NoResponses.
func (f *Format) Responses() bool { return !f.silent }

// Scanner returns a new scanner of the format.
func (f *Format) Scanner() Scanner { return f.open() }
