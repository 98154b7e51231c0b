package main

import (
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// demoConfig is the flags of demo.
type demoConfig struct {
	duration   time.Duration
	data       string
	partitions int
	servers    int
	quiet      int
	noisy      int
	quietRate  float64 // requests per second of one caller
	noisyRate  float64
	limit      int64
	window     time.Duration
	out        outputFlag
	verbose    bool
}

func parseDemo(p process, args []string) (demoConfig, error) {
	c := demoConfig{}
	flags := newFlags("demo [flags]")
	flags.DurationVar(&c.duration, "duration", 10*time.Second, "how long to send requests")
	flags.IntVar(&c.quiet, "quiet", 50, "callers that keep to the limit")
	flags.IntVar(&c.noisy, "noisy", 1, "callers that don't")
	flags.Float64Var(&c.quietRate, "quiet-rate", 5, "requests per second of a quiet caller")
	flags.Float64Var(&c.noisyRate, "noisy-rate", 500, "requests per second of a noisy caller")
	flags.Int64Var(&c.limit, "limit", 100, "requests that a caller has in each window")
	flags.DurationVar(&c.window, "window", 2*time.Second, "length of the window")
	flags.IntVar(&c.servers, "servers", 3, "web servers with a gate")
	flags.IntVar(&c.partitions, "partitions", 4, "partitions of the topics")
	flags.StringVar(&c.data, "data", "", "`directory` to keep the log and the counts in (default: a temporary one)")
	flags.Var(&c.out, "output", "table or json")
	flags.BoolVar(&c.verbose, "verbose", false, "log what all parts do")
	if err := parseFlags(p, flags, args); err != nil {
		return c, err
	}
	if err := flagsOnly(flags); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c *demoConfig) check() error {
	switch {
	case c.duration <= 0 || c.duration > 24*time.Hour:
		return usagef("--duration: got %v, want up to 24h", c.duration)
	case c.quiet < 0 || c.noisy < 0 || c.quiet+c.noisy == 0 || c.quiet+c.noisy > 10_000:
		return usagef("--quiet, --noisy: got %d and %d callers, want 1 to 10000 in all", c.quiet, c.noisy)
	case !(c.quietRate > 0 && c.noisyRate > 0 && c.quietRate <= 1e5 && c.noisyRate <= 1e5):
		return usagef("--quiet-rate, --noisy-rate: got %v and %v, want more than 0, up to 100000", c.quietRate, c.noisyRate)
	case c.servers < 1 || c.servers > 100:
		return usagef("--servers: got %d, want 1 to 100", c.servers)
	case c.partitions < 1 || c.partitions > 100:
		return usagef("--partitions: got %d, want 1 to 100", c.partitions)
	}
	return nil
}

// Rule names of the demo.
const (
	demoRule  = "per-key"
	auditRule = "all-requests"
)

// demoRules limits each key, and beside that counts every request, also blocked ones, for the audit. The second rule is
// in shadow mode and its limit out of reach: it closes nothing.
const demoRules = `
version: 1
rules:
  - {name: ` + demoRule + `, callers: key, limit: %d, window: %s}
  - {name: ` + auditRule + `, callers: key, limit: 1000000000000, window: 8760h, algorithm: fixed, count_blocked: true, mode: shadow}
`

func (c *demoConfig) rules() (*rules.Set, error) {
	return rules.Parse("demo", fmt.Appendf(nil, demoRules, c.limit, c.window))
}
