package api

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/schemas"
)

// Lists makes lists of the partitions of this analyzer. *lister.Lister is one.
type Lists interface {
	Top(ctx context.Context, partition int, q lister.Query) (*lister.Page, error)
	Busy(ctx context.Context, partition int) (*lister.Busy, error)
	Each(ctx context.Context, partition int, filter lister.Filter, yield func(piece []lister.Line, at analyzer.At) error) error
}

// Sorts of lists.
const (
	sortShare   = "share"
	sortCount   = apiv1.SortCount
	sortRate    = "rate"
	sortBlocked = "blocked"
)

// listRequest is what the query of a list asks for.
type listRequest struct {
	sort       string
	query      lister.Query
	partitions []int
}

// listCursor is the place behind a page.
type listCursor struct {
	Sort, Rule, Kind string
	Value            float64
	ID               []byte
}

// getCallers lists callers of all partitions: those of this analyzer, and by one forwarded request each those of the others.
func (s *Server) getCallers(c *call) error {
	q, err := c.listRequest()
	if err != nil {
		return err
	}
	switch {
	case c.acceptsLines():
		return c.sendLines(q)
	case q.sort == sortRate || q.sort == sortBlocked:
		return c.busiest(q)
	}
	page := apiv1.CallerList{At: []apiv1.At{}, Sort: q.sort, Callers: []apiv1.CallerLine{}}
	missing, err := gather(c, q.partitions, func(ctx context.Context, p int) (*apiv1.CallerList, error) {
		top, err := c.backend.Lists.Top(ctx, p, q.query)
		if err != nil {
			return nil, err
		}
		part := &apiv1.CallerList{At: []apiv1.At{atOf(top.At, top.At.LogTime)}, Total: top.Total}
		for i := range top.Lines {
			part.Callers = append(part.Callers, top.Lines[i].View())
		}
		return part, nil
	}, func(part *apiv1.CallerList, asked []int) bool {
		if !answersAll(asked, part.At, part.Missing) {
			return false
		}
		page.At, page.Callers, page.Total = append(page.At, part.At...), append(page.Callers, part.Callers...), page.Total+part.Total
		page.Missing = append(page.Missing, part.Missing...)
		return true
	})
	if err != nil {
		return err
	}
	slices.SortFunc(page.At, comparePartitions)
	page.Missing = sorted(append(page.Missing, missing...))
	slices.SortFunc(page.Callers, func(a, b apiv1.CallerLine) int { return a.Compare(&b, q.sort) })
	if len(page.Callers) > q.query.Limit {
		page.Callers = page.Callers[:q.query.Limit]
	}
	if n := len(page.Callers); n == q.query.Limit && n > 0 {
		last := &page.Callers[n-1]
		page.Next = s.cursors.seal(callerPages, listCursor{q.sort, last.Rule, last.Caller.Kind, last.Value(q.sort), []byte(last.Caller.Caller().ID)})
	}
	for i := range page.Callers {
		c.redactor.replace(&page.Callers[i].Caller)
	}
	return c.answer(http.StatusOK, page)
}

// sorted returns partitions in order, each once; nil if there are none.
func sorted(ps []int) []int {
	slices.Sort(ps)
	return slices.Compact(ps)
}

// listRequest reads the query of a list.
func (c *call) listRequest() (*listRequest, error) {
	q := &listRequest{}
	var err error
	if q.sort, err = c.query.choice("sort", sortShare, sortShare, sortCount, sortRate, sortBlocked); err != nil {
		return nil, err
	}
	q.query.ByCount = q.sort == sortCount
	limit, err := c.query.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return nil, err
	}
	q.query.Limit = int(limit)
	if q.query.Filter, err = c.listFilter(); err != nil {
		return nil, err
	}
	var at listCursor
	text, found, err := c.cursor(callerPages, &at)
	switch {
	case err != nil:
		return nil, err
	case found && at.Sort != q.sort:
		return nil, badQuery("cursor", text, "next of a page with sort="+q.sort)
	case found:
		q.query.Paged, q.query.After = true, lister.Key{Value: at.Value, Rule: at.Rule, Kind: at.Kind, ID: string(at.ID)}
	}
	q.partitions, err = c.partitions()
	return q, err
}

// gathering is a list that is put together of the answers of several analyzers.
type gathering[T any] struct {
	call *call
	add  func(part *T, asked []int) bool // called by one goroutine at a time

	mu        sync.Mutex
	elsewhere map[string][]int // guarded by mu: partitions of other analyzers, by address
	missing   []int            // guarded by mu: partitions that have not answered
	why       error            // guarded by mu: the first reason
}

// gather calls here for each partition. It forwards the request once to each other analyzer that owns some of them. add gets each part
// with the partitions that were asked for, and reports whether the part answers the request. A nil part is not added. gather returns the
// partitions that have not answered, and an error if none has.
func gather[T any](c *call, partitions []int, here func(ctx context.Context, p int) (*T, error), add func(part *T, asked []int) bool) (missing []int, err error) {
	g := &gathering[T]{call: c, add: add, elsewhere: make(map[string][]int)}
	ctx, cancel := context.WithTimeout(c.Context(), forwardTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for _, p := range partitions {
		asked.Go(func() {
			part, err := here(ctx, p)
			g.answered(p, part, err)
		})
	}
	asked.Wait()
	for address, ps := range g.elsewhere {
		slices.Sort(ps)
		asked.Go(func() { g.forward(ctx, address, ps) })
	}
	asked.Wait()
	if len(g.missing) < len(partitions) {
		return g.missing, nil
	}
	return g.missing, g.why
}

// answered takes the answer of this analyzer about a partition. If another analyzer owns the partition, it notes the owner's address.
func (g *gathering[T]) answered(p int, part *T, err error) {
	var address string
	if notHere(err) && !g.call.identity.forwarded {
		address, err = g.call.ownerOf(p)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		g.miss(err, p)
	case address != "":
		g.elsewhere[address] = append(g.elsewhere[address], p)
	case part != nil:
		g.add(part, []int{p})
	}
}

// forward asks the analyzer at an address for its partitions.
func (g *gathering[T]) forward(ctx context.Context, address string, ps []int) {
	body, err := g.call.forward(ctx, address, g.call.queryFor(ps), nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	part := new(T)
	if err == nil && (json.Unmarshal(body, part) != nil || !g.add(part, ps)) {
		err = problem(http.StatusBadGateway, "the owner of a partition answered something that is not a list of it")
	}
	if err != nil {
		g.miss(err, ps...)
	}
}

// miss notes that partitions have not answered. The caller has the lock.
func (g *gathering[T]) miss(why error, ps ...int) {
	if g.missing = append(g.missing, ps...); g.why == nil {
		g.why = why
	}
}

// comparePartitions orders what several analyzers say by partition.
func comparePartitions(a, b apiv1.At) int { return cmp.Compare(a.Partition, b.Partition) }

// answersAll reports whether an answer of another analyzer is about the partitions that it was asked for, and no others.
func answersAll(asked []int, at []apiv1.At, missing []int) bool {
	got := slices.Clone(missing)
	for i := range at {
		got = append(got, at[i].Partition)
	}
	slices.Sort(got)
	return slices.Equal(got, asked)
}

// queryFor returns the query of this call for some partitions.
func (c *call) queryFor(partitions []int) url.Values {
	values := make(url.Values)
	maps.Copy(values, c.query)
	values.Del("partition")
	for _, p := range partitions {
		values.Add("partition", integer(p))
	}
	return values
}

// partitions returns the partitions that a list is of: those in the query, or all.
func (c *call) partitions() (ps []int, err error) {
	for _, text := range c.query["partition"] {
		p, err := strconv.Atoi(text)
		if err != nil || p < 0 || p >= c.backend.Partitions {
			return nil, badQuery("partition", text, "a number from 0 to "+integer(c.backend.Partitions-1))
		}
		ps = append(ps, p)
	}
	if ps == nil {
		for p := range c.backend.Partitions {
			ps = append(ps, p)
		}
	}
	return sorted(ps), nil
}

// listFilter returns which callers a list has.
func (c *call) listFilter() (f lister.Filter, err error) {
	if f.Rule, _, err = c.query.optional("rule"); err != nil {
		return f, err
	}
	if err := c.checkListRule(f.Rule); err != nil {
		return f, err
	}
	if f.Kind, _, err = c.query.optional("kind"); err != nil {
		return f, err
	}
	prefix, found, err := c.query.optional("prefix")
	if err != nil {
		return f, err
	}
	if found && c.redactor.on {
		return f, problem(http.StatusForbidden, "ids are shown as hashes: they have no prefix")
	}
	if len(prefix) > schemas.MaxCallerID {
		return f, badQuery("prefix", prefix, integer(schemas.MaxCallerID)+" bytes at most")
	}
	f.Prefix = prefix
	if f.Network, err = c.listNetwork(); err != nil {
		return f, err
	}
	text, found, err := c.query.optional("min_share")
	if err != nil || !found {
		return f, err
	}
	if f.MinShare, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(f.MinShare) || math.IsInf(f.MinShare, 0) || f.MinShare < 0 {
		return f, badQuery("min_share", text, "a share of the limit, such as 0.8")
	}
	return f, nil
}

// listNetwork returns the network whose callers a list has, or the zero Prefix for all callers.
func (c *call) listNetwork() (network netip.Prefix, err error) {
	text, found, err := c.query.optional("network")
	switch {
	case err != nil || !found:
		return network, err
	case c.redactor.on:
		return network, problem(http.StatusForbidden, "ids are shown as hashes: they are in no network")
	}
	if network, err = document.ParseNetwork(text); err != nil {
		return network, badQuery("network", text, "a network with its first address, such as 198.51.100.0/24")
	}
	return network, nil
}

// checkListRule refuses a rule that does not exist. Otherwise the list of a mistaken name would be empty, as if nobody were near a limit.
// It accepts any rule of a forwarded request, because another analyzer may count by another file for a while.
func (c *call) checkListRule(name string) error {
	if name == "" || c.identity.forwarded {
		return nil
	}
	var names []string
	for _, rule := range c.backend.Analyzer.RulesStatus(c.now()).Set.Rules {
		if rule.Name == name {
			return nil
		}
		if len(names) < 20 {
			names = append(names, rule.Name)
		}
	}
	return badQuery("rule", name, "one of "+strings.Join(names, ", "))
}
