package analyzer

import (
	"cmp"
	"crypto/rand"
	"sync"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// ruleNotes remembers where the owners of one analyzer have noted rules in the control topic, so that they note each file of rules once.
// Any goroutine may use it.
type ruleNotes struct {
	mu sync.Mutex
	at map[uint64]int64 // guarded by mu: offsets, by the id of the rules
}

// offset returns the offset at which rules are noted. If no owner has noted them yet, it calls note.
func (n *ruleNotes) offset(id uint64, note func() (int64, error)) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if offset, ok := n.at[id]; ok {
		return offset, nil
	}
	offset, err := note()
	if err != nil {
		return 0, err
	}
	if n.at == nil {
		n.at = make(map[uint64]int64)
	}
	n.at[id] = offset
	return offset, nil
}

// forget forgets all notes, because the topic with them is gone.
func (n *ruleNotes) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.at)
}

// newNote returns the record that notes the rules of a file. It leaves out a text that is too long: then only those who have the file know
// the rules.
func newNote(set *rules.Set, file string) schemas.Control {
	r := schemas.Control{Action: schemas.ControlRules, Reason: cmp.Or(cut(file, schemas.MaxReason), "rules"), RulesID: set.ID(), Text: set.Text()}
	if len(r.Text) > schemas.MaxControlText {
		r.Text = nil
	}
	_, _ = rand.Read(r.ID[:]) // never fails
	return r
}
