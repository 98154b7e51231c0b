package remote

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
)

// decisionsConfig is the flags of decisions.
type decisionsConfig struct {
	kafka option.Kafka
	api   clientFlags
	watch bool
	since string // how long ago, or a time; empty: what is in force now
}

// Decisions prints the closures in force and, with --watch, each change.
func Decisions(p command.Process) *cobra.Command {
	var c decisionsConfig
	cmd := &cobra.Command{
		Use:   "decisions [flags]",
		Short: "print the closed callers and, with --watch, each change",
		Long: "Prints which callers are closed now, by which rule and until when. It asks the API or, with --brokers, reads the topic of " +
			"decisions, and needs no analyzer then. Gates reopen up to 10 s later than printed, not all at once. Callers are escaped, so that they cannot act on a terminal.",
		Example: "floodgate decisions --watch",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(cmd.Flags()); err != nil {
				return err
			}
			return c.run(cmd.Context(), p)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&c.watch, "watch", false, "go on, and print each change: closed, changed, opened by a decision, or ended by its time; also print which partitions have no owner")
	flags.StringVar(&c.since, "since", "", "print instead what has happened since a `time`, such as 24h: closes, their ends, warnings, what people decided. It asks the API "+
		"of an analyzer, which reads the topic of events")
	c.api.add(cmd)
	c.kafka.Add(cmd)
	return cmd
}

func (c *decisionsConfig) check(flags *pflag.FlagSet) error {
	api, brokers := command.Given(flags, "api"), command.Given(flags, "brokers")
	if api && brokers {
		return command.Usagef("decisions: got --api and --brokers, want one of them")
	}
	switch _, err := sinceTime(c.since, time.Now()); {
	case c.since == "":
	case err != nil:
		return err
	case c.watch || brokers:
		return command.Usagef("decisions: got --since with --watch or --brokers, want it alone: it asks the API")
	}
	if api || c.since != "" { // the command line goes before the environment
		c.kafka.Brokers = nil
	}
	if len(c.kafka.Brokers) == 0 {
		return nil
	}
	return c.kafka.Check()
}

func (c *decisionsConfig) run(ctx context.Context, p command.Process) error {
	if c.since != "" {
		return decisionsSince(ctx, p, c)
	}
	if len(c.kafka.Brokers) == 0 {
		return decisionsOfAPI(ctx, p, c)
	}
	tls, sasl, err := c.kafka.Secure.Load()
	if err != nil {
		return fmt.Errorf("prepare the link to Kafka: %w", err)
	}
	follow := kafkalink.FollowConfig{
		Brokers: c.kafka.Brokers, ClientID: "floodgate", TLS: tls, SASL: sasl, Topic: c.kafka.Names.Decisions, Logger: p.Logger(),
		Once: !c.watch, // a person waits
	}
	w, err := newDecisionsWatch(decisionsView{out: p.Stdout, json: c.api.output.JSON}, board.New(board.Options{}))
	if err != nil {
		return err
	}
	defer w.changes.Close()
	if err := w.run(ctx, follow); err != nil && ctx.Err() == nil {
		return fmt.Errorf("decisions: %w", err)
	}
	return nil
}

// decisionsWatch prints what a board holds, and how that changes. One goroutine uses it.
type decisionsWatch struct {
	view    decisionsView
	board   *board.Board
	changes *board.Subscription
	held    map[board.Key]schemas.Decision // what is in force, until it is printed
	shown   bool
	silent  []int // partitions without an owner, as last printed
}

func newDecisionsWatch(v decisionsView, b *board.Board) (*decisionsWatch, error) {
	changes, err := b.Subscribe(0)
	return &decisionsWatch{view: v, board: b, changes: changes, held: map[board.Key]schemas.Decision{}}, err
}

// lookEvery is how often silent partitions are looked for.
const lookEvery = 250 * time.Millisecond

// run reads all partitions, and prints. If follow.Once is set, it prints what is in force, once.
func (w *decisionsWatch) run(ctx context.Context, follow kafkalink.FollowConfig) error {
	if follow.Once {
		if err := w.board.Run(ctx, follow); err != nil || ctx.Err() != nil {
			return err
		}
		return w.turn(time.Now())
	}
	working, ctx := errgroup.WithContext(ctx)
	working.Go(func() error { return w.board.Run(ctx, follow) })
	working.Go(func() error {
		for ctx.Err() == nil {
			if err := w.wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return working.Wait()
}

// wait prints changes for lookEvery, and then which partitions have fallen silent or are heard again.
func (w *decisionsWatch) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	for {
		e, err := w.changes.Next(ctx)
		if err != nil { // the time is over
			return w.owners(time.Now())
		}
		if err := w.event(&e, time.Now()); err != nil {
			return err
		}
	}
}

// turn prints what there is to print now.
func (w *decisionsWatch) turn(now time.Time) error {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		e, err := w.changes.Next(done)
		if err != nil {
			return w.owners(now)
		}
		if err := w.event(&e, now); err != nil {
			return err
		}
	}
}

// event prints a change. Until all is known that is in force, it only collects.
func (w *decisionsWatch) event(e *board.Event, now time.Time) error {
	switch {
	case e.Kind == board.Lost:
		w.shown, w.held = false, map[board.Key]schemas.Decision{}
		return w.view.lost(e.Missed, now)
	case e.Kind == board.Current:
		w.shown = true
		list := slices.SortedFunc(maps.Values(w.held), before)
		w.held = nil
		w.silent = silentPartitions(w.board, now)
		unread := uint64(0)
		for _, n := range w.board.Status().Refused {
			unread += n
		}
		return w.view.all(list, w.silent, w.board.Partitions(), unread, now)
	case w.shown:
		return w.view.change(e, now)
	}
	board.Collect(w.held, e)
	return nil
}

// owners prints the partitions whose owners fell silent or are heard again.
func (w *decisionsWatch) owners(now time.Time) error {
	if !w.shown {
		return nil
	}
	silent := silentPartitions(w.board, now)
	if slices.Equal(silent, w.silent) {
		return nil
	}
	w.silent = silent
	return w.view.owners(silent, now)
}

// before orders decisions by their beginning, then by caller and rule.
func before(x, y schemas.Decision) int {
	return cmp.Or(cmp.Compare(x.CloseAt, y.CloseAt), cmp.Compare(x.Caller.Kind, y.Caller.Kind), cmp.Compare(x.Caller.ID, y.Caller.ID), cmp.Compare(x.Rule, y.Rule))
}

// decisionsPage is how many decisions are asked for at once.
const decisionsPage = 1000

// decisionsOfAPI prints what an analyzer knows of decisions and, with --watch, each change.
func decisionsOfAPI(ctx context.Context, p command.Process, c *decisionsConfig) error {
	asker, err := c.api.client()
	if err != nil {
		return err
	}
	if c.watch {
		return watchAPI(ctx, p, c, asker)
	}
	var all []schemas.Decision
	var list apiv1.DecisionList
	query := url.Values{"limit": {strconv.Itoa(decisionsPage)}}
	for more := true; more; more = list.Next != "" {
		list = apiv1.DecisionList{}
		if err := asker.Get(ctx, "/v1/decisions", query, &list); err != nil {
			return apiError("decisions", err)
		}
		for i := range list.Decisions {
			all = append(all, decisionOf(&list.Decisions[i]))
		}
		query.Set("cursor", list.Next)
	}
	slices.SortFunc(all, before)
	return decisionsView{p.Stdout, c.api.output.JSON, askRuleWords(ctx, asker)}.listed(all, &list, time.Now())
}

// listed prints decisions that the API lists.
func (v decisionsView) listed(all []schemas.Decision, list *apiv1.DecisionList, now time.Time) error {
	if v.json {
		for i := range all {
			if err := v.encode("in force", all[i], now); err != nil {
				return err
			}
		}
		return printable.JSON(v.out).Encode(map[string]any{"type": "summary", "in_force": len(all), "ready": list.Ready, "incomplete_partitions": list.Incomplete})
	}
	v.table(all)
	text := terminal.Amount(len(all), "closure") + " in force"
	if !list.Ready {
		text += "; the analyzer still reads the topic: there may be more"
	}
	if len(list.Incomplete) > 0 {
		text += fmt.Sprintf("; there are more, of partitions %v, than the analyzer can hold", list.Incomplete)
	}
	return terminal.Lines(v.out, text)
}

// watchAPI prints all that is in force, and then each change.
func watchAPI(ctx context.Context, p command.Process, c *decisionsConfig, asker *client.Client) error {
	w := streamView{view: decisionsView{p.Stdout, c.api.output.JSON, askRuleWords(ctx, asker)}, held: map[board.Key]schemas.Decision{}}
	logger := p.Logger()
	err := asker.Stream(ctx, nil, func(e *apiv1.DecisionEvent) error { return w.event(e, time.Now()) }, func(err error) {
		logger.Warn("the decision stream broke and continues after the last change", "error", err)
	})
	return apiError("decisions", err)
}

// streamView prints the events of an API's stream.
type streamView struct {
	view  decisionsView
	held  map[board.Key]schemas.Decision // what is in force, until it is printed
	shown bool
}

func (w *streamView) event(e *apiv1.DecisionEvent, now time.Time) error {
	change := board.Event{Kind: kindOf(e.Kind), Missed: e.Missed}
	if e.Decision != nil {
		change.Decision = decisionOf(e.Decision)
	}
	switch {
	case change.Kind == board.Lost:
		first := !w.shown && len(w.held) == 0 // it said so before anything was printed
		w.shown, w.held = false, map[board.Key]schemas.Decision{}
		if first {
			return nil
		}
		return w.view.lost(e.Missed, now)
	case change.Kind == board.Current && !w.shown:
		w.shown = true
		list := make([]schemas.Decision, 0, len(w.held))
		for _, d := range w.held {
			list = append(list, d)
		}
		w.held = nil
		slices.SortFunc(list, before)
		return w.view.listed(list, &apiv1.DecisionList{Ready: true}, now)
	case w.shown && change.Kind != board.Current && change.Kind != board.None:
		return w.view.change(&change, cmp.Or(e.At, now))
	case !w.shown:
		board.Collect(w.held, &change)
	}
	return nil
}

// kindOf returns the kind of an event; None for one that this version does not know.
func kindOf(name string) board.Kind {
	for k := board.Closed; k <= board.Lost; k++ {
		if k.String() == name {
			return k
		}
	}
	return board.None
}

// decisionOf returns what the API shows of a decision. Of a share it shows only that there is one.
func decisionOf(v *apiv1.DecisionView) schemas.Decision {
	d := schemas.Decision{
		Rule: v.Rule, Caller: v.Caller.Caller(), Mode: schemas.ModeEnforce, CloseAt: v.CloseAt.UnixNano(), Until: v.Until.UnixNano(), Early: v.Early,
		Partition: int32(v.Partition), Epoch: v.Epoch, Seq: v.Seq, // a partition number
		Evidence: schemas.Evidence{Count: v.Count, Limit: v.Limit, Window: v.WindowNS, Expected: v.Expected, Bound: v.Bound},
	}
	if v.Mode == schemas.ModeShadow.String() {
		d.Mode = schemas.ModeShadow
	}
	if !v.NextAt.IsZero() {
		d.Next = schemas.Span{CloseAt: v.NextAt.UnixNano(), Until: v.NextTo.UnixNano()}
	}
	if h := v.Hold; h != nil {
		d.Held, d.Evidence.InFlight, d.Evidence.Held, d.Evidence.Margin, d.Evidence.Learned = true, h.InFlight, h.Held, h.Margin, h.Learned
	}
	if v.Shared {
		d.Share = &schemas.Share{}
	}
	return d
}
