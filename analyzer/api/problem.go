package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// retryAfter is what clients are asked to wait after 429 and 503.
const retryAfter = time.Second

// maxGot is how much of a wrong value a problem repeats, in bytes.
const maxGot = 128

// problem returns an error that the client gets with a status of HTTP. Detail is a sentence.
func problem(status int, format string, args ...any) *apiv1.Problem {
	return &apiv1.Problem{Type: "about:blank", Title: cmp.Or(http.StatusText(status), "Error"), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// wrong returns the problem of a parameter, or of a place in the body: what was there, and what should be. A client may have chosen
// the name of the place, so that neither the answer nor the log repeats all of a long one.
func wrong(status int, pointer, got, want string) *apiv1.Problem {
	pointer = clip(pointer)
	p := problem(status, "%s is not what it must be", pointer)
	p.Pointer, p.Got, p.Want = pointer, clip(got), want
	return p
}

// badQuery is wrong for a parameter of the query.
func badQuery(name, got, want string) *apiv1.Problem {
	return wrong(http.StatusBadRequest, name, got, want)
}

// badBody is wrong for a value in a body that could be read.
func badBody(pointer, got, want string) *apiv1.Problem {
	return wrong(http.StatusUnprocessableEntity, pointer, got, want)
}

// clip returns what a problem repeats of a value: printable, and not all of a long one.
func clip(s string) string {
	if len(s) > maxGot {
		return string(printable.Of(s[:maxGot])) + "..."
	}
	return string(printable.Of(s))
}

// problemOf returns the problem that an error is, or a server's error that says nothing of the inside.
func problemOf(err error) *apiv1.Problem {
	if p, ok := errors.AsType[*apiv1.Problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
	}
	return problem(http.StatusInternalServerError, "the server failed; its log says how")
}

// writeProblem answers with a problem.
func writeProblem(w http.ResponseWriter, p *apiv1.Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="floodgate"`)
	}
	w.WriteHeader(p.Status)
	_ = printable.JSON(w).Encode(p) // fails if the client is no longer there
}

// readProblem returns the problem in a body that another analyzer sent, or one that only repeats its status.
func readProblem(status int, body []byte) *apiv1.Problem {
	var p apiv1.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Status != status || p.Title == "" {
		return problem(http.StatusBadGateway, "the owner of the partition answered with status %d and no reason", status)
	}
	return &p
}
