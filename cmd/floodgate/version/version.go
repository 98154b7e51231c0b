package version

import (
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// version is set by the linker in release builds: -ldflags "-X github.com/509da70d/floodgate/cmd/floodgate/version.version=v1.2.3".
var version = ""

// Build is what version prints about the program.
type Build struct {
	Type     string `json:"type"` // version
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the repository, if the go command knew it
	Modified bool   `json:"modified,omitempty"` // files differed from the revision
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// This returns the build of this program.
func This() Build {
	b := Build{Type: "version", Version: versionString(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
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

// LogStart logs which program starts, as the first line of a daemon's log. with are names and values of what the program decides by,
// such as its rules.
func LogStart(logger *slog.Logger, what string, with ...any) {
	b := This()
	logger.Info("starting "+what, append([]any{"version", b.Version, "revision", b.Revision}, with...)...)
}

// Metric returns the metric whose labels say which build runs: floodgate_build_info, always 1.
func Metric() prometheus.Collector {
	b := This()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "floodgate_build_info", Help: "1, with the version of the program in the labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go": b.Go},
	})
	info.Set(1)
	return info
}
