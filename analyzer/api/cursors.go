package api

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
)

// pagedList is a list that has pages. A cursor of one list is no cursor of another.
type pagedList string

// Lists that have pages.
const (
	recordPages   pagedList = "actions"
	decisionPages pagedList = "decisions"
	callerPages   pagedList = "callers"
	eventPages    pagedList = "events"
)

// cursors writes and reads the cursors of pages. A cursor is encrypted: it may contain ids.
type cursors struct{ aead cipher.AEAD }

func newCursors(secret []byte) cursors {
	block, err := aes.NewCipher(derive(secret, "cursor"))
	if err != nil {
		panic("BUG: " + err.Error()) // the key has the right length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("BUG: " + err.Error()) // AES has the right block size
	}
	return cursors{aead}
}

// seal returns the cursor with the contents of v.
func (c cursors) seal(of pagedList, v any) string {
	plain, err := json.Marshal(v)
	if err != nil {
		return "" // numbers and strings only
	}
	nonce := make([]byte, c.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(c.aead.Seal(nonce, nonce, plain, []byte(of)))
}

// unseal reads a cursor of seal into v.
func (c cursors) unseal(of pagedList, text string, v any) error {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if n := c.aead.NonceSize(); err == nil && len(b) >= n {
		var plain []byte
		if plain, err = c.aead.Open(nil, b[:n], b[n:], []byte(of)); err == nil && json.Unmarshal(plain, v) == nil {
			return nil
		}
	}
	return badQuery("cursor", text, "next of an earlier answer of this list, by these analyzers")
}

// cursor reads the parameter cursor into v, and returns its text. Without one, it leaves v as it is.
func (c *call) cursor(of pagedList, v any) (text string, found bool, err error) {
	text, found, err = c.query.optional("cursor")
	if err == nil && found {
		err = c.server.cursors.unseal(of, text, v)
	}
	return text, found, err
}
