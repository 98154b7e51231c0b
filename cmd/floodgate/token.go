package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// maxTokenName and tokenName are what a file of tokens takes as a name.
const (
	maxTokenName = 64
	tokenName    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-"
)

// runToken makes a token. It asks nobody.
func runToken(_ context.Context, p process, args []string) error {
	flags := newFlags("token NAME ROLE [flags]\n\nMakes a random token for a person or a program. It prints the token once, with the line for the analyzers' --api-tokens file. That\n" +
		"line has the token's SHA-256, and not the token. A role is read, operate (may also act by hand) or admin (may also use mode).")
	var out outputFlag
	var file string
	flags.StringVar(&file, "write", "", "write the token to this new `file`, which only its owner may read, and do not print it")
	flags.Var(&out, "output", "table or json")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return usagef("token: got %q, want a name and a role: read, operate or admin", flags.Args())
	}
	name := flags.Arg(0)
	if name == "" || len(name) > maxTokenName || strings.Trim(name, tokenName) != "" {
		return usagef("token: got name %q, want 1 to %d of letters, digits and . _ @ -", name, maxTokenName)
	}
	role, err := api.ParseRole(flags.Arg(1))
	if err != nil {
		return usagef("token: %w", err)
	}
	text, sum := api.NewToken()
	line := fmt.Sprintf("%s %s %s", name, role, sum)
	if file != "" {
		if err := writeToken(file, text); err != nil {
			return err
		}
		text = ""
	}
	if out.json {
		v := map[string]string{"name": name, "role": role.String(), "line": line}
		if text != "" {
			v["token"] = text
		}
		return printable.JSON(p.stdout).Encode(v)
	}
	if text != "" {
		fmt.Fprintf(p.stdout, "the token, for --token-file; it is shown this once:\n%s\n\n", text)
	} else {
		fmt.Fprintf(p.stdout, "the token is in %s\n\n", printable.Of(file))
	}
	return printLines(p.stdout, "the line for the analyzers' --api-tokens file:", line)
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
