package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// askTimeout is how long a question waits for an owner of this analyzer.
const askTimeout = 2 * time.Second

// ask asks the owner of a partition, if it is here.
func (c *call) ask(partition int, f func(*fold.Fold, analyzer.At)) error {
	ctx, cancel := context.WithTimeout(c.Context(), askTimeout)
	defer cancel()
	return c.backend.Analyzer.Ask(ctx, partition, f)
}

// notHere reports whether an error of ask says that another analyzer owns the partition.
func notHere(err error) bool {
	_, ok := errors.AsType[*analyzer.NotOwnerError](err)
	return ok
}

// atOf returns an At as the API shows it.
func atOf(at analyzer.At, logTime int64) apiv1.At {
	return apiv1.At{Partition: at.Partition, Epoch: at.Epoch, Offset: at.Offset, Control: at.Control, LogTime: timeOf(logTime)}
}

// callerLook copies what the owner of a partition holds about a caller.
func (c *call) callerLook(caller schemas.Caller) (callerLook *fold.Look, at apiv1.At, err error) {
	now := c.now().UnixNano()
	err = c.ask(c.backend.partition(caller), func(f *fold.Fold, a analyzer.At) {
		view := f.View()
		l := view.Look(caller, now)
		view.NoteLacks(&l)
		callerLook, at = &l, atOf(a, a.LogTime)
	})
	return callerLook, at, err
}

// getCaller says what is counted of a caller.
func (s *Server) getCaller(c *call) error {
	caller, err := c.caller()
	if err != nil {
		return err
	}
	look, at, err := c.callerLook(caller)
	if notHere(err) {
		return forwardAnswer(c, caller, func(v *apiv1.CallerState, partition int) bool {
			return v.At.Partition == partition && v.Caller.Kind == caller.Kind && v.Rules != nil
		})
	}
	if err != nil {
		return err
	}
	c.redactor.look(look)
	v := explain.Caller(look, at)
	return c.answer(http.StatusOK, v)
}

// getExplain says why a caller is closed, or why not.
func (s *Server) getExplain(c *call) error {
	caller, err := c.caller()
	if err != nil {
		return err
	}
	look, at, err := c.callerLook(caller)
	if notHere(err) {
		err = forwardAnswer(c, caller, func(v *apiv1.Explanation, partition int) bool {
			return v.Partition.Partition == partition && v.Caller.Kind == caller.Kind && v.Verdict != "" && v.Rules != nil && v.Decisions != nil
		})
		if c.status != 0 || c.identity.forwarded {
			return err
		}
	}
	if err != nil && s.problemFor(err).Status != http.StatusServiceUnavailable {
		return err
	}
	// Nobody can be asked: what gates hold is known all the same.
	in := explain.Input{
		Caller: caller, Now: c.now().UnixNano(), Look: look, At: at, Decisions: c.backend.Board.Of(caller),
		Partition: c.partitionView(c.backend.partition(caller), c.backend.Analyzer.Stats()),
	}
	c.redactor.input(&in)
	v := explain.Explain(&in)
	c.redactor.patterns(&v, look)
	v.Networks = c.networksOf(caller)
	return c.answer(http.StatusOK, v)
}

// networksOf returns the callers of kinds net and asn that an address is in, and those of kinds net_route and asn_route whose route a rule
// names, if rules count them, and if the reader may see ids.
func (c *call) networksOf(caller schemas.Caller) (list []apiv1.Caller) {
	addr, err := netip.ParseAddr(caller.ID)
	if err != nil || caller.Kind != schemas.KindIP || c.redactor.on {
		return nil
	}
	ids := c.server.config.IDs
	if addr.Is6() && ids.Prefix() < ids.Net(addr).Bits() {
		return nil // the caller is several networks
	}
	var found []schemas.Caller
	add := func(kind, id string) {
		if of := (schemas.Caller{Kind: kind, ID: id}); !slices.Contains(found, of) {
			found = append(found, of)
			list = append(list, event.CallerOf(of))
		}
	}
	for _, kind := range []string{schemas.KindNet, schemas.KindASN} {
		id := ids.AddrID(kind, addr)
		for _, r := range c.backend.Analyzer.RulesStatus(c.now()).Set.Rules {
			switch {
			case id == "":
			case r.Kind == kind:
				add(kind, id)
			case r.Kind == kind+"_route":
				for _, route := range r.Match.Resources {
					if text := route.String(); strings.Contains(text, " ") && !strings.Contains(text, "*") { // one route, with its method
						add(r.Kind, id+"|"+text)
					}
				}
			}
		}
	}
	return list
}

// forwardAnswer asks the analyzer that owns the caller's partition, and passes its answer on. answers reports whether the answer is about
// this caller.
func forwardAnswer[T any](c *call, caller schemas.Caller, answers func(v *T, partition int) bool) error {
	partition := c.backend.partition(caller)
	if c.identity.forwarded {
		return problem(http.StatusLoopDetected, "a forwarded request is not forwarded again: this analyzer does not own partition %d", partition)
	}
	address, err := c.ownerOf(partition)
	if err != nil {
		return err
	}
	body, err := c.forward(c.Context(), address, url.Values{"caller": {caller.String()}}, nil)
	if err != nil {
		return err
	}
	var v T
	if json.Unmarshal(body, &v) != nil || !answers(&v, partition) {
		return problem(http.StatusBadGateway, "the owner of the partition answered something else than what was asked")
	}
	return c.answer(http.StatusOK, v)
}
