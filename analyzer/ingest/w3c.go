package ingest

import (
	"slices"
	"strings"
)

// fieldDateTime is the field that w3c makes of date and time.
const fieldDateTime = "date-time"

// w3c reads the extended log format of the W3C, as IIS and Amazon CloudFront write it. Lines that begin with "#" say which fields
// the lines behind them have. Values are separated by blanks, or by tabs where a line has one, and hold neither: IIS writes "+" for a
// blank, and CloudFront encodes it. Times are in UTC.
type w3c struct {
	*freeNames
	cols       []int // per column: index in values, or -1; nil before the header
	date, hour int   // the columns of the time, or -1
	stamp      int   // index of fieldDateTime in values, or -1
}

func newW3C(m Mapping) (fieldNames, func() decoder, error) {
	names := newFreeNames()
	columns := m.Columns
	return names, func() decoder {
		d := &w3c{freeNames: names}
		if len(columns) > 0 {
			d.name(columns)
		}
		return d
	}, nil
}

// name sets the names of the columns. Of two with the same name, the first counts.
func (d *w3c) name(columns []string) {
	d.cols, d.date, d.hour, d.stamp = make([]int, 0, len(columns)), -1, -1, -1
	if slot, wanted := d.slots[fieldDateTime]; wanted {
		d.stamp = slot
	}
	seen := make(map[string]bool)
	for i, c := range columns {
		slot, wanted := d.slots[c]
		if !wanted || seen[c] {
			slot = -1
		}
		switch {
		case c == "date" && d.date < 0:
			d.date = i
		case c == "time" && d.hour < 0:
			d.hour = i
		}
		seen[c] = true
		d.cols = append(d.cols, slot)
	}
}

// decode implements decoder.
func (d *w3c) decode(s string, values []string, l *Line) Reason {
	s = strings.TrimPrefix(s, "\ufeff")
	if strings.HasPrefix(s, "#") {
		if fields, found := strings.CutPrefix(s, "#Fields:"); found {
			columns := strings.Fields(strings.Clone(fields))
			if len(columns) > maxColumns {
				return BadFormat
			}
			d.name(columns)
		}
		if !slices.ContainsFunc([]string{"#Fields:", "#Version:", "#Software:", "#Date:", "#Start-Date:", "#End-Date:", "#Remark:"}, func(p string) bool {
			return strings.HasPrefix(s, p)
		}) {
			return BadFormat
		}
		return Header
	}
	if d.cols == nil {
		return BadFormat
	}
	separator := " "
	if strings.IndexByte(s, '\t') >= 0 {
		separator = "\t"
	}
	var date, hour string
	for i, slot := range d.cols {
		v, rest, more := strings.Cut(s, separator)
		if slot >= 0 {
			values[slot] = v
		}
		switch i {
		case d.date:
			date = v
		case d.hour:
			hour = v
		}
		s = rest
		if more && i < len(d.cols)-1 {
			continue
		}
		if more && strings.TrimSpace(rest) != "" || !more && i < len(d.cols)-1 {
			clear(values)
			return Ambiguous // more or fewer values than columns
		}
	}
	if d.stamp >= 0 && date != "" && hour != "" {
		values[d.stamp] = l.keep(date, " ", hour)
	}
	return MissingField
}
