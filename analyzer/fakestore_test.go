package analyzer

import (
	"bytes"
	"maps"
	"testing"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
)

// tester is what *testing.T, *testing.F and *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// fakeStore holds rows the way a store does, and is as strict about what it is told. The zero value is empty.
type fakeStore struct {
	rows    map[string][]byte
	digest  uint64
	logTime int64
}

// commit applies what has changed in f, after it has checked that each key is changed once and that f knows what the
// store holds under it.
func (s *fakeStore) commit(t tester, f *Fold) {
	t.Helper()
	if s.rows == nil {
		s.rows = make(map[string][]byte)
	}
	most := f.Dirty()
	changes := f.TakeDirty()
	if len(changes) > most {
		t.Fatalf("got %d changes, want at most the %d announced", len(changes), most)
	}
	seen := make(map[string]bool, len(changes))
	deleting := false
	for _, c := range changes {
		key := string(c.Key)
		if seen[key] {
			t.Fatalf("key %q is changed twice in one transaction", key)
		}
		seen[key] = true
		if deleting && c.Value != nil {
			t.Fatalf("key %q is put after a deletion, want deletions last", key)
		}
		deleting = c.Value == nil
		var held uint64
		if old, ok := s.rows[key]; ok {
			held = store.Sum(c.Key, old)
		}
		if c.Old != held {
			t.Fatalf("key %q: got old sum %#x, the store holds %#x", key, c.Old, held)
		}
		s.digest -= held
		if c.Value == nil {
			if held == 0 {
				t.Fatalf("key %q is deleted, but the store does not hold it", key)
			}
			delete(s.rows, key)
			continue
		}
		s.rows[key] = bytes.Clone(c.Value)
		s.digest += store.Sum(c.Key, c.Value)
	}
	s.logTime = f.LogTime()
	if again := f.TakeDirty(); len(again) > 0 {
		t.Fatalf("got %d changes when asked again, want none", len(again))
	}
}

// restore returns a fold that holds what the store does.
func (s *fakeStore) restore(t tester, set *rules.Set, o FoldOptions) *Fold {
	t.Helper()
	f := NewFold(set, o)
	for key, value := range s.rows {
		if err := f.Restore([]byte(key), value); err != nil {
			t.Fatalf("restore: %v", err)
		}
	}
	f.Resume(s.logTime)
	return f
}

// clone returns a copy: what a kill leaves behind.
func (s *fakeStore) clone() fakeStore {
	return fakeStore{rows: maps.Clone(s.rows), digest: s.digest, logTime: s.logTime}
}

// ruleSet returns the rules given as YAML, one {…} a line.
func ruleSet(t tester, lines ...string) *rules.Set {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("version: 1\nrules:\n")
	for _, line := range lines {
		b.WriteString("  - " + line + "\n")
	}
	set, err := rules.Parse("rules.yaml", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// testProducer is the producer of frameOf's frames.
var testProducer = schemas.ProducerID([]byte("a test's producer")[:16])

// frameOf returns a frame for the only partition, by testProducer.
func frameOf(seq uint64, flushed int64, entries ...schemas.Entry) schemas.Frame {
	return schemas.Frame{
		Producer: testProducer, Seq: seq, Flushed: flushed, Partitions: 1,
		Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: entries,
	}
}

func encodeFrame(t tester, f schemas.Frame) []byte {
	t.Helper()
	b, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var _ tester = (testing.TB)(nil)
