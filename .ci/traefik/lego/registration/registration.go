// Package registration registers nobody.
package registration

import (
	"context"
	"errors"

	"github.com/go-acme/lego/v5/acme"
)

// RegisterOptions of Register.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions of RegisterWithExternalAccountBinding.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}

// Registrar registers nobody.
type Registrar struct{}

// Register fails.
func (*Registrar) Register(context.Context, RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, errors.ErrUnsupported
}

// RegisterWithExternalAccountBinding fails.
func (*Registrar) RegisterWithExternalAccountBinding(context.Context, RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, errors.ErrUnsupported
}
