package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// The lines of a page around the report.
const (
	Begin = "<!-- peerbench:begin -->"
	End   = "<!-- peerbench:end -->"
)

// ErrNoBlock says that a page has no block for the report: it needs Begin and End, each once, in this order.
var ErrNoBlock = errors.New("no block between " + Begin + " and " + End)

// Command is the command that measures the figures, for the page.
const Command = "cd gate/peerbench && go run . --update"

// Rewrite returns the page with the content of its block replaced by the report.
func (r *Report) Rewrite(page []byte) ([]byte, error) {
	from, to := bytes.Index(page, []byte(Begin)), bytes.Index(page, []byte(End))
	if from < 0 || to < from || bytes.Count(page, []byte(Begin)) != 1 || bytes.Count(page, []byte(End)) != 1 {
		return nil, ErrNoBlock
	}
	var b bytes.Buffer
	b.Write(page[:from+len(Begin)])
	fmt.Fprintf(&b, "\n\nMeasured by `%s`: ", Command)
	if err := r.WriteMarkdown(&b); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	b.Write(page[to:])
	return b.Bytes(), nil
}

// Update rewrites a page.
func (r *Report) Update(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := r.Rewrite(old)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, info.Mode().Perm())
}
