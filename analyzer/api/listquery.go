package api

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/schemas"
)

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
