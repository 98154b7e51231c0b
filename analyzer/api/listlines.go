package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// contentLines is the content type of a list in lines.
const contentLines = "application/x-ndjson"

// maxListLine is how long a line of another analyzer may be, in bytes.
const maxListLine = 4 << 20

// sendLines sends all callers. Each line is a piece of one partition. A line with missing partitions says that the list lacks callers of
// these.
func (c *call) sendLines(q *listRequest) error {
	c.status = http.StatusOK
	c.w.Header().Set("Content-Type", contentLines)
	c.w.WriteHeader(http.StatusOK)
	l := lines{call: c, rc: http.NewResponseController(c.w), sort: q.sort}
	for _, p := range q.partitions {
		err := c.backend.Lists.Each(c.Context(), p, q.query.Filter, func(piece []lister.Line, at analyzer.At) error {
			part := apiv1.CallerList{At: []apiv1.At{atOf(at, at.LogTime)}, Callers: make([]apiv1.CallerLine, 0, len(piece))}
			for i := range piece {
				part.Callers = append(part.Callers, piece[i].View())
			}
			return l.send(&part)
		})
		if notHere(err) && !c.identity.forwarded {
			err = l.relay(p)
		}
		if err != nil && !errors.Is(err, errClientLeft) {
			c.server.logger.Warn("a list in lines lacks a partition", "partition", p, "error", err)
			err = l.send(&apiv1.CallerList{At: []apiv1.At{}, Callers: []apiv1.CallerLine{}, Missing: []int{p}})
		}
		if errors.Is(err, errClientLeft) {
			return nil
		}
	}
	return nil
}

// errClientLeft says that the client is no longer there, or that its token was revoked.
var errClientLeft = errors.New("the client is no longer there")

// lines writes a list in lines.
type lines struct {
	call *call
	rc   *http.ResponseController
	sort string
}

// send writes a line, and extends the write deadline.
func (l *lines) send(part *apiv1.CallerList) error {
	part.Sort, part.Total = l.sort, len(part.Callers)
	for i := range part.Callers {
		l.call.redactor.replace(&part.Callers[i].Caller)
	}
	if !l.call.stillAllowed() {
		return errClientLeft
	}
	_ = l.rc.SetWriteDeadline(time.Now().Add(streamWrite)) // not supported: the server's own holds
	if printable.JSON(l.call.w).Encode(part) != nil || l.rc.Flush() != nil {
		return errClientLeft
	}
	return nil
}

// relay passes on the lines of the analyzer that owns a partition. It gives up when none comes for a while.
func (l *lines) relay(p int) error {
	address, err := l.call.ownerOf(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(l.call.Context())
	defer cancel()
	silent := time.AfterFunc(forwardTimeout, cancel)
	defer silent.Stop()
	resp, err := l.call.send(ctx, address, l.call.queryFor([]int{p}), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return badForward(resp.StatusCode, nil)
	}
	r := bufio.NewScanner(resp.Body)
	r.Buffer(nil, maxListLine)
	for r.Scan() {
		var part apiv1.CallerList
		if err := json.Unmarshal(r.Bytes(), &part); err != nil {
			return err
		}
		if part.At == nil || part.Callers == nil || !answersAll([]int{p}, part.At, part.Missing) {
			return errors.New("the owner of the partition sent a line that is not a list of it")
		}
		silent.Stop() // the time that this client takes to read is not the owner's
		if err := l.send(&part); err != nil {
			return err
		}
		silent.Reset(forwardTimeout)
	}
	return r.Err()
}

// acceptsLines reports whether the client asks for the whole list, a piece in each line.
func (c *call) acceptsLines() bool {
	for part := range strings.SplitSeq(c.Header.Get("Accept"), ",") {
		if kind, _, err := mime.ParseMediaType(strings.TrimSpace(part)); err == nil && kind == contentLines {
			return true
		}
	}
	return false
}
