package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
)

// openIntake reads the format of the files, and the positions in them.
func (h *host) openIntake() error {
	c := h.config
	format, err := c.mapping.Load()
	if err == nil {
		err = c.countsOnce(format)
	}
	if err != nil {
		return command.Usage(err)
	}
	if c.mapping.Path != "" {
		h.mapping, _ = os.ReadFile(c.mapping.Path) // Load has read it
	}
	kinds := format.Kinds()
	if c.record {
		kinds = c.recordedKinds()
	}
	h.kinds.Store(&kinds)
	if len(c.files) == 0 {
		return nil
	}
	for _, path := range c.files {
		if err := checkFile(path); err != nil {
			return err
		}
	}
	in := &intake{
		daemon: &daemon{logger: h.logger}, format: format,
		config: &ingestConfig{files: c.files, fromEnd: !c.fromStart},
	}
	if in.positions, err = openPositions(c.data, h.sync); err != nil {
		return err
	}
	h.intake = in
	return nil
}

// countsOnce returns an error if a request would count when a proxy asks about it, and again by its line.
func (c *serveConfig) countsOnce(format *ingest.Format) error {
	if len(c.files) > 0 && c.record && format.Arrives() {
		return errors.New("--file, --record: got both, want one of them, or arrivals: none in the mapping: each request would count twice")
	}
	return nil
}

// checkFile returns a usage error if nothing will ever be read from a file. One that is missing may come.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil && !info.Mode().IsRegular():
		return command.Usagef("--file: got %s, which is %s, want a file", path, kindOf(info.Mode()))
	case err != nil:
		return command.Usagef("--file: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return command.Usagef("--file: %w; the log of nginx belongs to group adm on Debian: run floodgate in it", err)
	}
	return f.Close()
}

func kindOf(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a pipe"
	case m&os.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

// read feeds the files, and answers proxies if their questions count, until ctx ends. It returns after the last answer, so that each
// question is counted.
func (h *host) read(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if h.config.record {
		g.Go(func() error { return h.asked.Run(ctx) })
	}
	if h.intake != nil {
		g.Go(func() error { return h.readFiles(ctx) })
	}
	return g.Wait()
}

// readFiles feeds the files until ctx ends. When the mapping has changed, it goes on with the new one.
func (h *host) readFiles(ctx context.Context) error {
	for {
		changed, stop := context.WithCancel(ctx)
		err := h.feedFiles(changed, stop)
		stop()
		if err != nil || ctx.Err() != nil {
			return err
		}
		h.logger.Info("reading by the new mapping", "file", h.config.mapping.Path)
	}
}

// feedBytes is how much of what was read may wait for the log, which is as fast as the disk.
const feedBytes = 8 << 20

// feedFiles feeds the files until ctx ends. It calls stop, which ends ctx, when another mapping is to be used.
func (h *host) feedFiles(ctx context.Context, stop func()) (err error) {
	in := h.intake
	format, behind := in.format.Reporting(in.found).Noting(in.advise)
	in.feed, err = feed.New(feed.Config{
		Producer: h.keeper, Requests: h.names.Requests, Rejects: h.names.Rejects, Partitions: h.partitions, Key: schemas.DefaultPartitionKey(),
		Format: format, Now: time.Now, Logger: h.logger, MaxBytes: feedBytes, Drain: drainTime,
	})
	if err != nil {
		return err
	}
	h.feed.Store(in.feed)
	watching, end := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		reloadOnHangup(watching, func() {
			if f := h.changedFormat(); f != nil {
				in.format = f
				stop()
			}
		})
	})
	err = in.feed.Run(ctx, in.read)
	end()
	watcher.Wait()
	in.advise(behind.Advice())
	return err
}

// changedFormat reads the mapping again, and returns its format if the file has changed and can be used.
func (h *host) changedFormat() *ingest.Format {
	if h.config.mapping.Path == "" {
		return nil
	}
	text, err := os.ReadFile(h.config.mapping.Path)
	if err == nil && bytes.Equal(text, h.mapping) {
		return nil // SIGHUP is for the rules, too
	}
	f, err := h.config.mapping.Load()
	if err == nil {
		err = h.config.countsOnce(f)
	}
	if err != nil {
		h.logger.Error("mapping not changed: the file cannot be used", "error", err)
		return nil
	}
	if kinds := f.Kinds(); !h.config.record {
		h.kinds.Store(&kinds)
	}
	h.mapping = text
	return f
}

// feedStats returns what was read.
func (h *host) feedStats() feed.Stats {
	if f := h.feed.Load(); f != nil {
		return f.Stats()
	}
	return feed.Stats{}
}
