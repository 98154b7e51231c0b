package api

import (
	"errors"
	"net/http"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/rules"
)

func ruleViews(set *rules.Set) []apiv1.Rule {
	list := make([]apiv1.Rule, 0, len(set.Rules))
	for _, r := range set.Rules {
		list = append(list, apiv1.Rule{
			Name: r.Name, Version: hexID(r.Fingerprint()), Callers: r.CallersText(), Match: r.Match.Text(), Limit: r.Limit,
			Measure: r.Measure.String(), Window: r.WindowText(), Close: r.CloseText(), Mode: r.Mode.String(), Predict: r.Predict.String(),
			Overrides: r.OverrideTexts(),
		})
	}
	return list
}

// postRulesCheck says whether a text is a rules file, as the command rules check does.
func (s *Server) postRulesCheck(c *call) error {
	var q apiv1.RulesCheck
	if err := c.decode(&q); err != nil {
		return err
	}
	set, err := rules.ParseWith("rules", []byte(q.Rules), s.config.IDs)
	if err != nil {
		return c.answer(http.StatusOK, apiv1.RulesVerdict{Errors: messages(err)})
	}
	v := apiv1.RulesVerdict{Valid: true, ID: hexID(set.ID()), Rules: ruleViews(set)}
	for _, w := range set.Warnings {
		v.Warnings = append(v.Warnings, w.Error())
	}
	return c.answer(http.StatusOK, v)
}

// messages returns what is wrong with a file, one message for each mistake.
func messages(err error) []string {
	list, ok := errors.AsType[document.Errors](err)
	if !ok {
		return []string{err.Error()}
	}
	texts := make([]string, 0, len(list))
	for _, e := range list {
		texts = append(texts, e.Error())
	}
	return texts
}
