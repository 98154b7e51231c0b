package ingest

import (
	"fmt"
	"slices"
	"strings"
)

// maxColumns bounds the columns that are looked at.
const maxColumns = 256

// separated reads values with a separator between them: csv (RFC 4180, but for values that hold a line end) and tsv, which
// has no quotes. The names of the columns are the mapping's, or stand in the first line.
type separated struct {
	*freeNames
	comma byte
	cols  []int  // per column: index in values, or -1; nil before the header
	head  string // the header, in case it comes again
}

// newSeparated makes decoders of values that comma separates.
func newSeparated(comma byte) func(Mapping) (fieldNames, func() decoder, error) {
	return func(m Mapping) (fieldNames, func() decoder, error) {
		if len(m.Columns) > maxColumns {
			return nil, nil, fmt.Errorf("got %d columns, want at most %d", len(m.Columns), maxColumns)
		}
		names, columns := newFreeNames(), slices.Clone(m.Columns)
		return names, func() decoder {
			d := &separated{freeNames: names, comma: comma}
			if len(columns) > 0 {
				d.name(columns)
				d.head = strings.Join(columns, string(rune(comma)))
			}
			return d
		}, nil
	}
}

// name sets the names of the columns. Of two with the same name, the first counts.
func (d *separated) name(columns []string) {
	d.cols = make([]int, 0, len(columns))
	for _, c := range columns {
		slot, wanted := d.slots[c]
		if !wanted || slices.Contains(d.cols, slot) {
			slot = -1
		}
		d.cols = append(d.cols, slot)
	}
}

// decode implements decoder.
func (d *separated) decode(s string, values []string, l *Line) Reason {
	s = strings.TrimPrefix(s, "\ufeff")
	if d.cols == nil {
		return d.header(s, l)
	}
	if s == d.head {
		return Header
	}
	for _, slot := range d.cols {
		v, rest, more, whole := d.next(s, l)
		if !whole {
			return BadFormat
		}
		if s = rest; slot >= 0 {
			values[slot] = v
		}
		if !more {
			return MissingField
		}
	}
	clear(values) // more values than columns: a separator inside of a value has moved the others
	return Ambiguous
}

// header takes s as the names of the columns.
func (d *separated) header(s string, l *Line) Reason {
	if blank([]byte(s)) {
		return Empty
	}
	var columns []string
	rest, more := s, true
	for more {
		var v string
		var whole bool
		if v, rest, more, whole = d.next(rest, l); !whole || len(columns) == maxColumns {
			return BadFormat
		}
		columns = append(columns, strings.Clone(strings.TrimSpace(v)))
	}
	d.name(columns)
	d.head = strings.Clone(s)
	return Header
}

// next returns the value at the start of s and what follows the separator behind it; more is whether there is one. Whole
// is false if a closing quote is missing.
func (d *separated) next(s string, l *Line) (value, rest string, more, whole bool) {
	if d.comma == '\t' || s == "" || s[0] != '"' {
		value, rest, more = strings.Cut(s, string(rune(d.comma)))
		return value, rest, more, true
	}
	doubled := false
	for end := 1; ; {
		i := strings.IndexByte(s[end:], '"')
		if i < 0 {
			return "", "", false, false
		}
		if end += i; end+1 < len(s) && s[end+1] == '"' {
			doubled = true
			end += 2
			continue
		}
		value, rest = s[1:end], s[end+1:]
		break
	}
	if doubled {
		value = l.undouble(value)
	}
	_, rest, more = strings.Cut(rest, string(rune(d.comma))) // text between the quote and the separator is dropped
	return value, rest, more, true
}

// undouble returns s with each pair of quotes as one, in l's scratch.
func (l *Line) undouble(s string) string {
	n := len(l.scratch)
	for i := 0; i < len(s); i++ {
		l.scratch = append(l.scratch, s[i])
		if s[i] == '"' {
			i++
		}
	}
	return view(l.scratch[n:])
}
