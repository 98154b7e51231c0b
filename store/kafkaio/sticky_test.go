package kafkaio

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"pgregory.net/rapid"
)

// stickyGroup assigns partitions 0 to n−1 to members, which hold state as given.
func stickyGroup(t interface{ Fatal(args ...any) }, n int, members map[string]sticky) map[string][]int {
	var list []kafka.GroupMember
	for id, m := range members {
		data, err := m.UserData()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, kafka.GroupMember{ID: id, Topics: []string{"t"}, UserData: data})
	}
	var partitions []kafka.Partition
	for p := range n {
		partitions = append(partitions, kafka.Partition{Topic: "t", ID: p}, kafka.Partition{Topic: "other", ID: p})
	}
	got := make(map[string][]int)
	for id, topics := range (sticky{}).AssignGroups(list, partitions) {
		got[id] = slices.Sorted(slices.Values(topics["t"]))
	}
	return got
}

func holds(held map[int]int64) sticky { return sticky{Held: func() map[int]int64 { return held }} }

func TestStickyStories(t *testing.T) {
	idle := holds(map[int]int64{0: 900, 1: 900, 2: 900, 3: 900})
	idle.Standby = true
	tests := map[string]struct {
		members map[string]sticky
		want    map[string][]int
	}{
		"no member holds state": {
			map[string]sticky{"a": {}, "b": {}},
			map[string][]int{"a": {0, 1}, "b": {2, 3}},
		},
		"all stay where they are": {
			map[string]sticky{"a": holds(map[int]int64{1: 10, 3: 10}), "b": holds(map[int]int64{0: 10, 2: 10})},
			map[string][]int{"a": {1, 3}, "b": {0, 2}},
		},
		"the member with the newer state gets the partition": {
			map[string]sticky{"a": holds(map[int]int64{0: 5, 1: 5, 2: 70, 3: 70}), "b": holds(map[int]int64{0: 60, 1: 60, 2: 6, 3: 6})},
			map[string][]int{"a": {2, 3}, "b": {0, 1}},
		},
		"a new member takes its share, the partitions with the oldest state": {
			map[string]sticky{"a": holds(map[int]int64{0: 40, 1: 30, 2: 20, 3: 10}), "b": {}},
			map[string][]int{"a": {0, 1}, "b": {2, 3}},
		},
		"a member that returns gets the free partition, which it had before": {
			map[string]sticky{"a": holds(map[int]int64{0: 99, 1: 99, 2: 99}), "b": holds(map[int]int64{3: 7, 2: 98})},
			map[string][]int{"a": {0, 1}, "b": {2, 3}},
		},
		"a standby waits": {
			map[string]sticky{"a": {}, "s": idle},
			map[string][]int{"a": {0, 1, 2, 3}, "s": nil},
		},
		"the only member is a standby": {
			map[string]sticky{"s": idle},
			map[string][]int{"s": {0, 1, 2, 3}},
		},
		"more members than partitions": {
			map[string]sticky{"a": {}, "b": {}, "c": {}, "d": {}, "e": holds(map[int]int64{2: 1})},
			map[string][]int{"a": {0}, "b": {1}, "c": {3}, "d": nil, "e": {2}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := stickyGroup(t, 4, test.members)
			if !maps.EqualFunc(got, test.want, slices.Equal) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestStickyIsFair: whatever state members hold, each partition has one owner, and members' numbers of partitions differ by
// at most one.
func TestStickyIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "partitions")
		members := make(map[string]sticky)
		for i := range rapid.IntRange(1, 9).Draw(t, "members") {
			held := rapid.MapOf(rapid.IntRange(-2, 50), rapid.Int64Range(-5, 100)).Draw(t, "held")
			members[fmt.Sprint("m", i)] = holds(held)
		}
		got := stickyGroup(t, n, members)
		owner := make(map[int]string)
		smallest, largest := n, 0
		for id, partitions := range got {
			smallest, largest = min(smallest, len(partitions)), max(largest, len(partitions))
			for _, p := range partitions {
				if owner[p] != "" {
					t.Fatalf("partition %d has two owners: %v", p, got)
				}
				owner[p] = id
			}
		}
		if len(owner) != n || largest-smallest > 1 {
			t.Fatalf("got %d of %d partitions placed, %d to %d a member: %v", len(owner), n, smallest, largest, got)
		}
		again := make(map[string]sticky)
		for id, partitions := range got {
			held := make(map[int]int64)
			for _, p := range partitions {
				held[p] = 1000
			}
			again[id] = holds(held)
		}
		if moved := stickyGroup(t, n, again); !maps.EqualFunc(moved, got, slices.Equal) {
			t.Fatalf("a rebalance moved partitions: got %v, want %v", moved, got)
		}
	})
}

// FuzzStickyUserData: any user data of another member is read without harm.
func FuzzStickyUserData(f *testing.F) {
	good, err := holds(map[int]int64{1: 2, 3: 1 << 40}).UserData()
	if err != nil {
		f.Fatal(err)
	}
	for n := range good {
		f.Add(good[:n])
	}
	f.Add(good)
	f.Add([]byte{stickyVersion, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{stickyVersion, 0, 0xff, 0xff, 0x03, 2, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := readStickyMember(kafka.GroupMember{ID: "x", UserData: data})
		if len(m.held) > len(data) {
			t.Fatalf("got %d pairs of %d bytes", len(m.held), len(data))
		}
		got := assignSticky([]kafka.GroupMember{{ID: "x", UserData: data}, {ID: "y"}}, []int{0, 1, 2})
		n := 0
		for _, m := range got {
			n += len(m.given)
		}
		if n != 3 {
			t.Fatalf("got %d partitions placed, want 3", n)
		}
	})
}
