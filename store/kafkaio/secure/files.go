package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// keyPair is a certificate and its key in two files, which are read for every handshake. Its methods are safe for
// concurrent use.
type keyPair struct {
	cert, key string

	mu   sync.Mutex
	last *tls.Certificate // guarded by mu: the newest that could be read
}

// load reads the files. While they cannot be used, for example during a replacement, it returns the last pair that it could
// read.
func (p *keyPair) load() (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(p.cert, p.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.last = &c
	case p.last == nil:
		return nil, err
	}
	return p.last, nil
}

// mechanism is a SASL mechanism whose password is read for every connection. It is safe for concurrent use.
type mechanism struct {
	name, user, file string
}

// Name returns Kafka's name of the mechanism.
func (m *mechanism) Name() string { return strings.ToUpper(m.name) }

// Start begins to authenticate with the password that the file holds now.
func (m *mechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	now, err := m.resolve()
	if err != nil {
		return nil, nil, err
	}
	return now.Start(ctx)
}

// resolve returns the mechanism with its password.
func (m *mechanism) resolve() (sasl.Mechanism, error) {
	b, err := os.ReadFile(m.file)
	if err != nil {
		return nil, fmt.Errorf("read password: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if password == "" {
		return nil, errors.New("read password: " + m.file + " is empty")
	}
	switch m.name {
	case Plain:
		return plain.Mechanism{Username: m.user, Password: password}, nil
	case ScramSHA256:
		return scram.Mechanism(scram.SHA256, m.user, password)
	case ScramSHA512:
		return scram.Mechanism(scram.SHA512, m.user, password)
	}
	panic("BUG: unchecked SASL mechanism " + m.name)
}
