package gatecaddy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/secure"
)

// settings are the options of an App with the content of the files that they name.
type settings struct {
	policy gate.Policy
	ids    schemas.IDs
	kafka  kafkalink.Config
	digest [sha256.Size]byte // of the options and the files
}

// load checks the options and reads the files. Its errors say what was got, and what was wanted.
func (a *App) load() (s settings, err error) {
	if err := a.check(); err != nil {
		return s, err
	}
	s.policy, err = parseStale(a.Stale)
	if err != nil {
		return s, err
	}
	identity, err := a.identity()
	if err != nil {
		return s, err
	}
	digest := sha256.New()
	_, _ = digest.Write(identity) // never fails
	read := func(option, path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", option, err)
		}
		sum := sha256.Sum256(text)
		_, _ = digest.Write(sum[:])
		return text, nil
	}
	key := schemas.DefaultPartitionKey()
	if a.PartitionKeyFile != "" {
		text, err := read("partition_key_file", a.PartitionKeyFile)
		if err != nil {
			return s, err
		}
		if key, err = schemas.ParsePartitionKey(string(text)); err != nil {
			return s, fmt.Errorf("partition_key_file: %s: %w", a.PartitionKeyFile, err)
		}
	}
	if a.TLSCA != "" {
		if _, err := read("tls_ca", a.TLSCA); err != nil {
			return s, err
		}
	}
	if s.ids, err = a.loadIDs(read); err != nil {
		return s, err
	}
	o := a.secure()
	tls, sasl, err := o.Load()
	if err != nil {
		return s, fmt.Errorf("tls, sasl: %w", err)
	}
	s.kafka = kafkalink.Config{
		Brokers: a.Brokers, ClientID: "floodgate-caddy", TLS: tls, SASL: sasl, PartitionKey: key,
		Topics: schemas.TopicNamesOf(cmp.Or(a.TopicPrefix, "floodgate")),
	}
	digest.Sum(s.digest[:0])
	return s, nil
}

// loadIDs returns how ids of callers are made. A line end behind a secret is not part of it.
func (a *App) loadIDs(read func(option, path string) ([]byte, error)) (ids schemas.IDs, err error) {
	ids.IPv6Prefix = a.IPv6Prefix
	if len(a.HashKinds) == 0 {
		return ids, nil
	}
	var secrets [][]byte
	for _, path := range a.HashSecretFiles {
		secret, err := read("hash_secret_file", path)
		if err != nil {
			return ids, err
		}
		secrets = append(secrets, bytes.TrimRight(secret, "\r\n"))
	}
	if ids.Hash, err = schemas.NewIDHasher(a.HashKinds, secrets...); err != nil {
		return ids, fmt.Errorf("hash_kinds, hash_secret_file: %w", err)
	}
	return ids, nil
}

// check returns what is wrong with the options by themselves. It reads no file.
func (a *App) check() error {
	if len(a.Brokers) == 0 {
		return errors.New("brokers: got none, want at least one host:port")
	}
	for _, b := range a.Brokers {
		if err := checkBroker(b); err != nil {
			return err
		}
	}
	if _, err := parseStale(a.Stale); err != nil {
		return err
	}
	if err := (schemas.IDs{IPv6Prefix: a.IPv6Prefix}).Validate(); err != nil {
		return fmt.Errorf("ipv6_prefix: %w", err)
	}
	if (len(a.HashKinds) == 0) != (len(a.HashSecretFiles) == 0) {
		return errors.New("hash_kinds, hash_secret_file: got one of them, want both or neither")
	}
	o := a.secure()
	if err := o.Check(); errors.Is(err, secure.ErrPlaintext) {
		return fmt.Errorf("sasl: %w; want tls, or sasl_insecure if this is intended", err)
	} else if err != nil {
		return fmt.Errorf("tls, sasl: %w", err)
	}
	return nil
}

func (a *App) secure() secure.Options {
	return secure.Options{
		TLS: a.TLS, CA: a.TLSCA, Cert: a.TLSCert, Key: a.TLSKey,
		SASL: a.SASL, User: a.SASLUser, PasswordFile: a.SASLPasswordFile, Insecure: a.SASLInsecure,
	}
}

func checkBroker(text string) error {
	host, port, err := net.SplitHostPort(text)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || perr != nil || n == 0 {
		return fmt.Errorf("brokers: got %q, want host:port", text)
	}
	return nil
}

func parseStale(word string) (gate.Policy, error) {
	for _, p := range []gate.Policy{gate.Hold, gate.Open, gate.Closed} {
		if word == p.String() || word == "" {
			return p, nil
		}
	}
	return gate.Hold, fmt.Errorf("stale: got %q, want hold, open or closed", word)
}
