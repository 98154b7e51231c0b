package version

import (
	"runtime"
	"strings"
	"testing"
)

// TestThisBuild: its version is what the linker said, and else one word that the go command knows.
func TestThisBuild(t *testing.T) {
	defer func(before string) { version = before }(version)
	version = ""
	if got := This().Version; got == "" || strings.ContainsAny(got, " ()\n") {
		t.Errorf("without a linker's word: got %q, want one word", got)
	}
	version = "v1.2.3-rc.1+linker"
	if b := This(); b.Type != "version" || b.Version != version || b.Go != runtime.Version() || b.OS == "" || b.Arch == "" {
		t.Errorf("with it: got %+v", b)
	}
}
