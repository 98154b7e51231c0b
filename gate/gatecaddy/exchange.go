package gatecaddy

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// exchange is the ResponseWriter that gatehttp gets for one request. It carries the next handler there, and its error back. It has
// the optional methods of an HTTP/1 server, so that gatehttp keeps them where it records responses.
type exchange struct {
	http.ResponseWriter
	next   caddyhttp.Handler
	err    error
	failed bool // the error handling of Caddy answers: what comes now is not sent
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if !x.failed {
		x.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() }

// FlushError is what http.ResponseController calls.
func (x *exchange) FlushError() error { return http.NewResponseController(x.ResponseWriter).Flush() }

// Hijack implements http.Hijacker.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(x.ResponseWriter).Hijack()
}

// ReadFrom implements io.ReaderFrom, with which servers let the kernel copy files.
func (x *exchange) ReadFrom(r io.Reader) (int64, error) { return io.Copy(x.ResponseWriter, r) }
