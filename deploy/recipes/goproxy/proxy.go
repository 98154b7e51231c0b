package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
)

const (
	maxBody     = 10 << 20         // bytes of a request, which are kept until the model has read them
	bodyTimeout = 30 * time.Second // until they must be there
	bytesAToken = 4                // of a request, where the model does not say how many tokens it read

	statusClientGone = 499 // as nginx logs it; nobody reads it
)

// newProxy returns a proxy before a model. Its gates are asked when the whole request is there.
func newProxy(model *url.URL, set *gate.Set, rec gatehttp.Recorder) http.Handler {
	gates := gatehttp.New(gatehttp.Options{
		Set: set, Recorder: rec,
		Callers:  []gatehttp.CallerFunc{gatehttp.Custom("key", apiKey)},
		Resource: func(r *http.Request) string { return callOf(r).resource },
		Declared: func(r *http.Request) int64 { return callOf(r).declared },
		Cost:     func(r *http.Request, _ int, _ int64) int64 { return callOf(r).tokens() },
	})
	return readCall(gates(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(model)
			p.Out.Header.Del("Accept-Encoding") // or the usage would be compressed
		},
		ModifyResponse: func(r *http.Response) error { callOf(r.Request).answered(r); return nil },
		ErrorHandler:   noAnswer,
	}))
}

// noAnswer answers for a model that has not.
func noAnswer(w http.ResponseWriter, r *http.Request, _ error) {
	if r.Context().Err() != nil {
		callOf(r).working = true // the model may have read all of it
		w.WriteHeader(statusClientGone)
		return
	}
	http.Error(w, "the model cannot be reached", http.StatusBadGateway)
}

// apiKey returns the key of "Authorization: Bearer KEY".
func apiKey(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// call is what is known of the tokens of one request. Only the goroutine that serves the request uses it.
type call struct {
	resource string
	declared int64 // the most tokens that the answer may have, as the client has asked; 0 is unknown
	prompt   int64 // estimated
	working  bool  // the model has taken the request
	streamed int64 // events that have come, of about one token each
	usage    int64 // tokens, as the model says at the end; 0 where it has not
}

// tokens returns what the request costs, if it ends now.
func (c *call) tokens() int64 {
	switch {
	case c.usage > 0:
		return c.usage
	case c.working:
		return c.prompt + c.streamed
	}
	return 0
}

// answered makes the call read the answer while it passes.
func (c *call) answered(r *http.Response) {
	if c.working = 200 <= r.StatusCode && r.StatusCode < 300; c.working {
		r.Body = newMeter(r.Body, c, strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream"))
	}
}

type callKey struct{}

// callOf returns the call of a request that readCall has passed on.
func callOf(r *http.Request) *call {
	c, _ := r.Context().Value(callKey{}).(*call)
	return c
}

// readCall reads the body of each request, and passes it on with its call in the context.
func readCall(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // a test's writer has no connection
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		_ = rc.SetReadDeadline(time.Time{})
		if err != nil {
			status := http.StatusBadRequest
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, err.Error(), status)
			return
		}
		c := &call{resource: resourceOf(r), declared: declaredBy(body), prompt: int64(len(body)+bytesAToken-1) / bytesAToken}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		next.ServeHTTP(w, r)
	})
}

// resourceOf returns the method and the path of the routes that cost tokens. All others are one resource: clients choose them.
func resourceOf(r *http.Request) string {
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/chat/completions", "POST /v1/completions", "POST /v1/responses", "POST /v1/embeddings":
		return r.Method + " " + r.URL.Path
	}
	return ""
}

// declaredBy returns the most tokens that a client asks for; 0 if it says nothing that can be read. The model judges what is wrong.
func declaredBy(body []byte) int64 {
	var asked struct {
		MaxTokens           json.RawMessage `json:"max_tokens"`
		MaxCompletionTokens json.RawMessage `json:"max_completion_tokens"` // of newer clients
		MaxOutputTokens     json.RawMessage `json:"max_output_tokens"`     // of /v1/responses
	}
	if json.Unmarshal(body, &asked) != nil {
		return 0
	}
	most := int64(0)
	for _, text := range []json.RawMessage{asked.MaxTokens, asked.MaxCompletionTokens, asked.MaxOutputTokens} {
		var n int64
		if json.Unmarshal(text, &n) == nil {
			most = max(most, n)
		}
	}
	return most
}
