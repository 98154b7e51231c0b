package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// rejectsConfig is the flags of rejects.
type rejectsConfig struct {
	kafka  option.Kafka
	data   string
	last   int
	reason string
	source string
	output command.Output
}

// Rejects prints the newest lines and records that could not be read, in the order in which they came.
func Rejects(p command.Process) *cobra.Command {
	var c rejectsConfig
	cmd := &cobra.Command{
		Use:   "rejects --brokers HOST:PORT... | --data DIR [flags]",
		Short: "print what could not be read",
		Long: "Prints the lines and frames that ingest and analyzers, or a floodgate serve, could not read, and why. The lines are escaped, " +
			"so that they are safe on a terminal.",
		Example: "floodgate rejects --brokers kafka:9092 --last 20",
		Args:    command.FlagsOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), p) },
	}
	c.kafka.Add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.data, "data", "", "`directory` of a floodgate serve, which may be running")
	flags.IntVar(&c.last, "last", 100, "how many of the newest to print; 0 is all")
	flags.StringVar(&c.reason, "reason", "", "only those with this reason")
	flags.StringVar(&c.source, "source", "", "only those of this source, such as kafka:TOPIC/PARTITION or file:PATH")
	c.output.Add(cmd)
	return cmd
}

func (c *rejectsConfig) run(ctx context.Context, p command.Process) error {
	if c.last < 0 {
		return command.Usagef("--last: got %d, want 0 or more", c.last)
	}
	if c.data != "" && len(c.kafka.Brokers) > 0 {
		return command.Usagef("rejects: got --brokers %s and --data %s, want one of the two", strings.Join(c.kafka.Brokers, ","), c.data)
	}
	if err := c.kafka.CheckLog(c.data); err != nil {
		return err
	}
	log, shut, err := c.kafka.OpenLog(c.data)
	if err != nil {
		return err
	}
	defer shut()
	found, unread, err := c.collect(ctx, log)
	if err != nil {
		return fmt.Errorf("rejects: %w", err)
	}
	if c.output.JSON {
		enc := printable.JSON(p.Stdout)
		for _, r := range found {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	return c.render(p, found, unread)
}

// rejectKey is equal in two messages about the same line. The lines of one Kafka record share its offset.
type rejectKey struct {
	source, reason, line string
	offset               int64
}

// collect reads the topic as it is now. unread is how many of its messages are not rejects, or could not be read.
func (c *rejectsConfig) collect(ctx context.Context, log option.ReadLog) (found []reject.Reject, unread int, err error) {
	topic := c.kafka.Names.Rejects
	partitions, err := log.Partitions(ctx, topic)
	if err != nil {
		return nil, 0, err
	}
	seen := make(map[rejectKey]bool)
	for partition := range partitions {
		cursor := kafkaio.NewCursor(log, kafkaio.CursorConfig{
			Topic: topic, Partition: partition, Offset: kafkaio.Earliest, Retry: kafkaio.Never, // a person waits
		})
		_, end, err := cursor.Range(ctx)
		if err != nil {
			return nil, 0, err
		}
		if err := cursor.Scan(ctx, end, func(b *kafkaio.Batch) error {
			news, bad := c.pick(b, seen)
			found, unread = append(found, news...), unread+bad
			if n := c.last; n > 0 && len(found) > 4*n { // keep only the newest, so that memory stays small
				found = append(found[:0], found[len(found)-n:]...)
				clear(seen)
			}
			return nil
		}); err != nil {
			return nil, 0, err
		}
	}
	slices.SortStableFunc(found, func(a, b reject.Reject) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Offset, b.Offset)) })
	if c.last > 0 && len(found) > c.last {
		found = found[len(found)-c.last:]
	}
	return found, unread, nil
}

// pick returns the rejects that the flags select and that are not in seen, and how many records are no rejects or cannot be
// read.
func (c *rejectsConfig) pick(b *kafkaio.Batch, seen map[rejectKey]bool) (found []reject.Reject, unread int) {
	for _, s := range b.Skipped {
		switch s.Reason {
		case kafkaio.SkipControl, kafkaio.SkipGap, kafkaio.SkipLost: // there is no record here, or no longer
		default:
			unread += int(s.To - s.From + 1)
		}
	}
	for i := range b.Records {
		r, err := reject.Decode(b.Records[i].Value)
		if err != nil {
			unread++
			continue
		}
		key := rejectKey{r.Source, r.Reason, r.Line, r.Offset}
		if seen[key] || c.reason != "" && r.Reason != c.reason || c.source != "" && r.Source != c.source {
			continue
		}
		seen[key] = true
		found = append(found, r)
	}
	return found, unread
}

// render prints a table.
func (c *rejectsConfig) render(p command.Process, found []reject.Reject, unread int) error {
	const widest = 100
	if len(found) > 0 {
		t := terminal.NewTable(p.Stdout, "read", "source", "offset", "reason", "line")
		for _, r := range found {
			t.AppendRow(terminal.Cells(r.Time.Format(time.DateTime), printable.Text(r.Source), r.Offset, printable.Text(r.Reason), printable.Text(r.Line).Cell(widest)))
		}
		t.Render()
	}
	_, err := fmt.Fprintf(p.Stdout, "%d rejects", len(found))
	if unread > 0 && err == nil {
		_, err = fmt.Fprintf(p.Stdout, ", and %d messages that are not rejects", unread)
	}
	if err == nil {
		_, err = fmt.Fprintln(p.Stdout)
	}
	return err
}
