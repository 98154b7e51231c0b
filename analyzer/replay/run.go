package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Defaults of Config.
const (
	DefaultReorder   = 2 * time.Minute
	DefaultMaxBuffer = 256 << 20
	DefaultMaxRows   = 2_000_000 // memory is taken as callers come
)

// Config says which rules to run over which inputs. Rules, Format and Inputs are required. The zero values of the others
// mean the defaults, except for Reorder: zero is no reordering.
type Config struct {
	Rules     *rules.Set
	Format    *ingest.Format
	Inputs    []Input
	Reorder   time.Duration        // by how much time lines may be out of order
	Lag       time.Duration        // from a request until what follows from it is in force
	Predict   rules.Predict        // the most that any rule predicts; without a lag nothing is predicted
	MaxBuffer int64                // bytes of lines that wait to be ordered; 0 is DefaultMaxBuffer
	MaxRows   int                  // rules × callers that are counted exactly, at some 250 bytes each; 0 is DefaultMaxRows
	Workers   int                  // goroutines that scan lines; 0 is GOMAXPROCS
	OnClose   func(Close) error    // called with each close in order of time, by Run's goroutine; an error ends the run; may be nil
	OnEntry   func(*schemas.Entry) // called with each folded entry, as gates would have recorded it, by Run's goroutine; may be nil
	Progress  func(bytes int64)    // called with the number of bytes of each read, by several goroutines; may be nil

	// Circuit is needed where there is a lag, and not called otherwise: it makes what takes that lag, and reports to events.
	Circuit func(c *Config, events Events) (Circuit, error)

	// PredictLagCap is the largest lag at which closes are predicted, as a share of a rule's window; 0 is predict.DefaultLagCap.
	PredictLagCap float64
}

// predicts reports whether decisions may come ahead of time. Without a lag they are in time anyway.
func (c *Config) predicts() bool { return c.Lag > 0 && c.Predict > rules.PredictOff }

func (c *Config) check() error {
	switch {
	case c.Rules == nil || c.Format == nil:
		return errors.New("replay: want rules and a format")
	case len(c.Inputs) == 0:
		return errors.New("replay: want an input")
	case c.Reorder < 0 || c.Lag < 0:
		return fmt.Errorf("replay: got reorder %v and lag %v, want neither below 0", c.Reorder, c.Lag)
	case c.Lag > 0 && c.Circuit == nil:
		return fmt.Errorf("replay: got a lag of %v, want a circuit too", c.Lag)
	case !(c.PredictLagCap >= 0):
		return fmt.Errorf("replay: got a cap of the lag of %v, want 0 or more", c.PredictLagCap)
	case c.MaxBuffer < 0 || c.Workers < 0 || c.MaxRows < 0:
		return fmt.Errorf("replay: got buffer %d, workers %d and rows %d, want none below 0", c.MaxBuffer, c.Workers, c.MaxRows)
	}
	if c.MaxRows == 0 {
		c.MaxRows = DefaultMaxRows
	}
	if c.MaxBuffer == 0 {
		c.MaxBuffer = DefaultMaxBuffer
	}
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.OnClose == nil {
		c.OnClose = func(Close) error { return nil }
	}
	if c.OnEntry == nil {
		c.OnEntry = func(*schemas.Entry) {}
	}
	return nil
}

// Run replays the inputs and returns what it counted. Lines that cannot be read are counted by reason and are no error. An
// input that cannot be read to its end is an error; the summary then covers everything that could be read. If ctx ends or
// OnClose fails, the summary covers the work so far. Run does not wait then for an input whose Read blocks, such as a terminal:
// the goroutine in that Read ends when the Read returns.
func Run(ctx context.Context, c Config) (Summary, error) {
	sum := Summary{Type: "summary", RejectedByReason: make(map[string]int64)}
	if err := c.check(); err != nil {
		return sum, err
	}
	loop, err := newLoop(c, &sum)
	if err != nil {
		return sum, err
	}
	err = read(ctx, &c, &sum, loop.request, func() error { return loop.err })
	loop.finish()
	return sum, cmp.Or(err, loop.err)
}

// Requests reads the inputs as Run does, and calls visit with each request in order of time, by its own goroutine, instead of
// counting it. A line is valid until visit returns. If visit fails, the reading ends, and the error is returned. Of the summary,
// only what is about lines is set.
func Requests(ctx context.Context, c Config, visit func(*ingest.Line) error) (Summary, error) {
	sum := Summary{Type: "summary", RejectedByReason: make(map[string]int64)}
	if err := c.check(); err != nil {
		return sum, err
	}
	var failed error
	err := read(ctx, &c, &sum, func(line *ingest.Line) {
		if failed == nil {
			failed = visit(line)
		}
	}, func() error { return failed })
	return sum, err
}

// read calls visit with each request of the inputs in order of time, until failed returns an error.
func read(ctx context.Context, c *Config, sum *Summary, visit func(*ingest.Line), failed func() error) error {
	sources := newSources(c.Inputs)
	sorter := newSorter(c.Reorder, len(c.Format.Kinds()), c.MaxBuffer, visit)

	// Readers end with their inputs and workers after the merge. If the merge ends early, both end.
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var readers, workers sync.WaitGroup
	work := make(chan *block, c.Workers)
	for _, s := range sources {
		readers.Go(func() { s.read(reading, work, c.Progress) })
	}
	for range c.Workers {
		workers.Go(func() { scanAll(reading, c.Format, work) })
	}

	err := merge(reading, sources, sum, func(line *ingest.Line) error {
		if !sorter.push(line) {
			sum.Late++
		}
		return failed()
	})
	stop()
	workers.Wait()
	if ctx.Err() == nil && failed() == nil {
		readers.Wait()
		sorter.flush()
		err = errors.Join(err, failed())
	}
	sum.ReorderCut = sorter.early
	return err
}

// newSources returns a source for each input. The more there are, the smaller their blocks.
func newSources(inputs []Input) []*source {
	size := max(minBlockSize, min(blockSize, blockBudget/len(inputs)/blockDepth))
	sources := make([]*source, len(inputs))
	for i, in := range inputs {
		sources[i] = newSource(in, size)
	}
	return sources
}

// scanners is the part of an ingest.Format that scanAll needs.
type scanners interface {
	Headed() bool
	Scanner() ingest.Scanner
}

// scanAll scans blocks until ctx ends.
func scanAll(ctx context.Context, f scanners, work <-chan *block) {
	s := f.Scanner()
	var primed *source
	for {
		select {
		case b := <-work:
			if b.from != primed { // what a scanner learned of one log says nothing of another
				if s, primed = f.Scanner(), b.from; f.Headed() && !b.first {
					b.from.prime(s)
				}
			}
			if f.Headed() {
				b.follow(s)
			}
			b.scan(s)
			b.ready <- struct{}{} // never blocks: the channel has room for one
		case <-ctx.Done():
			return
		}
	}
}
