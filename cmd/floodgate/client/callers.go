package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// Callers calls each with the pieces of the list of all callers: GET /v1/callers in lines. A caller that an analyzer counts from the
// beginning of the list to its end is in one piece, whatever it sends meanwhile; in pages, it may move to a page that was read already.
// The error is that of each, a problem, or ErrAnswer if the list breaks off or nothing comes for 30 s.
func (c *Client) Callers(ctx context.Context, query url.Values, each func(*apiv1.CallerList) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := c.request(ctx, http.MethodGet, "/v1/callers", query, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/x-ndjson")
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	answer, err := c.open(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for lines := json.NewDecoder(answer.Body); ; {
		var piece apiv1.CallerList
		switch err := lines.Decode(&piece); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w: the list of callers breaks off: %w", ErrAnswer, cmp.Or(context.Cause(ctx), err))
		}
		if err := each(&piece); err != nil {
			return err
		}
		watch.Reset(silence)
	}
}
