package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
)

// maxBody is the longest body of a request, in bytes.
const maxBody = 1 << 20

// call is one request on its way through the server.
type call struct {
	*http.Request

	w       http.ResponseWriter
	server  *Server
	backend *Backend
	route   *route
	who     *who

	values url.Values // of the query
	body   []byte
	read   bool // the body was
	status int  // of the answer; 0 before
	log    []any
}

// readBody returns the body of a request. It reads it once.
func (c *call) readBody() ([]byte, error) {
	if c.read {
		return c.body, nil
	}
	c.read = true
	if c.Method == http.MethodGet {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, wrong(http.StatusUnsupportedMediaType, "Content-Type", c.Header.Get("Content-Type"), "application/json")
	}
	c.body, err = io.ReadAll(http.MaxBytesReader(c.w, c.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, problem(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
	}
	if err != nil {
		return nil, problem(http.StatusBadRequest, "the body ends early")
	}
	return c.body, nil
}

// decode reads a body into v, which is a pointer to a struct of apiv1.
func (c *call) decode(v any) error {
	body, err := c.readBody()
	if err != nil {
		return err
	}
	return decodeBody(bytes.TrimSpace(body), v)
}

// note adds to the line that the log has of a POST.
func (c *call) note(pairs ...any) { c.log = append(c.log, pairs...) }

// caller returns the caller that the query names.
func (c *call) caller() (schemas.Caller, error) {
	text, err := c.one("caller")
	if err != nil {
		return schemas.Caller{}, err
	}
	return c.server.canon.text("caller", text)
}

// one returns a parameter that a query must have once.
func (c *call) one(name string) (string, error) {
	text, found, err := c.optional(name)
	if err == nil && !found {
		err = badQuery(name, "", "one value")
	}
	return text, err
}

// optional returns a parameter that a query may have once.
func (c *call) optional(name string) (text string, found bool, err error) {
	values := c.query()[name]
	if len(values) > 1 {
		return "", false, badQuery(name, strings.Join(values, ", "), "one value")
	}
	if len(values) == 0 {
		return "", false, nil
	}
	return values[0], true, nil
}

// refused says that a role may not do what a route does.
func (c *call) refused() *apiv1.Problem {
	p := problem(http.StatusForbidden, "the token of %s may %s, and this needs %s", c.who.name, c.who.role, c.route.role)
	p.Got, p.Want = c.who.role.String(), c.route.role.String()
	return p
}

// answer writes v as JSON.
func (c *call) answer(status int, v any) error {
	if c.status != 0 {
		return errors.New("a second answer to one request")
	}
	c.status = status
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_ = printable.JSON(c.w).Encode(v) // fails if the client is no longer there
	return nil
}

// now returns the time by the server's clock.
func (c *call) now() time.Time { return c.server.config.Clock() }

// noteRecord names a record in the log's line.
func (c *call) noteRecord(r *schemas.Control) {
	c.note("action", r.Action.String(), "caller", r.Caller.String(), "rule", clip(r.Rule), "id", r.ID.String(),
		"reason", r.Reason[:min(len(r.Reason), schemas.MaxReason)])
}

// query returns the parameters, which were parsed before.
func (c *call) query() url.Values { return c.values }

// parseQuery reads the query, and refuses parameters that the route does not have.
func (c *call) parseQuery() error {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return wrong(http.StatusBadRequest, "query", c.URL.RawQuery, "parameters, percent-encoded")
	}
	for name := range values {
		if !slices.Contains(c.route.params, name) {
			return badQuery(name, name, "one of the parameters "+strings.Join(c.route.params, ", "))
		}
	}
	c.values = values
	return nil
}

// number returns a parameter that is a number, or otherwise.
func (c *call) number(name string, otherwise, least, most int64) (int64, error) {
	text, found, err := c.optional(name)
	if err != nil || !found {
		return otherwise, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, badQuery(name, text, "a number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return n, nil
}

// choice returns a parameter that is one of some words, or otherwise.
func (c *call) choice(name, otherwise string, words ...string) (string, error) {
	text, found, err := c.optional(name)
	if err != nil || !found {
		return otherwise, err
	}
	if !slices.Contains(words, text) {
		return "", badQuery(name, text, "one of "+strings.Join(words, ", "))
	}
	return text, nil
}

// integer returns an integer in digits.
func integer[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }
