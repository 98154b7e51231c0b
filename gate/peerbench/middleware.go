package main

import (
	"context"
	"net/http"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
	"github.com/509da70d/floodgate/gate/record"
)

// keyField is the field of the header that has the caller's key.
const keyField = "X-Api-Key"

// gates returns gatehttp's middleware as in a typical server: two callers a request, checked and recorded.
func gates(closed []string) (middleware func(http.Handler) http.Handler, stop func()) {
	g, rec := peers.NewGate(closed), record.New(record.Options{})
	undrain := drain(rec)
	return gatehttp.New(gatehttp.Options{
			Set: g.Set, Recorder: rec,
			Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.Header(peers.Kind, keyField)},
		}), func() {
			undrain()
			_ = g.Close() // never fails
		}
}

// middleware measures gatehttp beside the handlers that it wraps, without a network.
func (b *bench) middleware(ctx context.Context) error {
	closed, asked := crowd(few, few)
	wrap, stop := gates(closed)
	defer stop()
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux := http.NewServeMux()
	mux.Handle(resource, handler)
	work := func(h http.Handler) meter.Work { return serving(h, asked) }
	measured, err := b.spread(ctx, work(handler), work(wrap(handler)), work(mux), work(wrap(mux)))
	if err != nil {
		return err
	}
	for i, r := range []report.Row{
		{Case: "gatehttp with an address and a key, recorded, over a bare handler", Bar: report.Bar{AtMost: 300, Allocs: 1}},
		{Case: "the same around an http.ServeMux, over the bare mux", Bar: report.Bar{Allocs: 1}},
	} {
		r.Unit = "ns"
		for j, series := range measured {
			gated, bare := series[2*i+1], series[2*i]
			r.Figures = append(r.Figures, report.Figure{
				CPUs: b.settings.cpus[j], Value: beyond(gated, bare), Allocs: max(0, gated.Allocs()-bare.Allocs()),
			})
		}
		b.row(r)
	}
	return nil
}

// serving returns a work that passes requests to a handler, each of another caller.
func serving(h http.Handler, callers []string) meter.Work {
	var requests [maxWorkers][]*http.Request
	addrs := addresses(len(callers))
	for w := range requests {
		for i, k := range callers {
			r, err := http.NewRequest(http.MethodGet, "/v1/items/1", nil) //nolint:noctx // it is not sent
			if err != nil {
				panic("BUG: " + err.Error())
			}
			r.RemoteAddr = addrs[i].String() + ":4711"
			r.Header.Set(keyField, k)
			requests[w] = append(requests[w], r)
		}
	}
	return func(worker int) int {
		w := nowhere{}
		for _, r := range requests[worker] {
			h.ServeHTTP(w, r)
		}
		return len(requests[worker])
	}
}

// nowhere is a ResponseWriter for handlers that write nothing.
type nowhere struct{}

// Header implements http.ResponseWriter.
func (nowhere) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}
