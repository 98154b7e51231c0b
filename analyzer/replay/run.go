package replay

import (
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
)

// Config says what to run over what. Rules, Format and Inputs are needed; the zero value of the rest has defaults, but
// for Reorder, of which zero is no reordering at all.
type Config struct {
	Rules     *rules.Set
	Format    *ingest.Format
	Inputs    []Input
	Reorder   time.Duration        // how far lines may be out of order
	Lag       time.Duration        // from a decision to its being in force
	MaxBuffer int64                // bytes of lines that wait to be ordered; 0 is DefaultMaxBuffer
	Workers   int                  // goroutines that scan lines; 0 is GOMAXPROCS
	OnClose   func(Close) error    // told each close in order of time, from Run's goroutine; an error ends the run; nil ignores them
	OnEntry   func(*schemas.Entry) // told each entry as it is folded, from Run's goroutine: what gates would have recorded; nil is nobody
	Progress  func(bytes int64)    // told how many more bytes were read, from several goroutines; nil is told nothing
}

func (c *Config) check() error {
	switch {
	case c.Rules == nil || c.Format == nil:
		return errors.New("replay: want rules and a format")
	case len(c.Inputs) == 0:
		return errors.New("replay: want an input")
	case c.Reorder < 0 || c.Lag < 0:
		return fmt.Errorf("replay: got reorder %v and lag %v, want neither below 0", c.Reorder, c.Lag)
	case c.MaxBuffer < 0 || c.Workers < 0:
		return fmt.Errorf("replay: got buffer %d and workers %d, want neither below 0", c.MaxBuffer, c.Workers)
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

// Run replays the inputs and returns what it counted. Lines that cannot be read are counted by reason and are no error.
// An input that cannot be read to its end is: the summary is then of all that could be read. If ctx ends or OnClose
// fails, the summary is of what was done so far; Run then does not wait for an input whose Read blocks, as that of a
// terminal does: the goroutine that called it ends when it returns.
func Run(ctx context.Context, c Config) (Summary, error) {
	sum := Summary{Type: "summary", RejectedByReason: make(map[string]int64)}
	if err := c.check(); err != nil {
		return sum, err
	}
	sources := newSources(c.Inputs)
	loop := newLoop(c, &sum)
	sorter := newSorter(c.Reorder, len(loop.kinds), c.MaxBuffer, loop.request)

	// Readers end with their inputs, workers after the merge, and both when the merge ends early.
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

	err := merge(reading, sources, &sum, func(line *ingest.Line) error {
		if !sorter.push(line) {
			sum.Late++
		}
		return loop.err
	})
	stop()
	workers.Wait()
	if ctx.Err() == nil && loop.err == nil {
		readers.Wait()
		sorter.flush()
		err = errors.Join(err, loop.err)
	}
	loop.finish()
	sum.ReorderCut = sorter.early
	return sum, err
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

// scanners is what scanAll needs of an ingest.Format.
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
			if f.Headed() && b.from != primed {
				if s, primed = f.Scanner(), b.from; !b.first {
					b.from.prime(s)
				}
			}
			b.scan(s)
			b.ready <- struct{}{} // never waits: there is room for one
		case <-ctx.Done():
			return
		}
	}
}
