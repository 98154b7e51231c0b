package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// control is a subcommand that writes a control record: close, open, limit, reset, mode or undo.
type control struct {
	*cobra.Command

	process       command.Process
	api           clientFlags
	until         untilFlags
	kinds         kindCheck
	kind          string // of the caller; "" before it is read, and for actions that are about no caller
	reason        string
	defaultReason string // the reason, where none is given; "" if one is needed
	id            string
}

// newControl returns a control subcommand; its method setAction sets the action. ends says that the record has an end, which the command
// line must give.
func newControl(p command.Process, ends bool, cmd *cobra.Command) *control {
	c := &control{Command: cmd, process: p}
	if ends {
		c.until.add(c.Flags())
	}
	c.Flags().StringVar(&c.reason, "reason", "", "why, in 1 to 512 bytes; the log keeps it with your token's name")
	c.Flags().StringVar(&c.id, "id", "", "`id` of an attempt that got no answer, 32 hexadecimal digits: the action then takes effect once")
	command.Hide(c.Flags(), "id") // the error of that attempt names it
	c.api.add(cmd)
	return c
}

// setAction sets what the subcommand does with its arguments.
func (c *control) setAction(write func(ctx context.Context, args []string) error) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if c.reason = cmp.Or(c.reason, c.defaultReason); c.reason == "" {
			return command.Usagef("%s: --reason: got none, want why: it is kept in the log", c.Name())
		}
		return write(cmd.Context(), args)
	}
	return c.Command
}

// attempts is how often a record is sent, with one id, until an answer comes.
const attempts = 3

// send sends a body and prints the answer.
func (c *control) send(ctx context.Context, body any, until time.Time) error {
	var id schemas.ControlID
	_, _ = rand.Read(id[:]) // never fails
	if c.id != "" {
		var err error
		if id, err = schemas.ParseControlID(c.id); err != nil {
			return command.Usagef("--id: %w", err)
		}
	}
	api, err := c.api.client()
	if err != nil {
		return err
	}
	if c.kind != "" {
		if err := c.kinds.check(ctx, c.Name(), api, c.kind); err != nil {
			return err
		}
	}
	var answer apiv1.ActionAnswer
	status := 0
	sent := c.id != "" // by an earlier command, perhaps
	for range attempts {
		status, err = api.Post(ctx, "/v1/"+c.Name(), body, &id, &answer)
		sent = sent || !unreachable(err)
		var problem *apiv1.Problem
		if err == nil || ctx.Err() != nil || errors.As(err, &problem) && problem.Status != http.StatusServiceUnavailable {
			break
		}
	}
	if err != nil && !sent {
		return fmt.Errorf("%w. Nothing was sent", apiError(c.Name(), err))
	}
	if err != nil {
		return c.failed(err, id, until)
	}
	if c.api.output.JSON {
		return printable.JSON(c.process.Stdout).Encode(answer)
	}
	return c.print(ctx, api, &answer, status)
}

// failed says what to do where it is not known whether the record was written.
func (c *control) failed(err error, id schemas.ControlID, until time.Time) error {
	var p *apiv1.Problem
	if errors.As(err, &p) && p.Status != http.StatusServiceUnavailable || errors.Is(err, client.ErrConfig) {
		return apiError(c.Name(), err)
	}
	again := "--id " + id.String()
	if !until.IsZero() {
		again += " --until " + until.Format(time.RFC3339Nano)
	}
	return fmt.Errorf("%w; it may be in force or not. To try again, so that it acts once, give the same arguments with %s", apiError(c.Name(), err), again)
}

// print says what was done, and how to undo it.
func (c *control) print(ctx context.Context, api *client.Client, answer *apiv1.ActionAnswer, status int) error {
	a := &answer.Action
	if status == http.StatusAccepted || !answer.Applied {
		fmt.Fprintf(c.process.Stdout, "accepted, not yet in force: %s. The record is in the log, and the owners of partitions %v have not applied it yet; floodgate actions says when they have\n",
			actionText(a), answer.Waiting)
	} else {
		fmt.Fprintf(c.process.Stdout, "%s: %s\n", standing(a), actionText(a))
	}
	if a.Action == schemas.ControlClose.String() && c.kind == schemas.KindNet {
		c.printMembers(ctx, api, a.Caller.ID)
	}
	if takesEffectOnce(a) {
		return nil
	}
	_, err := fmt.Fprintf(c.process.Stdout, "to undo it: floodgate undo %s\n", printable.Of(a.ID))
	return err
}

// printMembers says how many addresses in a network are counted, by the first rule that counts addresses: whom its closing concerns. If
// nobody answers, it says nothing: the network is closed all the same.
func (c *control) printMembers(ctx context.Context, api *client.Client, network string) {
	var current apiv1.Rules
	_ = api.Get(ctx, "/v1/rules", nil, &current)
	for i := range current.Rules {
		r := &current.Rules[i]
		if kind, _, _ := strings.Cut(r.Callers, ":"); kind != schemas.KindIP {
			continue
		}
		var list apiv1.CallerList
		query := url.Values{"kind": {schemas.KindIP}, "rule": {r.Name}, "network": {network}, "limit": {"1"}}
		if err := api.Get(ctx, "/v1/callers", query, &list); err == nil {
			fmt.Fprintf(c.process.Stdout, "callers of kind ip in it: rule %s (%s) counts %d%s\n", printable.Of(r.Name), printable.Of(r.Window), list.Total, missing(list.Missing))
		}
		return
	}
}

// takesEffectOnce reports whether a record acts once: it has no end, and cannot be undone.
func takesEffectOnce(a *apiv1.Action) bool {
	return a.Action == schemas.ControlUndo.String() || a.Action == schemas.ControlReset.String()
}

// standing says what a record that an owner has applied is now.
func standing(a *apiv1.Action) string {
	if takesEffectOnce(a) {
		return "done"
	}
	return "in force"
}

// actionText says in words what a record does.
func actionText(a *apiv1.Action) string {
	rule, caller := "", ""
	if a.Rule != "" {
		rule = " under " + string(printable.Of(a.Rule))
	}
	if a.Caller != nil {
		caller = string(printable.Of(callerText(*a.Caller)))
	}
	until := " until " + whenUTC(a.Until)
	switch a.Action {
	case schemas.ControlClose.String():
		return caller + " is closed" + until
	case schemas.ControlOpen.String():
		return caller + " has no limit" + rule + until
	case schemas.ControlLimit.String():
		return fmt.Sprintf("%s has the limit %d%s%s", caller, a.Limit, rule, until)
	case schemas.ControlReset.String():
		return "the counts of " + caller + rule + " start from zero"
	case schemas.ControlMode.String():
		if a.Rule == "" {
			return "the decisions of all rules are in mode shadow, and block nobody," + until
		}
		return "the decisions of " + string(printable.Of(a.Rule)) + " are in mode shadow, and block nobody," + until
	case schemas.ControlUndo.String():
		return string(printable.Of(a.Target)) + " is undone"
	}
	return string(printable.Of(a.Action))
}

// Close closes a caller.
func Close(p command.Process) *cobra.Command {
	c := newControl(p, true, &cobra.Command{
		Use:     "close CALLER --for DURATION --reason WHY [flags]",
		Short:   "close a caller by hand, for a time",
		Long:    "Closes a caller at all gates, whatever it has sent. --force also closes one of a kind that no rule counts.",
		Example: "floodgate close key:noisy-1 --for 2h --reason \"ticket 4711\"",
		Args:    command.Arguments(1, 1, "one caller, such as key:k9"),
	})
	c.kinds.add(c.Command)
	c.ValidArgsFunction = c.api.completingArguments(p, closedCallers)
	return c.setAction(func(ctx context.Context, args []string) error {
		caller, until, err := c.callerUntil(args[0])
		if err != nil {
			return err
		}
		return c.send(ctx, apiv1.CloseRequest{Caller: caller, Until: until, Reason: c.reason}, until)
	})
}

// Open lets a caller through.
func Open(p command.Process) *cobra.Command {
	c := newControl(p, true, &cobra.Command{
		Use:   "open CALLER [RULE] --for DURATION --reason WHY [flags]",
		Short: "let a caller through by hand, for a time",
		Long: "Lifts the limit of a caller under a rule, or under all rules. Its closures end now. Counting goes on: a caller " +
			"which is over its limit at the end closes again.",
		Example: "floodgate open key:noisy-1 --for 1m --reason \"ticket 4711\"",
		Args:    command.Arguments(1, 2, "a caller, such as key:k9, and perhaps a rule"),
	})
	c.kinds.add(c.Command)
	c.ValidArgsFunction = c.api.completingArguments(p, closedCallers, rulesNames)
	return c.setAction(func(ctx context.Context, args []string) error {
		caller, until, err := c.callerUntil(args[0])
		if err != nil {
			return err
		}
		return c.send(ctx, apiv1.OpenRequest{Caller: caller, Rule: at(args, 1), Until: until, Reason: c.reason}, until)
	})
}

// Limit gives a caller another limit.
func Limit(p command.Process) *cobra.Command {
	c := newControl(p, true, &cobra.Command{
		Use:     "limit CALLER RULE LIMIT --for DURATION --reason WHY [flags]",
		Short:   "give a caller another limit by hand, for a time",
		Long:    "Gives a caller another limit under a rule, up or down. No count is lost.",
		Example: "floodgate limit key:noisy-1 per-key 500 --for 12h --reason \"sale until tonight\"",
		Args:    command.Arguments(3, 3, "a caller, a rule and a limit, such as key:k9 per-key 500"),
	})
	c.kinds.add(c.Command)
	c.ValidArgsFunction = c.api.completingArguments(p, closedCallers, rulesNames)
	return c.setAction(func(ctx context.Context, args []string) error {
		caller, until, err := c.callerUntil(args[0])
		if err != nil {
			return err
		}
		limit, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil || limit < 1 {
			return command.Usagef("limit: got %q, want a limit of 1 or more", args[2])
		}
		return c.send(ctx, apiv1.LimitRequest{Caller: caller, Rule: args[1], Limit: limit, Until: until, Reason: c.reason}, until)
	})
}

// Reset lets a caller's counts start from zero.
func Reset(p command.Process) *cobra.Command {
	c := newControl(p, false, &cobra.Command{
		Use:     "reset CALLER [RULE] --reason WHY [flags]",
		Short:   "let a caller's counts start from zero",
		Long:    "Lets the counts and the escalation of a caller start from zero, under a rule or under all rules. It ends their closures, too.",
		Example: "floodgate reset key:noisy-1 --reason \"their bug is mended\"",
		Args:    command.Arguments(1, 2, "a caller, such as key:k9, and perhaps a rule"),
	})
	c.kinds.add(c.Command)
	c.ValidArgsFunction = c.api.completingArguments(p, closedCallers, rulesNames)
	return c.setAction(func(ctx context.Context, args []string) error {
		caller, err := c.caller(args[0])
		if err != nil {
			return err
		}
		return c.send(ctx, apiv1.ResetRequest{Caller: caller, Rule: at(args, 1), Reason: c.reason}, time.Time{})
	})
}

// Mode puts rules into mode shadow.
func Mode(p command.Process) *cobra.Command {
	c := newControl(p, true, &cobra.Command{
		Use:   "mode shadow [RULE] --for DURATION --reason WHY [flags]",
		Short: "put rules into mode shadow, for a time: the emergency brake",
		Long: "Puts a rule, or all rules, into mode shadow: their decisions block nobody, also those that are in force already. " +
			"Requests that pass are counted, so callers over their limits are closed when the mode ends. It is the emergency brake. It needs a token of role admin.",
		Example: "floodgate mode shadow per-ip --for 10m --reason trial",
		Args:    command.Arguments(1, 2, "shadow, and perhaps a rule"),
	})
	shadow := func(context.Context, *client.Client) []cobra.Completion { return []cobra.Completion{"shadow"} }
	c.ValidArgsFunction = c.api.completingArguments(p, shadow, rulesNames)
	return c.setAction(func(ctx context.Context, args []string) error {
		until, err := c.until.time("mode", time.Now())
		if err != nil {
			return err
		}
		return c.send(ctx, apiv1.ModeRequest{Rule: at(args, 1), Mode: args[0], Until: until, Reason: c.reason}, until)
	})
}

// Undo ends the effect of a control record.
func Undo(p command.Process) *cobra.Command {
	c := newControl(p, false, &cobra.Command{
		Use:   "undo ID [flags]",
		Short: "end the effect of what was done by hand",
		Long: "Ends the effect of one action that was done by hand. floodgate actions prints the ids. Without --reason the log says " +
			"\"undone without a reason\".",
		Example: "floodgate undo 00112233445566778899aabbccddeeff --reason \"it was another caller\"",
		Args:    command.Arguments(1, 1, "one id, as floodgate actions shows it"),
	})
	c.defaultReason = "undone without a reason"
	c.ValidArgsFunction = c.api.completingArguments(p, actionIDs)
	return c.setAction(func(ctx context.Context, args []string) error {
		return c.send(ctx, apiv1.UndoRequest{ID: args[0], Reason: c.reason}, time.Time{})
	})
}

// at returns an argument, or "" where there are fewer.
func at(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// caller returns the caller that an argument names.
func (c *control) caller(name string) (apiv1.Caller, error) {
	caller, err := callerArg(c.Name(), name)
	c.kind = caller.Kind
	return event.CallerOf(caller), err
}

// callerUntil returns the caller that an argument names, and the end.
func (c *control) callerUntil(name string) (apiv1.Caller, time.Time, error) {
	caller, err := c.caller(name)
	if err != nil {
		return apiv1.Caller{}, time.Time{}, err
	}
	until, err := c.until.time(c.Name(), time.Now())
	return caller, until, err
}
