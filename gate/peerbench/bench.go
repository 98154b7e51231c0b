package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// bench measures one part after the other into a report.
type bench struct {
	settings settings
	report   *report.Report
}

func (b *bench) row(r report.Row) { b.report.Rows = append(b.report.Rows, r) }

// spread measures trials on each count of processors: the series of trial j on cpus[i] are at [i][j].
func (b *bench) spread(ctx context.Context, trials ...meter.Work) ([][]meter.Series, error) {
	all := make([][]meter.Series, len(b.settings.cpus))
	for i, cpus := range b.settings.cpus {
		runtime.GC() // collect the garbage of the last measurement before this one begins
		var err error
		if all[i], err = b.settings.plan.Spread(ctx, cpus, trials...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// beyond returns how much longer an operation of a series took than one of a base, and at least 0.
func beyond(s, base meter.Series) float64 { return max(0, s.NS()-base.NS()) }

// machine describes the machine of this run.
func machine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s, %s. Nanoseconds of processor time, net of the loop, on 1 / 2 CPUs.",
		runtime.NumCPU(), model, runtime.GOOS, runtime.Version())
}
