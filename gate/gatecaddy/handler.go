package gatecaddy

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
)

// Handler is the Caddy module "http.handlers.floodgate": it asks the gates of the App about each request, refuses it if one is closed,
// and records it. The zero value has one caller, the client's address. A request that passes two Handlers counts twice.
type Handler struct {
	// Callers are the callers of a request beside its address, each as kind=part, or as kind=part+part for a composite one. A part is
	// ip, a field of the header, or a placeholder such as {http.auth.user.id}. At most gate.MaxCallers-1.
	Callers []string `json:"callers,omitempty"`

	// RejectRepeated names fields of the header that a request may have only once: see gatehttp.Options.
	RejectRepeated []string `json:"reject_repeated,omitempty"`

	// Resource is what a request asks for, for rules that match a resource: a text such as "GET /search", in which placeholders may
	// stand. Do not take the path where clients choose it: each new path is an entry of its own. Empty is none.
	Resource string `json:"resource,omitempty"`

	// NoRecord counts no request. Use it where Caddy's log is ingested: otherwise each request counts twice.
	NoRecord bool `json:"no_record,omitempty"`

	gated http.Handler // the gates, and then pass
}

// CaddyModule implements caddy.Module.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.floodgate", New: func() caddy.Module { return new(Handler) }}
}

// Provision implements caddy.Provisioner.
func (h *Handler) Provision(ctx caddy.Context) error {
	callers, err := parseCallers(h.Callers)
	if err != nil {
		return err
	}
	module, err := ctx.AppIfConfigured("floodgate")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return errors.New("got no app floodgate, want one with brokers: in a Caddyfile the global option { floodgate { brokers HOST:PORT } }")
	} else if err != nil {
		return err
	}
	g := module.(*App).gates //nolint:errcheck,forcetypeassert // Caddy made it by its name
	o := gatehttp.Options{
		Set: g.set, Callers: callers, RejectRepeated: h.RejectRepeated,
		Resource: h.resource, OnClosed: refuse, OnShadow: func(r *http.Request, v gate.Verdict) { explain(r, "shadow", v) },
	}
	if !h.NoRecord {
		o.Recorder = g.recorder
	}
	h.gated = gatehttp.New(o)(http.HandlerFunc(pass))
	return nil
}

// resource returns what a request asks for.
func (h *Handler) resource(r *http.Request) string {
	if !strings.Contains(h.Resource, "{") {
		return h.Resource
	}
	return replacer(r).ReplaceAll(h.Resource, "")
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	x := &exchange{ResponseWriter: w, next: next}
	h.gated.ServeHTTP(x, r)
	return x.err
}

// pass is the handler behind the gates. It gives the request to the next handler of Caddy.
func pass(w http.ResponseWriter, r *http.Request) {
	if x, ok := w.(*exchange); ok { // no response is recorded
		x.err = x.next.ServeHTTP(x.ResponseWriter, r)
		return
	}
	x := w.(interface{ Unwrap() http.ResponseWriter }).Unwrap().(*exchange) //nolint:errcheck,forcetypeassert // gatehttp wraps it once
	if x.err = x.next.ServeHTTP(w, r); x.err != nil {
		x.failed = true
		w.WriteHeader(status(x.err)) // is recorded, and not sent
	}
}

// status returns the status that Caddy sends for an error of a handler.
func status(err error) int {
	if e, ok := errors.AsType[caddyhttp.HandlerError](err); ok && e.StatusCode != 0 {
		return e.StatusCode
	}
	return http.StatusInternalServerError
}

// errClosed says why a request has got status 429. It is one value, because caddyhttp.Error takes a stack trace for each request.
var errClosed error = caddyhttp.HandlerError{
	StatusCode: http.StatusTooManyRequests, Err: errors.New("floodgate: the gate of a caller is closed"),
}

// refuse leaves the answer to the error handling of Caddy. The fields of its header are set already.
func refuse(w http.ResponseWriter, r *http.Request, v gate.Verdict) {
	verdict := "closed"
	if v.Stale {
		verdict = "stale"
	}
	explain(r, verdict, v)
	w.(*exchange).err = errClosed //nolint:errcheck,forcetypeassert // gatehttp wraps only what it admits
}

// explain sets the placeholders.
func explain(r *http.Request, verdict string, v gate.Verdict) {
	replacer(r).Map(func(name string) (any, bool) {
		switch name {
		case "http.floodgate.verdict":
			return verdict, true
		case "http.floodgate.rule":
			return v.Rule, true
		case "http.floodgate.caller":
			if v.Stale {
				return "", true
			}
			return v.Caller.String(), true
		}
		return nil, false
	})
}

// Interfaces that Caddy looks for.
var (
	_ caddy.App                   = (*App)(nil)
	_ caddy.Provisioner           = (*App)(nil)
	_ caddy.CleanerUpper          = (*App)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
