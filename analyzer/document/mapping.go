package document

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// MaxInteger is the bound of integers that have none of their own. A message about one that is too small then says
// "want 1 or more" and not how large it may be.
const MaxInteger = 1e17

// Mapping is a mapping of a file. Each method reads one field by name. What is wrong with the field is reported, and then
// the method returns what it returns for an absent field.
type Mapping struct {
	doc      *Document
	at       Position // of the mapping
	fields   map[string]Value
	misspelt []string // the known fields that unknown ones were probably meant to be, and ""
}

// Mapping returns the mapping that v is, whose fields must all be known, and whether v is one. Messages call it by the name
// what.
func (d *Document) Mapping(what string, v Value, known ...string) (m Mapping, ok bool) {
	m = Mapping{doc: d, at: v.Position(), fields: make(map[string]Value)}
	pairs, ok := v.Pairs()
	if !ok {
		d.Errorf(m.at, "%s: got %s, want a mapping", what, v)
		return m, false
	}
	for _, pair := range pairs {
		switch _, twice := m.fields[pair.Key]; {
		case twice:
			d.Errorf(pair.At, "%s: given twice", printable(pair.Key))
		case !slices.Contains(known, pair.Key):
			d.Errorf(pair.At, "%s: unknown field%s", printable(pair.Key), suggest(pair.Key, known))
			m.misspelt = append(m.misspelt, Closest(pair.Key, known))
		default:
			m.fields[pair.Key] = pair.Value
		}
	}
	return m, true
}

// suggest returns the known name that a misspelt one was meant to be, if there is one, else all known names.
func suggest(name string, known []string) string {
	if meant := Closest(name, known); meant != "" {
		return fmt.Sprintf(", did you mean %s?", meant)
	}
	return fmt.Sprintf(", want one of %s", strings.Join(known, ", "))
}

// Closest returns the known name that a misspelt name was probably meant to be: the one with the fewest letters to change,
// the first of several. It returns "" if none is close. Upper and lower case are the same in name.
func Closest(name string, known []string) string {
	best, fewest := "", math.MaxInt
	for _, k := range known {
		if d := distance(name, k); d <= 1+len(k)/5 && d < fewest {
			best, fewest = k, d
		}
	}
	return best
}

// distance returns how many letters must be changed, added, left out, or swapped with the next one to make b of a: the optimal string
// alignment distance. It is a large number where the lengths differ much.
func distance(a, b string) int {
	a = strings.ToLower(a)
	if len(a) > len(b)+3 || len(b) > len(a)+3 {
		return math.MaxInt
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Document returns the document that the mapping is a part of.
func (m Mapping) Document() *Document { return m.doc }

// Has reports whether a field is there, whatever its value is.
func (m Mapping) Has(field string) bool { return m.fields[field].Valid() }

// Lacks reports whether a field is absent, and no unknown field was probably meant to be it. What must be there is then
// missing; a misspelt field was reported as such, where it stands.
func (m Mapping) Lacks(field string) bool {
	return !m.Has(field) && !slices.Contains(m.misspelt, field)
}

// Value returns the value of a field. It is invalid where the field is absent.
func (m Mapping) Value(field string) Value { return m.fields[field] }

// Says reports whether a field is there and is exactly this text. It reports no error.
func (m Mapping) Says(field, text string) bool {
	got, ok := m.fields[field].Text()
	return ok && got == text
}

// Position returns where the value of a field begins, or the mapping where the field is absent.
func (m Mapping) Position(field string) Position {
	if m.Has(field) {
		return m.fields[field].Position()
	}
	return m.at
}

// Fail reports what is wrong with a field, at its Position.
func (m Mapping) Fail(field, format string, args ...any) {
	m.doc.Errorf(m.Position(field), "%s: %s", printable(field), fmt.Sprintf(format, args...))
}

// Warn reports a warning about a field, at its Position.
func (m Mapping) Warn(field, format string, args ...any) {
	m.doc.Warnf(m.Position(field), "%s: %s", printable(field), fmt.Sprintf(format, args...))
}

// Wrong reports that a field, which is there, is not what it should be.
func (m Mapping) Wrong(field, want string) {
	m.Fail(field, "got %s, want %s", m.fields[field], want)
}

// Text returns a string, and whether the field is one; want says what it should be.
func (m Mapping) Text(field, want string) (text string, ok bool) {
	if !m.Has(field) {
		return "", false
	}
	if text, ok = m.fields[field].Text(); !ok {
		m.Wrong(field, want)
	}
	return text, ok
}

// Filled is Text for a field that must not be empty.
func (m Mapping) Filled(field, want string) (text string, ok bool) {
	if text, ok = m.Text(field, want); ok && text == "" {
		m.Wrong(field, want)
	}
	return text, text != ""
}

// Required is Text for a field that must be there.
func (m Mapping) Required(field, want string) (text string, ok bool) {
	if m.Lacks(field) {
		m.Fail(field, "missing, want %s", want)
	}
	return m.Text(field, want)
}

// Choice returns one of the options, the first where the field is absent.
func (m Mapping) Choice(field string, options ...string) string {
	want := strings.Join(options[:len(options)-1], ", ") + " or " + options[len(options)-1]
	text, ok := m.Text(field, want)
	if !ok {
		return options[0]
	}
	if !slices.Contains(options, text) {
		m.Wrong(field, want)
		return options[0]
	}
	return text
}

// Integer returns a whole number from minimum to maximum, or the fallback where the field is absent.
func (m Mapping) Integer(field string, minimum, maximum, fallback int64) int64 {
	if !m.Has(field) {
		return fallback
	}
	i, ok := m.fields[field].Integer()
	switch {
	case ok && i < minimum && maximum == MaxInteger:
		m.Wrong(field, fmt.Sprintf("%d or more", minimum))
	case !ok || i < minimum || i > maximum:
		m.Wrong(field, fmt.Sprintf("a whole number from %d to %d", minimum, maximum))
	default:
		return i
	}
	return fallback
}

// Number returns a number from minimum to maximum, or the fallback where the field is absent.
func (m Mapping) Number(field string, minimum, maximum, fallback float64) float64 {
	if !m.Has(field) {
		return fallback
	}
	v, ok := m.fields[field].Number()
	if !ok || v < minimum || v > maximum {
		m.Wrong(field, fmt.Sprintf("a number from %v to %v", minimum, maximum))
		return fallback
	}
	return v
}

// Boolean returns true or false, or the fallback where the field is absent.
func (m Mapping) Boolean(field string, fallback bool) bool {
	if !m.Has(field) {
		return fallback
	}
	b, ok := m.fields[field].Boolean()
	if !ok {
		m.Wrong(field, "true or false")
		return fallback
	}
	return b
}

// Duration returns a duration from minimum to maximum, or the fallback where the field is absent: see ParseDuration.
func (m Mapping) Duration(field string, minimum, maximum, fallback time.Duration) time.Duration {
	text, ok := m.Text(field, "a duration such as 30s")
	if !ok {
		return fallback
	}
	d, err := ParseDuration(text)
	if err != nil {
		m.Fail(field, "got %q, %v", Clip(text), err)
		return fallback
	}
	if d < minimum || d > maximum {
		m.Fail(field, "got %s, want %s to %s", Clip(text), FormatDuration(minimum), FormatDuration(maximum))
		return fallback
	}
	return d
}
