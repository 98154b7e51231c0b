package securetest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
)

// shake performs a handshake over loopback and returns how it went for the client and for the server.
func shake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Read(make([]byte, 1)) // after the handshake, so that a client's certificate was looked at
			_ = c.Close()
		}
		done <- err
	}()
	c, clientErr := tls.Dial("tcp", l.Addr().String(), client)
	if clientErr == nil {
		_, clientErr = c.Write([]byte{1})
	}
	serverErr = <-done
	if c != nil {
		_ = c.Close()
	}
	return clientErr, serverErr
}

func pool(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(b) {
		t.Fatalf("%s holds no certificate", path)
	}
	return p
}

func TestClientsThatTrustTheAuthorityAcceptItsCertificates(t *testing.T) {
	a, other := New(t), New(t)
	trust := &tls.Config{RootCAs: pool(t, a.CA), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	if c, s := shake(t, trust, a.Server(false)); c != nil || s != nil {
		t.Errorf("own authority: got %v and %v, want no error", c, s)
	}
	var unknown x509.UnknownAuthorityError
	if c, _ := shake(t, trust, other.Server(false)); !errors.As(c, &unknown) {
		t.Errorf("another's certificate: got %v, want an unknown authority", c)
	}
	named := trust.Clone()
	named.ServerName = "kafka.example.org"
	var host x509.HostnameError
	if c, _ := shake(t, named, a.Server(false)); !errors.As(c, &host) {
		t.Errorf("another name: got %v, want it to differ from the host", c)
	}
}

func TestMutualServersWantACertificateOfTheirAuthority(t *testing.T) {
	a, other := New(t), New(t)
	trust := func(owner *Authority) *tls.Config {
		c := &tls.Config{RootCAs: pool(t, a.CA), ServerName: "localhost", MinVersion: tls.VersionTLS12}
		if owner != nil {
			pair, err := tls.LoadX509KeyPair(owner.Issue("client"))
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		return c
	}
	if c, s := shake(t, trust(a), a.Server(true)); c != nil || s != nil {
		t.Errorf("a client of the authority: got %v and %v, want no error", c, s)
	}
	if _, s := shake(t, trust(nil), a.Server(true)); s == nil || !strings.Contains(s.Error(), "certificate") {
		t.Errorf("a client without certificate: got %v, want a complaint", s)
	}
	if _, s := shake(t, trust(other), a.Server(true)); s == nil {
		t.Error("a client of another authority: got no error, want one")
	}
}

// A certificate that is issued again replaces the one before, as one that is renewed does.
func TestIssuedAgainIsAnotherCertificate(t *testing.T) {
	a := New(t)
	serial := func() string {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(a.Issue("client"))
		if err != nil {
			t.Fatal(err)
		}
		if name := pair.Leaf.Subject.CommonName; name != "client" {
			t.Errorf("got a certificate of %q, want client's", name)
		}
		return pair.Leaf.SerialNumber.String()
	}
	if first, second := serial(), serial(); first == second {
		t.Errorf("got serial number %s twice, want another", first)
	}
}
