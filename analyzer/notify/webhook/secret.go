package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of a secret, in bytes, as the specification of Standard Webhooks has them.
const (
	minSecret = 24
	maxSecret = 64
)

const secretPrefix = "whsec_"

// ErrSecret says that a text is no secret. Its message never repeats the text. Test with errors.Is.
var ErrSecret = errors.New("not a secret")

// Secret is a key that signs messages. ParseSecret makes one; the zero value signs with an empty key, and is of no use. It prints
// as its length.
type Secret struct{ key []byte }

// ParseSecret returns the secret that a text says: whsec_ and 24 to 64 bytes in base64, with white space around it or not.
func ParseSecret(text string) (Secret, error) {
	encoded, found := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !found {
		return Secret{}, fmt.Errorf("%w: got %d characters, want %s and %d to %d bytes in base64", ErrSecret, len(text), secretPrefix, minSecret, maxSecret)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("%w: got characters behind %s that are not base64", ErrSecret, secretPrefix)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("%w: got %d bytes, want %d to %d", ErrSecret, len(key), minSecret, maxSecret)
	}
	return Secret{key}, nil
}

// NewSecret returns the text of a new secret of 32 random bytes.
func NewSecret() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:])
}

// String keeps the key out of logs.
func (s Secret) String() string { return fmt.Sprintf("a secret of %d bytes", len(s.key)) }

// GoString keeps the key out of %#v.
func (s Secret) GoString() string { return s.String() }

// sign returns a signature of a message that is sent at a time: "v1," and an HMAC-SHA256 in base64.
func (s Secret) sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + ".")) // never fails
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// signatures returns the value of webhook-signature: a signature by each secret, with spaces between them.
func signatures(secrets []Secret, id string, at time.Time, body []byte) string {
	list := make([]string, len(secrets))
	for i, s := range secrets {
		list[i] = s.sign(id, at, body)
	}
	return strings.Join(list, " ")
}
