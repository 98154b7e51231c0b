package option

import (
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// Trusted is --trusted: the networks of proxies whose X-Forwarded-For is believed.
type Trusted struct{ networks []string }

// Add adds the flag with its default.
func (t *Trusted) Add(flags *pflag.FlagSet, networks ...string) {
	flags.StringSliceVar(&t.networks, "trusted", networks, "`networks` of trusted proxies, such as 10.0.0.0/8, which append the address that they see to X-Forwarded-For: "+
		"the client is the last address there that none of them has")
}

// Load returns the networks. A mistake is a usage error.
func (t *Trusted) Load() (networks []netip.Prefix, err error) {
	for _, text := range t.networks {
		network, err := netip.ParsePrefix(text)
		if addr, aerr := netip.ParseAddr(text); aerr == nil && addr.Zone() == "" {
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || network != network.Masked() {
			return nil, command.Usagef("--trusted: got %q, want a network such as 10.0.0.0/8, or an address", text)
		}
		networks = append(networks, network)
	}
	return networks, nil
}
