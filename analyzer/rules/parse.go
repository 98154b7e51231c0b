package rules

import (
	"bytes"

	"github.com/goccy/go-yaml/ast"
)

// Parse returns the rules in data; name is the file's, for messages. What is wrong with it is returned as Errors: all of
// it at once as far as possible, at most 50, in the order of the file.
func Parse(name string, data []byte) (*Set, error) {
	s := &source{file: name}
	rules := s.rules(data)
	if len(s.errs) > 0 {
		return nil, Errors(sorted(s.errs))
	}
	set := newSet(rules, s.warnings)
	set.text = bytes.Clone(data)
	return set, nil
}

// rules reads the whole file. What it returns is only good without errors.
func (s *source) rules(data []byte) []*Rule {
	root := s.document(data)
	if root == nil {
		return nil
	}
	f, ok := s.mapping("file", root, "version", "rules")
	if !ok {
		return nil
	}
	if !f.has("version") {
		f.fail("version", "missing, want 1")
	} else if v, ok := integerOf(f.nodes["version"]); !ok || v != 1 {
		f.wrong("version", "1")
	}
	if !f.has("rules") {
		f.fail("rules", "missing, want a list")
		return nil
	}
	list, ok := f.nodes["rules"].(*ast.SequenceNode)
	if !ok {
		f.wrong("rules", "a list")
		return nil
	}
	if len(list.Values) > MaxRules {
		f.fail("rules", "got %d, want at most %d", len(list.Values), MaxRules)
		return nil
	}
	if len(list.Values) == 0 {
		s.warnf(position(list), "rules: there are none, so no gate will ever close")
	}
	names := make(map[string]int)
	rules := make([]*Rule, 0, len(list.Values))
	for _, n := range list.Values {
		r, at := s.rule(n), position(n)
		if first := names[r.Name]; first > 0 {
			s.errorf(at, "name: %s is taken by the rule in line %d", r.Name, first)
		}
		if r.Name != "" {
			names[r.Name] = at.Line
		}
		rules = append(rules, r)
	}
	return rules
}
