// Package certificate holds what Traefik asks an ACME client for.
package certificate

import (
	"context"
	"errors"

	"github.com/go-acme/lego/v5/certcrypto"
)

// ObtainRequest describes a certificate.
type ObtainRequest struct {
	Domains, EmailAddresses  []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
	KeyType                  certcrypto.KeyType
}

// RenewOptions describes the next certificate.
type RenewOptions struct {
	EmailAddresses           []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
}

// Resource is a certificate.
type Resource struct {
	ID                      string
	Domains                 []string
	PrivateKey, Certificate []byte
}

// Certifier has no certificates.
type Certifier struct{}

// Obtain fails.
func (*Certifier) Obtain(context.Context, ObtainRequest) (*Resource, error) {
	return nil, errors.ErrUnsupported
}

// Renew fails.
func (*Certifier) Renew(context.Context, Resource, *RenewOptions) (*Resource, error) {
	return nil, errors.ErrUnsupported
}
