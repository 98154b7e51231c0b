package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
)

// auditConfig is the flags of audit.
type auditConfig struct {
	kafka      option.Kafka
	key        option.Key
	rules      string
	ids        option.IDs
	data       string
	maxPrinted int
	output     command.Output
}

// Audit counts the retained log once more and compares it with the counts of a stopped analyzer, to the unit.
func Audit(p command.Process) *cobra.Command {
	var c auditConfig
	cmd := &cobra.Command{
		Use:   "audit --data DIR [--brokers HOST:PORT... --rules FILE] [flags]",
		Short: "count the log once more and compare it with a stopped analyzer's counts",
		Long: "Without --brokers it audits a stopped floodgate serve, whose --data is given: the log is DIR/log, and the rules are " +
			"DIR/rules.yaml unless --rules names others.",
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
	flags.IntVar(&c.maxPrinted, "most", 50, "number of rows to print of each table; 0 is all")
	c.output.Add(cmd)
	c.ids.Add(cmd)
	return cmd
}

func (c *auditConfig) check() error {
	if c.data == "" {
		return command.Usagef("audit: --data: got none, want the directory of a stopped analyzer or floodgate serve")
	}
	if err := c.kafka.CheckLog(c.data); err != nil {
		return err
	}
	if c.rules = option.RulesOf(c.rules, c.data); c.rules == "" {
		return command.Usagef("audit: --rules: got none, want the rules file of the analyzer")
	}
	return nil
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
	log, shut, err := c.kafka.OpenLog(c.data)
	if err != nil {
		return err
	}
	defer shut()
	reports, failed, err := c.audit(ctx, p, log, set, key)
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
func (c *auditConfig) audit(ctx context.Context, p command.Process, log option.ReadLog, set *rules.Set, key schemas.PartitionKey) (reports []audit.Report, failed []failedAudit, err error) {
	numbers, err := storeNumbers(c.data)
	if err != nil {
		return nil, nil, err
	}
	if len(numbers) == 0 {
		return nil, nil, fmt.Errorf("audit: %s holds no partition, want the --data of an analyzer", c.data)
	}
	partitions, err := log.Partitions(ctx, c.kafka.Names.Requests)
	if err != nil {
		return nil, nil, fmt.Errorf("audit: %w", err)
	}
	for _, n := range numbers {
		r, err := c.auditPartition(ctx, p, log, set, fold.Options{Key: key, Partition: n, Partitions: partitions})
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

func (c *auditConfig) auditPartition(ctx context.Context, p command.Process, log option.ReadLog, set *rules.Set, fold fold.Options) (audit.Report, error) {
	if fold.Partition >= fold.Partitions {
		return audit.Report{}, fmt.Errorf("topic %s has %d partitions, but %s holds this one: name the topic that it was counted from, or move the old store away",
			c.kafka.Names.Requests, fold.Partitions, c.data)
	}
	logger := p.Logger()
	r, err := audit.Run(ctx, log, audit.Config{
		Fold: fold, Requests: c.kafka.Names.Requests, Control: c.kafka.Names.Control,
		Dir: filepath.Join(c.data, strconv.Itoa(fold.Partition)), Rules: set,
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

// auditSummary is the last line of an audit.
type auditSummary struct {
	Type        string `json:"type"`       // summary
	Partitions  int    `json:"partitions"` // partitions that were audited
	Failed      int    `json:"failed"`     // partitions that could not be audited
	Entries     uint64 `json:"entries"`
	Requests    uint64 `json:"requests"`  // each once for each of its callers
	Responses   uint64 `json:"responses"` // likewise
	Duplicates  uint64 `json:"duplicates"`
	Late        uint64 `json:"late"`
	Rejected    uint64 `json:"rejected"`
	OtherKey    uint64 `json:"other_key"` // of the rejected, records under another partition key
	Uncounted   uint64 `json:"uncounted"` // weight of callers without a row
	Agreed      int    `json:"agreed"`
	LowerBounds int    `json:"lower_bounds"` // marked rows, which may lack weight
	Differences int    `json:"differences"`
	Unaudited   int    `json:"unaudited"`
	Damaged     int    `json:"damaged"`
	Approximate int    `json:"approximate"` // partitions whose control topic does not have all that was applied
	Exact       bool   `json:"exact"`       // the store agrees with the log, to the unit

	failed []failedAudit // the Failed ones
	partly bool          // some rows were not compared, or only their counts
}

func sumAudit(reports []audit.Report) auditSummary {
	s := auditSummary{Type: "summary", Partitions: len(reports)}
	for i := range reports {
		r := &reports[i]
		s.Entries += r.Log.Entries
		s.Requests += r.Log.Requests
		s.Responses += r.Log.Responses
		s.Duplicates += r.Log.Duplicate
		s.Late += r.Log.Late
		s.Uncounted += r.Log.UncountedWeight()
		s.LowerBounds += r.LowerBounds
		for _, n := range r.Log.Rejected {
			s.Rejected += n
		}
		s.OtherKey += r.Log.Rejected[fold.ReasonKey]
		s.Agreed += r.Agreed
		s.Differences += len(r.Differences)
		s.Unaudited += len(r.Unaudited)
		s.partly = s.partly || len(r.Unaudited) > 0 || r.Partly
		if r.Damage != nil {
			s.Damaged++
		}
		if r.Approximate() {
			s.Approximate++
		}
	}
	s.Exact = s.Differences == 0 && s.Damaged == 0 && s.Approximate == 0 && !s.partly
	return s
}

// fail adds the partitions that could not be audited.
func (s *auditSummary) fail(failed []failedAudit) {
	s.failed, s.Failed, s.Exact = failed, len(failed), s.Exact && len(failed) == 0
}

// verdict is an error if the store differs from the log, if no row at all could be compared, or if a partition could not be
// audited.
func (s *auditSummary) verdict() error {
	var errs []error
	for _, f := range s.failed {
		errs = append(errs, fmt.Errorf("audit: partition %d: %w", f.partition, f.err))
	}
	return errors.Join(append(errs, s.difference())...)
}

// difference is the verdict about the partitions that were audited.
func (s *auditSummary) difference() error {
	switch {
	case s.Damaged > 0:
		return fmt.Errorf("audit: the rows of %d partitions are not those that were committed, and %d differ from the log", s.Damaged, s.Differences)
	case s.Differences > 0:
		return fmt.Errorf("audit: %d rows of the store differ from the log", s.Differences)
	case s.Unaudited > 0 && s.Agreed == 0:
		return fmt.Errorf("audit: nothing could be compared: all %d rows are older than the records that the log retains", s.Unaudited)
	}
	return nil
}

// auditTime prints a time of the log, or nothing if no record was folded.
func auditTime(ns int64) string {
	if ns == math.MinInt64 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
}

func renderAudit(p command.Process, reports []audit.Report, sum auditSummary, maxPrinted int) error {
	renderRows(p, "differences", reports, maxPrinted, func(r *audit.Report) []audit.Difference { return r.Differences })
	renderRows(p, "can't be audited", reports, maxPrinted, func(r *audit.Report) []audit.Difference { return r.Unaudited })
	for i := range reports {
		r := &reports[i]
		fmt.Fprintf(p.Stdout, "partition %d: offsets %d to %d, %d requests and %d responses in %d entries, %d duplicates, %d late; %d rows agree, %d differ, %d can't be audited\n",
			r.Partition, r.From, r.To, r.Log.Requests, r.Log.Responses, r.Log.Entries, r.Log.Duplicate, r.Log.Late, r.Agreed, len(r.Differences), len(r.Unaudited))
		if r.Damage != nil {
			fmt.Fprintf(p.Stdout, "partition %d: %s\n", r.Partition, printable.Error(r.Damage))
		}
	}
	for _, r := range reports {
		for _, why := range doubts(&r) {
			fmt.Fprintf(p.Stdout, "partition %d: approximate: %s\n", r.Partition, why)
		}
	}
	if sum.LowerBounds > 0 {
		fmt.Fprintf(p.Stdout, "%d rows are marked as lower bounds: the table was full (--max-rows) when they were made; none counts more than the log\n", sum.LowerBounds)
	}
	for _, f := range sum.failed {
		fmt.Fprintf(p.Stdout, "partition %d: NOT AUDITED: %s\n", f.partition, printable.Error(f.err))
	}
	if sum.Uncounted > 0 || sum.Rejected > 0 {
		fmt.Fprintf(p.Stdout, "the log also holds %d records or entries that were refused, and a weight of %d of callers that have no row (--max-rows)\n", sum.Rejected, sum.Uncounted)
	}
	if sum.OtherKey > 0 {
		fmt.Fprintf(p.Stdout, "%d of the refused records are under another partition key than this audit has: see --partition-key-file\n", sum.OtherKey)
	}
	verdict := "the store agrees with the log, to the unit"
	switch {
	case sum.Differences > 0 || sum.Damaged > 0:
		verdict = "THE STORE DIFFERS FROM THE LOG"
	case sum.Failed > 0 && sum.Partitions == 0:
		verdict = "NO PARTITION COULD BE AUDITED"
	case sum.Failed > 0:
		verdict = fmt.Sprintf("THEY AGREE WITH THE LOG, BUT %d MORE PARTITIONS COULD NOT BE AUDITED", sum.Failed)
	case sum.Approximate > 0:
		verdict = "the store agrees with the log, as far as that can be known: approximate"
	case sum.partly:
		verdict = "the store agrees with the log, as far back as the log reaches"
	}
	_, err := fmt.Fprintf(p.Stdout, "%d partitions, %d requests, %d rows: %s\n", sum.Partitions, sum.Requests, sum.Agreed+sum.LowerBounds+sum.Differences+sum.Unaudited, verdict)
	return err
}

// doubts says why a report is approximate.
func doubts(r *audit.Report) (list []string) {
	if r.LostControls {
		list = append(list, "the topic of control does not hold all that was applied: see --topic-name")
	}
	return list
}

// renderRows prints one kind of finding of all partitions as a table, or nothing.
func renderRows(p command.Process, title string, reports []audit.Report, maxPrinted int, rows func(*audit.Report) []audit.Difference) {
	t := terminal.NewTable(p.Stdout, "rule", "caller", "store", "log", "difference", "window from", "why", "partition")
	t.SetTitle(title)
	all, shown := 0, 0
	for i := range reports {
		for _, d := range rows(&reports[i]) {
			if all++; maxPrinted > 0 && shown == maxPrinted {
				continue
			}
			shown++
			t.AppendRow(terminal.Cells(d.Rule, terminal.Caller(d.Caller), d.Store, d.Log, fmt.Sprintf("%+d", d.Store-d.Log), auditTime(d.Start), d.Why, reports[i].Partition))
		}
	}
	if all == 0 {
		return
	}
	t.Render()
	if shown < all {
		fmt.Fprintf(p.Stdout, "%d of %d rows; --most 0 prints all\n", shown, all)
	}
}

// auditLine is one finding as JSON.
type auditLine struct {
	Type      string `json:"type"` // difference or unaudited
	Partition int    `json:"partition"`
	Rule      string `json:"rule"`
	Caller    string `json:"caller"`
	Base64    string `json:"caller_base64,omitempty"` // if it is not UTF-8
	Store     int64  `json:"store"`
	Log       int64  `json:"log"`
	From      string `json:"window_from,omitempty"`
	Why       string `json:"why"`
}

func encodeAudit(p command.Process, reports []audit.Report, sum auditSummary) error {
	enc := printable.JSON(p.Stdout)
	for i := range reports {
		r := &reports[i]
		for kind, list := range map[string][]audit.Difference{"difference": r.Differences, "unaudited": r.Unaudited} {
			for _, d := range list {
				if err := enc.Encode(auditLine{kind, r.Partition, d.Rule, d.Caller, printable.Base64(d.Caller), d.Store, d.Log, auditTime(d.Start), d.Why}); err != nil {
					return err
				}
			}
		}
		line := map[string]any{
			"type": "partition", "partition": r.Partition, "from": r.From, "to": r.To, "log_time": auditTime(r.LogTime),
			"entries": r.Log.Entries, "requests": r.Log.Requests, "responses": r.Log.Responses, "duplicates": r.Log.Duplicate, "late": r.Log.Late,
			"uncounted": r.Log.UncountedWeight(), "rejected": r.Log.Rejected,
			"agreed": r.Agreed, "lower_bounds": r.LowerBounds, "differences": len(r.Differences), "unaudited": len(r.Unaudited),
			"approximate": r.Approximate(),
		}
		if r.Damage != nil {
			line["damage"] = r.Damage.Error()
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	for _, f := range sum.failed {
		if err := enc.Encode(map[string]any{"type": "partition", "partition": f.partition, "error": f.err.Error()}); err != nil {
			return err
		}
	}
	return enc.Encode(sum)
}
