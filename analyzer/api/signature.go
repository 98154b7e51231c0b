package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Headers of a forwarded request.
const (
	headerSignature = "Floodgate-Forward" // VERSION TIME NONCE REDACT ROLE AUTHOR MAC, separated by spaces
	forwardVersion  = "v1"
)

// Bounds of forwarded requests.
const (
	MinClusterKey = 32 // bytes
	maxSkew       = 30 * time.Second
	maxNonces     = 1 << 17 // of one generation of a nonceSet, at 16 bytes each
)

// signer signs what analyzers forward to each other, and checks it. Any goroutine may use it.
type signer struct {
	key    []byte
	age    func() time.Duration // how long it has known nonces, by a monotonic clock. It accepts nothing that was signed earlier
	nonces nonceSet
}

func newSigner(key []byte) *signer {
	began := time.Now()
	return &signer{key: key, age: func() time.Duration { return time.Since(began) }}
}

// forwarded is what the MAC covers besides method, URL and body.
type forwarded struct {
	target string // the address to which it is sent: another analyzer refuses it
	time   int64  // Unix nanoseconds
	nonce  [16]byte
	redact bool
	role   Role
	author string
}

// sum returns the MAC. Each part stands behind its length, so that no two requests have the same input.
func (s *signer) sum(f *forwarded, r *http.Request, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	hashed := sha256.Sum256(body)
	for _, part := range []string{
		"floodgate forward " + forwardVersion, r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Accept"), string(hashed[:]), f.target,
		strconv.FormatInt(f.time, 10), string(f.nonce[:]), strconv.FormatBool(f.redact), f.role.String(), f.author,
	} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		_, _ = mac.Write(n[:]) // never fails
		_, _ = mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

// sign adds the header to a request that somebody with this role asked for.
func (s *signer) sign(r *http.Request, body []byte, target string, w *identity, now time.Time) {
	f := forwarded{target: target, time: now.UnixNano(), redact: w.redact, role: w.role, author: w.name}
	_, _ = rand.Read(f.nonce[:]) // never fails
	r.Header.Set(headerSignature, strings.Join([]string{
		forwardVersion, strconv.FormatInt(f.time, 10), base64.RawURLEncoding.EncodeToString(f.nonce[:]),
		strconv.FormatBool(f.redact), f.role.String(), f.author, base64.RawURLEncoding.EncodeToString(s.sum(&f, r, body)),
	}, " "))
}

// verify returns the identity for which another analyzer has forwarded a request. target is the address of this analyzer. It accepts
// each request once.
func (s *signer) verify(r *http.Request, body []byte, target string, now time.Time) (*identity, error) {
	f, mac, err := parseForwarded(r.Header.Values(headerSignature))
	if err != nil {
		return nil, err
	}
	f.target = target
	if !hmac.Equal(mac, s.sum(f, r, body)) {
		return nil, errForwardMAC
	}
	if off := now.UnixNano() - f.time; off > int64(maxSkew) || off < -int64(maxSkew) {
		return nil, fmt.Errorf("forwarded request: it was signed %v ago by the clocks of both analyzers, want %v at most",
			time.Duration(off), maxSkew)
	}
	age := s.age()
	if f.time < now.UnixNano()-int64(age) { // the time of the start, by the clock of signatures
		return nil, errForwardOld
	}
	if err := s.nonces.add(f.nonce, age); err != nil {
		return nil, err
	}
	return &identity{name: f.author, role: f.role, redact: f.redact, forwarded: true}, nil
}

// forwardError is why a forwarded request is refused.
type forwardError string

func (e forwardError) Error() string { return "forwarded request: " + string(e) }

// Errors of verify.
const (
	errForwardForm   forwardError = "the header " + headerSignature + " has another form than it must have"
	errForwardMAC    forwardError = "the signature is wrong: it was changed, is for another analyzer, or was signed with another key"
	errForwardOld    forwardError = "it was signed before this analyzer started"
	errForwardReplay forwardError = "it came before"
	errForwardMany   forwardError = "too many came in the last minute"
)

// parseForwarded reads the header. Nothing in it is believed yet.
func parseForwarded(values []string) (f *forwarded, mac []byte, err error) {
	if len(values) != 1 || len(values[0]) > 1024 {
		return nil, nil, errForwardForm
	}
	words := strings.Split(values[0], " ")
	if len(words) != 7 || words[0] != forwardVersion {
		return nil, nil, errForwardForm
	}
	f = &forwarded{author: words[5]}
	nonce, err1 := base64.RawURLEncoding.DecodeString(words[2])
	mac, err2 := base64.RawURLEncoding.DecodeString(words[6])
	f.time, err = strconv.ParseInt(words[1], 10, 64)
	if err != nil || err1 != nil || err2 != nil || len(nonce) != len(f.nonce) || f.author == "" {
		return nil, nil, errForwardForm
	}
	copy(f.nonce[:], nonce)
	if f.redact, err = strconv.ParseBool(words[3]); err != nil {
		return nil, nil, errForwardForm
	}
	if f.role, err = ParseRole(words[4]); err != nil {
		return nil, nil, errForwardForm
	}
	return f, mac, nil
}

// nonceSet remembers each nonce for as long as its signature can be used, and for at most twice that time. The zero value is empty. Its
// clock is monotonic: nobody can set it. If the clock of the signatures is set back, a signature from before can be used once more when
// its time comes again. That is harmless, because forwarded requests only read.
type nonceSet struct {
	mu          sync.Mutex
	turned      time.Duration         // guarded by mu
	newer, last map[[16]byte]struct{} // guarded by mu
}

// add remembers a nonce, or says why it must not be used.
func (n *nonceSet) add(nonce [16]byte, now time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	// A signature can be used from maxSkew before its time until maxSkew after it.
	if age := now - n.turned; n.newer == nil || age > 2*maxSkew {
		n.last = n.newer
		if age > 4*maxSkew {
			n.last = nil
		}
		n.newer, n.turned = make(map[[16]byte]struct{}), now
	}
	_, found := n.newer[nonce]
	if _, before := n.last[nonce]; found || before {
		return errForwardReplay
	}
	if len(n.newer) >= maxNonces {
		return errForwardMany
	}
	n.newer[nonce] = struct{}{}
	return nil
}
