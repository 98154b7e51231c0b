package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
)

// hashText returns the text of a file in which overrides and weights of callers whose ids are hashed with a secret have the hash in place
// of the id. Others see the text: it goes into Kafka with each snapshot. Parsed by the defaults, it gives the rules of set.
func hashText(name string, set *Set, doc *document.Document, ids schemas.IDs) ([]byte, error) {
	w := hashedText{ids: ids}
	w.value(doc.Root())
	again, err := Parse(name, w.Bytes())
	if err == nil && again.ID() != set.ID() {
		err = fmt.Errorf("got the rules %016x, want %016x", again.ID(), set.ID())
	}
	if err != nil {
		doc.Errorf(document.Position{}, "the rules cannot be written with ids that are hashed: %v", err)
		return nil, doc.Err()
	}
	return w.Bytes(), nil
}

// hashedText is the text of a rule file in YAML's flow style, without comments.
type hashedText struct {
	bytes.Buffer

	ids  schemas.IDs
	kind string // of the callers of the current rule
}

// value writes a value of a file that was parsed without an error.
func (w *hashedText) value(v document.Value) {
	if pairs, ok := v.Pairs(); ok {
		w.mapping(pairs)
		return
	}
	if list, ok := v.List(); ok {
		w.WriteByte('[')
		for i, v := range list {
			w.divide(i)
			w.value(v)
		}
		w.WriteByte(']')
		return
	}
	if text, ok := v.Text(); ok {
		w.quote(text)
		return
	}
	w.WriteString(v.Source())
}

// mapping writes a mapping. It looks for the kind of a rule first: the rule's callers may stand behind its overrides.
func (w *hashedText) mapping(pairs []document.Pair) {
	for _, pair := range pairs {
		if text, ok := pair.Value.Text(); ok && pair.Key == "callers" {
			w.kind, _, _ = strings.Cut(text, ":")
		}
	}
	w.WriteByte('{')
	for i, pair := range pairs {
		w.divide(i)
		w.quote(pair.Key)
		w.WriteString(": ")
		if overrides, ok := pair.Value.Pairs(); ok && (pair.Key == "overrides" || pair.Key == "weights") && w.ids.Hash.Kind(w.kind) != nil {
			w.overrides(overrides)
			continue
		}
		w.value(pair.Value)
	}
	w.WriteByte('}')
}

// overrides writes the overrides or the weights of a kind whose ids are hashed.
func (w *hashedText) overrides(pairs []document.Pair) {
	w.WriteByte('{')
	n := 0
	for _, pair := range pairs {
		for _, id := range w.ids.Overridden(w.kind, pair.Key) {
			w.divide(n)
			w.quote(id)
			w.WriteString(": ")
			w.value(pair.Value)
			n++
		}
	}
	w.WriteByte('}')
}

// divide writes a comma and a line end, unless nothing was written before.
func (w *hashedText) divide(before int) {
	if before > 0 {
		w.WriteString(",\n")
	}
}

// quote writes a text as JSON does, which is YAML.
func (w *hashedText) quote(text string) {
	b, err := json.Marshal(text)
	if err != nil {
		panic("BUG: a text that cannot be written as JSON: " + err.Error())
	}
	w.Write(b)
}
