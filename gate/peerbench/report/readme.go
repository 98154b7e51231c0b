package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// The lines of a README between which the report stands.
const (
	Begin = "<!-- peerbench:begin -->"
	End   = "<!-- peerbench:end -->"
)

// ErrNoBlock says that a README has no place for the report: Begin and End, each once, in this order.
var ErrNoBlock = errors.New("no block between " + Begin + " and " + End)

// Command is how the figures come about, as the README says it.
const Command = "cd gate/peerbench && go run . --update"

// Rewrite returns the README with the report in its block, in the place of what was there.
func (r *Report) Rewrite(readme []byte) ([]byte, error) {
	from, to := bytes.Index(readme, []byte(Begin)), bytes.Index(readme, []byte(End))
	if from < 0 || to < from || bytes.Count(readme, []byte(Begin)) != 1 || bytes.Count(readme, []byte(End)) != 1 {
		return nil, ErrNoBlock
	}
	var b bytes.Buffer
	b.Write(readme[:from+len(Begin)])
	fmt.Fprintf(&b, "\n\nMeasured by `%s`: ", Command)
	if err := r.WriteMarkdown(&b); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	b.Write(readme[to:])
	return b.Bytes(), nil
}

// Update rewrites a README file.
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
