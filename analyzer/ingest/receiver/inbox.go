package receiver

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/ingest/feed"
)

// maxRemembered is how many requests are known when they come again.
const maxRemembered = 16384

// maxKept is how much memory for text an inbox keeps from one message to the next, in bytes.
const maxKept = 1 << 20

// inbox is a source that several calls feed, by turns. Its methods are safe for concurrent use.
type inbox struct {
	source *feed.Source
	turn   chan *page // the one page, while nobody writes on it
}

// page is what the call whose turn it is may use.
type page struct {
	end   int64  // the position behind all that was fed
	text  []byte // memory for lines
	known remembered
}

func newInbox(source *feed.Source) *inbox {
	in := &inbox{source: source, turn: make(chan *page, 1)}
	in.turn <- &page{known: remembered{ends: make(map[digest]int64)}}
	return in
}

// take waits for its turn until ctx ends. The caller gives the page back to in.turn.
func (in *inbox) take(ctx context.Context) (*page, error) {
	select {
	case p := <-in.turn:
		return p, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a turn: %w", ctx.Err())
	}
}

// write feeds the lines in p.text. It waits while Kafka is slow, until ctx ends.
func (in *inbox) write(ctx context.Context, p *page) error {
	if len(p.text) == 0 {
		return nil
	}
	at := p.end
	p.end += int64(len(p.text))
	err := in.source.Text(ctx, p.text, at, p.end)
	in.source.End(p.end)
	if cap(p.text) > maxKept {
		p.text = nil
	}
	if err != nil {
		return fmt.Errorf("feed lines: %w", err)
	}
	return nil
}

// digest is the SHA-256 of a request.
type digest [sha256.Size]byte

// remembered has the last requests, and for each the position behind its lines.
type remembered struct {
	ends   map[digest]int64
	order  []digest // a ring, once it is full
	oldest int      // index in the ring
}

// add adds a request, in place of the oldest one if there are maxRemembered.
func (r *remembered) add(d digest, end int64) {
	if len(r.order) < maxRemembered {
		r.order = append(r.order, d)
	} else {
		delete(r.ends, r.order[r.oldest])
		r.order[r.oldest] = d
		r.oldest = (r.oldest + 1) % maxRemembered
	}
	r.ends[d] = end
}
