package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// Bounds of streams.
const (
	maxLine = 1 << 20          // bytes of a line, and of the data of an event
	maxID   = 64               // bytes of the id of an event, which is sent back in a header
	silence = 30 * time.Second // a server says every 10 s that it is there
)

// Errors of streams. Test with errors.Is.
var (
	ErrRevoked = errors.New("the token was taken away")
	errSilent  = errors.New("nothing came for 30 s")
)

// Stream calls each with the events of GET /v1/decisions/stream, until ctx ends or each returns an error. It returns nil if ctx has
// ended, the error of each, ErrRevoked, or a problem for which another attempt does not help. When the connection breaks, it calls
// broken with the reason, connects again, and continues after the last event.
func (c *Client) Stream(ctx context.Context, query url.Values, each func(*apiv1.DecisionEvent) error, broken func(error)) error {
	last := ""
	for pause := time.Duration(0); ; pause = min(2*pause+100*time.Millisecond, 5*time.Second) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		err := c.streamOnce(ctx, query, &last, func(e *apiv1.DecisionEvent) error {
			pause = 0
			return each(e)
		})
		if own, ok := errors.AsType[eachError](err); ok {
			return own.error
		}
		if ctx.Err() == nil && permanent(err) {
			return err
		}
		if ctx.Err() == nil {
			broken(err)
		}
	}
}

// permanent reports whether another attempt would get the same error.
func permanent(err error) bool {
	p, refused := errors.AsType[*apiv1.Problem](err)
	return errors.Is(err, ErrRevoked) || refused && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
}

// eachError is an error of each.
type eachError struct{ error }

// streamOnce reads one connection.
func (c *Client) streamOnce(ctx context.Context, query url.Values, last *string, each func(*apiv1.DecisionEvent) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := c.request(ctx, http.MethodGet, "/v1/decisions/stream", query, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	if *last != "" {
		r.Header.Set("Last-Event-ID", *last)
	}
	answer, err := c.open(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxLine)
	var ev sseEvent
	for lines.Scan() {
		watch.Reset(silence)
		whole, err := ev.add(lines.Text())
		if err != nil {
			return err
		}
		if !whole {
			continue
		}
		if err := ev.give(each); err != nil {
			return err
		}
		*last, ev.kind = ev.id, ""
		ev.data.Reset()
	}
	return cmp.Or(context.Cause(ctx), lines.Err(), io.ErrUnexpectedEOF)
}

// open sends a request whose answer may take any time. The answer has status 200, and the caller closes its body.
func (c *Client) open(r *http.Request) (*http.Response, error) {
	answer, err := c.stream.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrAddress, c.base, reason(err))
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxLine)) // what is there says why
	return nil, problem(answer, text)
}

// sseEvent is a server-sent event.
type sseEvent struct {
	kind, id string
	data     strings.Builder
}

// add takes a line, and reports whether the event is whole.
func (e *sseEvent) add(line string) (whole bool, err error) {
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch {
	case line == "" && e.data.Len() == 0:
		e.kind = ""
	case line == "":
		return true, nil
	case field == "event":
		e.kind = value
	case field == "id" && len(value) > maxID:
		return false, fmt.Errorf("%w: got the id of an event with %d bytes, want at most %d", ErrAnswer, len(value), maxID)
	case field == "id":
		e.id = value
	case field == "data" && e.data.Len()+len(value) > maxLine:
		return false, fmt.Errorf("%w: got an event of more than %d bytes", ErrAnswer, maxLine)
	case field == "data":
		e.data.WriteString(value)
	}
	return false, nil
}

// give decodes the event and calls each.
func (e *sseEvent) give(each func(*apiv1.DecisionEvent) error) error {
	if e.kind == "end" {
		return ErrRevoked
	}
	var v apiv1.DecisionEvent
	if err := json.Unmarshal([]byte(e.data.String()), &v); err != nil {
		return fmt.Errorf("%w: event %s: %w", ErrAnswer, e.id, err)
	}
	if err := each(&v); err != nil {
		return eachError{err}
	}
	return nil
}
