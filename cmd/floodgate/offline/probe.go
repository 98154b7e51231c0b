package offline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// maxProbe is how many bytes of an answer are shown.
const maxProbe = 4 << 10

// Probe asks one URL, such as an analyzer's /readyz, and fails unless the answer is 200. It is the health check of a
// container, in which there is no other program to ask.
func Probe(p command.Process) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "probe [flags] URL",
		Short:   "ask a URL such as /readyz, for health checks",
		Example: "floodgate probe http://127.0.0.1:9090/readyz",
		RunE:    func(cmd *cobra.Command, args []string) error { return probe(cmd.Context(), p, args, timeout) },
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "how long the answer may take")
	return cmd
}

func probe(ctx context.Context, p command.Process, args []string, timeout time.Duration) error {
	if len(args) != 1 || timeout <= 0 {
		return command.Usagef("probe: got %q and a timeout of %v, want one URL and more than 0", args, timeout)
	}
	if !strings.HasPrefix(args[0], "http://") && !strings.HasPrefix(args[0], "https://") {
		return command.Usagef("probe: got %q, want a URL such as http://127.0.0.1:9090/readyz", args[0])
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], http.NoBody)
	if err != nil {
		return command.Usagef("probe: %w", err)
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
		if _, err := fmt.Fprintf(p.Stdout, "%s%s", printable.Of(line), end); err != nil {
			return err
		}
	}
	return nil
}
