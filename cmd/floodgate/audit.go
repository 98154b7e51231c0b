package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// auditConfig is the flags of audit.
type auditConfig struct {
	kafka      option.Kafka
	key        option.Key
	rules      string
	ids        option.IDs
	data       string
	skew       time.Duration
	maxPrinted int
	output     command.Output
}

// Audit counts the retained log once more and compares it with the counts of a stopped analyzer, to the unit.
func Audit(p command.Process) *cobra.Command {
	var c auditConfig
	cmd := &cobra.Command{
		Use:     "audit --brokers HOST:PORT... --rules FILE --data DIR [flags]",
		Short:   "count the log once more and compare it with a stopped analyzer's counts",
		Example: "floodgate audit --brokers kafka:9092 --rules rules.yaml --data /var/lib/floodgate",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), p)
		},
	}
	c.kafka.Add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.rules, "rules", "", "rules `file` of the analyzer")
	flags.StringVar(&c.data, "data", "", "`directory` of the counts; its analyzer must not be running")
	c.key.Add(cmd)
	flags.DurationVar(&c.skew, "skew", audit.DefaultSkew, "by how much time a message may be older than its neighbours in the log")
	flags.IntVar(&c.maxPrinted, "most", 50, "number of rows to print of each table; 0 is all")
	c.output.Add(cmd)
	c.ids.Add(cmd)
	return cmd
}

func (c *auditConfig) check() error {
	switch {
	case c.data == "" || c.rules == "":
		return command.Usagef("audit: got --data %q and --rules %q, want both", c.data, c.rules)
	case c.skew <= 0:
		return command.Usagef("--skew: got %v, want more than 0", c.skew)
	}
	return c.kafka.Check()
}

func (c *auditConfig) run(ctx context.Context, p command.Process) error {
	set, err := c.ids.Rules(c.rules)
	if err != nil {
		return fmt.Errorf("load rules: %w", err)
	}
	key, err := c.key.Load()
	if err != nil {
		return err
	}
	client, err := c.kafka.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	reports, failed, err := c.audit(ctx, p, client, set, key)
	if err != nil {
		return err
	}
	sum := sumAudit(reports)
	sum.fail(failed)
	if c.output.JSON {
		err = encodeAudit(p, reports, sum)
	} else {
		err = renderAudit(p, reports, sum, c.maxPrinted)
	}
	return errors.Join(err, sum.verdict())
}

// failedAudit is a partition that could not be audited.
type failedAudit struct {
	partition int
	err       error
}

// audit audits one partition after the other. If one cannot be audited, it continues with the next.
func (c *auditConfig) audit(ctx context.Context, p command.Process, client *kafkaio.Client, set *rules.Set, key schemas.PartitionKey) (reports []audit.Report, failed []failedAudit, err error) {
	numbers, err := storeNumbers(c.data)
	if err != nil {
		return nil, nil, err
	}
	if len(numbers) == 0 {
		return nil, nil, fmt.Errorf("audit: %s holds no partition, want the --data of an analyzer", c.data)
	}
	partitions, err := client.Partitions(ctx, c.kafka.Names.Requests)
	if err != nil {
		return nil, nil, fmt.Errorf("audit: %w", err)
	}
	for _, n := range numbers {
		r, err := c.auditPartition(ctx, p, client, set, fold.Options{Key: key, Partition: n, Partitions: partitions})
		switch {
		case ctx.Err() != nil:
			return nil, nil, fmt.Errorf("audit: interrupted in partition %d: %w", n, ctx.Err())
		case err != nil:
			failed = append(failed, failedAudit{n, err})
		default:
			reports = append(reports, r)
		}
	}
	return reports, failed, nil
}

func (c *auditConfig) auditPartition(ctx context.Context, p command.Process, client *kafkaio.Client, set *rules.Set, fold fold.Options) (audit.Report, error) {
	if fold.Partition >= fold.Partitions {
		return audit.Report{}, fmt.Errorf("topic %s has %d partitions, but %s holds this one: name the topic that it was counted from, or move the old store away",
			c.kafka.Names.Requests, fold.Partitions, c.data)
	}
	logger := p.Logger()
	r, err := audit.Run(ctx, client, audit.Config{
		Fold: fold, Requests: c.kafka.Names.Requests, State: c.kafka.Names.State, Control: c.kafka.Names.Control,
		Dir: filepath.Join(c.data, strconv.Itoa(fold.Partition)), Rules: set, Skew: c.skew,
		Store: store.Options{Logger: logger}, Logger: logger, Progress: newAuditBar(p, fold.Partition),
	})
	if errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("%w: stop its analyzer first, or audit a copy of %s", err, c.data)
	}
	return r, err
}

// newAuditBar returns a progress bar, or nil if standard error is no terminal.
func newAuditBar(p command.Process, partition int) func(folded, records int64) {
	if !terminal.Interactive(p.Stderr) {
		return nil
	}
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(p.Stderr), progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(fmt.Sprintf("partition %d", partition)))
	return func(folded, records int64) {
		bar.ChangeMax64(records)
		_ = bar.Set64(folded) // the bar is not essential
	}
}
