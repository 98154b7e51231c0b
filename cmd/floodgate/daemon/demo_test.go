package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestADashboardIsThereUntilItIsStopped, unless somebody says for how long.
func TestADashboardIsThereUntilItIsStopped(t *testing.T) {
	for want, args := range map[time.Duration][]string{
		10 * time.Second: {}, maxDemo: {"--dashboard"}, 10 * time.Minute: {"--duration", "10m", "--dashboard"}, time.Minute: {"--duration", "1m", "--api-listen", "127.0.0.1:0"},
	} {
		var c demoFlags
		var cmd cobra.Command
		c.add(&cmd)
		err := cmd.ParseFlags(args)
		if err == nil {
			err = c.check(cmd.Flags().Changed("duration"))
		}
		if err != nil || c.Duration != want || c.Dashboard != slices.Contains(args, "--dashboard") {
			t.Errorf("%v: got %v and %v, want %v", args, c.Duration, err, want)
		}
	}
}
