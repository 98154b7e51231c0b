package api

import (
	"net/http"
	"strings"
	"sync"
)

// streams counts the open streams. The zero value has none. Any goroutine may use it.
type streams struct {
	mu  sync.Mutex
	all int            // guarded by mu
	of  map[string]int // guarded by mu: by who opened them; none is 0
}

// open counts another stream, until done is called. It refuses one more than its owner may have, and one more than there may be.
func (s *streams) open(owner string) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[owner] >= maxOwn:
		return nil, problem(http.StatusTooManyRequests, "%d streams are open already with this token, or from this address: close one first", maxOwn)
	case s.all >= maxStreams:
		return nil, problem(http.StatusServiceUnavailable, "%d streams are open already", maxStreams)
	}
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all++
	s.of[owner]++
	return func() { s.close(owner) }, nil
}

func (s *streams) close(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[owner]--; s.of[owner] == 0 {
		delete(s.of, owner)
	}
}

// count returns how many streams are open.
func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// streamOwner returns under which name the streams of a client are counted: its token, or without tokens its address.
func (c *call) streamOwner() string {
	if c.who.token {
		return "token " + string(c.who.sum[:])
	}
	return "address " + c.server.client(c.Request)
}

// acceptsGzip reports whether Accept-Encoding names gzip, and not only to refuse it with q=0 (RFC 9110, section 12.5.3).
func acceptsGzip(values []string) bool {
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, weight, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(weight), " ", ""), "q=")
			return q == "" || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
