package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// topEvery is the time between two screens of top.
const topEvery = time.Second

// clearScreen puts the cursor at the top and clears what is there.
const clearScreen = "\x1b[H\x1b[J"

// Top shows the busiest callers, again each second.
func Top(p command.Process) *cobra.Command {
	var query callersQuery
	var api clientFlags
	var once bool
	cmd := &cobra.Command{
		Use:     "top [flags]",
		Short:   "show the busiest callers, again each second",
		Long:    "Shows the state of the partitions and the busiest callers, and refreshes both each second. Ctrl-C ends it.",
		Example: "floodgate top --sort blocked",
		Args:    command.FlagsOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return top(cmd.Context(), p, &api, &query, once) },
	}
	query.add(p, cmd, &api, "rate", 20)
	cmd.Flags().BoolVar(&once, "once", false, "print once, and end")
	api.addAddress(cmd)
	return cmd
}

func top(ctx context.Context, p command.Process, api *clientFlags, query *callersQuery, once bool) error {
	if err := query.check(); err != nil {
		return err
	}
	c, err := api.client()
	if err != nil {
		return err
	}
	query.words = askRuleWords(ctx, c)
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for {
		screen, err := topScreen(ctx, c, query)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && once:
			return apiError("top", err)
		case err != nil: // the analyzer may come back
			screen = []byte(printable.Error(apiError("top", err)) + "\n")
		}
		if err := draw(p.Stdout, screen); err != nil || once {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// topScreen returns what top shows now.
func topScreen(ctx context.Context, c *client.Client, q *callersQuery) ([]byte, error) {
	var s apiv1.Status
	if err := c.Get(ctx, "/v1/status", nil, &s); err != nil {
		return nil, err
	}
	var raw json.RawMessage
	if err := c.Get(ctx, "/v1/callers", q.values(), &raw); err != nil {
		return nil, err
	}
	var screen bytes.Buffer
	running, lag := 0, int64(0)
	for i := range s.Partitions {
		if v := &s.Partitions[i]; !v.Stale {
			running++
			lag = max(lag, v.LagNS)
		}
	}
	fmt.Fprintf(&screen, "%s UTC   %d of %d partitions counted   lag %s   %s in force\n",
		s.Now.UTC().Format(stamp), running, len(s.Partitions), lagText(lag), terminal.Amount(s.Board.Decisions, "decision"))
	for _, line := range statusLines(&s)[1:] {
		fmt.Fprintln(&screen, line)
	}
	err := printCallers(&screen, q, raw, false)
	return screen.Bytes(), err
}

// draw writes a screen. On a terminal it replaces the one before, and is cut at the last line and the last column.
func draw(w io.Writer, screen []byte) error {
	if terminal.Is(w) {
		if columns, lines, ok := terminal.Size(w); ok {
			screen = append([]byte(clearScreen), cut(screen, columns, lines)...)
		}
	}
	_, err := w.Write(screen)
	return err
}

// cut returns the part of a text that fits on a screen. The text is printable ASCII, or rows of a table.
func cut(text []byte, width, height int) []byte {
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	lines = lines[:max(0, min(len(lines), height-1))]
	for i, line := range lines {
		if runes := bytes.Runes(line); len(runes) > width {
			lines[i] = []byte(string(runes[:max(0, width)]))
		}
	}
	return append(bytes.Join(lines, []byte("\n")), '\n')
}
