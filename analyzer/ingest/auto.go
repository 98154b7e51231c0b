package ingest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// newAuto returns the format that finds out the format of each log. The first line that one of the formats can read decides for all
// lines of the log, so that nothing that a client sends later can change it. Only formats that the mapping fits are tried, in the order
// of their ranks. Lines before the first readable one are refused, with the reason that find returns.
func newAuto(m Mapping) (*Format, error) {
	var tried []candidate
	made := &Format{name: FormatAuto, headed: true, silent: m.NoResponses, splits: len(m.Arrivals) > 0, mute: m.NoArrivals, holds: m.Duration != "", trusts: len(m.Client.Trusted) > 0, object: true}
	var first error
	inner := m
	inner.Unwrap, inner.guessed = nil, true
	for _, s := range ranked() {
		f, err := NewFormat(s.name, inner)
		if err != nil {
			first = cmp.Or(first, err)
			if f, plain := NewFormat(s.name, Mapping{IDs: m.IDs, guessed: true}); plain == nil {
				made.unfit = append(made.unfit, unfit{candidate{f, s.json}, err})
			}
			continue
		}
		if made.kinds == nil {
			made.kinds = f.kinds
		}
		if slices.Equal(f.kinds, made.kinds) { // Line.IDs has one order, whichever format is found
			tried = append(tried, candidate{f, s.json})
		}
	}
	if len(tried) == 0 {
		return nil, fmt.Errorf("%w: no format has the fields of the mapping: %w", ErrMapping, first)
	}
	around := autoUnwraps()
	if len(m.Unwrap) > 0 {
		around = nil
	}
	made.open = func() Scanner { return &auto{candidates: tried, unfit: made.unfit, around: around} }
	if len(m.Unwrap) > 0 {
		var err error
		if made.open, err = unwrapped(made.open, m.Unwrap); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// ranked returns the styles that auto tries, in that order.
func ranked() []style {
	all := slices.DeleteFunc(styles(), func(s style) bool { return s.rank == 0 })
	slices.SortFunc(all, func(a, b style) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// candidate is a format that auto tries.
type candidate struct {
	format *Format
	json   bool
}

// unfit is a format that auto does not try, because it lacks something that the mapping names, as err says.
type unfit struct {
	candidate

	err error
}

// lacking says what a mapping names and the format that reads the line does not have; "" if none of the formats reads it.
func lacking(formats []unfit, line string) string {
	object := strings.HasPrefix(strings.TrimLeft(line, " "), "{")
	var l Line
	for _, u := range formats {
		if u.json == object && u.format.Scanner().Scan([]byte(line), &l) == OK {
			return "a format that lacks a named field reads it: " + strings.Replace(u.err.Error(), ErrMapping.Error()+": ", "", 1)
		}
	}
	return ""
}

// maxAround is how many wrappings auto takes off: that of a collector, and inside of it that of a container runtime.
const maxAround = 2

// auto is a scanner that does not know yet which format it reads.
type auto struct {
	candidates []candidate
	unfit      []unfit
	around     []string // what may be around a line
	found      Scanner
	name       string   // of the format that was found
	unwrap     []string // what was found around it
	refused    int      // requests that no format could read
	lines      []string // the first lines that no format could read
	onFinding  func(Finding)
}

// maxRefused is how many requests that no format reads make auto give up the log. Otherwise, in a log of an unknown format, a client
// could later write a line that another format reads, and choose the address in it.
const maxRefused = 3

// isRequest reports whether a line looks like a logged request. Servers also log messages when they start.
func isRequest(line []byte) bool { return strings.Contains(view(line), " HTTP/") }

// Scan implements Scanner.
func (a *auto) Scan(line []byte, l *Line) Reason {
	if a.found != nil {
		return a.found.Scan(line, l)
	}
	if a.refused >= maxRefused {
		return BadFormat
	}
	reason, plain := a.find(line, l)
	if plain != nil {
		a.found = plain
		a.report(Finding{Format: a.name, Line: shown(line)})
		return reason
	}
	found := a.inside(line, l, nil)
	if found == nil {
		a.refuse(line, reason)
		return reason
	}
	for _, name := range a.unwrap {
		if w, err := newUnwrapper(name); err == nil { // each was made before
			found.around = append(found.around, w)
		}
	}
	a.found = found
	a.report(Finding{Format: a.name, Unwrap: a.unwrap, Line: shown(line)})
	return found.Scan(line, l)
}

// refuse notes a line that no format reads.
func (a *auto) refuse(line []byte, reason Reason) {
	if len(a.lines) < maxShown && !blank(line) {
		a.lines = append(a.lines, shown(line))
	}
	if reason != BadAddress && isRequest(line) {
		a.refused++
	}
	if a.refused == maxRefused {
		f := Finding{Refused: a.lines}
		if len(a.lines) > 0 {
			f.Lacking = lacking(a.unfit, a.lines[0])
		}
		a.report(f)
	}
}

// report reports a finding, if a function for that is set.
func (a *auto) report(f Finding) {
	if a.onFinding != nil {
		a.onFinding(f)
	}
}

// shown returns what a finding shows of a line.
func shown(line []byte) string { return string(line[:min(len(line), maxShownLine)]) }

// find returns the scanner of the first candidate that reads the line, or nil with a reason: BadAddress if combined finds all but
// an address, else that of the last.
func (a *auto) find(line []byte, l *Line) (Reason, Scanner) {
	reason, named := BadFormat, false
	text := strings.TrimLeft(strings.TrimPrefix(view(line), "\ufeff"), " ")
	object := strings.HasPrefix(text, "{")
	for _, c := range a.candidates {
		if c.json != object {
			continue
		}
		s := c.format.Scanner()
		if reason = s.Scan(line, l); !reason.Rejected() {
			a.name = c.format.name
			return reason, s
		}
		named = named || reason == BadAddress && l.Time > 0 // combined has read the time
	}
	if named {
		reason = BadAddress
	}
	return reason, nil
}

// inside returns a scanner for the text inside of wrappings, or nil, and notes the wrappings. names are those that were taken off before.
func (a *auto) inside(line []byte, l *Line, names []string) *unwrapping {
	for _, name := range a.around {
		w, err := newUnwrapper(name)
		if err != nil {
			continue
		}
		text, reason := w.unwrap(view(line[:min(len(line), MaxLine)]), l)
		if reason != OK || text == "" {
			continue
		}
		inner, all := []byte(text), append(slices.Clone(names), name) // a copy: it is scanned more than once
		if reason, found := a.find(inner, l); found != nil && reason == OK {
			a.unwrap = all
			return &unwrapping{inner: found}
		}
		if len(all) < maxAround {
			if found := a.inside(inner, l, all); found != nil {
				return found
			}
		}
	}
	return nil
}

// Finding is what auto found out about a log. The zero value says nothing.
type Finding struct {
	Format  string   // the name of the format; "" if none reads the log
	Unwrap  []string // what is around each line
	Line    string   // the line that decided; "" if none did
	Refused []string // if no format reads the log: its first lines, at most three
	Lacking string   // … if one would that lacks what the mapping names: what that is
}

// maxShown is how many lines a finding shows, and maxShownLine how much of each, in bytes.
const (
	maxShown     = 3
	maxShownLine = 300
)

// Reporting returns a copy of the format whose scanners call report when auto finds the format of a log, and when it gives a log up.
// Several goroutines may call report at once.
func (f *Format) Reporting(report func(Finding)) *Format {
	made := *f
	made.open = func() Scanner {
		s := f.open()
		reportTo(s, report)
		return s
	}
	return &made
}

// reportTo sets what the auto inside of s reports to.
func reportTo(s Scanner, report func(Finding)) {
	switch s := s.(type) {
	case *auto:
		s.onFinding = report
	case *unwrapping:
		reportTo(s.inner, report)
	}
}

// String says what was found and why, or what the lines look like and what to do.
func (f Finding) String() string {
	if f.Format != "" {
		around := ""
		if len(f.Unwrap) > 0 {
			around = " inside of " + strings.Join(f.Unwrap, ", ")
		}
		return fmt.Sprintf("auto took format %s%s, the first that reads this line: %s", f.Format, around, f.Line)
	}
	var out strings.Builder
	out.WriteString("auto found no format for this log")
	if len(f.Refused) > 0 {
		fmt.Fprintf(&out, ": %s. Its first lines:", cmp.Or(f.Lacking, Nearest(f.Refused[0])))
		for _, line := range f.Refused {
			out.WriteString("\n  " + line)
		}
	}
	return out.String()
}

// What lines look like that no format reads.
var (
	looksCLF     = regexp.MustCompile(`\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]`)
	looksNamed   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*\.[a-zA-Z]+ (- |\S+ )`)
	looksHost    = regexp.MustCompile(`^\S+ [0-9a-fA-F.:]+ \S+ .*\[`)
	looksVhost   = regexp.MustCompile(`^[0-9a-fA-F.:]+ [a-zA-Z0-9.:-]+[.:][a-zA-Z0-9.:-]+ \S+ \[`)
	looksColumns = regexp.MustCompile(`^[\w@.-]+([,\t][\w@. -]+)+$`)
)

// Nearest says for people what a rejected line lacks, or what it looks like.
func (f *Format) Nearest(line string, reason Reason) string {
	if text := lacking(f.unfit, line); text != "" {
		return text
	}
	if reason == MissingField && len(f.wanted) > 0 {
		return "it has no time, or none of the fields that callers are made of: want " + strings.Join(f.wanted, ", ")
	}
	return Nearest(line)
}

// Nearest says what a line looks like, and which format or mapping comes nearest, for people.
func Nearest(line string) string {
	switch {
	case strings.HasPrefix(line, "{"):
		return "they are JSON objects, but no known format has a client's address and a time in these members. " +
			"Name them in a mapping: format: json, client: {address: NAME}, time: {field: NAME}"
	case looksColumns.MatchString(line):
		return "the first names columns: --format csv or tsv reads them"
	case looksVhost.MatchString(line) && looksCLF.MatchString(line):
		return "the second word is a host, as in lighttpd's default format: --format lighttpd reads them"
	case looksCLF.MatchString(line) && looksHost.MatchString(line):
		return "something stands before the client's address. Give the log_format or LogFormat of your configuration: " +
			`--format 'nginx:$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent', or --format 'apache:%v %h %l %u %t "%r" %>s %b'`
	case looksCLF.MatchString(line) && looksNamed.MatchString(line):
		return "the first word is a host name, not an address: count it with --format combined and a caller of kind host, or turn HostnameLookups off"
	case looksCLF.MatchString(line):
		return "it is like the common log format, with other fields. Give the log_format or LogFormat of your configuration: --format 'nginx:...' or 'apache:...'"
	case strings.Contains(line, "="):
		return "it has key=value pairs, but not only: --format logfmt reads lines of nothing else"
	}
	return "it is like no known format: see floodgate formats"
}
