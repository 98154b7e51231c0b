package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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

	w        http.ResponseWriter
	server   *Server
	backend  *Backend
	route    *route
	identity *identity
	redactor redactor // of the identity
	query    query

	body     []byte
	bodyRead bool
	status   int   // of the answer; 0 before
	log      []any // pairs of names and values for the log's line of a POST
}

// readBody returns the body of a request. It reads it once.
func (c *call) readBody() ([]byte, error) {
	if c.bodyRead {
		return c.body, nil
	}
	c.bodyRead = true
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

// note adds pairs of names and values to the log's line of a POST.
func (c *call) note(pairs ...any) { c.log = append(c.log, pairs...) }

// caller returns the caller that the query names.
func (c *call) caller() (schemas.Caller, error) {
	text, err := c.query.required("caller")
	if err != nil {
		return schemas.Caller{}, err
	}
	return c.server.callerParser.text("caller", text)
}

// refused returns the problem of a role that is too low for the route.
func (c *call) refused() *apiv1.Problem {
	p := problem(http.StatusForbidden, "the token of %s may %s, and this needs %s", c.identity.name, c.identity.role, c.route.role)
	if c.server.tokens == nil && !c.identity.token && !c.identity.forwarded {
		p.Detail = fmt.Sprintf("there are no tokens: only reading is allowed. floodgate token NAME %s --write NAME.token >> tokens "+
			"makes one; analyze --api-tokens tokens takes it, and --token-file NAME.token sends it", c.route.role)
		return p
	}
	p.Got, p.Want = c.identity.role.String(), c.route.role.String()
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
