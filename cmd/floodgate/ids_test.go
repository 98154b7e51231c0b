package main

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas"
)

// visit is one request as every part of floodgate sees it: a server, a proxy that asks a sidecar, and an access log.
type visit struct{ addr, user, path string }

// kindsOf are the callers of a visit: an address, a user, and composites of them.
const kindsOf = "ip user user_ip ip_path"

// byServer returns the ids that a server counts a visit under, by kind.
func byServer(t *testing.T, ids schemas.IDs, v visit) map[string]string {
	t.Helper()
	var rec gatetest.Recorder
	set := gate.New(gate.Options{IDs: ids})
	user := func(r *http.Request) string { return r.Header.Get("X-User") }
	path := func(r *http.Request) string { return r.URL.Path }
	h := gatehttp.New(gatehttp.Options{Set: set, Recorder: &rec, Callers: []gatehttp.CallerFunc{
		gatehttp.ClientIP(nil), gatehttp.Header("user", "X-User"),
		gatehttp.Composite("user_ip", user, gatehttp.IP(set, nil)), gatehttp.Composite("ip_path", gatehttp.IP(set, nil), path),
	}})(http.NotFoundHandler())
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.RemoteAddr, r.URL.Path = netip.AddrPortFrom(netip.MustParseAddr(v.addr), 5).String(), v.path
	r.Header.Set("X-User", v.user)
	h.ServeHTTP(httptest.NewRecorder(), r)
	return idsOf(&rec)
}

// registered takes the rate limit service out of a sidecar, without a network.
type registered struct {
	limits ratelimitv3.RateLimitServiceServer
}

func (r *registered) RegisterService(_ *grpc.ServiceDesc, service any) {
	if limits, ok := service.(ratelimitv3.RateLimitServiceServer); ok {
		r.limits = limits
	}
}

// bySidecar is byServer by Envoy's descriptors.
func bySidecar(t *testing.T, ids schemas.IDs, v visit) map[string]string {
	t.Helper()
	var rec gatetest.Recorder
	s := sidecar.New(sidecar.Options{Set: gate.New(gate.Options{IDs: ids}), Recorder: &rec, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}})
	entry := func(key, value string) *descriptorv3.RateLimitDescriptor_Entry {
		return &descriptorv3.RateLimitDescriptor_Entry{Key: key, Value: value}
	}
	addr, user, path := entry("remote_address", v.addr), entry("user", v.user), entry("path", v.path)
	var descriptors []*descriptorv3.RateLimitDescriptor
	for _, entries := range [][]*descriptorv3.RateLimitDescriptor_Entry{{addr}, {user}, {user, addr}, {addr, path}} {
		descriptors = append(descriptors, &descriptorv3.RateLimitDescriptor{Entries: entries})
	}
	var services registered
	s.Register(&services)
	if _, err := services.limits.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Descriptors: descriptors}); err != nil {
		t.Fatal(err)
	}
	return idsOf(&rec)
}

func idsOf(rec *gatetest.Recorder) map[string]string {
	ids := make(map[string]string)
	for _, e := range rec.Events() {
		ids[e.Caller.Kind] = e.Caller.ID
	}
	return ids
}

// byLog is byServer by a line of an access log.
func byLog(t *testing.T, ids schemas.IDs, v visit) map[string]string {
	t.Helper()
	m := ingest.Mapping{IDs: ids}
	for _, text := range []string{"user=user", "user_ip=user+ip", "ip_path=ip+target"} {
		c, err := ingest.ParseCallerField(text)
		if err != nil {
			t.Fatal(err)
		}
		m.Callers = append(m.Callers, c)
	}
	format, err := ingest.NewFormat("combined", m)
	if err != nil {
		t.Fatal(err)
	}
	var l ingest.Line
	line := v.addr + " - " + v.user + ` [17/May/2015:10:05:03 +0000] "GET ` + v.path + ` HTTP/1.1" 200 1 "-" "-"`
	if reason := ingest.Scan(format.Scanner(), []byte(line), &l); reason != ingest.OK {
		t.Fatalf("%s: got %v", line, reason)
	}
	out := make(map[string]string)
	for i, kind := range format.Kinds() {
		if l.IDs[i] != "" {
			out[kind] = strings.Clone(l.IDs[i])
		}
	}
	return out
}

// testSecret hashes ids.
const testSecret = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"

// secretIDs are ids of which those of users are hashed with a secret.
func secretIDs(t *testing.T) schemas.IDs {
	t.Helper()
	h, err := schemas.NewIDHasher([]string{"user", "user_ip"}, []byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	return schemas.IDs{Hash: h}
}

// One client is one caller, whoever counts it: a server, a sidecar, or ingest from a log. And an override in the rules is
// for that caller.
func TestAClientHasOneIDEverywhere(t *testing.T) {
	long := strings.Repeat("u", 300)
	userHash, userIPHash := secretIDs(t).Hash.Kind("user").ID, secretIDs(t).Hash.Kind("user_ip").ID
	for _, test := range []struct {
		name  string
		ids   schemas.IDs
		visit visit
		want  string // ip, user, user_ip and ip_path, with a space between them
	}{
		{name: "IPv4", visit: visit{"192.0.2.1", "bob", "/a"}, want: "192.0.2.1 bob bob|192.0.2.1 192.0.2.1|/a"},
		{name: "IPv4 in IPv6's words", visit: visit{"::ffff:192.0.2.1", "bob", "/a"}, want: "192.0.2.1 bob bob|192.0.2.1 192.0.2.1|/a"},
		{name: "IPv6", visit: visit{"2001:db8:1:2:3:4:5:6", "bob", "/a"}, want: "2001:db8:1:2:: bob bob|2001:db8:1:2:: 2001:db8:1:2::|/a"},
		{name: "IPv6 by /56", ids: schemas.IDs{IPv6Prefix: 56}, visit: visit{"2001:db8:1:2:3:4:5:6", "bob", "/a"},
			want: "2001:db8:1:: bob bob|2001:db8:1:: 2001:db8:1::|/a"},
		{name: "IPv6, whole", ids: schemas.IDs{IPv6Prefix: 128}, visit: visit{"2001:DB8::1", "bob", "/a"},
			want: "2001:db8::1 bob bob|2001:db8::1 2001:db8::1|/a"},
		{name: "a separator in a part", visit: visit{"192.0.2.1", "a|b", "/a|b"},
			want: "192.0.2.1 a|b ~0eab8a0a3380abf4c7d1fb0b43b66aaf|192.0.2.1 192.0.2.1|/a|b"},
		{name: "a user who sends the form of that one", visit: visit{"192.0.2.1", "~0eab8a0a3380abf4c7d1fb0b43b66aaf", "/"},
			want: "192.0.2.1 ~0eab8a0a3380abf4c7d1fb0b43b66aaf ~42fadcb086ffa182b14a13dee6636d77|192.0.2.1 192.0.2.1|/"},
		{name: "a long user", visit: visit{"192.0.2.1", long, "/a"},
			want: "192.0.2.1 " + schemas.ID(long) + " " + schemas.ID(long+"|192.0.2.1") + " 192.0.2.1|/a"},
		{name: "a user who sends the form of that one", visit: visit{"192.0.2.1", schemas.ID(long), "/a"},
			want: "192.0.2.1 " + schemas.ID(schemas.ID(long)) + " " + schemas.ID(schemas.ID(long)+"|192.0.2.1") + " 192.0.2.1|/a"},
		{name: "a path longer than a resource may be", visit: visit{"192.0.2.1", "bob", "/" + strings.Repeat("p", 2000)},
			want: "192.0.2.1 bob bob|192.0.2.1 " + schemas.ID("192.0.2.1|/"+strings.Repeat("p", 2000))},
		{name: "another that differs at its end", visit: visit{"192.0.2.1", "bob", "/" + strings.Repeat("p", 2000) + "q"},
			want: "192.0.2.1 bob bob|192.0.2.1 " + schemas.ID("192.0.2.1|/"+strings.Repeat("p", 2000)+"q")},
		{name: "hashed with a secret", ids: secretIDs(t), visit: visit{"192.0.2.1", "a|b", "/a"},
			want: "192.0.2.1 " + userHash("a|b") + " " + userIPHash("~0eab8a0a3380abf4c7d1fb0b43b66aaf|192.0.2.1") + " 192.0.2.1|/a"},
		{name: "hashed with a secret, long", ids: secretIDs(t), visit: visit{"2001:db8::1", long, "/a"},
			want: "2001:db8:: " + userHash(long) + " " + userIPHash(long+"|2001:db8::") + " 2001:db8::|/a"},
		{name: "who sends the form of a hash with a secret", ids: secretIDs(t), visit: visit{"192.0.2.1", userHash("bob"), "/a"},
			want: "192.0.2.1 " + userHash(userHash("bob")) + " " + userIPHash(userHash("bob")+"|192.0.2.1") + " 192.0.2.1|/a"},
		{name: "the same where there is no secret", visit: visit{"192.0.2.1", userHash("bob"), "/a"},
			want: "192.0.2.1 " + schemas.ID(userHash("bob")) + " " + schemas.ID(userHash("bob")+"|192.0.2.1") + " 192.0.2.1|/a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := strings.Split(test.want, " ")
			for who, got := range map[string]map[string]string{
				"server": byServer(t, test.ids, test.visit), "sidecar": bySidecar(t, test.ids, test.visit), "log": byLog(t, test.ids, test.visit),
			} {
				for i, kind := range strings.Fields(kindsOf) {
					if got[kind] != want[i] {
						t.Errorf("%s, %s: got %q, want %q", who, kind, got[kind], want[i])
					}
				}
			}
			for i, kind := range strings.Fields(kindsOf) {
				if got := limitOf(t, test.ids, kind, want[i]); got != 7 {
					t.Errorf("%s: got a limit of %d, want the override's", kind, got)
				}
			}
		})
	}
}

// limitOf returns the limit of a caller for whom there is an override of 7.
func limitOf(t *testing.T, ids schemas.IDs, kind, id string) int64 {
	t.Helper()
	set, err := rules.ParseWith("test", []byte("version: 1\nrules: [{name: r, callers: "+kind+", limit: 1, window: 1m, overrides: {\""+id+"\": 7}}]\n"), ids)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Warnings) > 0 {
		t.Errorf("%s: got the warning %v, want none", id, set.Warnings[0])
	}
	limit, _ := set.Rules[0].LimitFor(id)
	return limit
}

// TestTheIPv6PrefixIsTheSameByDefault: without the flag the prefix is 64, as in the table above without IDs.
func TestTheIPv6PrefixIsTheSameByDefault(t *testing.T) {
	for _, command := range []string{"analyze", "ingest", "sidecar", "replay"} {
		help, _ := runCommand(command, "--help") // its error says that help was asked for
		if !matches(`(?s)--ipv6-prefix bits [^-]*\(default\s+64\)`, help) {
			t.Errorf("%s: got\n%s\nwant --ipv6-prefix with a default of 64", command, help)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil || !strings.Contains(string(readme), "by their /64 (`--ipv6-prefix`)") {
		t.Errorf("got error %v, or a README without the default prefix", err)
	}
}

// A secret that cannot be used stops every command that takes one, and no message shows it.
func TestASecretThatCannotBeUsedIsNotShown(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, short := write("good", testSecret), write("short", "hunter2hunter2hunter2hunter2hun\n")
	long := write("long", strings.Repeat("hunter2", 200))
	rulesFile := write("rules.yaml", "version: 1\nrules: [{name: r, callers: 'key:hunter2*', limit: 1, window: 1m}]\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--hash-kinds", "key"}, "got one of them, want both or neither"},
		{[]string{"--hash-secret-file", good}, "got one of them, want both or neither"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", short}, "secret 1: got 31 bytes, want 32 to 1024"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", long}, "bytes, want 32 to 1024"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"--hash-kinds", "ip", "--hash-secret-file", good}, "kind ip cannot be hashed"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", good + "," + good}, "one secret twice"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", good}, "rules.yaml:2:28: callers: got a pattern of ids"},
	} {
		for _, command := range [][]string{
			{"rules", "check", rulesFile}, {"replay", "--rules", rulesFile, os.DevNull},
			{"analyze", "--brokers", "127.0.0.1:1", "--rules", rulesFile, "--data", filepath.Join(dir, "data")},
			{"audit", "--brokers", "127.0.0.1:1", "--rules", rulesFile, "--data", dir}, {"store", "--rules", rulesFile, "--data", dir},
			{"ingest", "--brokers", "127.0.0.1:1", "--file", os.DevNull, "--data", dir}, {"sidecar", "--brokers", "127.0.0.1:1"},
		} {
			readsRules := command[0] != "ingest" && command[0] != "sidecar"
			if strings.Contains(test.want, "pattern") && !readsRules {
				continue
			}
			var out strings.Builder
			err := realMain(t.Context(), append(command, test.args...), inside(&out, nil))
			text := out.String()
			if err != nil {
				text += err.Error()
			}
			if err == nil || !strings.Contains(text, test.want) || strings.Contains(text, "hunter2") || strings.Contains(text, testSecret) {
				t.Errorf("%v: got %v\n%s\nwant %q and no secret", append(command, test.args...), err, out.String(), test.want)
			}
		}
	}
}
