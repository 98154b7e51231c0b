package feed

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/feed"
)

const (
	heartbeatEvery = time.Second
	writeTimeout   = 10 * time.Second // a reader that reads nothing for this time is cut off
	pieceBytes     = 32 << 10         // what is sent together has about so many bytes at most
)

// stream is one reader.
type stream struct {
	*Server
	sub      *board.Subscription
	query    query
	asEvents bool // server-sent events
	asked    bool // to resume
	w        http.ResponseWriter
	rc       *http.ResponseController

	out    []byte    // what is not sent yet
	line   []byte    // the line that is being written
	cursor uint64    // of the newest change; 0 before everything in force has come
	beatAt time.Time // when the next heartbeat is due
}

// errLost says that a reader has missed changes.
var errLost = errors.New("the reader fell behind")

// run sends lines until ctx ends, or the reader leaves or is cut off.
func (s *stream) run(ctx context.Context) {
	err := s.send(ctx)
	switch {
	case errors.Is(err, errLost):
		s.stats.cut[cutBehind].Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.stats.cut[cutSlow].Add(1)
	}
}

func (s *stream) send(ctx context.Context) error {
	now, cancel := context.WithCancel(ctx)
	cancel() // Next then returns what there is now, or an error
	first, err := s.sub.Next(now)
	s.start(err == nil && first.Kind == board.Lost)
	if err == nil && first.Kind != board.Lost {
		if err := s.add(&first); err != nil {
			return err
		}
	}
	for {
		if !time.Now().Before(s.beatAt) {
			s.heartbeat(time.Now())
		}
		e, err := s.sub.Next(now)
		if err != nil { // nothing waits
			if err := s.flush(); err != nil {
				return err
			}
			if e, err = s.await(ctx); errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				continue // a heartbeat is due
			}
		}
		if err != nil {
			return err
		}
		if err := s.add(&e); err != nil {
			return err
		}
	}
}

// await waits for the next event until a heartbeat is due.
func (s *stream) await(ctx context.Context) (board.Event, error) {
	ctx, cancel := context.WithDeadline(ctx, s.beatAt)
	defer cancel()
	return s.sub.Next(ctx)
}

// start sends how the feed begins. lost says that the changes since the cursor that was asked for are not known any more.
func (s *stream) start(lost bool) {
	s.line = feed.AppendStart(s.line[:0], s.asked && !lost)
	s.end(feed.Start, 0)
	s.heartbeat(time.Now())
}

// add sends an event, now or with those that follow at once.
func (s *stream) add(e *board.Event) error {
	if s.cursor != 0 {
		s.cursor = e.Number
	}
	switch e.Kind {
	case board.Lost:
		return errLost
	case board.Current:
		s.cursor = e.Number
		s.line = feed.AppendCurrent(s.line[:0], s.cursor)
		s.end(feed.Current, s.cursor)
	default:
		s.decision(e)
	}
	if len(s.out) >= pieceBytes {
		return s.flush()
	}
	return nil
}

// decision sends what an event says about a caller, as far as the reader has asked for it.
func (s *stream) decision(e *board.Event) {
	d := e.Decision
	if e.Kind == board.Ended || len(s.query.kinds) > 0 && !s.query.kinds[d.Caller.Kind] {
		return // readers know when a closure ends
	}
	if s.options.Shadow {
		d.Mode = schemas.ModeShadow
	}
	if !s.query.shares {
		d.Share = nil
	}
	foreign := s.query.mode != 0 && d.Mode != s.query.mode
	if foreign || e.Kind == board.Opened {
		d = schemas.Decision{Rule: d.Rule, Caller: d.Caller, Mode: cmp.Or(d.Mode, schemas.ModeEnforce), Partition: d.Partition}
	}
	opens := gate.Spans(&d)
	if d.Share == nil && !e.WasClosed && opens[0].CloseAt >= opens[0].Until && opens[1].CloseAt >= opens[1].Until {
		return // there is nothing that it could open
	}
	s.line = feed.AppendDecision(s.line[:0], &d, [2]int64{opens[0].Until, opens[1].Until}, s.cursor)
	s.end(feed.Decision, s.cursor)
}

// heartbeat sends how fresh each partition is.
func (s *stream) heartbeat(now time.Time) {
	s.beatAt = now.Add(heartbeatEvery)
	owners := s.options.Board.Owners(now)
	list := make([]feed.Partition, len(owners))
	for i, o := range owners {
		h := &o.Heartbeat
		list[i] = feed.Partition{
			State: o.Freshness.String(), Age: o.Age, Lag: time.Duration(h.Lag), Epoch: h.Epoch, Seq: h.Seq, Watermark: h.Watermark,
		}
	}
	s.line = feed.AppendHeartbeat(s.line[:0], now.UnixNano(), list, s.cursor)
	s.end(feed.Heartbeat, s.cursor)
}

// end puts the line behind those that are not sent yet.
func (s *stream) end(kind string, cursor uint64) {
	s.stats.lines.Add(1)
	if !s.asEvents {
		s.out = append(s.out, s.line...)
		return
	}
	s.out = append(append(append(s.out, "event: "...), kind...), '\n')
	if cursor != 0 {
		s.out = append(strconv.AppendUint(append(s.out, "id: "...), cursor, 10), '\n')
	}
	s.out = append(append(append(s.out, "data: "...), s.line...), '\n')
}

// flush sends what is not sent yet.
func (s *stream) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // a test's writer has no connection
	_, err := s.w.Write(s.out)
	if s.out = s.out[:0]; err != nil {
		return err
	}
	return s.rc.Flush()
}
