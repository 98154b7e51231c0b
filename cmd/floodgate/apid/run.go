package apid

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/controls"
	"github.com/509da70d/floodgate/analyzer/api/history"
	"github.com/509da70d/floodgate/analyzer/api/series"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/limit"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bounds of requests to the API.
const (
	maxStreams  = 1024 // as the API has them
	limitedKeys = 4096 // addresses or tokens that are limited each on its own
	clientRate  = 1000 // requests a second from one address
	clientBurst = 2000
	tokenRate   = 500 // requests a second with one token
	tokenBurst  = 1000
)

// Limits sets the limiters of a Config.
func Limits(c *api.Config) {
	c.ByClient = limit.NewKeyed(limitedKeys, limit.NewTokenBucket(clientRate, time.Second, clientBurst))
	c.ByToken = limit.NewKeyed(limitedKeys, limit.NewTokenBucket(tokenRate, time.Second, tokenBurst))
}

// Life is one life of an analyzer, for which a server answers.
type Life struct {
	Server     *api.Server
	Analyzer   *analyzer.Analyzer
	Log        kafkaio.Log
	Names      schemas.TopicNames
	Partitions int
	Key        schemas.PartitionKey
	Logger     *slog.Logger

	Board  *board.Board            // of NewBoard; nil: one of its own
	Follow *kafkalink.FollowConfig // from which the Board is filled; nil: somebody else fills it
}

// NewBoard returns a Board for a Life.
func NewBoard() *board.Board {
	return board.New(board.Options{MaxSubscribers: maxStreams, FirstChange: uint64(time.Now().UnixNano())})
}

// PartitionRules returns a metric of the rules by which partitions are counted, as the heartbeats on a board say.
func PartitionRules(b *board.Board, partitions int) prometheus.Collector {
	return analyzerprom.NewPartitionRules(boardView{b}, partitions)
}

// Run follows decisions and the control topic, and lets the server answer from them, until ctx ends.
func (l *Life) Run(ctx context.Context) error {
	b := l.Board
	if b == nil {
		b = NewBoard()
	}
	g, ctx := errgroup.WithContext(ctx)
	records := controls.New(controls.Config{Log: l.Log, Topic: l.Names.Control, Logger: l.Logger})
	g.Go(func() error { return records.Run(ctx) })
	key := l.Key
	if key == (schemas.PartitionKey{}) {
		key = schemas.DefaultPartitionKey()
	}
	lists := lister.New(l.Analyzer)
	defer lists.Close()
	ring := series.New()
	g.Go(func() error { return ring.Run(ctx, l.Analyzer) })
	l.Server.Attach(&api.Backend{
		Analyzer: l.Analyzer, Board: boardView{b}, Writer: analyzer.NewControlWriter(l.Log, l.Names.Control, l.Logger), Records: records, Lists: lists,
		Events: history.New(l.Log, l.Names.Events, l.Partitions),
		Series: ring, Partitions: l.Partitions, Key: key,
	})
	defer l.Server.Attach(nil)
	if l.Follow != nil {
		g.Go(func() error { return b.Run(ctx, *l.Follow) })
	}
	return g.Wait()
}
