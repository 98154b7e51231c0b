// Package dns01 holds the options of a challenge that is never made.
package dns01

import (
	"strings"
	"time"
)

// Options of a Client.
type Options struct{ RecursiveNameservers []string }

// Client asks nobody.
type Client struct{}

// NewClient returns a Client.
func NewClient(*Options) *Client { return &Client{} }

// SetDefaultClient does nothing.
func SetDefaultClient(*Client) {}

// ChallengeOption does nothing.
type ChallengeOption func()

// CondOptions returns no option.
func CondOptions(bool, ...ChallengeOption) ChallengeOption { return nil }

// DisableAuthoritativeNssPropagationRequirement returns no option.
func DisableAuthoritativeNssPropagationRequirement() ChallengeOption { return nil }

// DisableRecursiveNSsPropagationRequirement returns no option.
func DisableRecursiveNSsPropagationRequirement() ChallengeOption { return nil }

// PropagationWait returns no option.
func PropagationWait(time.Duration, bool) ChallengeOption { return nil }

// UnFqdn removes the dot at the end of a name.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }
