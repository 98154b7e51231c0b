package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/rules/rulesdiff"
	"github.com/509da70d/floodgate/schemas"
)

// getVersions lists the versions of the rules that analyzers have noted.
func (s *Server) getVersions(c *call) error {
	list := apiv1.RulesVersions{Versions: []apiv1.RulesVersion{}}
	current := c.backend.Analyzer.RulesStatus(c.now()).Set.ID()
	counting := c.partitionsByRules()
	for _, r := range c.backend.Records.Versions() {
		list.Versions = append(list.Versions, apiv1.RulesVersion{
			ID: hexID(r.RulesID), Time: timeOf(r.Time), Author: r.Author, Reason: c.redactor.text(r.Reason), Offset: r.Offset,
			InUse: r.RulesID == current, Partitions: counting[r.RulesID],
		})
	}
	return c.answer(http.StatusOK, list)
}

// partitionsByRules returns the partitions whose owners count by the rules of an id. Partitions that were not heard of lately are not there.
func (c *call) partitionsByRules() map[uint64][]int {
	by := make(map[uint64][]int)
	for p := range c.backend.Partitions {
		if h, ok := c.backend.Board.Heartbeat(p); ok && c.backend.Board.Heard(p, c.now()) {
			by[h.RulesID] = append(by[h.RulesID], p)
		}
	}
	return by
}

// version is a version of the rules as this analyzer can show it.
type version struct {
	id      uint64
	text    []byte
	set     *rules.Set // nil if the text cannot be read
	problem string     // empty if set has the id
}

// getRules shows the rules of this analyzer, or a version that was noted.
func (s *Server) getRules(c *call) error {
	v, err := c.versionOf("version")
	if err != nil {
		return err
	}
	answer := apiv1.Rules{ID: hexID(v.id), Text: string(v.text), Rules: []apiv1.Rule{}, Problem: v.problem}
	if v.set != nil {
		answer.Rules = ruleViews(v.set)
	}
	if v.id == c.backend.Analyzer.RulesStatus(c.now()).Set.ID() {
		brakes := c.brakes()
		for i := range answer.Rules {
			r := &answer.Rules[i]
			r.Effective, r.Brake = effective(r.Name, r.Mode, brakes)
		}
	}
	if c.redactor.on { // patterns and overrides have ids, and what is wrong with a text may repeat it
		answer.Text = ""
		if answer.Problem != "" {
			answer.Problem = "the text is not that of the id"
		}
		for i := range answer.Rules {
			answer.Rules[i].Callers, answer.Rules[i].Overrides = c.redactor.pattern(answer.Rules[i].Callers), nil
		}
	}
	return c.answer(http.StatusOK, answer)
}

// getDiff says what differs between two versions of the rules.
func (s *Server) getDiff(c *call) error {
	from, err := c.comparable("from")
	if err != nil {
		return err
	}
	to, err := c.comparable("to")
	if err != nil {
		return err
	}
	d := rulesdiff.Compare(from, to)
	c.redactor.diff(d)
	return c.answer(http.StatusOK, d)
}

// comparable returns the rules of a version whose text agrees with its id.
func (c *call) comparable(parameter string) (*rules.Set, error) {
	v, err := c.versionOf(parameter)
	if err != nil {
		return nil, err
	}
	if v.problem != "" {
		return nil, wrong(http.StatusNotFound, parameter, hexID(v.id), "a version whose text was noted and can be read")
	}
	return v.set, nil
}

// versionOf returns the version that a parameter names: the rules of this analyzer if it is not there, or one that was noted.
func (c *call) versionOf(parameter string) (version, error) {
	set := c.backend.Analyzer.RulesStatus(c.now()).Set
	current := version{id: set.ID(), text: set.Text(), set: set}
	text, found, err := c.query.optional(parameter)
	if err != nil || !found {
		return current, err
	}
	id, err := strconv.ParseUint(text, 16, 64)
	if err != nil || hexID(id) != text {
		return version{}, badQuery(parameter, text, "16 hexadecimal digits, as rules/versions shows them")
	}
	if id == set.ID() {
		return current, nil
	}
	note, found := c.backend.Records.Version(id)
	if !found {
		return version{}, wrong(http.StatusNotFound, parameter, text, "the id of a version that an analyzer has noted")
	}
	b, err := c.backend.Records.Text(c.Context(), note.Offset)
	if err != nil {
		c.server.logger.Error("cannot read a note of rules", "offset", note.Offset, "error", err)
		return version{}, problem(http.StatusServiceUnavailable, "the text cannot be read from the control topic now")
	}
	return c.parsed(id, b), nil
}

// parsed reads the text of a note, and compares its rules with the id: a writer of the topic can write anything.
func (c *call) parsed(id uint64, text []byte) version {
	v := version{id: id, text: text}
	if len(text) == 0 {
		v.problem = fmt.Sprintf("the file had more than %d bytes, and was noted without its text", schemas.MaxControlText)
		return v
	}
	// A text that was noted has hashes in place of secret ids: it is read without secrets.
	ids := c.server.config.IDs
	ids.Hash = nil
	set, err := rules.ParseWith("version "+hexID(id), text, ids)
	switch {
	case err != nil:
		v.problem = err.Error()
		return v
	case set.ID() != id:
		v.problem = "the text is that of the rules " + hexID(set.ID())
	}
	v.set = set
	return v
}

func ruleViews(set *rules.Set) []apiv1.Rule {
	list := make([]apiv1.Rule, 0, len(set.Rules))
	for _, r := range set.Rules {
		view := apiv1.Rule{
			Name: r.Name, Version: hexID(r.Fingerprint()), Callers: r.CallersText(), Match: r.Match.Text(), Limit: r.Limit,
			Measure: r.Measure.String(), Window: r.WindowText(), Charge: r.ChargeText(), Hold: r.HoldText(), Close: r.CloseText(),
			Mode: r.Mode.String(), Predict: r.Predict.String(), Overrides: r.OverrideTexts(),
		}
		if r.Pool != nil {
			view.Capacity, view.Protect = r.Pool.Capacity, r.Pool.ProtectText()
		}
		list = append(list, view)
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
