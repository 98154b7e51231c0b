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

// hideState takes ids out of an answer for a reader who must not see them.
func (c *call) hideState(v *apiv1.CallerState, caller schemas.Caller) {
	if !c.who.redact {
		return
	}
	v.Caller = c.shown(caller)
	for i := range v.Rules {
		v.Rules[i].Limit.Override = ""
	}
}

func (c *call) hideExplanation(v *apiv1.Explanation, caller schemas.Caller) {
	if !c.who.redact {
		return
	}
	v.Caller, v.Sentence = c.shown(caller), c.hideIn(v.Sentence, caller)
	for i := range v.Decisions {
		v.Decisions[i].Caller = v.Caller
	}
	for i := range v.Rules {
		r := &v.Rules[i]
		r.Sentence, r.Limit.Override = c.hideIn(r.Sentence, caller), ""
		if r.Decision != nil {
			r.Decision.Caller = v.Caller
		}
	}
}

// shortID is the length in bytes from which on an id is taken out of a sentence where it stands without its kind. Shorter ones are
// parts of other words and numbers.
const shortID = 4

// hideIn takes a caller's id out of a sentence, for a reader who must not see it.
func (c *call) hideIn(sentence string, caller schemas.Caller) string {
	if !c.who.redact {
		return sentence
	}
	hidden := c.shown(caller)
	sentence = strings.ReplaceAll(sentence, string(printable.Of(caller.String())), caller.Kind+":"+hidden.ID)
	if len(caller.ID) < shortID {
		return sentence
	}
	return strings.ReplaceAll(sentence, string(printable.Of(caller.ID)), hidden.ID)
}
