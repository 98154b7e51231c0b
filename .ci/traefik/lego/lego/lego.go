// Package lego holds an ACME client that cannot be made.
package lego

import (
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/challenge/tlsalpn01"
	"github.com/go-acme/lego/v5/registration"
)

// DirectoryURLLetsEncrypt is the default of Traefik's configuration. Nobody connects to it.
const DirectoryURLLetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// Config of a Client.
type Config struct {
	CADirURL, UserAgent string
	HTTPClient          *http.Client
	Certificate         struct{ Timeout time.Duration }
}

// NewConfig returns a Config.
func NewConfig(any) *Config { return &Config{} }

// Client has nothing behind it.
type Client struct {
	Certificate  *certificate.Certifier
	Challenge    *Solvers
	Registration *registration.Registrar
}

// NewClient fails.
func NewClient(*Config) (*Client, error) { return nil, errors.ErrUnsupported }

// CreateCertPool fails.
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, errors.ErrUnsupported }

// Solvers solve nothing.
type Solvers struct{}

// SetDNS01Provider fails.
func (*Solvers) SetDNS01Provider(challenge.Provider, ...dns01.ChallengeOption) error {
	return errors.ErrUnsupported
}

// SetHTTP01Provider fails.
func (*Solvers) SetHTTP01Provider(challenge.Provider, ...http01.ChallengeOption) error {
	return errors.ErrUnsupported
}

// SetTLSALPN01Provider fails.
func (*Solvers) SetTLSALPN01Provider(challenge.Provider, ...tlsalpn01.ChallengeOption) error {
	return errors.ErrUnsupported
}
