package kafkaio

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	kafka "github.com/segmentio/kafka-go"
)

// sticky spreads partitions evenly, and gives each to the member that holds its newest state. So an owner keeps its
// partition through a rebalance, and a former owner comes before a member that never had the partition. The zero value
// holds no state. See GroupConfig.
type sticky struct {
	Held    func() map[int]int64 // see GroupConfig. Of two equal members, the owner keeps the partition, because its offset is one more
	Standby bool
}

var _ kafka.GroupBalancer = sticky{}

// ProtocolName implements kafka.GroupBalancer.
func (s sticky) ProtocolName() string { return "floodgate-sticky" }

// User data: the version, 1 for a standby, the number of pairs, and the pairs, as varints.
const stickyVersion = 1

// UserData implements kafka.GroupBalancer: it returns which state this member holds.
func (s sticky) UserData() ([]byte, error) {
	b := []byte{stickyVersion, 0}
	if s.Standby {
		b[1] = 1
	}
	if s.Held == nil {
		return append(b, 0), nil
	}
	held := s.Held()
	b = binary.AppendUvarint(b, uint64(len(held)))
	for _, p := range slices.Sorted(maps.Keys(held)) {
		b = binary.AppendVarint(b, int64(p))
		b = binary.AppendVarint(b, held[p])
	}
	return b, nil
}

// stickyMember is the decoded user data of a member.
type stickyMember struct {
	id      string
	standby bool
	held    map[int]int64
	given   []int
}

// maxHeld bounds the pairs of one member.
const maxHeld = 1 << 20

// readStickyMember decodes the result of UserData. A member with any other user data counts as one without state.
func readStickyMember(m kafka.GroupMember) *stickyMember {
	s := &stickyMember{id: m.ID, held: make(map[int]int64)}
	b := m.UserData
	if len(b) < 3 || b[0] != stickyVersion {
		return s
	}
	s.standby = b[1] == 1
	n, size := binary.Uvarint(b[2:])
	if size <= 0 || n > maxHeld {
		return s
	}
	b = b[2+size:]
	for range n {
		p, size := binary.Varint(b)
		if size <= 0 {
			return s
		}
		offset, more := binary.Varint(b[size:])
		if more <= 0 {
			return s
		}
		s.held[int(p)] = offset
		b = b[size+more:]
	}
	return s
}

// AssignGroups implements kafka.GroupBalancer. The members' numbers of partitions differ by at most one. It places first the partition
// for which other members would have to fold the most records again.
func (s sticky) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	all := make(kafka.GroupMemberAssignments, len(members))
	topics := make(map[string][]kafka.GroupMember)
	for _, m := range members {
		all[m.ID] = make(map[string][]int)
		for _, t := range m.Topics {
			topics[t] = append(topics[t], m)
		}
	}
	for topic, members := range topics {
		var ids []int
		for _, p := range partitions {
			if p.Topic == topic {
				ids = append(ids, p.ID)
			}
		}
		for _, m := range assignSticky(members, ids) {
			all[m.id][topic] = m.given
		}
	}
	return all
}

// assignSticky assigns the partitions of one topic to its members.
func assignSticky(members []kafka.GroupMember, partitions []int) []*stickyMember {
	active := activeMembers(members)
	if len(active) == 0 {
		return nil
	}
	slices.Sort(partitions)
	wishes := stickyWishes(active, partitions)
	share, extra := len(partitions)/len(active), len(partitions)%len(active) // extra is how many members get one more
	placed := make(map[int]bool, len(partitions))
	give := func(m *stickyMember, p int) bool {
		if placed[p] || len(m.given) > share || len(m.given) == share && extra == 0 {
			return false
		}
		if len(m.given) == share {
			extra--
		}
		m.given = append(m.given, p)
		placed[p] = true
		return true
	}
	for _, w := range wishes {
		give(w.member, w.partition)
	}
	for _, p := range partitions { // those of which no member with room holds state
		for _, m := range active {
			if give(m, p) {
				break
			}
		}
	}
	return active
}

// wish is a partition that could go to a member that holds its state.
type wish struct {
	member    *stickyMember
	partition int
	offset    int64
	gain      int64 // how much newer the state is than the next best member's
}

// stickyWishes returns all wishes, the one with the largest gain first.
func stickyWishes(active []*stickyMember, partitions []int) []wish {
	var all []wish
	for _, p := range partitions {
		first := len(all)
		for _, m := range active {
			if offset, ok := m.held[p]; ok && offset >= 0 {
				all = append(all, wish{m, p, offset, offset})
			}
		}
		same := all[first:]
		slices.SortStableFunc(same, func(a, b wish) int { return cmp.Compare(b.offset, a.offset) })
		for i := range same[:max(0, len(same)-1)] {
			same[i].gain -= same[i+1].offset
		}
	}
	slices.SortStableFunc(all, func(a, b wish) int { return cmp.Compare(b.gain, a.gain) })
	return all
}

// activeMembers returns the members that get partitions, by id: all that are not standbys, or the standbys if there are no
// others.
func activeMembers(members []kafka.GroupMember) []*stickyMember {
	var active, standby []*stickyMember
	for _, m := range members {
		if s := readStickyMember(m); s.standby {
			standby = append(standby, s)
		} else {
			active = append(active, s)
		}
	}
	if len(active) == 0 {
		active = standby
	}
	slices.SortFunc(active, func(a, b *stickyMember) int { return strings.Compare(a.id, b.id) })
	return active
}
