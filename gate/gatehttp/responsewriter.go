package gatehttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// responseWriter is an http.ResponseWriter that keeps the status and the length of a response.
type responseWriter struct {
	http.ResponseWriter
	status   int   // the final status; 0 while none was sent
	written  int64 // bytes of the body
	hijacked bool
}

// wrap returns the ResponseWriter for the handler. It has the optional methods of the original, if the original has them in
// one of the combinations of HTTP/1 and HTTP/2 servers.
func (w *responseWriter) wrap() http.ResponseWriter {
	_, flusher := w.ResponseWriter.(http.Flusher)
	_, hijacker := w.ResponseWriter.(http.Hijacker)
	_, pusher := w.ResponseWriter.(http.Pusher)
	switch {
	case flusher && hijacker:
		return http1Writer{flushWriter{w}}
	case flusher && pusher:
		return http2Writer{flushWriter{w}}
	case flusher:
		return flushWriter{w}
	}
	return w
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *responseWriter) Write(b []byte) (int, error) {
	w.statusSent()
	n, err := w.ResponseWriter.Write(b)
	w.written += int64(n)
	return n, err
}

// statusSent takes note that the server sends status 200, if the handler has sent none.
func (w *responseWriter) statusSent() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// finalStatus returns the status that the client received. If the handler panicked before it sent one, finalStatus returns
// 500, although the client sees a closed connection.
func (w *responseWriter) finalStatus(returned bool) int {
	switch {
	case w.status != 0:
		return w.status
	case w.hijacked:
		return http.StatusSwitchingProtocols
	case !returned:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// flushWriter is a responseWriter that can be flushed.
type flushWriter struct{ *responseWriter }

// Flush implements http.Flusher.
func (w flushWriter) Flush() { _ = w.FlushError() }

// FlushError is what http.ResponseController calls.
func (w flushWriter) FlushError() error {
	w.statusSent()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// http1Writer adds the optional methods of an HTTP/1 server.
type http1Writer struct{ flushWriter }

// Hijack implements http.Hijacker.
func (w http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

// ReadFrom implements io.ReaderFrom, with which servers let the kernel copy files.
func (w http1Writer) ReadFrom(r io.Reader) (int64, error) {
	w.statusSent()
	n, err := io.Copy(w.ResponseWriter, r)
	w.written += n
	return n, err
}

// http2Writer adds the optional methods of an HTTP/2 server.
type http2Writer struct{ flushWriter }

// Push implements http.Pusher.
func (w http2Writer) Push(target string, o *http.PushOptions) error {
	if p, ok := w.ResponseWriter.(http.Pusher); ok {
		return p.Push(target, o)
	}
	return http.ErrNotSupported
}
