package api

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
)

// Paths of the dashboard. Its files hold nothing secret: no token is needed for them.
const (
	pagePath    = "/ui"
	sessionPath = "/ui/session" // POST: exchanges the token of a link, see Links
)

// ofPage reports whether there is a dashboard and a path belongs to it.
func (s *Server) ofPage(path string) bool {
	return s.config.Page != nil && (path == pagePath || strings.HasPrefix(path, pagePath+"/"))
}

// servePage serves the files of the dashboard, to links of other sites too. They have the headers that Config.Page sets.
func (s *Server) servePage(c *call) error {
	if err := s.limitClient(c); err != nil {
		return err
	}
	if c.URL.Path == sessionPath && s.config.Links != nil {
		return s.postSession(c)
	}
	c.status = http.StatusOK // the page writes its own answer
	s.config.Page.ServeHTTP(c.w, c.Request)
	return nil
}

// sessionToken is the body of POST /ui/session, and of its answer.
type sessionToken struct {
	Token string `json:"token"`
}

// postSession exchanges the token of a link for that of its session.
func (s *Server) postSession(c *call) error {
	if c.Method != http.MethodPost {
		c.w.Header().Set("Allow", http.MethodPost)
		return wrong(http.StatusMethodNotAllowed, "method", c.Method, http.MethodPost)
	}
	if err := s.checkOrigin(c); err != nil {
		return err
	}
	var request sessionToken
	if err := c.decode(&request); err != nil {
		return err
	}
	session, err := s.config.Links.open(request.Token)
	if err != nil {
		return err
	}
	if s.config.Links.Opened != nil {
		defer s.config.Links.Opened()
	}
	return c.answer(http.StatusOK, sessionToken{session})
}

// checkOrigin refuses requests from pages of other sites, even if they only read: such a page could not see the answer, but it could
// hold streams open, and learn how long answers take. A request that no page has sent passes, such as that of a person who types an
// address.
func (s *Server) checkOrigin(c *call) error {
	r := c.Clone(c.Context())
	r.Method = http.MethodPost // Check lets all reading pass
	if err := s.origin.Check(r); err != nil {
		return problem(http.StatusForbidden, "the request comes from a page of another site: %v", err)
	}
	return nil
}

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
	return token{linkUser, roleAdmin, sum}, ok
}
