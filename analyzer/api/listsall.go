package api

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
)

// contentLines is the content type of a list in lines.
const contentLines = "application/x-ndjson"

// maxListLine is how long a line of another analyzer may be, in bytes.
const maxListLine = 4 << 20

// busiest lists the busiest callers.
func (c *call) busiest(q *wanted) error {
	list := apiv1.Busy{At: []apiv1.At{}, Sort: q.sort, HalfNS: int64(fold.TalkHalf), Callers: []apiv1.BusyCaller{}}
	var mu sync.Mutex // guards list
	add := func(part *apiv1.Busy) {
		mu.Lock()
		defer mu.Unlock()
		list.At, list.Callers, list.Missing = append(list.At, part.At...), append(list.Callers, part.Callers...), append(list.Missing, part.Missing...)
	}
	missing, err := gather(c, q, func(ctx context.Context, p int) error {
		b, err := c.backend.Lists.Busy(ctx, p)
		if err != nil {
			return err
		}
		part := busyOf(b, q)
		add(&part)
		return nil
	}, func(v *apiv1.Busy, asked []int) bool {
		if !answersAll(asked, v.At, v.Missing) {
			return false
		}
		add(v)
		return true
	})
	if err != nil {
		return err
	}
	list.Missing = sorted(append(list.Missing, missing...))
	slices.SortFunc(list.At, func(a, b apiv1.At) int { return cmp.Compare(a.Partition, b.Partition) })
	slices.SortFunc(list.Callers, func(a, b apiv1.BusyCaller) int {
		order := cmp.Compare(b.Admitted, a.Admitted)
		if q.sort == sortBlocked {
			order = cmp.Compare(b.Blocked, a.Blocked)
		}
		return cmp.Or(order, cmp.Compare(a.Caller.Kind, b.Caller.Kind), cmp.Compare(a.Caller.ID, b.Caller.ID))
	})
	list.Callers = list.Callers[:min(len(list.Callers), q.query.Limit)]
	for i := range list.Callers {
		c.redact(&list.Callers[i].Caller)
	}
	return c.answer(http.StatusOK, list)
}

// busyOf returns one partition's part of the list.
func busyOf(b *lister.Busy, q *wanted) apiv1.Busy {
	part := apiv1.Busy{At: []apiv1.At{atOf(b.At, b.At.LogTime)}}
	first, second := b.Admitted, b.Blocked
	if q.sort == sortBlocked {
		first, second = second, first
	}
	others := make(map[schemas.Caller]*fold.Talker, len(second))
	for i := range second {
		others[schemas.Caller{Kind: second[i].Kind, ID: second[i].ID}] = &second[i]
	}
	for i := range first {
		t := &first[i]
		caller := schemas.Caller{Kind: t.Kind, ID: t.ID}
		if q.query.Kind != "" && q.query.Kind != t.Kind || len(t.ID) < len(q.query.Prefix) || t.ID[:len(q.query.Prefix)] != q.query.Prefix {
			continue
		}
		v := apiv1.BusyCaller{Partition: b.At.Partition, Caller: apiv1.CallerOf(caller), Admitted: t.Rate, AdmittedOver: t.Over}
		if o := others[caller]; o != nil {
			v.Blocked, v.BlockedOver = o.Rate, o.Over
		}
		if q.sort == sortBlocked {
			v.Admitted, v.Blocked, v.AdmittedOver, v.BlockedOver = v.Blocked, v.Admitted, v.BlockedOver, v.AdmittedOver
		}
		part.Callers = append(part.Callers, v)
	}
	return part
}

// all sends all callers, in lines of a piece of one partition each. A line with missing partitions says that they are not in the list,
// or not all of them.
func (c *call) all(q *wanted) error {
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
		if notHere(err) && !c.who.forwarded {
			err = l.relay(p)
		}
		if err != nil && !errors.Is(err, errGone) {
			c.server.logger.Warn("a list in lines lacks a partition", "partition", p, "error", err)
			err = l.send(&apiv1.CallerList{At: []apiv1.At{}, Callers: []apiv1.CallerLine{}, Missing: []int{p}})
		}
		if errors.Is(err, errGone) {
			return nil
		}
	}
	return nil
}

// errGone says that the client is no longer there, or that its token was revoked.
var errGone = errors.New("the client is no longer there")

// lines writes a list in lines.
type lines struct {
	call *call
	rc   *http.ResponseController
	sort string
}

// send writes a line. The time that an answer has begins anew.
func (l *lines) send(part *apiv1.CallerList) error {
	part.Sort, part.Total = l.sort, len(part.Callers)
	for i := range part.Callers {
		l.call.redact(&part.Callers[i].Caller)
	}
	if !l.call.stillAllowed() {
		return errGone
	}
	_ = l.rc.SetWriteDeadline(time.Now().Add(streamWrite)) // not supported: the server's own holds
	if printable.JSON(l.call.w).Encode(part) != nil || l.rc.Flush() != nil {
		return errGone
	}
	return nil
}

// relay passes on the lines of the analyzer that owns a partition, as long as they come.
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
		silent.Stop() // this client's own time is not the owner's
		if err := l.send(&part); err != nil {
			return err
		}
		silent.Reset(forwardTimeout)
	}
	return r.Err()
}
