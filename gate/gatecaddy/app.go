package gatecaddy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gateprom"
)

func init() { //nolint:gochecknoinits // Caddy finds its modules so
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(new(Handler))
}

// App is the Caddy app "floodgate": the gates of a Caddy, and how they are connected to Kafka. Brokers is required. All options but
// Responses are those of "floodgate sidecar", and have their defaults.
type App struct {
	Brokers          []string `json:"brokers,omitempty"`            // host:port, to find the cluster by
	TopicPrefix      string   `json:"topic_prefix,omitempty"`       // of the names of topics; empty is "floodgate"
	PartitionKeyFile string   `json:"partition_key_file,omitempty"` // 32 hexadecimal digits; empty is the public key

	TLS              bool   `json:"tls,omitempty"`                // speak TLS to the brokers
	TLSCA            string `json:"tls_ca,omitempty"`             // PEM file of the authorities to trust; empty is the system's
	TLSCert          string `json:"tls_cert,omitempty"`           // PEM file, read again for each connection
	TLSKey           string `json:"tls_key,omitempty"`            // PEM file of its key
	SASL             string `json:"sasl,omitempty"`               // plain, scram-sha-256 or scram-sha-512; empty is none
	SASLUser         string `json:"sasl_user,omitempty"`          //
	SASLPasswordFile string `json:"sasl_password_file,omitempty"` // read again for each connection
	SASLInsecure     bool   `json:"sasl_insecure,omitempty"`      // allow SASL without TLS

	IPv6Prefix      int      `json:"ipv6_prefix,omitempty"`      // bits of an IPv6 address that are one client; 0 is 64
	HashKinds       []string `json:"hash_kinds,omitempty"`       // kinds whose ids are hashed with a secret
	HashSecretFiles []string `json:"hash_secret_file,omitempty"` // the secret; during a rotation two files

	Stale     string `json:"stale,omitempty"`     // while no decisions come: hold (closures run to their end), open or closed; empty is hold
	Shadow    bool   `json:"shadow,omitempty"`    // refuse no request, and count those that would have been refused
	Responses bool   `json:"responses,omitempty"` // record responses too, for rules that match a status

	gates  *gates
	digest [sha256.Size]byte // the key of gates in the pool
	logger *slog.Logger
}

// CaddyModule implements caddy.Module.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "floodgate", New: func() caddy.Module { return new(App) }}
}

// takeover is how long a reload waits for the decisions of a new link, while the configuration before serves.
const takeover = 5 * time.Second

// Provision implements caddy.Provisioner: it takes the gates of the configuration before, or makes new ones and connects them.
func (a *App) Provision(ctx caddy.Context) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	a.logger = ctx.Slogger()
	pooled, loaded, err := pool.LoadOrNew(s.digest, func() (caddy.Destructor, error) { return openGates(s, a) })
	if err != nil {
		return fmt.Errorf("open the link to Kafka: %w", err)
	}
	a.gates, a.digest = pooled.(*gates), s.digest //nolint:errcheck,forcetypeassert // the pool holds nothing else
	if err := ctx.GetMetricsRegistry().Register(gateprom.New(gateprom.Options{Set: a.gates.set, Link: a.gates.link})); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if !loaded && pooledGates() > 1 {
		a.await(ctx)
	}
	return nil
}

// await returns when the gates know all decisions, or after takeover.
func (a *App) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, takeover)
	defer cancel()
	if err := a.gates.link.Ready(ctx); errors.Is(err, context.DeadlineExceeded) {
		a.logger.Warn("no decisions came from Kafka: the new gates are open until they come", "waited", takeover)
	}
}

// Start implements caddy.App. From now on the gates log where this configuration says, and have its mode.
func (a *App) Start() error {
	a.gates.join(a)
	return nil
}

// Stop implements caddy.App. Requests may still run: Cleanup ends what Provision began.
func (*App) Stop() error { return nil }

// Cleanup implements caddy.CleanerUpper. If no other configuration has the gates, it sends what they recorded, and closes the link.
func (a *App) Cleanup() error {
	if a.gates == nil {
		return nil
	}
	a.gates.leave(a)
	_, err := pool.Delete(a.digest)
	return err
}

// mode is what the gates do with closed callers.
func (a *App) mode() gate.Mode {
	if a.Shadow {
		return gate.Shadow
	}
	return gate.Enforce
}

// identity returns the options that gates keep as long as they are.
func (a *App) identity() ([]byte, error) {
	kept := *a
	kept.Shadow = false // SetMode changes it
	return json.Marshal(&kept)
}
