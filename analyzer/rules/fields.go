package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// fields are the fields of one mapping. Each method reads one by name; what is wrong with it is reported, and then, as
// where the field is absent, ok is false or the fallback is returned.
type fields struct {
	*source
	node  ast.Node // the mapping
	nodes map[string]ast.Node
}

// mapping returns the fields of n, all of which must be known, and whether it is a mapping at all.
func (s *source) mapping(what string, n ast.Node, known ...string) (f fields, ok bool) {
	f = fields{source: s, node: n, nodes: make(map[string]ast.Node)}
	values, ok := pairs(n)
	if !ok {
		s.errorf(position(n), "%s: got %s, want a mapping", what, describe(n))
		return f, false
	}
	for _, pair := range values {
		name := pair.Key.GetToken().Value
		at := position(pair)
		switch _, twice := f.nodes[name]; {
		case twice:
			s.errorf(at, "%s: given twice", printable(name))
		case !slices.Contains(known, name):
			s.errorf(at, "%s: unknown field%s", printable(name), suggest(name, known))
		default:
			f.nodes[name] = pair.Value
		}
	}
	return f, true
}

// suggest returns the known name that is closest to a misspelt one.
func suggest(name string, known []string) string {
	for _, k := range known {
		if distance(name, k) <= 1+len(k)/5 {
			return fmt.Sprintf(", did you mean %s?", k)
		}
	}
	return fmt.Sprintf(", want one of %s", strings.Join(known, ", "))
}

// distance returns the Levenshtein distance of a and b, or a large number where their lengths differ much.
func distance(a, b string) int {
	a = strings.ToLower(a)
	if len(a) > len(b)+3 || len(b) > len(a)+3 {
		return math.MaxInt
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// has reports whether a field is there, whatever it says.
func (f *fields) has(name string) bool { return f.nodes[name] != nil }

// fail reports what is wrong with a field: at its value, or at the mapping if it is not there.
func (f *fields) fail(name, format string, args ...any) {
	n := f.node
	if f.has(name) {
		n = f.nodes[name]
	}
	f.errorf(position(n), "%s: %s", name, fmt.Sprintf(format, args...))
}

// wrong reports that a field is not what it should be.
func (f *fields) wrong(name, want string) {
	f.fail(name, "got %s, want %s", describe(f.nodes[name]), want)
}

// text returns a string.
func (f *fields) text(name, want string) (string, bool) {
	if !f.has(name) {
		return "", false
	}
	text, ok := textOf(f.nodes[name])
	if !ok {
		f.wrong(name, want)
	}
	return text, ok
}

func textOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// choice returns one of the options, the first where the field is absent or wrong.
func (f *fields) choice(name string, options ...string) string {
	want := strings.Join(options[:len(options)-1], ", ") + " or " + options[len(options)-1]
	text, ok := f.text(name, want)
	if !ok {
		return options[0]
	}
	if !slices.Contains(options, text) {
		f.wrong(name, want)
		return options[0]
	}
	return text
}

// integer returns a whole number within bounds, or the fallback.
func (f *fields) integer(name string, least, most, fallback int64) int64 {
	if !f.has(name) {
		return fallback
	}
	v, ok := integerOf(f.nodes[name])
	switch {
	case ok && v < least && most == MaxLimit:
		f.wrong(name, fmt.Sprintf("%d or more", least))
	case !ok || v < least || v > most:
		f.wrong(name, fmt.Sprintf("a whole number from %d to %d", least, most))
	default:
		return v
	}
	return fallback
}

// integerOf returns a decimal integer. YAML reads 010 as 8, which nobody means in a limit.
func integerOf(n ast.Node) (int64, bool) {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	text := strings.ReplaceAll(i.GetToken().Value, "_", "")
	if digits := strings.TrimLeft(text, "+-"); len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil
}

// number returns a number over least and up to most, or the fallback.
func (f *fields) number(name string, least, most, fallback float64) float64 {
	if !f.has(name) {
		return fallback
	}
	v, ok := numberOf(f.nodes[name])
	if !ok || v < least || v > most {
		f.wrong(name, fmt.Sprintf("a number from %v to %v", least, most))
		return fallback
	}
	return v
}

func numberOf(n ast.Node) (float64, bool) {
	if i, ok := integerOf(n); ok {
		return float64(i), true
	}
	if v, ok := n.(*ast.FloatNode); ok {
		return v.Value, true
	}
	return 0, false
}

// boolean returns true or false, which is also the fallback.
func (f *fields) boolean(name string) bool {
	if !f.has(name) {
		return false
	}
	b, ok := f.nodes[name].(*ast.BoolNode)
	if !ok {
		f.wrong(name, "true or false")
		return false
	}
	return b.Value
}

// duration returns a duration within bounds, or the fallback.
func (f *fields) duration(name string, least, most, fallback time.Duration) time.Duration {
	text, ok := f.text(name, "a duration such as 30s")
	if !ok {
		return fallback
	}
	d, err := ParseDuration(text)
	if err != nil {
		f.fail(name, "got %q, %v", clip(text), err)
		return fallback
	}
	if d < least || d > most {
		f.fail(name, "got %s, want %s to %s", clip(text), short(least), short(most))
		return fallback
	}
	return d
}

// short writes a duration as a rule file would.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String() // such as 1h0m0s
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// list returns the entries of a list, or the one value that stands for a list of itself.
func (f *fields) list(name string, most int) []ast.Node {
	if !f.has(name) {
		return nil
	}
	seq, ok := f.nodes[name].(*ast.SequenceNode)
	if !ok {
		return []ast.Node{f.nodes[name]}
	}
	if len(seq.Values) == 0 || len(seq.Values) > most {
		f.fail(name, "got %d in the list, want 1 to %d", len(seq.Values), most)
		return nil
	}
	return seq.Values
}
