package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// rejectsConfig is the flags of rejects.
type rejectsConfig struct {
	kafka  kafkaFlags
	last   int
	reason string
	source string
	output outputFlag
}

// runRejects prints what could not be read: the newest, in the order in which it came.
func runRejects(ctx context.Context, p process, args []string) error {
	var c rejectsConfig
	flags := newFlags("rejects --brokers HOST:PORT... [flags]\n\nPrints the lines and frames that ingest and analyzers could not read, and why. They are escaped: they do nothing to a terminal.")
	c.kafka.add(flags)
	flags.IntVar(&c.last, "last", 100, "how many to print, the newest; 0 is all there are")
	flags.StringVar(&c.reason, "reason", "", "only those with this reason")
	flags.StringVar(&c.source, "source", "", "only those of this source, such as kafka:TOPIC/PARTITION or file:PATH")
	flags.Var(&c.output, "output", "table or json")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	if c.last < 0 {
		return usagef("--last: got %d, want 0 or more", c.last)
	}
	if err := c.kafka.check(); err != nil {
		return err
	}
	client, err := c.kafka.client()
	if err != nil {
		return err
	}
	defer client.Close()
	found, unread, err := c.collect(ctx, client)
	if err != nil {
		return fmt.Errorf("rejects: %w", err)
	}
	if c.output.json {
		enc := json.NewEncoder(p.stdout)
		enc.SetEscapeHTML(false)
		for _, r := range found {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	return c.render(p, found, unread)
}

// rejectKey is what two messages about one line share.
type rejectKey struct {
	source, reason string
	offset         int64
}

// collect reads the topic as it is now. Unread is how many of its messages are not rejects.
func (c *rejectsConfig) collect(ctx context.Context, client *kafkaio.Client) (found []reject.Reject, unread int, err error) {
	topic := c.kafka.names.Rejects
	partitions, err := client.Partitions(ctx, topic)
	if err != nil {
		return nil, 0, err
	}
	seen := make(map[rejectKey]bool)
	for partition := range partitions {
		at, end, err := client.Range(ctx, topic, partition)
		if err != nil {
			return nil, 0, err
		}
		for at < end {
			b, err := client.Fetch(ctx, kafkaio.FetchRequest{Topic: topic, Partition: partition, Offset: at, MaxWait: time.Second})
			if err != nil {
				return nil, 0, err
			}
			news, bad := c.pick(b.Records, seen)
			found, unread, at = append(found, news...), unread+bad, b.Next
			if n := c.last; n > 0 && len(found) > 4*n { // only the newest are wanted: memory stays small
				found = append(found[:0], found[len(found)-n:]...)
				clear(seen)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b reject.Reject) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Offset, b.Offset)) })
	if c.last > 0 && len(found) > c.last {
		found = found[len(found)-c.last:]
	}
	return found, unread, nil
}

// pick returns the rejects that were asked for and not seen yet, and how many records are none.
func (c *rejectsConfig) pick(records []kafkaio.Record, seen map[rejectKey]bool) (found []reject.Reject, unread int) {
	for i := range records {
		r, err := reject.Decode(records[i].Value)
		if err != nil {
			unread++
			continue
		}
		key := rejectKey{r.Source, r.Reason, r.Offset}
		if seen[key] || c.reason != "" && r.Reason != c.reason || c.source != "" && r.Source != c.source {
			continue
		}
		seen[key] = true
		found = append(found, r)
	}
	return found, unread
}

// render prints a table.
func (c *rejectsConfig) render(p process, found []reject.Reject, unread int) error {
	const widest = 100
	if len(found) > 0 {
		t := table.NewWriter()
		t.SetOutputMirror(p.stdout)
		t.AppendHeader(table.Row{"read", "source", "offset", "reason", "line"})
		for _, r := range found {
			line := r.Line
			if len(line) > widest {
				line = line[:widest] + "..."
			}
			t.AppendRow(table.Row{r.Time.Format(time.DateTime), r.Source, r.Offset, r.Reason, line})
		}
		t.Render()
	}
	_, err := fmt.Fprintf(p.stdout, "%d rejects", len(found))
	if unread > 0 && err == nil {
		_, err = fmt.Fprintf(p.stdout, ", and %d messages that are none", unread)
	}
	if err == nil {
		_, err = fmt.Fprintln(p.stdout)
	}
	return err
}
