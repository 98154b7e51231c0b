// Package acme holds what Traefik stores of an ACME account.
package acme

// Account is an account.
type Account struct{}

// ExtendedAccount is an account and where it is.
type ExtendedAccount struct {
	Account

	Location string
}
