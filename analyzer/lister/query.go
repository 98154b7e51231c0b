package lister

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// maxLines is how many lines a page has at most.
const maxLines = 1000

// Filter says which rows are listed. The zero value lists all.
type Filter struct {
	Rule     string  // only rows of this rule; empty: of all
	Kind     string  // only callers of this kind; empty: of all
	Prefix   string  // only ids that begin so
	MinShare float64 // only rows with at least this share of their capacity

	Network netip.Prefix // only callers of kinds ip and net in this network; the zero Prefix: all
}

// holds reports whether a row is listed.
func (f *Filter) holds(r *fold.Row, share float64) bool {
	return (f.Rule == "" || f.Rule == r.Rule.Name) && share >= f.MinShare && f.Names(r.Rule.Kind, r.ID)
}

// Names reports whether a caller is listed, by its kind and id alone.
func (f *Filter) Names(kind, id string) bool {
	return (f.Kind == "" || f.Kind == kind) && strings.HasPrefix(id, f.Prefix) && (!f.Network.IsValid() || inNetwork(f.Network, kind, id))
}

// inNetwork reports whether a caller is an address or a network in a network.
func inNetwork(network netip.Prefix, kind, id string) bool {
	switch kind {
	case schemas.KindIP:
		addr, err := netip.ParseAddr(id)
		return err == nil && network.Contains(addr)
	case schemas.KindNet:
		p, err := netip.ParsePrefix(id)
		return err == nil && network.Bits() <= p.Bits() && network.Contains(p.Addr())
	}
	return false
}

// Key is the place of a line in its order. Two rows have different ones.
type Key struct {
	Value float64 // what the list is ordered by
	Rule  string
	Kind  string
	ID    string
}

// compare orders keys as lists do: it is negative if k comes before o.
func (k *Key) compare(o *Key) int {
	return cmp.Or(cmp.Compare(o.Value, k.Value), strings.Compare(k.Rule, o.Rule), strings.Compare(k.Kind, o.Kind), strings.Compare(k.ID, o.ID))
}

// Query asks for a page of a list.
type Query struct {
	Filter

	ByCount bool // the largest weight in the window comes first; else the largest share of the capacity, and unlimited callers last
	Limit   int  // lines: less than 1 is 1, and more than 1000 is 1000
	Paged   bool // the page begins behind After, which is a line's Key
	After   Key

	busiest bool // Busy asks, and not Top
}

// Line is one rule and caller of a list.
type Line struct {
	Key

	Partition  int
	Offset     int64 // the line is the truth at this offset of requests[p]
	Now        int64 // Unix nanoseconds: the time of the window
	Definition *rules.Rule
	Total      int64
	Limit      int64
	Share      float64 // of the capacity
	Unlimited  bool
	LowerBound bool
	Closure    policy.Closure
}

// View returns the line as the API writes it.
func (l *Line) View() apiv1.CallerLine {
	v := apiv1.CallerLine{
		Partition: l.Partition, Offset: l.Offset, Rule: l.Rule, Caller: event.CallerOf(schemas.Caller{Kind: l.Kind, ID: l.ID}),
		Mode: l.Definition.Mode.String(), Count: l.Total, Limit: l.Limit, Unlimited: l.Unlimited, Share: l.Share, LowerBound: l.LowerBound,
		Closed: l.Closure.ClosedAt(l.Now),
	}
	if v.Closed {
		v.CloseAt, v.Until, v.Nth = utc(l.Closure.CloseAt), utc(l.Closure.Until), l.Closure.Nth
	}
	return v
}
