package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/analyzer/printable"
)

func newWebhookSecret() string { return webhook.NewSecret() }

// test sends one message to an endpoint, and prints the answer.
func (c *notifyConfig) test(ctx context.Context, p process, name string) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	e := settings.Named(name)
	if e == nil {
		return usagef("notify test: got %q, want one of the endpoints %s", document.Clip(name), strings.Join(endpointNames(settings), ", "))
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
	fmt.Fprintf(p.stdout, "sent      %d bytes, webhook-id %s, %d signatures\n", len(m.Body), m.ID, len(e.Webhook.Secrets))
	if answer.Status != 0 {
		fmt.Fprintf(p.stdout, "answered  %d after %v\n", answer.Status, time.Since(now).Round(time.Millisecond))
	}
	if len(answer.Body) > 0 {
		fmt.Fprintf(p.stdout, "body      %s\n", printable.Of(string(answer.Body)))
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
