package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/printable"
)

// maxProbe is how many bytes of an answer are shown.
const maxProbe = 4 << 10

// runProbe asks one URL, such as an analyzer's /readyz, and fails unless the answer is 200. It is the health check of a
// container, in which there is no other program to ask.
func runProbe(ctx context.Context, p process, args []string) error {
	flags := newFlags("probe [flags] URL")
	timeout := flags.Duration("timeout", 2*time.Second, "how long the answer may take")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *timeout <= 0 {
		return usagef("probe: got %q and a timeout of %v, want one URL and more than 0", flags.Args(), *timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, flags.Arg(0), http.NoBody)
	if err != nil {
		return usagef("probe: %w", err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	if err != nil {
		return fmt.Errorf("probe: read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("probe: got %s: %q, want 200", printable.Of(resp.Status), text)
	}
	for line := range strings.Lines(string(text)) {
		end := ""
		if whole, ok := strings.CutSuffix(line, "\n"); ok {
			line, end = whole, "\n"
		}
		if _, err := fmt.Fprintf(p.stdout, "%s%s", printable.Of(line), end); err != nil {
			return err
		}
	}
	return nil
}
