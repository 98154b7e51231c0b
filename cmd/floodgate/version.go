package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/printable"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version = ""

// build is what version prints about the program.
type build struct {
	Type     string `json:"type"` // version
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the repository, if the go command knew it
	Modified bool   `json:"modified,omitempty"` // files differed from the revision
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func runVersion(_ context.Context, p process, args []string) error {
	flags := newFlags("version [flags]")
	var out outputFlag
	flags.Var(&out, "output", "table or json")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	b := thisBuild()
	if out.json {
		return printable.JSON(p.stdout).Encode(b)
	}
	_, err := fmt.Fprintf(p.stdout, "floodgate %s %s %s/%s\n", b.Version, b.Go, b.OS, b.Arch)
	return err
}

func thisBuild() build {
	b := build{Type: "version", Version: versionString(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// versionString returns the version that the linker set, else the one that the go command recorded, else "devel".
func versionString() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// logStart logs which program starts, as the first line of a daemon's log. What else is given says by what it decides.
func logStart(logger *slog.Logger, what string, with ...any) {
	b := thisBuild()
	logger.Info("starting "+what, append([]any{"version", b.Version, "revision", b.Revision}, with...)...)
}

// buildMetric returns the metric whose labels say which build runs: floodgate_build_info, always 1.
func buildMetric() prometheus.Collector {
	b := thisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "floodgate_build_info", Help: "1, with the version of the program in the labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go": b.Go},
	})
	info.Set(1)
	return info
}
