package webhook

import (
	"errors"
	"net/netip"
	"testing"
)

func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	for _, bad := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1",
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "203.0.113.9",
		"::", "::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
		"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:7f00:1::", "2001:0:1::1", "fec0::1", "2001:db8::1",
		"192.88.99.1", "::ffff:0:127.0.0.1", "::ffff:0:169.254.169.254", "2001:2::1", "2001:20::1", "3fff::1", "5f00::1",
	} {
		if err := (Allowed)(nil).Check(netip.MustParseAddr(bad)); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: got %v, want ErrAddress", bad, err)
		}
	}
	for _, good := range []string{"1.1.1.1", "172.32.0.1", "100.128.0.1", "169.253.0.1", "192.0.1.1", "2606:4700::1111", "2a00::1", "2001:4860:4860::8888", "2001:200::1", "::ffff:1.1.1.1"} {
		if err := (Allowed)(nil).Check(netip.MustParseAddr(good)); err != nil {
			t.Errorf("%s: got %v, want it public", good, err)
		}
	}
	if err := (Allowed)(nil).Check(netip.Addr{}); !errors.Is(err, ErrAddress) {
		t.Errorf("got %v of no address, want ErrAddress", err)
	}
}

// TestAllowedNetworksAreExactlyThose: allowing one private network opens no other, in whatever form an address comes.
func TestAllowedNetworksAreExactlyThose(t *testing.T) {
	a := Allowed{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/64")}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "fd00::9": true, "fd00::9%eth0": true, "10.2.0.1": false, "127.0.0.1": false, "169.254.169.254": false,
		"fd00:0:0:1::9": false, "64:ff9b::a01:203": false, "::1": false,
	} {
		if got := a.Check(netip.MustParseAddr(address)) == nil; got != want {
			t.Errorf("%s: got %t, want %t", address, got, want)
		}
	}
}

func TestControlReadsWhatADialerGives(t *testing.T) {
	a := Allowed{netip.MustParsePrefix("127.0.0.0/8")}
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "1.1.1.1:443": true, "[::1]:80": false, "[fe80::1%eth0]:80": false, "[2606:4700::1111]:443": true, "localhost:80": false, "": false,
	} {
		if got := a.control("tcp", address, nil) == nil; got != want {
			t.Errorf("%s: got %t, want %t", address, got, want)
		}
	}
}
