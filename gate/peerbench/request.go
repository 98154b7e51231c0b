package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// requests measures whole requests over loopback: bare net/http, with gates, and with the most common limiter.
func (b *bench) requests(ctx context.Context) error {
	closed, asked := crowd(b.settings.many, b.settings.many)
	usual, stopUsual := gates(closed[:few])
	defer stopUsual()
	flooded, stopFlooded := gates(closed)
	defer stopFlooded()
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })
	var trials []meter.Work
	var sites []*site
	for _, h := range []http.Handler{handler, limited(handler, copies(shuffled(asked))), usual(handler), flooded(handler)} {
		s, err := newSite(h, asked)
		if err != nil {
			return err
		}
		defer s.close()
		sites = append(sites, s)
		trials = append(trials, s.work)
	}
	more := *b // more rounds, because a difference of a few percent is small beside the noise
	more.settings.plan.Rounds *= 3
	measured, err := more.spread(ctx, trials...)
	if err != nil {
		return err
	}
	for _, s := range sites {
		if err := s.failure(); err != nil {
			return err
		}
	}
	b.requestRows(measured)
	return nil
}

// requestRows adds a row for each number of closed callers: how much gates add to a bare request. It measures a bare
// request, one with a limiter, and one for each row.
func (b *bench) requestRows(measured [][]meter.Series) {
	rows := []report.Row{
		{Case: "a whole net/http request, two callers, recorded: more than a bare one by", Bar: report.Bar{AtMost: 4, Allocs: 1}},
		{Case: "the same with 1 M closed", Bar: report.Bar{Allocs: 1}},
	}
	for i := range rows {
		r := &rows[i]
		r.Unit = "%"
		for j, series := range measured {
			bare, limiter, gated := series[0], series[1], series[2+i]
			more := func(s meter.Series) float64 { return 100 * (s.Over(bare) - 1) }
			r.Figures = append(r.Figures, report.Figure{
				CPUs: b.settings.cpus[j], Value: more(gated), Allocs: max(0, gated.Allocs()-bare.Allocs()),
				Rival: report.Rival{Name: "x/time/rate, sync.Map", Value: more(limiter)},
			})
		}
	}
	for j, series := range measured {
		rows[0].Note += fmt.Sprintf("a bare request takes %.1f µs on %d CPU; ", series[0].NS()/1000, b.settings.cpus[j])
	}
	rows[0].Note += "over loopback, client and server in one process, a connection for each CPU, keep-alive; " +
		"1 000 callers closed, 1 M others ask"
	b.report.Rows = append(b.report.Rows, rows...)
}

// limited puts a Limiter of golang.org/x/time/rate for each caller before a handler. It knows some callers already.
func limited(next http.Handler, known []string) http.Handler {
	var m sync.Map
	for _, k := range known {
		m.Store(k, rate.NewLimiter(1e6, 1e6))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(keyField)
		v, ok := m.Load(key)
		if !ok {
			v, _ = m.LoadOrStore(key, rate.NewLimiter(1e6, 1e6))
		}
		if l, ok := v.(*rate.Limiter); !ok || !l.Allow() {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// site is a server on loopback and its clients, one connection for each worker.
type site struct {
	server  *http.Server
	serving sync.WaitGroup
	keys    *rounds
	clients [maxWorkers]*client
	failed  atomic.Pointer[error]
}

func newSite(h http.Handler, asked []string) (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{server: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}, keys: newRounds(asked)}
	s.keys.step = 20
	s.serving.Go(func() {
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.fail(err)
		}
	})
	for i := range s.clients {
		if s.clients[i], err = dial(l.Addr().String()); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *site) close() {
	for _, c := range s.clients {
		if c != nil {
			_ = c.conn.Close() // no more to be read
		}
	}
	_ = s.server.Close() // its connections are closed by their clients
	s.serving.Wait()
}

func (s *site) fail(err error) { s.failed.CompareAndSwap(nil, &err) }

func (s *site) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// work sends some requests of a worker, one after the other.
func (s *site) work(worker int) int {
	keys := s.keys.next(worker)
	for _, k := range keys {
		if err := s.clients[worker].get(k); err != nil {
			s.fail(err)
			break
		}
	}
	return len(keys)
}

// client is one connection with very little code, so that most of the measured time is the server's.
type client struct {
	conn     net.Conn
	response *bufio.Reader
	request  []byte
}

func dial(addr string) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, response: bufio.NewReader(conn)}, nil
}

// get sends a request as the caller with this key and waits for the whole response, which must be the handler's.
func (c *client) get(key string) error {
	c.request = append(c.request[:0], "GET /v1/items/1 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: peerbench\r\nAccept: */*\r\n"+keyField+": "...)
	c.request = append(append(c.request, key...), "\r\n\r\n"...)
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	for first := true; ; first = false {
		line, err := c.response.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && string(line) != "HTTP/1.1 200 OK\r\n" {
			return fmt.Errorf("got %q, want status 200", line)
		}
		if len(line) == len("\r\n") {
			break
		}
	}
	_, err := c.response.Discard(len("hello\n"))
	return err
}
