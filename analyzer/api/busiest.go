package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/busiest"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// busiest lists the busiest callers.
func (c *call) busiest(q *listRequest) error {
	list := apiv1.Busy{At: []apiv1.At{}, Sort: q.sort, HalfNS: int64(busiest.HalfLife), Callers: []apiv1.BusyCaller{}}
	missing, err := gather(c, q.partitions, func(ctx context.Context, p int) (*apiv1.Busy, error) {
		b, err := c.backend.Lists.Busy(ctx, p)
		if err != nil {
			return nil, err
		}
		return busyOf(b, q), nil
	}, func(part *apiv1.Busy, asked []int) bool {
		if !answersAll(asked, part.At, part.Missing) {
			return false
		}
		list.At, list.Callers, list.Missing = append(list.At, part.At...), append(list.Callers, part.Callers...), append(list.Missing, part.Missing...)
		return true
	})
	if err != nil {
		return err
	}
	list.Missing = sorted(append(list.Missing, missing...))
	slices.SortFunc(list.At, comparePartitions)
	slices.SortFunc(list.Callers, func(a, b apiv1.BusyCaller) int {
		order := cmp.Compare(b.Admitted, a.Admitted)
		if q.sort == sortBlocked {
			order = cmp.Compare(b.Blocked, a.Blocked)
		}
		return cmp.Or(order, cmp.Compare(a.Caller.Kind, b.Caller.Kind), cmp.Compare(a.Caller.ID, b.Caller.ID))
	})
	list.Callers = list.Callers[:min(len(list.Callers), q.query.Limit)]
	for i := range list.Callers {
		c.redactor.replace(&list.Callers[i].Caller)
	}
	return c.answer(http.StatusOK, list)
}

// busyOf returns one partition's part of the list.
func busyOf(b *lister.Busy, q *listRequest) *apiv1.Busy {
	part := &apiv1.Busy{At: []apiv1.At{atOf(b.At, b.At.LogTime)}}
	first, second := b.Admitted, b.Blocked
	if q.sort == sortBlocked {
		first, second = second, first
	}
	others := make(map[schemas.Caller]*busiest.Caller, len(second.Callers))
	for i := range second.Callers {
		o := &second.Callers[i]
		others[schemas.Caller{Kind: o.Kind, ID: o.ID}] = o
	}
	for i := range first.Callers {
		t := &first.Callers[i]
		caller := schemas.Caller{Kind: t.Kind, ID: t.ID}
		if !q.query.Names(t.Kind, t.ID) {
			continue
		}
		v := apiv1.BusyCaller{Partition: b.At.Partition, Caller: event.CallerOf(caller), Admitted: t.Rate, AdmittedError: t.Over + t.Error, BlockedError: second.Absent}
		if o := others[caller]; o != nil {
			v.Blocked, v.BlockedError = o.Rate, o.Over+o.Error
		}
		if q.sort == sortBlocked {
			v.Admitted, v.Blocked, v.AdmittedError, v.BlockedError = v.Blocked, v.Admitted, v.BlockedError, v.AdmittedError
		}
		part.Callers = append(part.Callers, v)
	}
	return part
}
