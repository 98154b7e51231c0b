package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/gate"
)

//go:embed completion/completion.bash completion/completion.zsh completion/completion.fish
var completions embed.FS

// shells are those that complete command lines.
func shells() []string { return []string{"bash", "zsh", "fish"} }

// runCompletion prints the script of a shell.
func runCompletion(_ context.Context, p process, args []string) error {
	flags := newFlags("completion bash|zsh|fish\n\nPrints a script for a shell, which then completes subcommands, flags, rules and closed callers. To load it:\n" +
		"  source <(floodgate completion bash)      # in .bashrc; zsh alike, in .zshrc, behind compinit\n  floodgate completion fish | source       # in config.fish")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 || !slices.Contains(shells(), flags.Arg(0)) {
		return usagef("completion: got %q, want bash, zsh or fish", flags.Args())
	}
	text, err := completions.ReadFile("completion/completion." + flags.Arg(0))
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(text)
	return err
}

// completeCommand is what the scripts of shells call: the words of a command line so far, of which the last one is to be completed.
// It prints a candidate on each line, a tab, and what it is.
const completeCommand = "__complete"

// completeTimeout is how long a person waits for an analyzer behind the tabulator key.
const completeTimeout = time.Second

// candidate is what a word could become.
type candidate struct{ word, text string }

// runComplete prints candidates. It fails for nobody: without an analyzer there are no rules and no callers.
func runComplete(ctx context.Context, p process, words []string) error {
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1]
	}
	var b strings.Builder
	for _, c := range candidates(ctx, p, words) {
		if strings.HasPrefix(c.word, last) && harmless(c.word) {
			fmt.Fprintf(&b, "%s\t%s\n", c.word, printable.Of(c.text))
		}
	}
	_, err := fmt.Fprint(p.stdout, b.String())
	return err
}

// harmless reports whether a word means itself in every shell: a client chooses its id, and bash inserts it as it is.
func harmless(word string) bool {
	return word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/@,+%=") == ""
}

// candidates returns what the last word could be, and more.
func candidates(ctx context.Context, p process, words []string) (list []candidate) {
	if len(words) <= 1 {
		for _, c := range subcommands() {
			list = append(list, candidate{c.name, c.summary})
		}
		return append(list, candidate{"help", "explain a subcommand"})
	}
	if words[0] == "help" && len(words) == 2 {
		return candidates(ctx, p, words[1:])
	}
	flags := flagsOf(ctx, p, words[0])
	if flags == nil {
		return nil
	}
	last, before := words[len(words)-1], words[1:len(words)-1]
	if len(before) > 0 {
		if f := valueOf(flags, before[len(before)-1]); f != nil {
			return values(ctx, p, words, f.Name, "")
		}
	}
	if name, _, found := strings.Cut(last, "="); found && strings.HasPrefix(name, "--") {
		return values(ctx, p, words, strings.TrimPrefix(name, "--"), name+"=")
	}
	if strings.HasPrefix(last, "-") {
		flags.VisitAll(func(f *pflag.Flag) { list = append(list, candidate{"--" + f.Name, f.Usage}) })
		return list
	}
	return arguments(ctx, p, words, positional(flags, before))
}

// flagsOf returns the flags of a subcommand; nil if there is none of this name.
func flagsOf(ctx context.Context, p process, name string) (flags *pflag.FlagSet) {
	p.describe = func(f *pflag.FlagSet) { flags = f }
	for _, c := range subcommands() {
		if c.name == name {
			_ = c.run(ctx, p, nil) // it describes itself, and stops there
		}
	}
	return flags
}

// valueOf returns the flag whose value must follow a word; nil if none must.
func valueOf(flags *pflag.FlagSet, word string) *pflag.Flag {
	name, found := strings.CutPrefix(word, "--")
	if !found || strings.Contains(name, "=") {
		return nil
	}
	f := flags.Lookup(name)
	if f == nil || f.NoOptDefVal != "" {
		return nil
	}
	return f
}

// positional returns the words that are neither flags nor their values.
func positional(flags *pflag.FlagSet, words []string) (args []string) {
	for i := 0; i < len(words); i++ {
		switch {
		case !strings.HasPrefix(words[i], "-"):
			args = append(args, words[i])
		case valueOf(flags, words[i]) != nil:
			i++
		}
	}
	return args
}

// values returns what a flag can be, each behind a prefix.
func values(ctx context.Context, p process, words []string, flag, prefix string) (list []candidate) {
	switch {
	case flag == "output":
		list = of("", "table", "json")
	case flag == "sort":
		list = of("by", sorts()...)
	case flag == "stale":
		list = of("", gate.Hold.String(), gate.Open.String(), gate.Closed.String(), gate.Local.String())
	case flag == "action":
		list = of("", "close", "open", "limit", "reset", "mode", "undo")
	case flag == "state":
		list = of("", apiv1.StateWaiting, apiv1.StateInForce, apiv1.StateDone, apiv1.StateEnded, apiv1.StateUndone)
	case flag == "rule":
		list = asking(ctx, p, words, rulesNames)
	case flag == "caller" && words[0] == "actions":
		list = asking(ctx, p, words, closedCallers)
	}
	for i := range list {
		list[i].word = prefix + list[i].word
	}
	return list
}

func of(text string, words ...string) (list []candidate) {
	for _, word := range words {
		list = append(list, candidate{word, text})
	}
	return list
}

// arguments returns what the next argument can be, behind those that are there.
func arguments(ctx context.Context, p process, words, args []string) []candidate {
	second := len(args) == 1
	switch name := words[0]; {
	case name == "completion" && len(args) == 0:
		return of("shell", shells()...)
	case name == "rules" && len(args) == 0:
		return []candidate{{"check", "check files"}, {"show", "print the rules in force"}, {"versions", "list versions"}, {"diff", "compare versions"}}
	case name == "rules" && (args[0] == "show" || args[0] == "diff"):
		return asking(ctx, p, words, rulesVersions)
	case name == "token" && second:
		return []candidate{{"read", "may look"}, {"operate", "may act by hand"}, {"admin", "may put rules into mode shadow"}}
	case name == "mode" && len(args) == 0:
		return of("", "shadow")
	case name == "mode" && second, (name == "open" || name == "reset" || name == "limit") && second:
		return asking(ctx, p, words, rulesNames)
	case name == "undo" && len(args) == 0:
		return asking(ctx, p, words, actionIDs)
	case slices.Contains([]string{"explain", "close", "open", "limit", "reset"}, name) && len(args) == 0, name == "try":
		return asking(ctx, p, words, closedCallers)
	}
	return nil
}

// asking asks the analyzer that the command line names, with the token that it names.
func asking(ctx context.Context, p process, words []string, ask func(context.Context, *client.Client) []candidate) []candidate {
	var api clientFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	api.addAddress(flags)
	if err := parseFlags(process{stdout: p.stderr, stderr: p.stderr, lookup: p.lookup}, flags, addressWords(words)); err != nil {
		return nil
	}
	c, err := api.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	return ask(ctx, c)
}

// addressWords returns the words that say which analyzer to ask.
func addressWords(words []string) (args []string) {
	var api clientFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	api.addAddress(flags)
	for i, word := range words[:len(words)-1] {
		name, _, found := strings.Cut(word, "=")
		switch {
		case flags.Lookup(strings.TrimPrefix(name, "--")) == nil || !strings.HasPrefix(name, "--"):
		case found:
			args = append(args, word)
		case i+2 < len(words):
			args = append(args, word, words[i+1])
		}
	}
	return args
}
