package gatehttp

import (
	"net/http"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
)

// Recorder counts requests; *record.Recorder is one. Its methods must be safe for concurrent use and must not block.
type Recorder interface {
	Record(*gate.Callers, gate.Verdict, record.Request)
	Respond(*gate.Callers, record.Response)
	Responses() bool // whether Respond does anything
}

// Options say what a middleware does. Set and Callers are required.
type Options struct {
	Set      *gate.Set
	Recorder Recorder     // nil records nothing
	Callers  []CallerFunc // at most gate.MaxCallers

	// Resource says what a request asks for. nil is its Pattern; see the package documentation.
	Resource func(*http.Request) string

	// Skip says which requests are neither gated nor recorded, such as health checks. nil is none.
	Skip func(*http.Request) bool

	// OnClosed answers refused requests. The fields of the answer are set before; status and body are OnClosed's. nil
	// answers with http.Error and status 429.
	OnClosed func(http.ResponseWriter, *http.Request, gate.Verdict)

	// OnShadow is told of requests that a closure in mode shadow would have refused, and that are admitted, for counting
	// or logging them. It runs before the handler and should be quick. nil is nothing.
	OnShadow func(*http.Request, gate.Verdict)

	// Cost says what a request has cost once its response has ended, for rules that measure cost. nil is nothing. It is
	// asked only if the Recorder wants responses.
	Cost func(r *http.Request, status int, bodyBytes int64) int64
}

// New returns a middleware. It panics without a Set or callers, with too many callers, and on kinds that Set.Gate
// refuses: mistakes that show at the first start.
//
// Responses are wrapped only if the Recorder wants to know their ends; the wrapper offers what http.ResponseController,
// and type assertions to Flusher, Hijacker, ReaderFrom and Pusher, find in the original.
func New(o Options) func(http.Handler) http.Handler {
	switch {
	case o.Set == nil:
		panic("gatehttp: Options.Set is nil")
	case len(o.Callers) == 0 || len(o.Callers) > gate.MaxCallers:
		panic("gatehttp: Options.Callers needs 1 to gate.MaxCallers functions")
	}
	if o.OnClosed == nil {
		o.OnClosed = tooMany
	}
	if o.Resource == nil {
		o.Resource = Route
	}
	g := &gated{options: o}
	g.pool.New = func() any { return new(gate.Callers) }
	for _, f := range o.Callers {
		g.callers = append(g.callers, f(o.Set))
	}
	return func(next http.Handler) http.Handler {
		mux, _ := next.(*http.ServeMux)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next, mux) })
	}
}

// tooMany is the default OnClosed.
func tooMany(w http.ResponseWriter, _ *http.Request, _ gate.Verdict) {
	http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
}

// gated is what all handlers of one middleware share.
type gated struct {
	options Options
	callers []AddFunc
	pool    sync.Pool // of *gate.Callers: calls of caller functions would move each one to the heap
}

// serve gates one request. mux is next, if that is a mux.
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
		now = time.Now() // the Recorder's time: with it no closure that has ended refuses anybody, not even after a pause
	}
	v := o.Set.CheckAt(c, now)
	resource := ""
	if o.Recorder != nil {
		resource = o.Resource(r)
		o.Recorder.Record(c, v, record.Request{Resource: resource, At: now})
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
	if o.Recorder == nil || !o.Recorder.Responses() {
		next.ServeHTTP(w, r)
		return
	}
	g.serveRecorded(w, r, next, c, resource)
}

// serveRecorded serves an admitted request and records how it ended, also if the handler panics.
func (g *gated) serveRecorded(w http.ResponseWriter, r *http.Request, next http.Handler, c *gate.Callers, resource string) {
	end := &ending{ResponseWriter: w}
	returned := false
	defer func() {
		p := record.Response{Resource: resource, Status: end.finalStatus(returned)}
		if g.options.Cost != nil {
			p.Cost = g.options.Cost(r, p.Status, end.written)
		}
		g.options.Recorder.Respond(c, p)
		g.free(c)
	}()
	next.ServeHTTP(end.wrap(), r)
	returned = true
}

func (g *gated) free(c *gate.Callers) {
	c.Reset()
	g.pool.Put(c)
}
