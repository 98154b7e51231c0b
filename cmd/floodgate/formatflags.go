package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// mappingFlags are the flags for the format of a log, of all subcommands that read logs.
type mappingFlags struct {
	format string
	path   string
	ids    idFlags
}

func (m *mappingFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&m.format, "format", "", "how the log is written: "+strings.Join(ingest.Formats(), ", ")+", or nginx: or apache: and the text of a log_format (default: the mapping's, or auto)")
	flags.StringVar(&m.path, "mapping", "", "mapping `file`: which fields are callers, and the names of the other fields")
	m.ids.add(flags)
}

// load returns the format with its mapping.
func (m *mappingFlags) load() (*ingest.Format, error) {
	ids, err := m.ids.load()
	if err != nil {
		return nil, err
	}
	if m.path != "" {
		if m.format != "" && !ingest.KnownFormat(m.format) {
			return nil, usagef("--format: got %q, want one of %s", m.format, strings.Join(ingest.Formats(), ", "))
		}
		return ingest.LoadMapping(m.path, m.format, ids)
	}
	f, err := ingest.NewFormat(cmp.Or(m.format, ingest.FormatAuto), ingest.Mapping{IDs: ids})
	if err != nil {
		return nil, usageError{err}
	}
	return f, nil
}

// sayFindings returns the format, which says on w what auto finds out, each thing once.
func sayFindings(w io.Writer, f *ingest.Format) *ingest.Format {
	var mu sync.Mutex
	seen := make(map[string]bool) // guarded by mu
	return f.Reporting(func(found ingest.Finding) {
		mu.Lock()
		defer mu.Unlock()
		key := found.Format + strings.Join(found.Unwrap, "+")
		if seen[key] || len(seen) >= maxFindings {
			return
		}
		seen[key] = true
		for line := range strings.Lines(found.String()) {
			fmt.Fprintln(w, printable.Of(strings.TrimSuffix(line, "\n")))
		}
	})
}

// maxFindings bounds what is said of many logs.
const maxFindings = 20
