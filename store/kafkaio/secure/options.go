package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/segmentio/kafka-go/sasl"
)

// Mechanisms of SASL that Options.SASL may name.
const (
	Plain       = "plain"
	ScramSHA256 = "scram-sha-256"
	ScramSHA512 = "scram-sha-512"
)

// ErrPlaintext says that a password would cross the network unencrypted, and that Options.Insecure does not allow it.
var ErrPlaintext = errors.New("SASL without TLS shows the password to the network")

// Options says how to connect to brokers with TLS and SASL. The zero value is a plain connection.
type Options struct {
	TLS       bool   // speak TLS 1.2 or later, and verify the broker's certificate and host name
	CA        string // PEM file of the authorities to trust; empty is the system's
	Cert, Key string // PEM files of our own certificate and key, for brokers that ask (mTLS); both or none

	SASL         string // Plain, ScramSHA256 or ScramSHA512; empty is none
	User         string
	PasswordFile string // holds the password; a newline at its end is not part of it

	// Insecure allows SASL without TLS. It is for tests, and for networks that are encrypted at a lower layer.
	Insecure bool
}

// Check returns what is wrong with the options by themselves; it reads no file.
func (o *Options) Check() error {
	switch {
	case !o.TLS && (o.CA != "" || o.Cert != "" || o.Key != ""):
		return errors.New("got TLS files or a server name without TLS")
	case (o.Cert == "") != (o.Key == ""):
		return errors.New("certificate and key: got one, want both or none")
	case o.SASL == "" && (o.User != "" || o.PasswordFile != ""):
		return errors.New("got a user or a password file without a SASL mechanism")
	case o.SASL == "":
		return nil
	case o.SASL != Plain && o.SASL != ScramSHA256 && o.SASL != ScramSHA512:
		return fmt.Errorf("SASL mechanism: got %q, want %s, %s or %s", o.SASL, Plain, ScramSHA256, ScramSHA512)
	case o.User == "" || o.PasswordFile == "":
		return errors.New("SASL: want a user and a password file")
	case !o.TLS && !o.Insecure:
		return ErrPlaintext
	}
	return nil
}

// Load checks the options and reads the files once, so that errors in them appear at the start. The results are nil if the
// options do not ask for TLS or SASL. Any number of clients may use them.
func (o *Options) Load() (*tls.Config, sasl.Mechanism, error) {
	if err := o.Check(); err != nil {
		return nil, nil, err
	}
	var config *tls.Config
	if o.TLS {
		var err error
		if config, err = o.tls(); err != nil {
			return nil, nil, err
		}
	}
	if o.SASL == "" {
		return config, nil, nil
	}
	m := &mechanism{name: o.SASL, user: o.User, file: o.PasswordFile}
	if _, err := m.resolve(); err != nil {
		return nil, nil, err
	}
	return config, m, nil
}

func (o *Options) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("read authorities: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read authorities: %s holds no certificate in PEM", o.CA)
		}
	}
	if o.Cert != "" {
		p := &keyPair{cert: o.Cert, key: o.Key}
		if _, err := p.load(); err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.load() }
	}
	return c, nil
}
