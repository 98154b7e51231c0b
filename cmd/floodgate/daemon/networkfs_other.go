//go:build !linux

package daemon

// networkFileSystem returns "": it can only ask Linux.
func networkFileSystem(string) string { return "" }
