package rules

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// Limits on rule files.
const (
	MaxFile      = 1 << 20 // bytes
	MaxRules     = 1000    // in a file
	MaxOverrides = 10_000  // of a rule
	MaxLimit     = 1e17
	MaxLogLimit  = 10_000 // of algorithm log, which keeps so many entries for a caller
	MaxName      = 64     // bytes of a rule's name
	MaxGlobs     = 64     // resources or statuses that a rule matches
	MaxWarn      = 16
)

// Set is the rules of a file. It does not change: any number of goroutines may use one. The zero value has no rules.
type Set struct {
	Rules    []*Rule
	Warnings []*Error // what is allowed but may not be meant, in the order of the file
	kinds    map[string][]*Rule
	id       uint64
	text     []byte
}

// newSet returns the set of the given rules, which must be finished.
func newSet(rules []*Rule, warnings []*Error) *Set {
	s := &Set{Rules: rules, Warnings: sorted(warnings), kinds: make(map[string][]*Rule)}
	h := fnv.New64a()
	for _, r := range rules {
		s.kinds[r.Kind] = append(s.kinds[r.Kind], r)
		h.Write(binary.BigEndian.AppendUint64(nil, r.Fingerprint()))
	}
	s.id = h.Sum64()
	return s
}

// ID identifies what the rules say, in their order. It is the same in every process, and comments and layout don't
// change it.
func (s *Set) ID() uint64 { return s.id }

// Text returns what was parsed: whoever parses it gets these rules. It must not be changed.
func (s *Set) Text() []byte { return s.text }

// ForKind returns the rules about callers of a kind, in the order of the file. The slice must not be changed.
func (s *Set) ForKind(kind string) []*Rule { return s.kinds[kind] }

// Load parses the file at path. Errors of the file system are wrapped; what is wrong in the file is Errors.
func Load(path string) (*Set, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// read returns a file, up to one byte more than Parse takes.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open rules: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	return data, nil
}
