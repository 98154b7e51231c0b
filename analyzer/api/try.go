package api

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// maxTryCost is the highest cost of a request in a trial.
const maxTryCost int64 = rules.MaxLimit

// postTry says whether requests would pass.
func (s *Server) postTry(c *call) error {
	var q apiv1.TryRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	callers, trial, err := c.trial(&q)
	if err != nil {
		return err
	}
	var drafts []*fold.Draft
	var at []apiv1.At
	away := make(map[string][]apiv1.Caller) // by address
	for _, caller := range callers {
		err := c.ask(c.backend.partition(caller), func(f *fold.Fold, a analyzer.At) {
			drafts, at = append(drafts, f.View().Draft(caller)), append(at, atOf(a, a.LogTime))
		})
		if notHere(err) {
			var address string
			if c.identity.forwarded {
				return err
			}
			if address, err = c.ownerOf(c.backend.partition(caller)); err == nil {
				away[address] = append(away[address], apiv1.Caller{Kind: caller.Kind, IDBase64: []byte(caller.ID)}) // whatever bytes it has
			}
		}
		if err != nil {
			return err
		}
	}
	answers, err := c.tryAway(&q, away)
	if err != nil {
		return err
	}
	if len(drafts) > 0 {
		o, err := fold.Try(trial, drafts...)
		if err != nil {
			return badBody("/callers", err.Error(), "requests that can be tried")
		}
		for i := range o.Callers {
			o.Callers[i].Caller = c.redactor.caller(o.Callers[i].Caller).Caller()
		}
		answers = append(answers, explain.Try(o, at))
	}
	return c.answer(http.StatusOK, joinTries(answers))
}

// maxTryCallers is how many callers one request may have in a trial.
const maxTryCallers = 16

// trial checks the body of a trial.
func (c *call) trial(q *apiv1.TryRequest) (callers []schemas.Caller, t fold.Trial, err error) {
	t = fold.Trial{Resource: q.Resource, Status: uint16(q.Status), Cost: q.Cost, Count: int(q.Count), At: c.now().UnixNano()}
	switch {
	case len(q.Callers) == 0 || len(q.Callers) > maxTryCallers:
		return nil, t, badBody("/callers", integer(len(q.Callers))+" callers", "1 to "+integer(maxTryCallers))
	case q.Status != 0 && (q.Status < 100 || q.Status > 599):
		return nil, t, badBody("/status", integer(q.Status), "100 to 599")
	case q.Cost < 0 || q.Cost > maxTryCost:
		return nil, t, badBody("/cost", integer(q.Cost), "0 to "+integer(maxTryCost))
	case q.Count < 0 || q.Count > fold.MaxTrial:
		return nil, t, badBody("/count", integer(q.Count), "1 to "+integer(fold.MaxTrial))
	case len(q.Resource) > schemas.MaxResource:
		return nil, t, badBody("/resource", integer(len(q.Resource))+" bytes", integer(schemas.MaxResource)+" bytes at most")
	}
	for i := range q.Callers {
		caller, err := c.server.callerParser.body("/callers/"+integer(i), &q.Callers[i], false)
		if err != nil {
			return nil, t, err
		}
		callers = append(callers, caller)
	}
	if t.Rules, err = c.tryRules(q.Rules); err != nil {
		return nil, t, err
	}
	return callers, t, nil
}

// tryAway asks the owners of other callers.
func (c *call) tryAway(q *apiv1.TryRequest, away map[string][]apiv1.Caller) (answers []apiv1.TryAnswer, err error) {
	for address, callers := range away {
		part := *q
		part.Callers = callers
		body, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		text, err := c.forward(c.Context(), address, nil, body)
		if err != nil {
			return nil, err
		}
		var v apiv1.TryAnswer
		if err := json.Unmarshal(text, &v); err != nil || !c.answersTry(&v, callers) {
			return nil, problem(http.StatusBadGateway, "the owner of a partition answered something else than a trial")
		}
		answers = append(answers, v)
	}
	return answers, nil
}

// answersTry reports whether another analyzer has answered about the callers that it was asked for.
func (c *call) answersTry(v *apiv1.TryAnswer, asked []apiv1.Caller) bool {
	return slices.EqualFunc(v.Callers, asked, func(got apiv1.TryCaller, want apiv1.Caller) bool {
		return got.Caller.Kind == want.Kind && got.At.Partition == c.backend.partition(want.Caller()) && got.Rules != nil
	})
}

// joinTries joins the answers of several analyzers about callers of one request: it passes if it passes for each.
func joinTries(answers []apiv1.TryAnswer) apiv1.TryAnswer {
	v := answers[0]
	for _, a := range answers[1:] {
		if a.Admitted < v.Admitted || a.Closes && !v.Closes && a.Admitted == v.Admitted {
			v.Sentence = a.Sentence
		}
		v.Passes, v.Closes, v.Admitted = v.Passes && a.Passes, v.Closes || a.Closes, min(v.Admitted, a.Admitted)
		v.Callers = append(v.Callers, a.Callers...)
	}
	return v
}

// tryRules returns the rules of a body; nil are those that count.
func (c *call) tryRules(text string) (*rules.Set, error) {
	if text == "" {
		return nil, nil
	}
	set, err := rules.ParseWith("rules", []byte(text), c.server.config.IDs)
	if err != nil {
		return nil, badBody("/rules", messages(err)[0], "a rules file: POST /v1/rules/check says all that is wrong with one")
	}
	return set, nil
}
