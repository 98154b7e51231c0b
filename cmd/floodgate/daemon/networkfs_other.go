//go:build !linux

package daemon

// networkFileSystem returns "": only Linux can be asked.
func networkFileSystem(string) string { return "" }
