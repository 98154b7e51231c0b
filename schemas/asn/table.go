package asn

import (
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"
	"github.com/oschwald/maxminddb-golang/v2"

	"github.com/509da70d/floodgate/schemas"
)

// field is the field of a record that has the number of an autonomous system.
const field = "autonomous_system_number"

// table is the networks of a file. It does not change.
type table struct {
	networks bart.Table[uint32] // indices of ids
	ids      []string
}

func (t *table) id(addr netip.Addr) string {
	if i, ok := t.networks.Lookup(addr); ok {
		return t.ids[i]
	}
	return ""
}

// aliases returns the networks of IPv6 that have the tree of IPv4 once more in many databases: IPv4 in other notation, and what tunnels
// have used. No client comes from there today.
func aliases() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("::fffe:0:0/95"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2002::/16")}
}

// newTable returns the networks of a database. A record without an autonomous system is as none.
func newTable(data []byte) (*table, error) {
	db, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("want a database in MaxMind's format (.mmdb): %w", err)
	}
	skipped := schemas.NewNetworks(aliases())
	t, systems := new(table), make(map[uint32]uint32) // indices by number
	records := make(map[uintptr]uint32)               // numbers by offset: many networks have one record
	leaves := (1 + uint64(len(aliases()))) * (uint64(db.Metadata.NodeCount) + 1)
	for result := range db.Networks(maxminddb.IncludeNetworksWithoutData(), maxminddb.IncludeAliasedNetworks()) { // so that each leaf is seen
		if leaves == 0 {
			return nil, fmt.Errorf("got a tree whose branches meet: want as many networks as %d nodes can have", db.Metadata.NodeCount)
		}
		leaves--
		if err := result.Err(); err != nil {
			return nil, err
		}
		if !result.Found() || skipped.Contain(result.Prefix().Addr()) {
			continue
		}
		number, known := records[result.Offset()]
		if !known {
			if err := result.DecodePath(&number, field); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", field, result.Prefix(), err)
			}
			records[result.Offset()] = number
		}
		if number == 0 {
			continue
		}
		i, known := systems[number]
		if !known {
			i = uint32(len(t.ids))
			systems[number], t.ids = i, append(t.ids, schemas.ASN(number))
		}
		t.networks.Insert(result.Prefix(), i)
	}
	if len(t.ids) == 0 {
		return nil, fmt.Errorf("got a database of type %.64q without %s, want one of autonomous systems, such as GeoLite2-ASN", db.Metadata.DatabaseType, field)
	}
	return t, nil
}
