package ingest

import (
	"fmt"
	"slices"
	"strings"
)

// fixedNames are the fields of a format that has always the same ones.
type fixedNames struct {
	names [][]string // per field: its name, and others for the same
	used  []bool

	unreadable []string // fields that the log has, and that nothing separates from their neighbours
}

// newFixedNames returns the fields with the given names; a|b has both.
func newFixedNames(names []string) *fixedNames {
	f := &fixedNames{used: make([]bool, len(names))}
	for _, n := range names {
		f.names = append(f.names, strings.Split(n, "|"))
	}
	return f
}

func (f *fixedNames) slot(field string) (int, error) {
	var first []string
	for i, names := range f.names {
		if slices.Contains(names, field) {
			f.used[i] = true
			return i, nil
		}
		first = append(first, names[0])
	}
	if slices.Contains(f.unreadable, field) {
		return 0, fmt.Errorf("got field %q, which has nothing between it and its neighbour: where it ends cannot be seen", field)
	}
	return 0, fmt.Errorf("got field %q, want one of %s", field, strings.Join(first, ", "))
}

func (f *fixedNames) size() int { return len(f.names) }

// asked reports whether the mapping names field i.
func (f *fixedNames) asked(i int) bool { return i < len(f.used) && f.used[i] }

// freeNames are the fields of a format whose lines name them.
type freeNames struct {
	slots map[string]int
	order []string
}

func newFreeNames() *freeNames { return &freeNames{slots: make(map[string]int)} }

func (f *freeNames) slot(field string) (int, error) {
	if field == "" {
		return 0, errTemplateEmpty
	}
	if i, seen := f.slots[field]; seen {
		return i, nil
	}
	i := len(f.order)
	f.slots[field], f.order = i, append(f.order, field)
	return i, nil
}

func (f *freeNames) size() int { return len(f.order) }

// fieldNames turns names of fields into indices of values. It is used while a Format is made.
type fieldNames interface {
	// slot returns the index of the field's value, or an error that says which fields there are.
	slot(field string) (int, error)
	// size returns how many values there are, once all names were asked for.
	size() int
}
