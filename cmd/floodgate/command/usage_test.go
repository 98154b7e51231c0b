package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/store/rows"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		code   int
		output string
	}{
		{"nothing wrong", nil, 0, ""},
		{"usage", Usagef("--limit: got %d", 0), 2, "floodgate: --limit: got 0\n"},
		{"usage inside", fmt.Errorf("demo: %w", Usagef("no")), 2, "floodgate: demo: no\n"},
		{"usage among others", errors.Join(io.ErrUnexpectedEOF, Usagef("no")), 2, "floodgate: unexpected EOF\n    no\n"},
		{"failure", io.ErrUnexpectedEOF, 1, "floodgate: unexpected EOF\n"},
		{"a newer version", fmt.Errorf("analyze: %w", rows.ErrNewer), 3, "floodgate: analyze: written by a newer version of floodgate\n"},
		{"interrupted", context.Canceled, 1, "floodgate: context canceled\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var output strings.Builder
			if code := ExitCode(test.err, &output); code != test.code || output.String() != test.output {
				t.Errorf("got %d and %q, want %d and %q", code, output.String(), test.code, test.output)
			}
		})
	}
	if err := Usagef("read: %w", io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want what is wrapped to be found", err)
	}
}
