// Package challenge holds the interface of Traefik's ACME challenges.
package challenge

import "context"

// Provider answers a challenge.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}
