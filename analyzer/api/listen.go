package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Bounds on connections.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second // of an answer; streams and long lists move it
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
	stopTimeout    = time.Second // that running requests have when the server stops
)

// Serve answers on a listener until ctx ends, and running requests have their answers, which may take a second more. With
// certificates it speaks TLS. It closes the listener. Call it once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		close(s.shutdown)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // cuts off requests that take longer
		}
	})
	var err error
	if s.tls != nil {
		server.TLSConfig = s.tls.server()
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	if !stop() {
		<-stopped
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the API: %w", err)
	}
	return nil
}

// certificates is the server's certificate, which is read again when its file changes, and the authorities of clients.
type certificates struct {
	certFile, keyFile string
	clients           *x509.CertPool // nil: clients need no certificate
	clientPEM         []byte         // of the same authorities
	logger            *slog.Logger
	clock             func() time.Time

	mu      sync.Mutex
	checked time.Time        // guarded by mu
	pem     []byte           // guarded by mu: of both files
	newest  *tls.Certificate // guarded by mu
	err     string           // guarded by mu: why the files could not be read; the log has it
}

func openCertificates(c *Config) (*certificates, error) {
	t := &certificates{certFile: c.CertFile, keyFile: c.KeyFile, logger: c.Logger, clock: c.Clock, checked: c.Clock()}
	var err error
	if t.newest, t.pem, err = t.read(); err != nil {
		return nil, fmt.Errorf("certificate of the API: %w", err)
	}
	if c.ClientCAFile == "" {
		return t, nil
	}
	text, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("authorities of clients: %w", err)
	}
	t.clients, t.clientPEM = x509.NewCertPool(), text
	if !t.clients.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: authorities of clients: %s has no certificate in PEM", ErrConfig, c.ClientCAFile)
	}
	return t, nil
}

func (t *certificates) read() (*tls.Certificate, []byte, error) {
	cert, err := os.ReadFile(t.certFile)
	if err != nil {
		return nil, nil, err
	}
	key, err := os.ReadFile(t.keyFile)
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, nil, err
	}
	return &pair, append(cert, key...), nil
}

// current returns the certificate in use. It reads the files again at most each second.
func (t *certificates) current() *tls.Certificate {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.clock(); now.Sub(t.checked) >= tokensChecked {
		t.checked = now
		switch pair, pem, err := t.read(); {
		case err != nil:
			if t.err != err.Error() {
				t.logger.Error("certificate not changed: the files cannot be used", "error", err)
			}
			t.err = err.Error()
			return t.newest
		case !bytes.Equal(pem, t.pem):
			t.newest, t.pem = pair, pem
			t.logger.Info("certificate changed", "file", t.certFile)
		}
		t.err = ""
	}
	return t.newest
}

// server returns the settings of the server's side.
func (t *certificates) server() *tls.Config {
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.current(), nil },
	}
	if t.clients != nil {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, t.clients
	}
	return c
}

// dial connects to another analyzer. What it trusts is looked at anew for each connection: analyzers that share a certificate renew it
// together.
func (t *certificates) dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	config := t.client()
	var err error
	if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
		return nil, err
	}
	plain, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return conn, nil
}

// client returns the settings with which this analyzer asks others: they have certificates of an authority of the system's, of
// an authority of clients, or the one that this analyzer has itself.
func (t *certificates) client() *tls.Config {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(t.clientPEM)
	t.current() // reads the files again if they are another
	t.mu.Lock()
	pool.AppendCertsFromPEM(t.pem)
	t.mu.Unlock()
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.current(), nil },
	}
}
