package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version = ""

func runVersion(_ context.Context, p process, args []string) error {
	flags := newFlags("version")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "floodgate %s %s %s/%s\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// versionString prefers what the linker was told, then what the go command recorded, then "devel".
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
