package report

import (
	"math"
	"strconv"
	"strings"
)

// table is text by line and column; the first line is the head.
type table [][]string

// table returns the rows as text.
func (r *Report) table() table {
	t := table{{"case", "bar", "floodgate", "rival", "times as fast", ""}}
	for _, row := range r.Rows {
		t = append(t, row.cells())
	}
	return t
}

func (r Row) cells() []string {
	var values, rivals, times, names []string
	for _, f := range r.Figures {
		values = append(values, inUnit(f.Value, r.Unit))
		if f.Rival.Name == "" {
			continue
		}
		rivals = append(rivals, inUnit(f.Rival.Value, r.Unit))
		times = append(times, f.timesText())
		if len(names) == 0 || names[len(names)-1] != f.Rival.Name {
			names = append(names, f.Rival.Name)
		}
	}
	return []string{
		r.Case, r.barText(), beside(values, r.Unit), strings.TrimSpace(strings.Join(names, " / ") + " " + beside(rivals, r.Unit)),
		beside(times, ""), r.verdict(),
	}
}

// figure writes a figure that may be too small to be measured.
func figure(v float64) string {
	if 0 <= v && v < smallest {
		return "<" + number(smallest)
	}
	return number(v)
}

// inUnit writes a figure. A share just below 100 % is never rounded to it.
func inUnit(v float64, unit string) string {
	if unit == "%" && 99 < v && v < 100 {
		return strconv.FormatFloat(math.Floor(v*100)/100, 'f', 2, 64)
	}
	if unit == "%" {
		return number(v)
	}
	return figure(v)
}

func (f Figure) timesText() string {
	if f.Value < smallest {
		return ">" + number(f.Times())
	}
	return number(f.Times())
}

// beside writes figures of several processor counts beside each other.
func beside(values []string, unit string) string {
	if len(values) == 0 {
		return ""
	}
	return strings.TrimSpace(strings.Join(values, " / ") + " " + unit)
}

func (r Row) barText() string {
	var parts []string
	if r.Bar.AtMost != 0 {
		parts = append(parts, "≤ "+number(r.Bar.AtMost)+" "+r.Unit)
	}
	if r.Bar.AtLeast != 0 {
		parts = append(parts, "≥ "+number(r.Bar.AtLeast)+" "+r.Unit)
	}
	if r.Bar.Times != 0 {
		parts = append(parts, "≥ "+number(r.Bar.Times)+" ×")
	}
	return strings.Join(parts, ", ")
}

// verdict says whether the bar is met. If it is missed because of allocations, it says that.
func (r Row) verdict() string {
	for _, f := range r.Figures {
		if f.Allocs > r.Bar.Allocs {
			return "missed: " + number(f.Allocs) + " allocs"
		}
	}
	switch {
	case !r.Met():
		return "missed"
	case !r.Barred():
		return ""
	}
	return "met"
}

func (g Grid) table() table {
	t := table{append([]string{g.Title + ", " + g.Unit}, g.Cases...)}
	for _, l := range g.Lines {
		cells := []string{l.Subject}
		for _, values := range l.Values {
			var texts []string
			for _, v := range values {
				texts = append(texts, figure(v))
			}
			cells = append(cells, beside(texts, ""))
		}
		t = append(t, cells)
	}
	return t
}

// number writes a figure with about three digits.
func number(v float64) string {
	switch {
	case v < 0:
		return "-" + number(-v)
	case v < 9.95:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	case v < 999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return thousands(strconv.FormatFloat(v, 'f', 0, 64))
}

// thousands sets a comma between each three digits.
func thousands(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
