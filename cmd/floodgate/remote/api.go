package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
)

// clientFlags is the flags of all subcommands that ask an analyzer.
type clientFlags struct {
	config client.Config
	output command.Output
}

func (f *clientFlags) add(cmd *cobra.Command) {
	f.output.Add(cmd)
	f.addAddress(cmd)
}

func (f *clientFlags) addAddress(cmd *cobra.Command) {
	command.Section(cmd, "API", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.config.URL, "api", "http://127.0.0.1:9096", "`URL`, or host:port, of the API of any analyzer")
		flags.StringVar(&f.config.TokenFile, "token-file", "", "`file` with a token, as floodgate token prints it, or api-token in the data of floodgate serve (default: "+client.HostToken+", on this machine, if it is there)")
		flags.StringVar(&f.config.CA, "api-ca", "", "PEM `file` of the authorities to trust (default: the system's)")
		flags.StringVar(&f.config.Cert, "api-client-cert", "", "PEM `file` of this client's certificate, for analyzers that ask for one")
		flags.StringVar(&f.config.Key, "api-client-key", "", "PEM `file` of its key")
	})
}

// client returns a client. A mistake in the flags is a usage error.
func (f *clientFlags) client() (*client.Client, error) {
	c, err := client.New(f.config)
	if err != nil {
		return nil, command.Usage(err)
	}
	return c, nil
}

// apiError says what the API's answer is, in the words of the subcommand. A mistake of the command line is a usage error.
func apiError(what string, err error) error {
	var p *apiv1.Problem
	switch {
	case err == nil:
		return nil
	case unreachable(err):
		return fmt.Errorf("%s: %w; --api names the analyzer to ask", what, err)
	case !errors.As(err, &p):
		return fmt.Errorf("%s: %w", what, err)
	case p.Status == http.StatusUnauthorized:
		return fmt.Errorf("%s: %s; --token-file names the file with your token", what, client.Explain(p))
	case p.Status == http.StatusBadRequest || p.Status == http.StatusUnprocessableEntity:
		return command.Usagef("%s: %s", what, client.Explain(p))
	}
	return fmt.Errorf("%s: %s", what, client.Explain(p))
}

// unreachable reports whether no connection to the API was made, so that nothing was sent.
func unreachable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// get asks the API, and says in an error what was asked.
func (f *clientFlags) get(ctx context.Context, what, path string, query url.Values, out any) error {
	c, err := f.client()
	if err != nil {
		return err
	}
	return apiError(what, c.Get(ctx, path, query, out))
}

// callerArg returns the caller that a person wrote, as a table prints it or plainly.
func callerArg(what, text string) (schemas.Caller, error) {
	raw, err := printable.Parse(text)
	if err != nil {
		return schemas.Caller{}, command.Usagef("%s: %w", what, err)
	}
	kind, id, found := strings.Cut(raw, ":")
	if !found || id == "" || schemas.ValidateKind(kind) != nil {
		return schemas.Caller{}, command.Usagef("%s: got caller %q, want kind:id, such as key:k9 or ip:203.0.113.9", what, text)
	}
	return schemas.Caller{Kind: kind, ID: id}, nil
}

// untilFlags is --for and --until, of which one is needed.
type untilFlags struct {
	length command.Duration
	until  string
}

func (u *untilFlags) add(flags *pflag.FlagSet) {
	flags.Var(&u.length, "for", "how long it holds, such as 90s, 12h or 7d; or give --until")
	flags.StringVar(&u.until, "until", "", "`time` at which it ends, such as 2026-03-02T18:00:00Z, or \"2026-03-02 18:00\" in UTC; or give --for")
}

// time returns the end.
func (u *untilFlags) time(what string, now time.Time) (time.Time, error) {
	if (u.length != 0) == (u.until != "") {
		return time.Time{}, command.Usagef("%s: want either --for DURATION or --until TIME: what is done by hand ends by itself", what)
	}
	end := now.Add(time.Duration(u.length))
	if u.until != "" {
		var err error
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04"} {
			if end, err = time.Parse(layout, u.until); err == nil {
				break
			}
		}
		if err != nil {
			return time.Time{}, command.Usagef("--until: got %q, want a time such as 2026-03-02T18:00:00Z, or \"2026-03-02 18:00\" in UTC", u.until)
		}
	}
	if d := end.Sub(now); d <= 0 || d > schemas.MaxClosure {
		got := "in " + document.FormatDuration(d.Round(time.Second))
		if d <= 0 {
			got = "at " + whenUTC(end) + ", which is over"
		}
		return time.Time{}, command.Usagef("%s: got an end %s, want one that is to come, in %v at most", what, got, document.FormatDuration(schemas.MaxClosure))
	}
	return end.UTC(), nil
}

// callerText returns a caller of the API as people see it.
func callerText(c apiv1.Caller) string { return c.Caller().String() }

// whenUTC is when in a sentence, where no head of a column says the zone.
func whenUTC(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return when(t) + " UTC"
}

// when returns a time for people; "-" for none.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(stamp)
}
