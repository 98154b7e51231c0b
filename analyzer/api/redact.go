package api

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
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

// shown returns a caller as its reader may see it: the same hash for the same caller, which says nothing of the id.
func (c *call) shown(v schemas.Caller) apiv1.Caller {
	if !c.who.redact {
		return apiv1.CallerOf(v)
	}
	sum := derive(c.server.secret, v.Kind+"\x00"+v.ID)
	return apiv1.Caller{Kind: v.Kind, ID: redactedMark + hex.EncodeToString(sum[:16])}
}

// redact changes a caller in an answer.
func (c *call) redact(v *apiv1.Caller) {
	if c.who.redact {
		*v = c.shown(v.Caller())
	}
}

// pages is a list that has pages: the cursor of one list is no cursor of another.
type pages string

// Lists that have pages.
const (
	ofActions   pages = "actions"
	ofDecisions pages = "decisions"
	ofCallers   pages = "callers"
	ofEvents    pages = "events"
)

// seal returns the cursor of a page: what it contains is nobody's business, and may be ids.
func (s *Server) seal(of pages, v any) string {
	plain, err := json.Marshal(v)
	if err != nil {
		return "" // numbers and strings only
	}
	nonce := make([]byte, s.aead().NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(s.aead().Seal(nonce, nonce, plain, []byte(of)))
}

// unseal reads a cursor of seal into v.
func (s *Server) unseal(of pages, text string, v any) error {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if n := s.aead().NonceSize(); err == nil && len(b) >= n {
		var plain []byte
		if plain, err = s.aead().Open(nil, b[:n], b[n:], []byte(of)); err == nil && json.Unmarshal(plain, v) == nil {
			return nil
		}
	}
	return badQuery("cursor", text, "next of an earlier answer of this list, by these analyzers")
}

func (s *Server) aead() cipher.AEAD {
	block, err := aes.NewCipher(derive(s.secret, "cursor"))
	if err != nil {
		panic(err) // the key has the right length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return aead
}

// hiddenText stands in an answer in place of a text that may contain ids: what a person has written, the id or the network of an override,
// and the path of a request or of a file.
const hiddenText = "redacted"

// hide returns a text as its reader may see it.
func (c *call) hide(text string) string {
	if !c.who.redact || text == "" {
		return text
	}
	return hiddenText
}

// hideLook replaces the ids and the reasons in what an owner holds about a caller, for a reader who must not see them. It changes no
// record that the look shares with the owner.
func (c *call) hideLook(l *fold.Look) {
	if !c.who.redact {
		return
	}
	l.Caller = c.shown(l.Caller).Caller()
	c.hideRecord(&l.Hand.Record)
	c.hideRecord(&l.Hand.Brake)
	for i := range l.Rules {
		r := &l.Rules[i]
		r.Override = c.hide(r.Override)
		for _, m := range []**fold.Manual{&r.Brake, &r.LimitBy, &r.OpenedBy} {
			c.hideRecord(m)
		}
	}
}

// hideRecord replaces a record with a copy that has no reason.
func (c *call) hideRecord(m **fold.Manual) {
	if *m != nil {
		v := **m
		v.Control.Reason = c.hide(v.Control.Reason)
		*m = &v
	}
}

// hideInput replaces the ids and the reasons in what an explanation is made from.
func (c *call) hideInput(in *explain.Input) {
	if !c.who.redact {
		return
	}
	in.Caller = c.shown(in.Caller).Caller()
	for i := range in.Decisions {
		in.Decisions[i].Caller = c.shown(in.Decisions[i].Caller).Caller()
	}
	if in.Look != nil {
		c.hideLook(in.Look)
	}
}

// hidePatterns replaces the pattern of a rule in the sentence that says which ids the rule counts: a pattern may be an id.
func (c *call) hidePatterns(v *apiv1.Explanation, l *fold.Look) {
	if !c.who.redact || l == nil {
		return
	}
	for i := range l.Rules {
		if l.Rules[i].Absence == fold.PatternAbsence {
			pattern := string(printable.Of(l.Rules[i].Rule.CallersText()))
			v.Rules[i].Sentence = strings.Replace(v.Rules[i].Sentence, pattern, c.hidePattern(pattern), 1)
		}
	}
}

// hidePattern returns which callers a rule counts as its reader may see it: the kind, and that there is a pattern of ids.
func (c *call) hidePattern(callers string) string {
	kind, pattern, _ := strings.Cut(callers, ":")
	if pattern == "" {
		return callers
	}
	return kind + ":" + c.hide(pattern)
}

// hideEvent replaces what tells the caller's id in an event. The id of an event is a hash of the caller's id and of fields that the
// answer shows: who knows them can try all addresses. So the reader sees a keyed hash of it, and copies of one event still have one id.
func (c *call) hideEvent(v *apiv1.Event) {
	if !c.who.redact {
		return
	}
	v.ID = hex.EncodeToString(derive(derive(c.server.secret, "ids of events"), v.ID)[:16])
	v.Reason = c.hide(v.Reason)
	if v.Caller != nil {
		c.redact(v.Caller)
	}
}
