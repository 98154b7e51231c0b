package tail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// tell logs once that no line has come from the path for ten seconds, and why that may be.
func (f *Follower) tell() {
	if f.fed || f.told || f.Now().Sub(f.began) < tellAfter {
		return
	}
	f.told = true
	f.Logger.Warn("no line has come from a file yet", "path", f.Path, "after", tellAfter, "cause", f.cause())
}

// cause says why there may be no lines.
func (f *Follower) cause() string {
	info, err := f.disk.stat(f.Path)
	var readable file
	if err == nil {
		readable, err = f.disk.open(f.Path)
	}
	if readable != nil {
		_ = readable.Close()
	}
	current := f.current()
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, err := f.disk.stat(filepath.Dir(f.Path)); err != nil {
			return fmt.Sprintf("its directory is not there: %v", err)
		}
		return "there is no such file: is it the path that the server writes to, as this process sees it?"
	case errors.Is(err, os.ErrPermission):
		return fmt.Sprintf("it cannot be read by this user: %v", err)
	case err != nil:
		return fmt.Sprintf("it cannot be opened: %v", err)
	case !info.Mode().IsRegular():
		return fmt.Sprintf("it is no regular file: its mode is %v", info.Mode())
	case info.Size() == 0:
		return "it is empty: does the server write to it?"
	case current != nil && current.log != nil:
		return "all of it was read before, and nothing was added since: does the server write to another file?"
	}
	return "it has no line end yet"
}
