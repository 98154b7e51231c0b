package analyzerprom_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer/analyzerprom"
)

// TestDiskIsShown: what the stores take, and what is left.
func TestDiskIsShown(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "store"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(analyzerprom.NewDisk(dir))
	families, err := registry.Gather()
	if err != nil || len(families) != 2 {
		t.Fatalf("got %d metrics, %v, want 2", len(families), err)
	}
	for _, f := range families { // a filesystem may allocate late
		if v := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "floodgate_store_bytes" && v > 2<<20 || f.GetName() == "floodgate_store_free_bytes" && v <= 0 {
			t.Errorf("%s: got %v", f.GetName(), v)
		}
	}
	if problems, err := testutil.CollectAndLint(analyzerprom.NewDisk(dir)); err != nil || len(problems) > 0 {
		t.Errorf("got %v and %v, want no problem", problems, err)
	}
}

// TestADiskThatIsAway fails no scrape: the other metrics are needed more than ever.
func TestADiskThatIsAway(t *testing.T) {
	if n := testutil.CollectAndCount(analyzerprom.NewDisk(filepath.Join(t.TempDir(), "none"))); n != 0 {
		t.Errorf("got %d metrics, want none", n)
	}
}
