package terminal

import (
	"os"
	"strings"
	"testing"
)

// TestATableIsSafeToPrint: no cell clears a screen, breaks its line or looks like another row.
func TestATableIsSafeToPrint(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out, "caller", "count")
	hostile := []string{"\x1b[2J", "a\nb", "\u202eb", "| forged |", strings.Repeat("x", 256), "\xff"}
	for i, id := range hostile {
		table.AppendRow(Cells(Caller("key:"+id), i))
		table.AppendRow(Cells(id, i))
	}
	table.Render()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if want := 2*len(hostile) + 4; len(lines) != want {
		t.Errorf("got %d lines, want %d: a row each, a header and three edges:\n%s", len(lines), want, &out)
	}
	for _, line := range lines {
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("got %q, want what is printable", line)
		}
	}
	if c := Caller("key:" + strings.Repeat("x", 256)); len(c) > callerWidth+len("…") {
		t.Errorf("got a caller of %d bytes, want %d characters at most", len(c), callerWidth)
	}
}

// TestOnlyATerminalIsOne: neither a buffer nor a file wants colours.
func TestOnlyATerminalIsOne(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if Interactive(&strings.Builder{}) || Interactive(file) {
		t.Error("got a terminal, want none")
	}
}

// TestNumbersStayNumbers, so that a table sets them to the right.
func TestNumbersStayNumbers(t *testing.T) {
	row := Cells(1, 2.5, "a\tb", Caller("key:x"), nil)
	if row[0] != 1 || row[1] != 2.5 || row[4] != nil {
		t.Errorf("got %v, want what is no text as it was", row)
	}
}

// TestAmount: one thing is not called many.
func TestAmount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 records", 1: "1 record", 2: "2 records", 1 << 40: "1099511627776 records"} {
		if got := Amount(n, "record"); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
