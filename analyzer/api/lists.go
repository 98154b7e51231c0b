package api

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
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
	sortCount   = "count"
	sortRate    = "rate"
	sortBlocked = "blocked"
)

// wanted is what the query of a list asks for.
type wanted struct {
	sort       string
	query      lister.Query
	partitions []int
	chosen     bool // the query names partitions
}

// listCursor is the place behind a page.
type listCursor struct {
	Sort, Rule, Kind string
	Value            float64
	ID               []byte
}

// getCallers lists callers of all partitions: those of this analyzer, and by one forwarded request each those of the others.
func (s *Server) getCallers(c *call) error {
	q, err := c.wanted()
	if err != nil {
		return err
	}
	switch {
	case c.wantsAll():
		return c.all(q)
	case q.sort == sortRate || q.sort == sortBlocked:
		return c.busiest(q)
	}
	page := apiv1.CallerList{At: []apiv1.At{}, Sort: q.sort, Callers: []apiv1.CallerLine{}}
	var mu sync.Mutex // guards page
	add := func(part *apiv1.CallerList) {
		mu.Lock()
		defer mu.Unlock()
		page.At, page.Callers, page.Total = append(page.At, part.At...), append(page.Callers, part.Callers...), page.Total+part.Total
		page.Missing = append(page.Missing, part.Missing...)
	}
	missing, err := gather(c, q, func(ctx context.Context, p int) error {
		top, err := c.backend.Lists.Top(ctx, p, q.query)
		if err != nil {
			return err
		}
		part := apiv1.CallerList{At: []apiv1.At{atOf(top.At, top.At.LogTime)}, Total: top.Total}
		for i := range top.Lines {
			part.Callers = append(part.Callers, top.Lines[i].View())
		}
		add(&part)
		return nil
	}, func(v *apiv1.CallerList, asked []int) bool {
		if !answersAll(asked, v.At, v.Missing) {
			return false
		}
		add(v)
		return true
	})
	if err != nil {
		return err
	}
	slices.SortFunc(page.At, func(a, b apiv1.At) int { return cmp.Compare(a.Partition, b.Partition) })
	page.Missing = sorted(append(page.Missing, missing...))
	slices.SortFunc(page.Callers, func(a, b apiv1.CallerLine) int { return compareLines(q.sort, &a, &b) })
	if len(page.Callers) > q.query.Limit {
		page.Callers = page.Callers[:q.query.Limit]
	}
	if n := len(page.Callers); n == q.query.Limit && n > 0 {
		last := &page.Callers[n-1]
		page.Next = s.seal(ofCallers, listCursor{q.sort, last.Rule, last.Caller.Kind, valueOf(q.sort, last), []byte(last.Caller.Caller().ID)})
	}
	for i := range page.Callers {
		c.redact(&page.Callers[i].Caller)
	}
	return c.answer(http.StatusOK, page)
}

// sorted returns partitions in order, each once; nil if there are none.
func sorted(ps []int) []int {
	slices.Sort(ps)
	return slices.Compact(ps)
}

// valueOf returns what a list is ordered by.
func valueOf(sort string, l *apiv1.CallerLine) float64 {
	switch {
	case sort == sortCount:
		return float64(l.Count)
	case l.Unlimited:
		return 0
	}
	return l.Share
}

// compareLines orders lines as package lister does.
func compareLines(sort string, a, b *apiv1.CallerLine) int {
	return cmp.Or(cmp.Compare(valueOf(sort, b), valueOf(sort, a)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Caller.Kind, b.Caller.Kind),
		cmp.Compare(a.Caller.Caller().ID, b.Caller.Caller().ID))
}

// wanted reads the query of a list.
func (c *call) wanted() (*wanted, error) {
	q := &wanted{}
	var err error
	if q.sort, err = c.choice("sort", sortShare, sortShare, sortCount, sortRate, sortBlocked); err != nil {
		return nil, err
	}
	if q.sort == sortCount {
		q.query.Sort = lister.ByCount
	}
	limit, err := c.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return nil, err
	}
	q.query.Limit = int(limit)
	if q.query.Filter, err = c.listFilter(); err != nil {
		return nil, err
	}
	if text, found, err := c.optional("cursor"); err != nil {
		return nil, err
	} else if found {
		var at listCursor
		if err := c.server.unseal(ofCallers, text, &at); err != nil {
			return nil, err
		}
		if at.Sort != q.sort {
			return nil, badQuery("cursor", text, "next of a page with sort="+q.sort)
		}
		q.query.Paged, q.query.After = true, lister.Key{Value: at.Value, Rule: at.Rule, Kind: at.Kind, ID: string(at.ID)}
	}
	return q, c.partitionsOf(q)
}

// gathering is a list that is put together of the answers of several analyzers.
type gathering struct {
	call    *call
	mu      sync.Mutex
	away    map[string][]int // guarded by mu: partitions of other analyzers, by address
	missing []int            // guarded by mu: partitions that have not answered
	why     error            // guarded by mu: the first reason
}

func (g *gathering) miss(why error, ps ...int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.missing = append(g.missing, ps...); g.why == nil {
		g.why = why
	}
}

// one asks for one partition here, or finds who owns it.
func (g *gathering) one(ctx context.Context, p int, here func(ctx context.Context, p int) error) {
	err := here(ctx, p)
	var address string
	if notHere(err) && !g.call.who.forwarded {
		address, err = g.call.ownerOf(p)
	}
	if err != nil {
		g.miss(err, p)
		return
	}
	if address != "" {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.away[address] = append(g.away[address], p)
	}
}

// answersAll reports whether an answer of another analyzer is about the partitions that it was asked for, and no others.
func answersAll(asked []int, at []apiv1.At, missing []int) bool {
	got := slices.Clone(missing)
	for i := range at {
		got = append(got, at[i].Partition)
	}
	slices.Sort(got)
	return slices.Equal(got, asked)
}

// gather calls here for each partition of this analyzer, and lets the owners of the others answer the same query: there gets what
// they answer, and reports whether it is an answer. It returns the partitions that have not answered, and an error if none has.
func gather[T any](c *call, q *wanted, here func(ctx context.Context, p int) error, there func(v *T, asked []int) bool) (missing []int, err error) {
	g := &gathering{call: c, away: make(map[string][]int)}
	ctx, cancel := context.WithTimeout(c.Context(), forwardTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for _, p := range q.partitions {
		asked.Go(func() { g.one(ctx, p, here) })
	}
	asked.Wait()
	for address, ps := range g.away {
		slices.Sort(ps)
		asked.Go(func() {
			body, err := c.forward(ctx, address, c.queryFor(ps), nil)
			var v T
			if err == nil && (json.Unmarshal(body, &v) != nil || !there(&v, ps)) {
				err = problem(http.StatusBadGateway, "the owner of a partition answered something that is not a list of it")
			}
			if err != nil {
				g.miss(err, ps...)
			}
		})
	}
	asked.Wait()
	if len(g.missing) < len(q.partitions) {
		return g.missing, nil
	}
	return g.missing, g.why
}

// queryFor returns the query of this call for some partitions.
func (c *call) queryFor(partitions []int) url.Values {
	values := make(url.Values)
	maps.Copy(values, c.values)
	values.Del("partition")
	for _, p := range partitions {
		values.Add("partition", integer(p))
	}
	return values
}

// partitionsOf reads which partitions a list is of.
func (c *call) partitionsOf(q *wanted) error {
	for _, text := range c.values["partition"] {
		p, err := strconv.Atoi(text)
		if err != nil || p < 0 || p >= c.backend.Partitions {
			return badQuery("partition", text, "a number from 0 to "+integer(c.backend.Partitions-1))
		}
		q.partitions, q.chosen = append(q.partitions, p), true
	}
	if !q.chosen {
		for p := range c.backend.Partitions {
			q.partitions = append(q.partitions, p)
		}
	}
	q.partitions = sorted(q.partitions)
	return nil
}

func (c *call) listFilter() (f lister.Filter, err error) {
	if f.Rule, _, err = c.optional("rule"); err != nil {
		return f, err
	}
	if err := c.checkListRule(f.Rule); err != nil {
		return f, err
	}
	if f.Kind, _, err = c.optional("kind"); err != nil {
		return f, err
	}
	prefix, found, err := c.optional("prefix")
	if err != nil {
		return f, err
	}
	if found && c.who.redact {
		return f, problem(http.StatusForbidden, "ids are shown as hashes: they have no prefix")
	}
	if len(prefix) > schemas.MaxCallerID {
		return f, badQuery("prefix", prefix, integer(schemas.MaxCallerID)+" bytes at most")
	}
	f.Prefix = prefix
	text, found, err := c.optional("min_share")
	if err != nil || !found {
		return f, err
	}
	if f.MinShare, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(f.MinShare) || math.IsInf(f.MinShare, 0) || f.MinShare < 0 {
		return f, badQuery("min_share", text, "a share of the limit, such as 0.8")
	}
	return f, nil
}

// checkListRule refuses a rule that does not exist: the list of a mistaken name would be empty, and look as if nobody were near a
// limit. A forwarded list is taken as it is, since another analyzer may count by another file for a while.
func (c *call) checkListRule(name string) error {
	if name == "" || c.who.forwarded {
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
