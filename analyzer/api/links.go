package api

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
)

// Bounds and texts of links.
const (
	maxLinks   = 64      // of one process: a session is never forgotten
	linkPrefix = "once." // of the token of a link, so that nobody takes it for one that can be sent as Authorization
	linkUser   = "dashboard"
)

// Links are one-time tokens in memory, for a program that prints a link to its own dashboard. Each opens one session, which may do
// everything until the process ends. The zero value has none. Any goroutine may use it.
type Links struct {
	Opened func() // called after each session was opened; may be nil

	mu       sync.Mutex
	unused   map[[sha256.Size]byte]bool     // guarded by mu: of each link, whether it can still be used
	sessions map[[sha256.Size]byte]struct{} // guarded by mu: by the sum of the session's token
}

// New returns the token of another link, to be put behind /ui/#token=, or false if there were 64.
func (l *Links) New() (token string, ok bool) {
	text, _ := NewToken()
	text = linkPrefix + text
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unused) >= maxLinks {
		return "", false
	}
	if l.unused == nil {
		l.unused, l.sessions = make(map[[sha256.Size]byte]bool), make(map[[sha256.Size]byte]struct{})
	}
	l.unused[sha256.Sum256([]byte(text))] = true
	return text, true
}

// open uses up a link, and returns the token of its session.
func (l *Links) open(text string) (session string, err error) {
	sum := sha256.Sum256([]byte(text))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch unused, known := l.unused[sum]; {
	case !strings.HasPrefix(text, linkPrefix) || !known:
		return "", problem(http.StatusUnauthorized, "the link is not one of this process: take the one that it has printed last")
	case !unused:
		return "", problem(http.StatusUnauthorized, "the link was used before, and works once: take the one that the process has printed last")
	}
	session, _ = NewToken()
	l.unused[sum] = false
	l.sessions[sha256.Sum256([]byte(session))] = struct{}{}
	return session, nil
}

// find returns what a session's token, of which this is the sum, may do.
func (l *Links) find(sum [sha256.Size]byte) (token, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.sessions[sum]
	return token{linkUser, RoleAdmin, sum}, ok
}
