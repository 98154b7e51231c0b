package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"github.com/509da70d/floodgate/store/kafkaio/secure/securetest"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOptionsThatCannotWork(t *testing.T) {
	password := write(t, "password", "secret\n")
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"files without TLS":      {Options{CA: "ca.pem"}, "without TLS"},
		"half a pair":            {Options{TLS: true, Cert: "c.pem"}, "both or none"},
		"user without SASL":      {Options{TLS: true, User: "bob"}, "without a SASL mechanism"},
		"unknown mechanism":      {Options{TLS: true, SASL: "gssapi", User: "bob", PasswordFile: password}, `got "gssapi"`},
		"no user":                {Options{TLS: true, SASL: Plain, PasswordFile: password}, "want a user"},
		"no password":            {Options{TLS: true, SASL: Plain, User: "bob"}, "password file"},
		"plaintext":              {Options{SASL: Plain, User: "bob", PasswordFile: password}, ErrPlaintext.Error()},
		"plaintext, even scram":  {Options{SASL: ScramSHA512, User: "bob", PasswordFile: password}, ErrPlaintext.Error()},
		"no such password file":  {Options{TLS: true, SASL: Plain, User: "bob", PasswordFile: password + "x"}, "read password"},
		"an empty password":      {Options{TLS: true, SASL: Plain, User: "bob", PasswordFile: write(t, "empty", "\n")}, "is empty"},
		"no such authorities":    {Options{TLS: true, CA: "nowhere.pem"}, "read authorities"},
		"authorities not in PEM": {Options{TLS: true, CA: password}, "no certificate in PEM"},
		"no such certificate":    {Options{TLS: true, Cert: "nowhere.pem", Key: "nowhere.key"}, "read certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			config, mechanism, err := c.o.Load()
			if err == nil || !strings.Contains(err.Error(), c.want) || config != nil || mechanism != nil {
				t.Errorf("got %v, %v, %v; want an error with %q and nothing else", config, mechanism, err, c.want)
			}
		})
	}
	if err := (&Options{SASL: Plain, User: "bob", PasswordFile: password}).Check(); !errors.Is(err, ErrPlaintext) {
		t.Errorf("plaintext: got %v, want ErrPlaintext", err)
	}
}

func TestTheZeroValueIsAPlainConnection(t *testing.T) {
	config, mechanism, err := (&Options{}).Load()
	if config != nil || mechanism != nil || err != nil {
		t.Errorf("got %v, %v, %v; want nothing", config, mechanism, err)
	}
	config, _, err = (&Options{TLS: true}).Load()
	if err != nil || config.RootCAs != nil || config.InsecureSkipVerify || config.MinVersion != tls.VersionTLS12 {
		t.Errorf("TLS alone: got %+v, %v; want the system's authorities, verified, TLS 1.2", config, err)
	}
}

// reach asks the broker for a topic it does not have: every way to be refused comes before.
func reach(t *testing.T, b *embedded.Broker, o Options) error {
	t.Helper()
	config, mechanism, err := o.Load()
	if err != nil {
		t.Fatal(err)
	}
	client := kafkaio.New(kafkaio.Config{Brokers: b.Addrs(), TLS: config, SASL: mechanism, Timeout: 2 * time.Second})
	defer client.Close()
	_, err = client.Partitions(t.Context(), "none")
	if errors.Is(err, kafkaio.ErrNoTopic) {
		return nil
	}
	return err
}

func serve(t *testing.T, opts ...kfake.Opt) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(embedded.Options{Cluster: opts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestEveryMechanismReachesABrokerOverTLS(t *testing.T) {
	a := securetest.New(t)
	b := serve(t, kfake.TLS(a.Server(false)), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "bob", "secret"), kfake.Superuser("SCRAM-SHA-256", "bob", "secret"), kfake.Superuser("SCRAM-SHA-512", "bob", "secret"))
	right, wrong := write(t, "right", "secret\r\n"), write(t, "wrong", "guess")
	for _, m := range []string{Plain, ScramSHA256, ScramSHA512} {
		o := Options{TLS: true, CA: a.CA, SASL: m, User: "bob", PasswordFile: right}
		if err := reach(t, b, o); err != nil {
			t.Errorf("%s: got %v, want to reach it", m, err)
		}
		o.PasswordFile = wrong
		if err := reach(t, b, o); err == nil {
			t.Errorf("%s with a wrong password: got in", m)
		}
	}
	if err := reach(t, b, Options{TLS: true, CA: a.CA}); err == nil {
		t.Error("no password: got in")
	}
	if err := reach(t, b, Options{TLS: true, SASL: Plain, User: "bob", PasswordFile: right}); err == nil {
		t.Error("a broker of an unknown authority was trusted")
	}
}

func TestMutualTLS(t *testing.T) {
	a, other := securetest.New(t), securetest.New(t)
	b := serve(t, kfake.TLS(a.Server(true)))
	cert, key := a.Issue("client")
	if err := reach(t, b, Options{TLS: true, CA: a.CA, Cert: cert, Key: key}); err != nil {
		t.Errorf("own certificate: got %v, want to reach it", err)
	}
	if err := reach(t, b, Options{TLS: true, CA: a.CA}); err == nil {
		t.Error("no certificate: got in")
	}
	cert, key = other.Issue("client")
	if err := reach(t, b, Options{TLS: true, CA: a.CA, Cert: cert, Key: key}); err == nil {
		t.Error("another authority's certificate: got in")
	}
}

func TestSASLWithoutTLSWorksWhereItIsAllowed(t *testing.T) {
	b := serve(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "bob", "secret"))
	o := Options{SASL: ScramSHA256, User: "bob", PasswordFile: write(t, "password", "secret"), Insecure: true}
	if err := reach(t, b, o); err != nil {
		t.Errorf("got %v, want to reach it", err)
	}
}

// What is replaced while a program runs is in use from the next connection on.
func TestSecretsAreReadForEveryConnection(t *testing.T) {
	path := write(t, "password", "one")
	_, m, err := (&Options{TLS: true, SASL: Plain, User: "bob", PasswordFile: path}).Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"one", "two"} {
		if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, first, err := m.Start(context.Background()); err != nil || string(first) != "\x00bob\x00"+password {
			t.Errorf("got %q, %v; want the password %s", first, err, password)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Start(context.Background()); err == nil {
		t.Error("no password file: got no error")
	}

	a := securetest.New(t)
	cert, key := a.Issue("client")
	config, _, err := (&Options{TLS: true, CA: a.CA, Cert: cert, Key: key}).Load()
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		t.Helper()
		c, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.String()
	}
	first := serial()
	a.Issue("client")
	second := serial()
	if err := os.WriteFile(key, []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if first == second || serial() != second {
		t.Errorf("certificates: got %s, %s, %s; want a new one, and that one while its key is being replaced", first, second, serial())
	}
}
