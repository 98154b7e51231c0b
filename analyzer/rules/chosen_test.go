package rules

import (
	"net/netip"
	"testing"
)

// BenchmarkChosenInput looks up overrides. Package pattern has a benchmark of that name for patterns.
func BenchmarkChosenInput(b *testing.B) {
	var o overrides
	for bits := 8; bits < 32; bits++ {
		o.addNetwork(netip.PrefixFrom(netip.AddrFrom4([4]byte{10}), bits), override{limit: 1})
	}
	for name, id := range map[string]string{"in the longest": "10.0.0.1", "in none": "203.0.113.9", "no address": "caller"} {
		b.Run("networks of 24 lengths/"+name, func(b *testing.B) {
			for b.Loop() {
				o.find(id)
			}
		})
	}
}
