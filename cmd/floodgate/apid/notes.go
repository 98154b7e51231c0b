package apid

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/controls"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Notes notes in the control topic which rules an analyzer takes over, and follows that topic. An analyzer without an API has
// notes too. The methods may be called from any goroutine.
type Notes struct {
	records *controls.Follower
	noter   *controls.Noter
}

// NewNotes returns Notes of an analyzer called author, whose rules come from a file. It does no I/O.
func NewNotes(client *kafkaio.Client, topic, author, file string, logger *slog.Logger) *Notes {
	records := controls.New(controls.Config{Log: client, Topic: topic, Logger: logger})
	writer := analyzer.NewControlWriter(client, topic, nil) // the noter says what fails
	return &Notes{records, controls.NewNoter(controls.NoterConfig{Records: records, Writer: writer, Author: author, File: file, Logger: logger})}
}

// Taken says that the analyzer has taken over rules. It never waits.
func (n *Notes) Taken(set *rules.Set) { n.noter.Note(set) }

// Run follows the topic and writes to it until ctx ends. While the topic is away it waits.
func (n *Notes) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.records.Run(ctx) })
	g.Go(func() error { return n.noter.Run(ctx) })
	return g.Wait()
}
