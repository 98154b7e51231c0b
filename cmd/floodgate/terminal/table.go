package terminal

import (
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer/printable"
)

// callerWidth is how many characters of a caller a table shows: an id of 256 bytes would break its line on a terminal, and
// what follows the break could look like a row. --output json shows all of it.
const callerWidth = 72

// NewTable returns a table that renders to out.
func NewTable(out io.Writer, columns ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.AppendHeader(columns)
	return t
}

// Cells returns a row in which each string is safe to print. A printable.Text is not changed.
func Cells(values ...any) table.Row {
	for i, v := range values {
		switch s := v.(type) {
		case string:
			values[i] = printable.Of(s).Cell(0)
		case printable.Text:
			values[i] = s.Cell(0)
		}
	}
	return values
}

// Caller returns a caller as a cell.
func Caller(caller string) printable.Text { return printable.Of(caller).Cell(callerWidth) }

// Amount returns a number of things in words: "1 closure", "2 closures". The plural of one must end in s.
func Amount[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(int64(n), 10) + " " + one + "s"
}
