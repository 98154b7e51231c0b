package terminal

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// Interactive reports whether w is a terminal, and NO_COLOR is not set: then colours and progress are shown.
func Interactive(w io.Writer) bool { return Is(w) && os.Getenv("NO_COLOR") == "" }

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Size returns how many columns and lines a terminal has. ok is false where w is none.
func Size(w io.Writer) (columns, lines int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	columns, lines, err := term.GetSize(int(f.Fd())) // a file descriptor is small
	return columns, lines, err == nil
}
