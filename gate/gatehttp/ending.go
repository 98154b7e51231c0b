package gatehttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// ending is a ResponseWriter that sees how the response ends.
type ending struct {
	http.ResponseWriter
	status   int   // the final one; 0 while none was sent
	written  int64 // bytes of the body
	hijacked bool
}

// wrap returns the ResponseWriter to hand on: with the optional methods that the original has, as far as they come in
// the combinations of HTTP/1 and HTTP/2 servers.
func (e *ending) wrap() http.ResponseWriter {
	_, flusher := e.ResponseWriter.(http.Flusher)
	_, hijacker := e.ResponseWriter.(http.Hijacker)
	_, pusher := e.ResponseWriter.(http.Pusher)
	switch {
	case flusher && hijacker:
		return endingHTTP1{endingFlusher{e}}
	case flusher && pusher:
		return endingHTTP2{endingFlusher{e}}
	case flusher:
		return endingFlusher{e}
	}
	return e
}

// Unwrap is for http.ResponseController.
func (e *ending) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (e *ending) WriteHeader(status int) {
	if e.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		e.status = status
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (e *ending) Write(b []byte) (int, error) {
	e.begin()
	n, err := e.ResponseWriter.Write(b)
	e.written += int64(n)
	return n, err
}

// begin says that the status is sent, if it was not.
func (e *ending) begin() {
	if e.status == 0 {
		e.status = http.StatusOK
	}
}

// finalStatus returns the status that the client saw. A handler that panicked before it sent one is counted as 500,
// though the client sees a closed connection.
func (e *ending) finalStatus(returned bool) int {
	switch {
	case e.status != 0:
		return e.status
	case e.hijacked:
		return http.StatusSwitchingProtocols
	case !returned:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// endingFlusher is an ending that can be flushed.
type endingFlusher struct{ *ending }

// Flush implements http.Flusher.
func (e endingFlusher) Flush() { _ = e.FlushError() }

// FlushError is what http.ResponseController calls.
func (e endingFlusher) FlushError() error {
	e.begin()
	return http.NewResponseController(e.ResponseWriter).Flush()
}

// endingHTTP1 adds what an HTTP/1 server's responses have.
type endingHTTP1 struct{ endingFlusher }

// Hijack implements http.Hijacker.
func (e endingHTTP1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(e.ResponseWriter).Hijack()
	e.hijacked = e.hijacked || err == nil
	return conn, rw, err
}

// ReadFrom implements io.ReaderFrom, by which servers hand files to the kernel.
func (e endingHTTP1) ReadFrom(r io.Reader) (int64, error) {
	e.begin()
	n, err := io.Copy(e.ResponseWriter, r)
	e.written += n
	return n, err
}

// endingHTTP2 adds what an HTTP/2 server's responses have.
type endingHTTP2 struct{ endingFlusher }

// Push implements http.Pusher.
func (e endingHTTP2) Push(target string, o *http.PushOptions) error {
	if p, ok := e.ResponseWriter.(http.Pusher); ok {
		return p.Push(target, o)
	}
	return http.ErrNotSupported
}
