package offline

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// maxTokenName and tokenName are what a file of tokens takes as a name.
const (
	maxTokenName = 64
	tokenName    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-"
)

// Token makes a token. It asks nobody.
func Token(p command.Process) *cobra.Command {
	var out command.Output
	var file string
	cmd := &cobra.Command{
		Use:   "token NAME ROLE [flags]",
		Short: "make a token for the API",
		Long: "Makes a random token for a person or a program, and prints it once, to standard error. Standard output gets the line for the " +
			"analyzers' --api-tokens file, which has the token's SHA-256 in place of the token. A role is read, operate (may also act by hand) " +
			"or admin (may also use mode).",
		Example: "floodgate token alice operate --write alice.token >> tokens",
		Args:    command.Arguments(2, 2, "a name and a role: read, operate or admin"),
		RunE:    func(_ *cobra.Command, args []string) error { return token(p, args[0], args[1], file, out.JSON) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []cobra.Completion{
				cobra.CompletionWithDesc("read", "may look"), cobra.CompletionWithDesc("operate", "may act by hand"),
				cobra.CompletionWithDesc("admin", "may put rules into mode shadow"),
			}, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&file, "write", "", "write the token to this new `file`, which only its owner may read, and do not print it")
	out.Add(cmd)
	return cmd
}

func token(p command.Process, name, roleName, file string, asJSON bool) error {
	if name == "" || len(name) > maxTokenName || strings.Trim(name, tokenName) != "" {
		return command.Usagef("token: got name %q, want 1 to %d of letters, digits and . _ @ -", name, maxTokenName)
	}
	role, err := api.ParseRole(roleName)
	if err != nil {
		return command.Usagef("token: %w", err)
	}
	text, sum := api.NewToken()
	line := fmt.Sprintf("%s %s %s", name, role, sum)
	if file != "" {
		if err := writeToken(file, text); err != nil {
			return err
		}
		text = ""
	}
	if asJSON {
		v := map[string]string{"name": name, "role": role.String(), "line": line}
		if text != "" {
			v["token"] = text
		}
		return printable.JSON(p.Stdout).Encode(v)
	}
	if text != "" {
		fmt.Fprintf(p.Stderr, "the token, for --token-file; it is shown this once:\n%s\n\n", text)
	} else {
		fmt.Fprintf(p.Stderr, "the token is in %s\n\n", printable.Of(file))
	}
	fmt.Fprintln(p.Stderr, "the line for the analyzers' --api-tokens file:")
	return terminal.Lines(p.Stdout, line)
}

// writeToken writes a token to a file that was not there.
func writeToken(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if _, err := f.WriteString(text + "\n"); err != nil {
		_ = f.Close()
		return fmt.Errorf("token: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	return nil
}
