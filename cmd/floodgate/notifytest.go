package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// notifyCheck returns the subcommand that says what is wrong with a file of settings.
func notifyCheck(p command.Process) *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "say what is wrong with a file of settings",
		Example: "floodgate notify check /etc/floodgate/notify.yaml",
		Args:    command.Arguments(1, 1, "one file"),
		RunE:    func(_ *cobra.Command, args []string) error { return checkNotify(p, args[0]) },
	}
}

// notifySecret returns the subcommand that prints a new secret.
func notifySecret(p command.Process) *cobra.Command {
	return &cobra.Command{
		Use:     "secret",
		Short:   "print a new secret, by which messages are signed",
		Example: "floodgate notify secret",
		Args:    command.FlagsOnly,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Stdout, webhook.NewSecret())
			return err
		},
	}
}

// notifyTest returns the subcommand that sends one message.
func notifyTest(p command.Process) *cobra.Command {
	var c notifyConfig
	cmd := &cobra.Command{
		Use:     "test ENDPOINT --config FILE",
		Short:   "send one message that says that it is a test, and print the answer",
		Example: "floodgate notify test pager --config /etc/floodgate/notify.yaml",
		Args:    command.Arguments(1, 1, "the name of one endpoint"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.test(cmd.Context(), p, args[0]) },
	}
	c.addConfig(cmd)
	return cmd
}

// checkNotify says how a file of settings is understood.
func checkNotify(p command.Process, path string) error {
	settings, err := endpoint.Load(path)
	if err != nil {
		return err
	}
	for _, w := range settings.Warnings {
		fmt.Fprintf(p.Stdout, "warning: %s\n", printable.Error(w))
	}
	for _, e := range settings.Endpoints {
		signed := []string{"not signed", "signed", "signed by two secrets"}[len(e.Webhook.Secrets)]
		events := "all events"
		if len(e.Routes) > 0 {
			events = "the events of its routes"
		}
		fmt.Fprintf(p.Stdout, "%s: %s, %s\n", e.Name, events, signed)
	}
	return nil
}

// test sends one message to an endpoint, and prints the answer.
func (c *notifyConfig) test(ctx context.Context, p command.Process, name string) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	e := settings.Named(name)
	if e == nil {
		return command.Usagef("notify test: got %q, want one of the endpoints %s", document.Clip(name), strings.Join(endpointNames(settings), ", "))
	}
	now := time.Now()
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	m := webhook.Message{ID: hex.EncodeToString(id[:])}
	if m.Body, err = e.Body(endpoint.TestNotice(m.ID, now)); err != nil {
		return err
	}
	client := webhook.New(e.Webhook)
	defer client.Close()
	answer := client.Send(ctx, m, now)
	fmt.Fprintf(p.Stdout, "sent      %d bytes, webhook-id %s, %d signatures\n", len(m.Body), m.ID, len(e.Webhook.Secrets))
	if answer.Status != 0 {
		fmt.Fprintf(p.Stdout, "answered  %d after %v\n", answer.Status, time.Since(now).Round(time.Millisecond))
	}
	if len(answer.Body) > 0 {
		fmt.Fprintf(p.Stdout, "body      %s\n", printable.Of(string(answer.Body)))
	}
	if answer.Err != nil {
		return fmt.Errorf("notify test %s: %w", name, answer.Err)
	}
	return nil
}

func endpointNames(settings *endpoint.Config) []string {
	var names []string
	for _, e := range settings.Endpoints {
		names = append(names, e.Name)
	}
	return names
}
