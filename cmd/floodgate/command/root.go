package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/document"
)

// Group is a part of the list of subcommands, with its heading.
type Group struct {
	Title    string
	Commands []*cobra.Command
}

// Root is the command floodgate, with all its subcommands.
type Root struct {
	process Process
	groups  []Group
	cobra   *cobra.Command
}

// New returns the command whose subcommands these are, and completion, which is added to the last group.
func New(p Process, groups ...Group) *Root {
	r := &Root{process: p, groups: groups, cobra: &cobra.Command{
		Use: "floodgate", Args: cobra.ArbitraryArgs, SilenceErrors: true, SilenceUsage: true,
	}}
	version := r.cobra.Flags().Bool("version", false, "print the version")
	r.cobra.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return r.Run(cmd.Context(), []string{"version"})
		}
		r.printSubcommands(p.Stderr)
		return WantSubcommand(cmd, args)
	}
	r.cobra.SetIn(p.Stdin)
	r.cobra.SetOut(p.Stdout)
	r.cobra.SetErr(p.Stderr)
	r.cobra.SetFlagErrorFunc(r.flagError)
	r.cobra.SetHelpFunc(r.help)
	r.cobra.SetHelpCommand(r.helpCommand())
	r.cobra.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		r.warnOfVariables()
		return FromEnvironment(p, cmd.Flags())
	}
	r.groups[len(groups)-1].Commands = append(r.groups[len(groups)-1].Commands, r.completion())
	for _, g := range r.groups {
		r.cobra.AddCommand(g.Commands...)
	}
	r.Each(func(c *cobra.Command) { c.Flags().SortFlags = false })
	return r
}

// AddPage adds a page of help that is no subcommand.
func (r *Root) AddPage(page *cobra.Command) {
	page.Flags().SortFlags = false
	r.cobra.AddCommand(page)
}

// Run finds the subcommand that args name, and runs it.
func (r *Root) Run(ctx context.Context, args []string) error {
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		r.registerCompletions()
	}
	r.cobra.SetArgs(args)
	return r.cobra.ExecuteContext(ctx)
}

// Each calls visit with each subcommand, and with the subcommands of these.
func (r *Root) Each(visit func(*cobra.Command)) { each(r.cobra, visit) }

func each(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, c := range cmd.Commands() {
		visit(c)
		each(c, visit)
	}
}

// flagError makes a usage error of a flag that there is not, or that cannot have its value.
func (r *Root) flagError(cmd *cobra.Command, err error) error {
	if !cmd.HasParent() {
		r.printSubcommands(r.process.Stderr)
		if words := r.cobra.Flags().Args(); len(words) > 0 { // the subcommand is wrong, and not its flags
			return WantSubcommand(cmd, words)
		}
		return Usage(err)
	}
	return Usagef("%w%s; see floodgate %s --help", wrongValue(err), meantFlag(cmd.Flags(), err), path(cmd))
}

// wrongValue says of a value that a flag cannot have what was got, and what is wanted. It returns other errors as they are.
func wrongValue(err error) error {
	invalid, is := errors.AsType[*pflag.InvalidValueError](err)
	if !is {
		return err
	}
	flag, cause := invalid.GetFlag(), invalid.Unwrap()
	want := map[string]string{
		"int": "a whole number", "int64": "a whole number", "uint64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a duration such as 90s or 1h30m",
	}[flag.Value.Type()]
	if want == "" || strings.HasPrefix(cause.Error(), "got ") {
		return fmt.Errorf("--%s: %w", flag.Name, cause)
	}
	return fmt.Errorf("--%s: got %q, want %s", flag.Name, invalid.GetValue(), want)
}

// meantFlag returns a hint at a flag with a similar name, if err is about a flag that does not exist; else "".
func meantFlag(flags *pflag.FlagSet, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name = short // one dash in place of two
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name, _, _ = strings.Cut(name, "=")
	if meant := document.Closest(name, names); meant != "" {
		return " (did you mean --" + meant + "?)"
	}
	return ""
}

// completion returns the subcommand that prints the script of a shell. The scripts are cobra's.
func (r *Root) completion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print what lets bash, zsh or fish complete command lines",
		Long: "Prints a script for a shell, which then completes subcommands, flags, rules and closed callers. To load it:\n\n" +
			"  source <(floodgate completion bash)    # .bashrc, behind bash-completion\n" +
			"  source <(floodgate completion zsh)     # .zshrc, behind compinit\n" +
			"  floodgate completion fish | source     # config.fish",
		Example:   "floodgate completion bash",
		ValidArgs: shells,
		Args:      Arguments(1, 1, "bash, zsh or fish"),
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return r.cobra.GenBashCompletionV2(r.process.Stdout, true)
			case "zsh":
				return r.cobra.GenZshCompletion(r.process.Stdout)
			case "fish":
				return r.cobra.GenFishCompletion(r.process.Stdout, true)
			}
			return Usagef("completion: got %q, want bash, zsh or fish", args)
		},
	}
}

// helpCommand returns the subcommand help: floodgate help NAME is floodgate NAME --help.
func (r *Root) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "help [SUBCOMMAND]",
		Short:  "explain a subcommand",
		Hidden: true,
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, c := range r.cobra.Commands() {
				names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			for n := len(args); n > 0; n-- { // words behind the subcommand are passed over
				if cmd, rest, err := r.cobra.Find(args[:n]); err == nil && len(rest) == 0 {
					return cmd.Help()
				}
			}
			if len(args) == 0 {
				return r.cobra.Help()
			}
			r.printSubcommands(r.process.Stderr)
			return WantSubcommand(r.cobra, args)
		},
	}
}
