package rules

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
)

// Limits on rule files.
const (
	MaxRules     = 1000   // in a file; document.MaxFile bounds its bytes
	maxOverrides = 10_000 // of a rule
	MaxLimit     = document.MaxInteger
	maxName      = 64 // bytes of a rule's name
	maxGlobs     = 64 // resources or statuses that a rule matches
	maxWarns     = 16 // warnings of a rule
)

// Set is the rules of a file. It does not change: any number of goroutines may use one. The zero value has no rules.
type Set struct {
	Rules    []*Rule
	Warnings []*document.Error // of what is allowed but seldom meant, in the order of the file
	kinds    map[string][]*Rule
	pools    []*Rule
	id       uint64
	text     []byte
}

// newSet returns the set of the given rules, each with its fingerprint.
func newSet(rules []*Rule, warnings []*document.Error) *Set {
	s := &Set{Rules: rules, Warnings: warnings, kinds: make(map[string][]*Rule)}
	h := fnv.New64a()
	for _, r := range rules {
		s.kinds[r.Kind] = append(s.kinds[r.Kind], r)
		if r.Pool != nil {
			s.pools = append(s.pools, r)
		}
		h.Write(binary.BigEndian.AppendUint64(nil, r.Fingerprint()))
	}
	s.id = h.Sum64()
	return s
}

// ID identifies what the rules say, in their order. It is the same in every process. Comments and layout do not change it.
func (s *Set) ID() uint64 { return s.id }

// Text returns the text of the rules: Parse makes the same rules of it. It is the file's text, except where ids are hashed with
// a secret: then it is a text without comments, whose overrides have hashes in place of ids. It must not be changed.
func (s *Set) Text() []byte { return s.text }

// InShadow returns the same rules, each in mode shadow and without a text. Such a rule counts as if it were alone and its
// decisions took no time.
func (s *Set) InShadow() *Set {
	list := make([]*Rule, len(s.Rules))
	for i, r := range s.Rules {
		shadow := *r
		shadow.Mode = schemas.ModeShadow
		list[i] = &shadow
	}
	return newSet(list, nil)
}

// WithShadow returns the same rules, those in mode shadow that shadow says, without a text. It returns s if that changes no rule.
// A rule in shadow keeps its Fingerprint and its Shape, and rules that do not change are the same pointers.
func (s *Set) WithShadow(shadow func(rule string) bool) *Set {
	var list []*Rule
	for i, r := range s.Rules {
		if r.Mode == schemas.ModeShadow || !shadow(r.Name) {
			continue
		}
		if list == nil {
			list = slices.Clone(s.Rules)
		}
		in := *r
		in.Mode = schemas.ModeShadow
		list[i] = &in
	}
	if list == nil {
		return s
	}
	return newSet(list, nil)
}

// ForKind returns the rules about callers of a kind, in the order of the file. The slice must not be changed.
func (s *Set) ForKind(kind string) []*Rule { return s.kinds[kind] }

// Load is LoadWith for ids that are made by the defaults.
func Load(path string) (*Set, error) { return LoadWith(path, schemas.IDs{}) }

// LoadWith parses the file at path: see ParseWith. Errors of the file system are wrapped; errors in the file are
// document.Errors.
func LoadWith(path string, ids schemas.IDs) (*Set, error) {
	data, err := document.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open rules: %w", err)
	}
	return ParseWith(path, data, ids)
}
