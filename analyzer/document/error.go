package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing that is wrong with a file, or a warning about it.
type Error struct {
	File   string
	Line   int // from 1
	Column int // from 1, in characters
	Msg    string
}

// Error returns file:line:column: message, such as "rules.yaml:7:12: limit: got 0, want 1 to 100000000000000000".
func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg) }

// Errors is everything that is wrong with a file, in the order of its lines. It is never empty.
type Errors []*Error

// Error returns one line per error.
func (e Errors) Error() string {
	var b strings.Builder
	for i, err := range e {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

// Unwrap makes errors.As find a single *Error.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// sorted returns errs in the order of the file, at most maxErrors of them.
func sorted(errs []*Error) []*Error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(errs) > maxErrors {
		last := *errs[maxErrors-1]
		last.Msg = fmt.Sprintf("%s (and %d more errors)", last.Msg, len(errs)-maxErrors)
		errs = append(errs[:maxErrors-1:maxErrors-1], &last)
	}
	return errs
}
