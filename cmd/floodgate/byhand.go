package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/schemas"
)

// byHand is a subcommand that acts: close, open, limit, reset, mode or undo.
type byHand struct {
	name   string
	flags  *pflag.FlagSet
	api    clientFlags
	until  untilFlags
	reason string
	unsaid string // the reason, where none is given; "" if one is needed
	id     string
}

// newByHand returns the flags of one. ends says that what it does ends, and that its end is needed.
func newByHand(name, usage string, ends bool) *byHand {
	b := &byHand{name: name, flags: newFlags(name + " " + usage)}
	if ends {
		b.until.add(b.flags)
	}
	b.flags.StringVar(&b.reason, "reason", "", "why, in 1 to 512 bytes; the log keeps it with your token's name")
	b.flags.StringVar(&b.id, "id", "", "`id` of an attempt that got no answer, 32 hexadecimal digits: the action then takes effect once")
	b.api.add(b.flags)
	return b
}

// parse parses the command line, which has this many arguments.
func (b *byHand) parse(p process, args []string, least, most int, want string) error {
	if err := parseFlags(p, b.flags, args); err != nil {
		return err
	}
	if n := b.flags.NArg(); n < least || n > most {
		return usagef("%s: got %q, want %s", b.name, b.flags.Args(), want)
	}
	if b.reason == "" {
		b.reason = b.unsaid
	}
	if b.reason == "" {
		return usagef("%s: --reason: got none, want why: it is kept in the log", b.name)
	}
	return nil
}

// attempts is how often a record is sent, with one id, until an answer comes.
const attempts = 3

// send sends a body and prints the answer.
func (b *byHand) send(ctx context.Context, p process, body any, until time.Time) error {
	var id schemas.ControlID
	_, _ = rand.Read(id[:]) // never fails
	if b.id != "" {
		var err error
		if id, err = schemas.ParseControlID(b.id); err != nil {
			return usagef("--id: %w", err)
		}
	}
	c, err := b.api.client()
	if err != nil {
		return err
	}
	var answer apiv1.ActionAnswer
	status := 0
	sent := b.id != "" // by an earlier command, perhaps
	for range attempts {
		status, err = c.Post(ctx, "/v1/"+b.name, body, &id, &answer)
		sent = sent || !unreachable(err)
		var problem *apiv1.Problem
		if err == nil || ctx.Err() != nil || errors.As(err, &problem) && problem.Status != http.StatusServiceUnavailable {
			break
		}
	}
	if err != nil && !sent {
		return fmt.Errorf("%w. Nothing was sent", apiError(b.name, err))
	}
	if err != nil {
		return b.failed(err, id, until)
	}
	if b.api.output.json {
		return printable.JSON(p.stdout).Encode(answer)
	}
	return b.print(p, &answer, status)
}

// failed says what to do where it is not known whether the record was written.
func (b *byHand) failed(err error, id schemas.ControlID, until time.Time) error {
	var p *apiv1.Problem
	if errors.As(err, &p) && p.Status != http.StatusServiceUnavailable || errors.Is(err, client.ErrConfig) {
		return apiError(b.name, err)
	}
	again := "--id " + id.String()
	if !until.IsZero() {
		again += " --until " + until.Format(time.RFC3339Nano)
	}
	return fmt.Errorf("%w; it may be in force or not. To try again, so that it acts once, give the same arguments with %s", apiError(b.name, err), again)
}

// print says what was done, and how to undo it.
func (b *byHand) print(p process, answer *apiv1.ActionAnswer, status int) error {
	a := &answer.Action
	if status == http.StatusAccepted || !answer.Applied {
		fmt.Fprintf(p.stdout, "accepted, not yet in force: %s. The record is in the log, and the owners of partitions %v have not applied it yet; floodgate actions says when they have\n",
			actionText(a), answer.Waiting)
	} else {
		fmt.Fprintf(p.stdout, "%s: %s\n", standing(a), actionText(a))
	}
	if acts(a) {
		return nil
	}
	_, err := fmt.Fprintf(p.stdout, "to undo it: floodgate undo %s\n", printable.Of(a.ID))
	return err
}

// acts reports whether a record acts once: it has no end, and cannot be undone.
func acts(a *apiv1.Action) bool {
	return a.Action == schemas.ControlUndo.String() || a.Action == schemas.ControlReset.String()
}

// standing says what a record that an owner has applied is now.
func standing(a *apiv1.Action) string {
	if acts(a) {
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
	until := " until " + when(a.Until) + " UTC"
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

func runClose(ctx context.Context, p process, args []string) error {
	b := newByHand("close", "CALLER --for DURATION --reason WHY [flags]\n\nCloses a caller, of any kind, at all gates, whether a rule counts it or not.", true)
	if err := b.parse(p, args, 1, 1, "one caller, such as key:k9"); err != nil {
		return err
	}
	caller, until, err := b.callerUntil()
	if err != nil {
		return err
	}
	return b.send(ctx, p, apiv1.CloseRequest{Caller: caller, Until: until, Reason: b.reason}, until)
}

func runOpen(ctx context.Context, p process, args []string) error {
	b := newByHand("open", "CALLER [RULE] --for DURATION --reason WHY [flags]\n\nLifts the limit of a caller under a rule, or under all rules. Its closures end now. Counting goes on: a caller\n"+
		"which is over its limit at the end closes again.", true)
	if err := b.parse(p, args, 1, 2, "a caller, such as key:k9, and perhaps a rule"); err != nil {
		return err
	}
	caller, until, err := b.callerUntil()
	if err != nil {
		return err
	}
	return b.send(ctx, p, apiv1.OpenRequest{Caller: caller, Rule: b.flags.Arg(1), Until: until, Reason: b.reason}, until)
}

func runLimit(ctx context.Context, p process, args []string) error {
	b := newByHand("limit", "CALLER RULE LIMIT --for DURATION --reason WHY [flags]\n\nGives a caller another limit under a rule, up or down. No count is lost.", true)
	if err := b.parse(p, args, 3, 3, "a caller, a rule and a limit, such as key:k9 per-key 500"); err != nil {
		return err
	}
	caller, until, err := b.callerUntil()
	if err != nil {
		return err
	}
	var limit int64
	if _, err := fmt.Sscanf(b.flags.Arg(2)+"\n", "%d\n", &limit); err != nil || limit < 1 {
		return usagef("limit: got %q, want a limit of 1 or more", b.flags.Arg(2))
	}
	return b.send(ctx, p, apiv1.LimitRequest{Caller: caller, Rule: b.flags.Arg(1), Limit: limit, Until: until, Reason: b.reason}, until)
}

func runReset(ctx context.Context, p process, args []string) error {
	b := newByHand("reset", "CALLER [RULE] --reason WHY [flags]\n\nLets the counts and the escalation of a caller start from zero, under a rule or under all rules. It ends their closures, too.", false)
	if err := b.parse(p, args, 1, 2, "a caller, such as key:k9, and perhaps a rule"); err != nil {
		return err
	}
	caller, err := callerArg(b.name, b.flags.Arg(0))
	if err != nil {
		return err
	}
	return b.send(ctx, p, apiv1.ResetRequest{Caller: apiv1.CallerOf(caller), Rule: b.flags.Arg(1), Reason: b.reason}, time.Time{})
}

func runMode(ctx context.Context, p process, args []string) error {
	b := newByHand("mode", "shadow [RULE] --for DURATION --reason WHY [flags]\n\nPuts a rule, or all rules, into mode shadow: their decisions block nobody, also those that are in force already.\n"+
		"It is the emergency brake. It needs a token of role admin.", true)
	if err := b.parse(p, args, 1, 2, "shadow, and perhaps a rule"); err != nil {
		return err
	}
	until, err := b.until.time(b.name, time.Now())
	if err != nil {
		return err
	}
	return b.send(ctx, p, apiv1.ModeRequest{Rule: b.flags.Arg(1), Mode: b.flags.Arg(0), Until: until, Reason: b.reason}, until)
}

func runUndo(ctx context.Context, p process, args []string) error {
	b := newByHand("undo", "ID [flags]\n\nEnds the effect of one action that was done by hand. floodgate actions prints the ids. Without --reason the log says\n"+
		"\"undone without a reason\".", false)
	b.unsaid = "undone without a reason"
	if err := b.parse(p, args, 1, 1, "one id, as floodgate actions shows it"); err != nil {
		return err
	}
	return b.send(ctx, p, apiv1.UndoRequest{ID: b.flags.Arg(0), Reason: b.reason}, time.Time{})
}

// callerUntil returns the first argument, which is a caller, and the end.
func (b *byHand) callerUntil() (apiv1.Caller, time.Time, error) {
	caller, err := callerArg(b.name, b.flags.Arg(0))
	if err != nil {
		return apiv1.Caller{}, time.Time{}, err
	}
	until, err := b.until.time(b.name, time.Now())
	return apiv1.CallerOf(caller), until, err
}
