package terminal

import (
	"io"
	"strings"
)

// Lines prints lines, and returns the first error.
func Lines(w io.Writer, lines ...string) error {
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
