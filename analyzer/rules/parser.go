package rules

import (
	"bytes"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
)

// parser reads a rule file.
type parser struct {
	doc *document.Document
	ids schemas.IDs // how ids of callers are made
}

// Parse is ParseWith for ids that are made by the defaults.
func Parse(name string, data []byte) (*Set, error) { return ParseWith(name, data, schemas.IDs{}) }

// ParseWith returns the rules in data. The name is the file's, for messages, and ids says how the ids of callers are made.
// What is wrong with data is returned as document.Errors: as much of it at once as possible, at most 50 errors, in the order
// of the file.
func ParseWith(name string, data []byte, ids schemas.IDs) (*Set, error) {
	p := &parser{doc: document.Parse(name, data, "version and rules"), ids: ids}
	rules := p.rules()
	if err := p.doc.Err(); err != nil {
		return nil, err
	}
	set := newSet(rules, p.doc.Warnings())
	set.text = bytes.Clone(data)
	if ids.Hash != nil {
		text, err := hashText(name, set, p.doc, ids)
		if err != nil {
			return nil, err
		}
		set.text = text
	}
	return set, nil
}

// rules reads the whole file. What it returns is only good where no error was reported.
func (p *parser) rules() []*Rule {
	top, list, ok := p.doc.List("rules")
	if !ok {
		return nil
	}
	if len(list) > MaxRules {
		top.Fail("rules", "got %d, want at most %d", len(list), MaxRules)
		return nil
	}
	if len(list) == 0 {
		top.Warn("rules", "there are none, so no gate will ever close")
	}
	names := make(map[string]int) // the line of the rule of each name
	rules := make([]*Rule, 0, len(list))
	for _, v := range list {
		r, at := p.rule(v), v.Position()
		if first := names[r.Name]; first > 0 {
			p.doc.Errorf(at, "name: %s is taken by the rule in line %d", r.Name, first)
		}
		if r.Name != "" {
			names[r.Name] = at.Line
		}
		rules = append(rules, r)
	}
	return rules
}
