package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"github.com/509da70d/floodgate/store/kafkaio/secure"
)

// documented returns the rules of ACLS.md, as kafka-acls.sh would make them.
func documented(t *testing.T) []kgo.ACLEntry {
	t.Helper()
	text, err := os.ReadFile("ACLS.md")
	if err != nil {
		t.Fatal(err)
	}
	var entries []kgo.ACLEntry
	for _, line := range regexp.MustCompile(`(?m)^\$acl (.*)$`).FindAllStringSubmatch(string(text), -1) {
		entries = append(entries, parseACL(t, strings.Fields(line[1]))...)
	}
	if len(entries) < 10 {
		t.Fatalf("got %d rules in ACLS.md, want more", len(entries))
	}
	return entries
}

// parseACL returns the rules of one command: each operation on each resource.
func parseACL(t *testing.T, args []string) (entries []kgo.ACLEntry) {
	t.Helper()
	base := kgo.ACLEntry{ResourcePatternType: kgo.PatternTypeLiteral, PermissionType: kgo.ACLPermissionTypeAllow, Host: "*"}
	var operations []kgo.ACLOperationType
	type resource struct {
		kind kgo.ResourceType
		name string
	}
	var resources []resource
	for ; len(args) >= 2; args = args[2:] {
		switch value := args[1]; args[0] {
		case "--allow-principal":
			base.Principal = value
		case "--operation":
			var op kgo.ACLOperationType
			if err := op.UnmarshalText([]byte(value)); err != nil {
				t.Fatal(err)
			}
			operations = append(operations, op)
		case "--topic":
			resources = append(resources, resource{kgo.ResourceTypeTopic, value})
		case "--group":
			resources = append(resources, resource{kgo.ResourceTypeGroup, value})
		case "--resource-pattern-type":
			if err := base.ResourcePatternType.UnmarshalText([]byte(value)); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("ACLS.md: got flag %s, want one that the test knows", args[0])
		}
	}
	for _, r := range resources {
		for _, op := range operations {
			e := base
			e.ResourceType, e.ResourceName, e.Operation = r.kind, r.name, op
			entries = append(entries, e)
		}
	}
	return entries
}

// parts is who may write and read what, as the table of ACLS.md says.
func parts() map[string]struct{ writes, reads []string } {
	return map[string]struct{ writes, reads []string }{
		"server":   {[]string{"requests"}, []string{"decisions"}},
		"ingest":   {[]string{"requests", "rejects"}, nil},
		"analyzer": {[]string{"requests", "decisions", "state", "rejects", "control", "events"}, []string{"requests", "decisions", "state", "control", "events"}},
		"notify":   {nil, []string{"events"}},
		"operator": {nil, []string{"decisions", "rejects", "control", "events"}},
		"auditor":  {nil, []string{"requests", "control"}},
	}
}

func apply(t *testing.T, brokers []string, transport kgo.RoundTripper) {
	t.Helper()
	admin := &kgo.Client{Addr: kgo.TCP(brokers...), Transport: transport}
	r, err := admin.CreateACLs(t.Context(), &kgo.CreateACLsRequest{ACLs: documented(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Errors...); err != nil {
		t.Fatal(err)
	}
}

// tryEveryUserOnEveryTopic logs in as each user, and wants it to be let do what it needs and nothing else.
func tryEveryUserOnEveryTopic(t *testing.T, login func(user string) *kafkaio.Client) {
	t.Helper()
	operator := login("operator")
	names := schemas.DefaultTopicNames()
	var err error
	processtest.Eventually(t, 20*time.Second, "the operator creates the topics", func() bool { // a broker learns of ACLs a moment later
		_, err = operator.EnsureTopics(t.Context(), kafkaio.Specs(names, 1)...)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	t.Run("users", func(t *testing.T) {
		for user, may := range parts() {
			t.Run(user, func(t *testing.T) {
				t.Parallel()
				c := login(user)
				for _, topic := range []string{"requests", "decisions", "state", "rejects", "control", "events"} {
					_, err := c.Produce(t.Context(), "floodgate."+topic, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte(user)})
					judge(t, fmt.Sprintf("%s writes %s", user, topic), err, slices.Contains(may.writes, topic))
					_, err = c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "floodgate." + topic})
					judge(t, fmt.Sprintf("%s reads %s", user, topic), err, slices.Contains(may.reads, topic))
				}
				_, err := c.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "floodgate.made-by-" + user, Partitions: 1})
				judge(t, user+" creates a topic", err, user == "operator")
				_, err = c.CheckTopics(t.Context(), kafkaio.Specs(names, 1)...)
				judge(t, user+" reads the topics' settings", err, user == "operator" || user == "analyzer")
				judge(t, user+" joins the group", joins(t, c), user == "analyzer")
			})
		}
	})
}

// judge fails the test unless err is as it should be. What a broker does not let one see it may call absent.
func judge(t *testing.T, what string, err error, allowed bool) {
	t.Helper()
	switch {
	case allowed && err != nil:
		t.Errorf("%s: got %v, want to be let", what, err)
	case !allowed && err == nil:
		t.Errorf("%s: got no error, want to be refused", what)
	case !allowed && !errors.Is(err, kafkaio.ErrUnauthorized) && !errors.Is(err, kafkaio.ErrNoTopic):
		t.Errorf("%s: got %v, want %v", what, err, kafkaio.ErrUnauthorized)
	}
}

// joins joins the analyzers' group and leaves it again.
func joins(t *testing.T, c *kafkaio.Client) error {
	t.Helper()
	g, err := kafkaio.NewGroup(kafkaio.GroupConfig{Client: c, Group: "floodgate", Topic: "floodgate.requests"})
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, err = g.Next(ctx); kafkaio.Temporary(err) && ctx.Err() == nil; _, err = g.Next(ctx) {
		continue // the coordinator's topic is made when it is first asked for
	}
	return err
}

func TestACLsOnApacheKafka(t *testing.T) {
	c := Start(t, Options{Secure: true})
	apply(t, c.Brokers, &kgo.Transport{})
	door := func(user string) kafkaio.Config {
		broker, o := c.As(user, secure.ScramSHA512)
		return config(t, []string{broker}, o)
	}
	tryEveryUserOnEveryTopic(t, c.Login)
	closeThrough(t, door)

	for _, mechanism := range []string{secure.Plain, secure.ScramSHA256, secure.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			broker, o := c.As("auditor", mechanism)
			if err := reads(t, broker, o); err != nil {
				t.Errorf("got %v, want to be let in", err)
			}
			o.Cert, o.Key = "", ""
			if err := reads(t, broker, o); err == nil {
				t.Error("without a certificate: got in")
			}
			_, o = c.As("auditor", mechanism)
			o.User = "analyzer"
			if err := reads(t, broker, o); err == nil {
				t.Error("with another's password: got in")
			}
		})
	}
}

// reads reads requests under the given options.
func reads(t *testing.T, broker string, o secure.Options) error {
	t.Helper()
	c := kafkaio.New(config(t, []string{broker}, o))
	defer c.Close()
	_, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "floodgate.requests"})
	return err
}

// TestACLsOnTheEmbeddedBroker is the same where there is no Java.
func TestACLsOnTheEmbeddedBroker(t *testing.T) {
	opts := []kfake.Opt{kfake.EnableACLs(), kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "admin")}
	for user := range parts() {
		opts = append(opts, kfake.User("PLAIN", user, user))
	}
	b, err := embedded.Start(embedded.Options{Cluster: opts})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	password := func(user string) secure.Options {
		path := t.TempDir() + "/password"
		if err := os.WriteFile(path, []byte(user), 0o600); err != nil {
			t.Fatal(err)
		}
		return secure.Options{SASL: secure.Plain, User: user, PasswordFile: path, Insecure: true}
	}
	admin := password("admin")
	_, sasl, err := admin.Load()
	if err != nil {
		t.Fatal(err)
	}
	transport := &kgo.Transport{SASL: sasl}
	defer transport.CloseIdleConnections()
	apply(t, b.Addrs(), transport)
	door := func(user string) kafkaio.Config { return config(t, b.Addrs(), password(user)) }
	tryEveryUserOnEveryTopic(t, func(user string) *kafkaio.Client {
		c := kafkaio.New(door(user))
		t.Cleanup(c.Close)
		return c
	})
	closeThrough(t, door)
}

// config returns how to reach brokers under the given options.
func config(t *testing.T, brokers []string, o secure.Options) kafkaio.Config {
	t.Helper()
	tls, sasl, err := o.Load()
	if err != nil {
		t.Fatal(err)
	}
	return kafkaio.Config{Brokers: brokers, TLS: tls, SASL: sasl, Timeout: 3 * time.Second}
}
