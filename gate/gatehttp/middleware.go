package gatehttp

import (
	"net/http"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
	"github.com/509da70d/floodgate/gate/record"
)

// Recorder counts requests; *record.Recorder is one. Its methods must be safe for concurrent use and must not block.
type Recorder interface {
	Record(*gate.Callers, gate.Verdict, record.Request)
	Respond(*gate.Callers, record.Response)
	Responses() bool // whether Respond does anything
	Holds() bool     // whether it wants to know what requests are expected to cost
}

// Options configure a middleware. Set and Callers are required.
type Options struct {
	Set      *gate.Set
	Recorder Recorder     // nil records nothing
	Callers  []CallerFunc // at most gate.MaxCallers

	// Resource returns what a request asks for, in the form "GET /items/{id}". If it is nil, the resource is what Route returns;
	// see the package documentation.
	Resource func(*http.Request) string

	// Skip reports whether a request, such as a health check, is neither gated nor recorded. If it is nil, none is skipped.
	Skip func(*http.Request) bool

	// OnClosed answers refused requests. The header fields of the answer are set before it is called; it writes status and
	// body. If it is nil, the answer is http.Error with status 429.
	OnClosed func(http.ResponseWriter, *http.Request, gate.Verdict)

	// RejectRepeated names fields of the header that a request may have only once, such as the one with an API key. If a
	// request has one of them twice, or with a comma in it (proxies join two lines by a comma), it is answered with 400
	// instead of by the handler. It is counted like any other request, by its first line, and a closed gate refuses it first.
	RejectRepeated []string

	// OnShadow is called for each admitted request that a closure in mode shadow would have refused, to count or log it. It
	// runs before the handler and should be quick. It may be nil.
	OnShadow func(*http.Request, gate.Verdict)

	// Cost returns the cost of a request after its response has ended, for rules that measure cost. It is called only if the
	// Recorder wants responses, and also if the handler panicked or the client has gone away. It gets the request that the
	// middleware got, and so does the handler: what the handler has found out comes through the request's context, as the example
	// shows. If it is nil, the cost is 0.
	Cost func(r *http.Request, status int, bodyBytes int64) int64

	// Declared returns what a request is expected to cost, such as the max_tokens that it asks for; 0 is unknown. It is called once
	// for each admitted request, before it is recorded, and only if the Recorder holds. It must not wait: what must be read of the
	// body, a handler before the middleware reads. If it is nil, nothing is declared.
	Declared func(*http.Request) int64
}

// New returns a middleware. It panics without a Set or callers, with too many callers, and on kinds that Set.Gate
// refuses. Such mistakes show when the program starts for the first time.
//
// New wraps the ResponseWriter only if the Recorder wants responses. http.ResponseController, and type assertions to Flusher,
// Hijacker, ReaderFrom and Pusher, find in the wrapper what they find in the original.
func New(o Options) func(http.Handler) http.Handler {
	switch {
	case o.Set == nil:
		panic("gatehttp: Options.Set is nil")
	case len(o.Callers) == 0 || len(o.Callers) > gate.MaxCallers:
		panic("gatehttp: Options.Callers needs 1 to gate.MaxCallers functions")
	}
	if o.OnClosed == nil {
		o.OnClosed = respondTooMany
	}
	if o.Resource == nil {
		o.Resource = new(routes).of
	}
	g := &gated{options: o}
	g.pool.New = func() any { return new(gate.Callers) }
	for _, f := range o.Callers {
		g.callers = append(g.callers, f(o.Set))
	}
	for _, field := range o.RejectRepeated {
		g.singleFields = append(g.singleFields, http.CanonicalHeaderKey(field))
	}
	return func(next http.Handler) http.Handler {
		mux, _ := next.(*http.ServeMux)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next, mux) })
	}
}

// respondTooMany is the default OnClosed.
func respondTooMany(w http.ResponseWriter, _ *http.Request, _ gate.Verdict) {
	http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
}

// gated is the part that all handlers of one middleware share.
type gated struct {
	options      Options
	callers      []AddFunc
	singleFields []string  // Options.RejectRepeated, canonical
	pool         sync.Pool // of *gate.Callers: calls of caller functions would move each one to the heap
}

// repeats reports whether a request has a field twice that it may have only once.
func (g *gated) repeats(r *http.Request) bool {
	for _, field := range g.singleFields {
		if front.Repeated(r.Header[field]) {
			return true
		}
	}
	return false
}

// rejectRepeated answers a request that has a field twice.
func rejectRepeated(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "a header field that identifies the caller was sent more than once", http.StatusBadRequest)
}

// serve gates one request. mux is next if next is a mux, and nil otherwise.
func (g *gated) serve(w http.ResponseWriter, r *http.Request, next http.Handler, mux *http.ServeMux) {
	o := &g.options
	if o.Skip != nil && o.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	if mux != nil {
		if _, pattern := mux.Handler(r); pattern != "" {
			r.Pattern = pattern
		}
	}
	c := g.pool.Get().(*gate.Callers) //nolint:errcheck,forcetypeassert // the pool holds nothing else
	for _, add := range g.callers {
		add(r, c)
	}
	var now time.Time
	if o.Recorder != nil {
		now = time.Now() // the Recorder needs it. With it, a closure that has ended refuses no request, even after a pause
	}
	v := o.Set.CheckAt(c, now)
	arrival := record.Request{At: now}
	if o.Recorder != nil {
		arrival.Resource = o.Resource(r)
		if o.Declared != nil && !v.Closed && o.Recorder.Holds() {
			arrival.Declared = o.Declared(r)
		}
		o.Recorder.Record(c, v, arrival)
	}
	if v.Closed || o.Recorder == nil || !o.Recorder.Responses() {
		g.free(c)
	}
	switch {
	case v.Closed:
		setFields(w.Header(), v)
		o.OnClosed(w, r, v)
		return
	case v.Shadow && o.OnShadow != nil:
		o.OnShadow(r, v)
	}
	if len(g.singleFields) > 0 && g.repeats(r) {
		next = http.HandlerFunc(rejectRepeated)
	}
	if o.Recorder == nil || !o.Recorder.Responses() {
		next.ServeHTTP(w, r)
		return
	}
	g.serveRecorded(w, r, next, c, arrival)
}

// serveRecorded serves an admitted request and records its response, even if the handler or Options.Cost panics: until then the request
// holds what it may cost.
func (g *gated) serveRecorded(w http.ResponseWriter, r *http.Request, next http.Handler, c *gate.Callers, arrival record.Request) {
	rw := &responseWriter{ResponseWriter: w}
	returned := false
	defer func() {
		p := record.Response{
			Resource: arrival.Resource, Status: rw.finalStatus(returned), Arrived: arrival.At, Declared: arrival.Declared,
		}
		defer func() {
			g.options.Recorder.Respond(c, p)
			g.free(c)
		}()
		if g.options.Cost != nil {
			p.Cost = g.options.Cost(r, p.Status, rw.written)
		}
	}()
	next.ServeHTTP(rw.wrap(), r)
	returned = true
}

func (g *gated) free(c *gate.Callers) {
	c.Reset()
	g.pool.Put(c)
}
