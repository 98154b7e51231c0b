package api

import (
	"net/http"
	"strings"
)

// Paths of the dashboard. Its files hold nothing secret: no token is needed for them.
const (
	pagePath    = "/ui"
	sessionPath = "/ui/session" // POST: exchanges the token of a link, see Links
)

// ofPage reports whether a path is one of the dashboard, if there is one.
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
	c.status = http.StatusOK // whatever it answers, nobody else does
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

// checkOrigin refuses what a page of another site has asked for, reading too: the page could not see the answer, but it could hold
// streams open, and learn how long answers take. A person who types an address is no other site.
func (s *Server) checkOrigin(c *call) error {
	r := c.Clone(c.Context())
	r.Method = http.MethodPost // Check lets all reading pass
	if err := s.origin.Check(r); err != nil {
		return problem(http.StatusForbidden, "the request comes from a page of another site: %v", err)
	}
	return nil
}
