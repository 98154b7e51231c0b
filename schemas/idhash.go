package schemas

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// Bounds on the secrets of an IDHasher, in bytes. A secret should be random, such as 64 hexadecimal digits.
const (
	MinIDSecret = 32
	MaxIDSecret = 1024
)

// MaxIDSecrets is how many secrets an IDHasher has: the one that counts, and during a rotation another.
const MaxIDSecrets = 2

// keyedMark begins an id that is hashed with a secret. 32 lower-case hexadecimal digits follow.
const (
	keyedMark  = "hmac:"
	keyedBytes = len(keyedMark) + hashDigits
)

// IDHasher hashes the ids of some kinds of caller with a secret, so that people who can read Kafka, the store or a metric do
// not see API keys there. NewIDHasher makes one; nil hashes nothing. Any goroutine may use it.
//
// During a rotation it has two secrets. Ids are counted under the hash with the first. Overrides apply under both, and gates
// look for closures under both, so that processes with the secrets in either order enforce each other's closures.
type IDHasher struct{ kinds map[string]*KindHasher }

// KindHasher is the part of an IDHasher for one kind. Any goroutine may use it.
type KindHasher struct{ secrets []*secretHash }

// NewIDHasher returns an IDHasher for these kinds, with one secret, or during a rotation two. Each has MinIDSecret to
// MaxIDSecret bytes. Kinds ip, net and asn are refused, because gates and overrides have to see addresses. Errors never hold a secret.
func NewIDHasher(kinds []string, secrets ...[]byte) (*IDHasher, error) {
	switch {
	case len(kinds) == 0:
		return nil, fmt.Errorf("%w: got no kinds to hash, want one such as key", ErrIDs)
	case len(secrets) == 0 || len(secrets) > MaxIDSecrets:
		return nil, fmt.Errorf("%w: got %d secrets, want 1, or 2 during a rotation", ErrIDs, len(secrets))
	}
	for i, s := range secrets {
		if i > 0 && bytes.Equal(secrets[0], s) {
			return nil, fmt.Errorf("%w: got one secret twice, want two that differ", ErrIDs)
		}
		if len(s) < MinIDSecret || len(s) > MaxIDSecret {
			return nil, fmt.Errorf("%w: secret %d: got %d bytes, want %d to %d", ErrIDs, i+1, len(s), MinIDSecret, MaxIDSecret)
		}
	}
	h := &IDHasher{kinds: make(map[string]*KindHasher)}
	for _, kind := range kinds {
		if err := ValidateKind(kind); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrIDs, err)
		}
		if OfAddress(kind) {
			return nil, fmt.Errorf("%w: ids of kind %s cannot be hashed with a secret", ErrIDs, kind)
		}
		k := new(KindHasher)
		for _, s := range secrets {
			k.secrets = append(k.secrets, newSecretHash(s, kind))
		}
		h.kinds[kind] = k
	}
	return h, nil
}

// Kind returns what hashes the ids of a kind, or nil if they are not hashed.
func (h *IDHasher) Kind(kind string) *KindHasher {
	if h == nil {
		return nil
	}
	return h.kinds[kind]
}

// ID returns the form in which an id is counted: hmac: and 32 hexadecimal digits, the first half of HMAC-SHA-256 over the
// kind, a zero byte and all bytes of the id, under the first secret. The empty id stays empty. It allocates once.
func (k *KindHasher) ID(id string) string { return k.secrets[0].id(id) }

// Other returns the form of an id under the second secret, or "" if there is none.
func (k *KindHasher) Other(id string) string {
	if len(k.secrets) < MaxIDSecrets {
		return ""
	}
	return k.secrets[1].id(id)
}

// Rotating reports whether there is a second secret.
func (k *KindHasher) Rotating() bool { return len(k.secrets) == MaxIDSecrets }

// secretHash hashes ids of one kind with one secret.
type secretHash struct {
	kind string
	pool sync.Pool // of *secretState
}

// secretState is what one goroutine hashes with.
type secretState struct {
	hash hash.Hash
	text []byte // kind, zero byte, id
	sum  [sha256.Size]byte
}

// maxSecretText is how many bytes of text are kept for the next id.
const maxSecretText = 1 << 10

func newSecretHash(secret []byte, kind string) *secretHash {
	s, secret := &secretHash{kind: kind}, bytes.Clone(secret)
	s.pool.New = func() any { return &secretState{hash: hmac.New(sha256.New, secret)} }
	return s
}

func (s *secretHash) id(id string) string {
	if id == "" {
		return ""
	}
	t := s.pool.Get().(*secretState) //nolint:errcheck,forcetypeassert // the pool holds nothing else
	t.text = append(append(append(t.text[:0], s.kind...), 0), id...)
	t.hash.Reset()
	_, _ = t.hash.Write(t.text) // never fails
	var text [keyedBytes]byte
	copy(text[:], keyedMark)
	hex.Encode(text[len(keyedMark):], t.hash.Sum(t.sum[:0])[:hashDigits/2])
	if cap(t.text) > maxSecretText {
		t.text = nil
	}
	s.pool.Put(t)
	return string(text[:])
}

// beginsKeyed reports whether an id begins as one that is hashed with a secret.
func beginsKeyed(id string) bool {
	return len(id) >= keyedBytes && id[:len(keyedMark)] == keyedMark &&
		strings.Trim(id[len(keyedMark):keyedBytes], "0123456789abcdef") == ""
}
