package ingest

import (
	"fmt"
	"regexp"
	"strings"
)

// Finding is what auto found out about a log. The zero value says nothing.
type Finding struct {
	Format  string   // the name of the format; "" if none reads the log
	Unwrap  []string // what is around each line
	Line    string   // the line that decided; "" if none did
	Refused []string // if no format reads the log: its first lines, at most three
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
		s.report = report
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
		fmt.Fprintf(&out, ": %s. Its first lines:", Nearest(f.Refused[0]))
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
