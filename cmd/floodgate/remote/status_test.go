package remote

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// TestStatusSaysWhichPartitionsDiffer, and how to see what differs.
func TestStatusSaysWhichPartitionsDiffer(t *testing.T) {
	of := func(p int, id string, stale bool) apiv1.PartitionStatus {
		return apiv1.PartitionStatus{PartitionView: apiv1.PartitionView{Partition: p, RulesID: id, Stale: stale}}
	}
	got := byRules([]apiv1.PartitionStatus{of(0, "aa", false), of(1, "bb", false), of(2, "aa", false), of(3, "cc", true), of(4, "", false)})
	if want := "0, 2 by aa; 1 by bb. floodgate rules diff aa bb"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
