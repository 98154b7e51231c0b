package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// newSecret returns the secret of redacted ids and of cursors: all analyzers with one key of the cluster have the same. Without a
// key it is random.
func newSecret(clusterKey []byte) []byte {
	if len(clusterKey) == 0 {
		secret := make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
		return secret
	}
	return derive(clusterKey, "floodgate api ids and cursors")
}

// derive returns a key for one purpose.
func derive(key []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(purpose)) // never fails
	return mac.Sum(nil)
}

// redactedMark begins an id that is shown as its hash. No id of a client can be taken for one: it is only in answers.
const redactedMark = "redacted:"

// hiddenText stands in an answer in place of a text that may contain ids: what a person has written, the id or the network of an
// override, and the path of a request or of a file.
const hiddenText = "redacted"

// redactor changes what an answer says of ids, for a reader who must not see them. The zero value changes nothing.
type redactor struct {
	on     bool
	secret []byte // of the hashes
}

// caller returns a caller as the reader may see it: equal callers have equal hashes, which say nothing of the id.
func (r redactor) caller(v schemas.Caller) apiv1.Caller {
	if !r.on {
		return event.CallerOf(v)
	}
	sum := derive(r.secret, v.Kind+"\x00"+v.ID)
	return apiv1.Caller{Kind: v.Kind, ID: redactedMark + hex.EncodeToString(sum[:16])}
}

// replace changes a caller in an answer.
func (r redactor) replace(v *apiv1.Caller) {
	if r.on {
		*v = r.caller(v.Caller())
	}
}

// text returns a text as its reader may see it.
func (r redactor) text(text string) string {
	if !r.on || text == "" {
		return text
	}
	return hiddenText
}

// look replaces the ids and the reasons in what an owner holds about a caller, for a reader who must not see them. It changes no
// record that the look shares with the owner.
func (r redactor) look(l *fold.Look) {
	if !r.on {
		return
	}
	l.Caller = r.caller(l.Caller).Caller()
	r.record(&l.Record.By)
	r.record(&l.Record.ShadowBy)
	for i := range l.Rules {
		rule := &l.Rules[i]
		rule.Override = r.text(rule.Override)
		if rule.Pool != nil {
			rule.Pool.WeightOf = r.text(rule.Pool.WeightOf)
		}
		for _, m := range []**override.Record{&rule.ShadowBy, &rule.LimitBy, &rule.OpenedBy} {
			r.record(m)
		}
	}
}

// record replaces a record with a copy that has no reason.
func (r redactor) record(m **override.Record) {
	if *m != nil {
		v := **m
		v.Reason = r.text(v.Reason)
		*m = &v
	}
}

// input replaces the ids and the reasons in what an explanation is made from.
func (r redactor) input(in *explain.Input) {
	if !r.on {
		return
	}
	in.Caller = r.caller(in.Caller).Caller()
	for i := range in.Decisions {
		in.Decisions[i].Caller = r.caller(in.Decisions[i].Caller).Caller()
	}
	if in.Look != nil {
		r.look(in.Look)
	}
}

// patterns replaces the pattern of a rule in the sentence that says which ids the rule counts: a pattern may be an id.
func (r redactor) patterns(v *apiv1.Explanation, l *fold.Look) {
	if !r.on || l == nil {
		return
	}
	for i := range l.Rules {
		if l.Rules[i].Absence == fold.PatternAbsence {
			pattern := string(printable.Of(l.Rules[i].Rule.CallersText()))
			v.Rules[i].Sentence = strings.Replace(v.Rules[i].Sentence, pattern, r.pattern(pattern), 1)
		}
	}
}

// pattern returns which callers a rule counts as its reader may see it: the kind, and that there is a pattern of ids.
func (r redactor) pattern(callers string) string {
	kind, pattern, _ := strings.Cut(callers, ":")
	if pattern == "" {
		return callers
	}
	return kind + ":" + r.text(pattern)
}

// event replaces what tells the caller's id in an event. The id of an event is a hash of the caller's id and of fields that the
// answer shows: who knows them can try all addresses. So the reader sees a keyed hash of it, and copies of one event still have one id.
func (r redactor) event(v *apiv1.Event) {
	if !r.on {
		return
	}
	v.ID = hex.EncodeToString(derive(derive(r.secret, "ids of events"), v.ID)[:16])
	v.Reason = r.text(v.Reason)
	if v.Caller != nil && !v.Together {
		r.replace(v.Caller)
	}
}

// diff takes ids out of a difference: that patterns of callers and overrides differ, and how limits do, stays.
func (r redactor) diff(d *apiv1.RulesDiff) {
	if !r.on {
		return
	}
	for i := range d.Rules {
		for j := range d.Rules[i].Fields {
			if f := &d.Rules[i].Fields[j]; f.Field == "callers" {
				f.Before, f.After = r.pattern(f.Before), r.pattern(f.After)
			}
		}
		for j := range d.Rules[i].Overrides {
			d.Rules[i].Overrides[j].Of = redactedMark
		}
	}
}
