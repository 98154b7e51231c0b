package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// auditConfig is the flags of audit.
type auditConfig struct {
	kafka   kafkaFlags
	key     keyFlag
	rules   string
	data    string
	maxRows int
	skew    time.Duration
	most    int
	out     outputFlag
}

func parseAudit(p process, args []string) (auditConfig, error) {
	var c auditConfig
	flags := newFlags("audit --brokers HOST:PORT... --rules FILE --data DIR [flags]")
	flags.StringVar(&c.rules, "rules", "", "rules `file` that the analyzer ran with")
	flags.StringVar(&c.data, "data", "", "`directory` of the counts; its analyzer must not be running")
	c.kafka.add(flags)
	c.key.add(flags)
	flags.IntVar(&c.maxRows, "max-rows", analyzer.DefaultMaxRows, "as the analyzer was given")
	flags.DurationVar(&c.skew, "skew", analyzer.DefaultSkew, "how much older than its neighbours in the log a message may be")
	flags.IntVar(&c.most, "most", 50, "print at most so many rows of each table; 0 is all")
	flags.Var(&c.out, "output", "table or json")
	if err := parseFlags(p, flags, args); err != nil {
		return c, err
	}
	if err := flagsOnly(flags); err != nil {
		return c, err
	}
	switch {
	case c.data == "" || c.rules == "":
		return c, usagef("audit: got --data %q and --rules %q, want both", c.data, c.rules)
	case c.skew <= 0:
		return c, usagef("--skew: got %v, want more than 0", c.skew)
	case c.maxRows < 1:
		return c, usagef("--max-rows: got %d, want 1 or more", c.maxRows)
	}
	return c, c.kafka.check()
}

// runAudit counts the retained log once more and compares it with the counts of a stopped analyzer, to the unit.
func runAudit(ctx context.Context, p process, args []string) error {
	c, err := parseAudit(p, args)
	if err != nil {
		return err
	}
	set, err := rules.Load(c.rules)
	if err != nil {
		return fmt.Errorf("load rules: %w", err)
	}
	key, err := c.key.key()
	if err != nil {
		return err
	}
	client, err := c.kafka.client()
	if err != nil {
		return err
	}
	defer client.Close()
	reports, err := c.audit(ctx, p, client, set, key)
	if err != nil {
		return err
	}
	sum := sumAudit(reports)
	if c.out.json {
		err = encodeAudit(p, reports, sum)
	} else {
		err = renderAudit(p, reports, sum, c.most)
	}
	return errors.Join(err, sum.verdict())
}

// audit audits one partition after the other.
func (c *auditConfig) audit(ctx context.Context, p process, client *kafkaio.Client, set *rules.Set, key schemas.PartitionKey) ([]analyzer.AuditReport, error) {
	numbers, err := storeNumbers(c.data)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("audit: %s holds no partition, want the --data of an analyzer", c.data)
	}
	partitions, err := client.Partitions(ctx, c.kafka.names.Requests)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	logger := p.logger()
	var reports []analyzer.AuditReport
	for _, n := range numbers {
		if n >= partitions {
			return nil, fmt.Errorf("audit: %s holds partition %d, but topic %s has %d: give the topic that it was counted from",
				c.data, n, c.kafka.names.Requests, partitions)
		}
		bar := newAuditBar(p, n)
		r, err := analyzer.Audit(ctx, client, analyzer.AuditConfig{
			Fold:     analyzer.FoldOptions{Key: key, Partition: n, Partitions: partitions, MaxRows: c.maxRows},
			Requests: c.kafka.names.Requests, State: c.kafka.names.State, Dir: filepath.Join(c.data, strconv.Itoa(n)), Rules: set, Skew: c.skew,
			Store: store.Options{Logger: logger}, Logger: logger, Progress: bar,
		})
		switch {
		case errors.Is(err, store.ErrLocked):
			return nil, fmt.Errorf("audit: partition %d: %w: stop its analyzer first, or audit a copy of %s", n, err, c.data)
		case err != nil:
			return nil, fmt.Errorf("audit: partition %d: %w", n, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// newAuditBar returns what shows progress on a terminal, or nil.
func newAuditBar(p process, partition int) func(folded, records int64) {
	if !isTerminal(p.stderr) {
		return nil
	}
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(p.stderr), progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(fmt.Sprintf("partition %d", partition)))
	return func(folded, records int64) {
		bar.ChangeMax64(records)
		_ = bar.Set64(folded) // nobody minds a bar that can't be drawn
	}
}
