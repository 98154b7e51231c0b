package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/509da70d/floodgate/schemas/keyfile"
)

// Bounds of a file of tokens, and how often it is read again.
const (
	maxTokens     = keyfile.MaxEntries
	maxTokenFile  = keyfile.MaxSize // bytes
	tokenBytes    = 32
	tokensChecked = keyfile.Checked
)

// ErrTokens says that a file of tokens cannot be used. Test with errors.Is.
var ErrTokens = errors.New("bad file of tokens")

// token is a line of the file.
type token struct {
	name string
	role Role
	sum  [sha256.Size]byte // of the token's text
}

// NewToken returns a new token and the sum that a file of tokens has of it. The token is 32 random bytes in base64url without
// padding, 43 characters. The sum is the SHA-256 of these characters, in hexadecimal digits.
func NewToken() (text, sum string) {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	text = base64.RawURLEncoding.EncodeToString(b[:])
	s := sha256.Sum256([]byte(text))
	return text, hex.EncodeToString(s[:])
}

// tokenFormat is the lines of a file of tokens: NAME ROLE SHA256.
func tokenFormat() keyfile.Format[Role] {
	return keyfile.Format[Role]{
		Err: ErrTokens, Secret: "token", Words: "NAME ROLE SHA256",
		Value: func(words []string) (Role, error) {
			if len(words[0]) > len(roleOperate.String()) { // it may be a token: no error repeats it
				return 0, fmt.Errorf("got a role of %d characters, want read, operate or admin", len(words[0]))
			}
			return ParseRole(words[0])
		},
		Name: func(name string) error {
			if b, err := base64.RawURLEncoding.DecodeString(name); err == nil && len(b) == tokenBytes {
				return errors.New("the name looks like a token, which must be in no file of the server")
			}
			return nil
		},
		Lower: func(before, now Role) Role { return min(before, now) },
	}
}

// tokenFile is the tokens of a file that is read again when it changes. Any goroutine may use it.
type tokenFile struct{ file *keyfile.File[Role] }

func openTokens(path string, now time.Time, logger *slog.Logger) (*tokenFile, error) {
	file, err := keyfile.Open(path, tokenFormat(), now, logger)
	if err != nil {
		return nil, err
	}
	return &tokenFile{file}, nil
}

// refused returns why the newest contents of the file are not in use, or "".
func (f *tokenFile) refused(now time.Time) string { return f.file.Refused(now) }

// find returns the token with this text. The time that it takes does not depend on how much of a token is right.
func (f *tokenFile) find(text string, now time.Time) (found token, ok bool) {
	if b, err := base64.RawURLEncoding.DecodeString(text); err != nil || len(b) != tokenBytes {
		return token{}, false // no token looks like that
	}
	return f.findSum(sha256.Sum256([]byte(text)), now)
}

// findSum returns the token with this sum.
func (f *tokenFile) findSum(sum [sha256.Size]byte, now time.Time) (found token, ok bool) {
	e, ok := f.file.FindSum(sum, now)
	return token{e.Name, e.Value, e.Sum}, ok
}

// needsToken reports whether nobody may ask without a token.
func (s *Server) needsToken() bool {
	return s.tokens != nil || s.config.Links != nil && !s.config.LoopbackActs
}

// findToken returns the token with this text: of the file, or of a session.
func (s *Server) findToken(text string, now time.Time) (token, bool) {
	if s.tokens != nil {
		if t, ok := s.tokens.find(text, now); ok {
			return t, true
		}
	}
	if s.config.Links != nil {
		return s.config.Links.find(sha256.Sum256([]byte(text)))
	}
	return token{}, false
}

// findSum returns the token with this sum. A stream asks for its own again and again.
func (s *Server) findSum(sum [sha256.Size]byte, now time.Time) (token, bool) {
	if s.tokens != nil {
		if t, ok := s.tokens.findSum(sum, now); ok {
			return t, true
		}
	}
	if s.config.Links != nil {
		return s.config.Links.find(sum)
	}
	return token{}, false
}

// Role says what a token may do. Each role may do what the roles before it may. The zero value may do nothing.
type Role uint8

// Roles.
const (
	roleRead    Role = 1 + iota // look, explain, try
	roleOperate                 // and close, open, limit, reset and undo
	roleAdmin                   // and put rules into mode shadow
)

// String returns the role as files of tokens have it, or "none".
func (r Role) String() string {
	switch r {
	case roleRead:
		return "read"
	case roleOperate:
		return "operate"
	case roleAdmin:
		return "admin"
	}
	return "none"
}

// ParseRole undoes String.
func ParseRole(s string) (Role, error) {
	for r := roleRead; r <= roleAdmin; r++ {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("got role %.32q, want read, operate or admin", s)
}
