//go:build lab

package lab

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
)

// storePartition is what the store of one partition holds.
type storePartition struct {
	number int
	at     store.Checkpoint
	fold   *fold.Fold
}

// openStores reads the stores of a stopped analyzer.
func openStores(t testing.TB, dir string, set *rules.Set) (list []storePartition) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		p, err := strconv.Atoi(n.Name())
		if path := filepath.Join(dir, n.Name()); err == nil && store.Exists(path) { // others were moved aside
			f, at, err := analyzer.Inspect(path, set, fold.Options{})
			if err != nil {
				t.Fatalf("partition %d: %v", p, err)
			}
			list = append(list, storePartition{p, at, f})
		}
	}
	return list
}
