package daemon

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

func TestSidecarFlags(t *testing.T) {
	tests := []struct {
		name string
		args []string
		err  string // empty: it is fine
	}{
		{"no brokers", nil, "--brokers: got none"},
		{"the least", []string{"--brokers", "k:9092"}, ""},
		{"callers", []string{"--brokers", "k:9092", "--callers", "key=X-Api-Key", "--callers", "ip_key=ip+X-Api-Key", "--trusted", "10.0.0.0/8"}, ""},
		{"networks", []string{"--brokers", "k:9092", "--callers", "net=net", "--callers", "net_route=net+X-Route", "--net-prefixes", "20,56"}, ""},
		{"networks of a header", []string{"--brokers", "k:9092", "--callers", "net=X-Net"}, `got "net=X-Net", want net=net`},
		{"systems without a file", []string{"--brokers", "k:9092", "--callers", "asn_route=asn+X-Route"}, `got "asn_route=asn+X-Route" and no --asn-file`},
		{"a file that is not there", []string{"--brokers", "k:9092", "--asn-file", "no.mmdb"}, "--asn-file: read autonomous systems: open no.mmdb"},
		{"networks that are too small", []string{"--brokers", "k:9092", "--net-prefixes", "25,48"}, "--net-prefixes: got 25,48, want 8 to 24 bits of IPv4, and 16 to 64 of IPv6"},
		{"networks of IPv4 alone", []string{"--brokers", "k:9092", "--net-prefixes", "24"}, "--net-prefixes: got 1 numbers, want two"},
		{"a caller without a header", []string{"--brokers", "k:9092", "--callers", "key="}, `--callers: got "key="`},
		{"a caller without a kind", []string{"--brokers", "k:9092", "--callers", "=X"}, `--callers: got "=X"`},
		{"a part that is empty", []string{"--brokers", "k:9092", "--callers", "a=ip+"}, "want no part empty"},
		{"two kinds at once", []string{"--brokers", "k:9092", "--callers", "key=X-Api-Key,tenant=X-Tenant"}, "want one kind: give the flag again"},
		{"a kind that is none", []string{"--brokers", "k:9092", "--callers", "API key=X"}, "--callers: "},
		{"too many", append([]string{"--brokers", "k:9092"}, strings.Split(strings.Repeat("--callers,a=X,", 7)+"--callers,a=X", ",")...), "--callers: got 8, want at most 7"},
		{"one proxy", []string{"--brokers", "k:9092", "--trusted", "10.0.0.1,2001:db8::/32"}, ""},
		{"a network and more", []string{"--brokers", "k:9092", "--trusted", "10.0.0.1/8"}, `--trusted: got "10.0.0.1/8"`},
		{"networks of nothing", []string{"--brokers", "k:9092", "--ipv6-prefix", "0"}, "--ipv6-prefix: got 0"},
		{"a policy of nobody", []string{"--brokers", "k:9092", "--stale", "panic"}, `--stale: got "panic"`},
		{"nowhere to listen", []string{"--brokers", "k:9092", "--listen", ""}, "--listen: got none"},
		{"requests that last", []string{"--brokers", "k:9092", "--record", "--holds"}, ""},
		{"requests that last, and do not count", []string{"--brokers", "k:9092", "--holds"}, "--holds: got it alone, want it with --record"},
		{"a feed on a socket", []string{"--brokers", "k:9092", "--feed-listen", "unix:/run/f.sock", "--feed-group", "www-data"}, ""},
		{"a feed on a port", []string{"--brokers", "k:9092", "--feed-listen", ":9097", "--feed-keys", "keys"}, ""},
		{"a feed for everybody", []string{"--brokers", "k:9092", "--feed-listen", ":9097"}, "--feed-keys: got none, want a file of lines NAME SHA256, because others can reach the address :9097"},
		{"a group of a port", []string{"--brokers", "k:9092", "--feed-listen", ":9097", "--feed-keys", "keys", "--feed-group", "g"}, `--feed-group: got "g", want it with a Unix socket only`},
		{"a group of nothing", []string{"--brokers", "k:9092", "--feed-group", "g"}, "--feed-listen: got none"},
		{"bouncers", []string{"--brokers", "k:9092", "--bouncer-listen", ":8080", "--bouncer-keys", "keys", "--bouncer-min", "1s"}, ""},
		{"bouncers without keys", []string{"--brokers", "k:9092", "--bouncer-listen", ":8080"}, "--bouncer-keys: got none"},
		{"keys for nobody", []string{"--brokers", "k:9092", "--bouncer-keys", "keys"}, "--bouncer-listen: got none"},
		{"HAProxy", []string{"--brokers", "k:9092", "--haproxy-socket", "s", "--haproxy-map", "ip=/etc/ip.map,key=virt@key.map"}, ""},
		{"HAProxy without maps", []string{"--brokers", "k:9092", "--haproxy-socket", "s"}, "--haproxy-map: got none"},
		{"maps of nobody", []string{"--brokers", "k:9092", "--haproxy-map", "ip=m"}, "--haproxy-socket: got none"},
		{"a map without a kind", []string{"--brokers", "k:9092", "--haproxy-socket", "s", "--haproxy-map", "/etc/ip.map"}, `--haproxy-map: got "/etc/ip.map"`},
		{"a map without a name", []string{"--brokers", "k:9092", "--haproxy-socket", "s", "--haproxy-map", "ip="}, `--haproxy-map: got "ip="`},
		{"a map with a command", []string{"--brokers", "k:9092", "--haproxy-socket", "s", "--haproxy-map", "ip=a;shutdown"}, `--haproxy-map: got "ip=a;shutdown"`},
		{"a map of canaries", []string{"--brokers", "k:9092", "--haproxy-socket", "s", "--haproxy-map", "_canary=m"}, `callers of this kind are floodgate's own`},
		{"two maps of a kind", []string{"--brokers", "k:9092", "--haproxy-socket", "s", "--haproxy-map", "ip=m,ip=n"}, "want one map for each kind"},
		{"one map of two kinds", []string{"--brokers", "k:9092", "--haproxy-socket", "s", "--haproxy-map", "ip=m,key=m"}, "one kind for each map"},
		{"no closure too short", []string{"--brokers", "k:9092", "--bouncer-min", "999ms"}, "--bouncer-min: got 999ms"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var c sidecarConfig
			var cmd cobra.Command
			c.add(&cmd)
			err := cmd.ParseFlags(test.args)
			if err == nil {
				err = c.check()
			}
			switch {
			case test.err == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case test.err != "" && (!command.IsUsage(err) || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want a usage error with %q", err, test.err)
			}
		})
	}
}
