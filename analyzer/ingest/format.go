package ingest

import (
	"fmt"
	"slices"
	"strings"
)

// Format is how a log writes its requests, with the mapping of its fields. It is immutable: any number of goroutines may
// ask it for scanners.
type Format struct {
	name  string
	kinds []string
	open  func() Scanner
}

// formats lists what NewFormat knows. A new format is one line here and one constructor.
func formats() []struct {
	name string
	make func(Mapping) (*Format, error)
} {
	return []struct {
		name string
		make func(Mapping) (*Format, error)
	}{
		{"combined", newCombined},
		{"common", newCommon},
		{"json", newJSON},
	}
}

// Formats returns the names of the known formats.
func Formats() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// NewFormat returns the format of that name with the mapping m, or an error that wraps ErrMapping.
func NewFormat(name string, m Mapping) (*Format, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	for _, f := range formats() {
		if f.name == name {
			return f.make(m)
		}
	}
	return nil, fmt.Errorf("%w: got format %q, want one of %s", ErrMapping, name, strings.Join(Formats(), ", "))
}

// Name returns the format's name.
func (f *Format) Name() string { return f.name }

// Kinds returns the kinds of a line's callers, in the order of Line.IDs.
func (f *Format) Kinds() []string { return slices.Clone(f.kinds) }

// Scanner returns a new scanner of the format.
func (f *Format) Scanner() Scanner { return f.open() }
