//go:build lab && linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lossyDisk is an ext4 in a file, from which the power can be taken: it then has what was synced, what its journal has, and what the kernel
// has happened to write.
type lossyDisk struct {
	t         *testing.T
	image, at string
}

// newLossyDisk skips the test where a process may not mount.
func newLossyDisk(t *testing.T, megabytes int64) *lossyDisk {
	t.Helper()
	dir := t.TempDir()
	d := &lossyDisk{t: t, image: filepath.Join(dir, "image"), at: filepath.Join(dir, "disk")}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(megabytes << 20); err != nil {
		t.Fatal(err)
	}
	_ = f.Close() // it is empty
	if err := os.Mkdir(d.at, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", d.image).CombinedOutput(); err != nil {
		t.Skipf("needs mkfs.ext4: %v %s", err, out)
	}
	if err := d.mount(); err != nil {
		t.Skipf("needs to mount a file: %v", err)
	}
	t.Cleanup(func() { _ = d.unmount() })
	return d
}

func (d *lossyDisk) mount() error {
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.at).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// unmount ends when the kernel has let go of the file, which comes later: a mount before that would get the disk without power.
func (d *lossyDisk) unmount() error {
	if out, err := exec.Command("umount", d.at).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if out, err := exec.Command("losetup", "-j", d.image).CombinedOutput(); err != nil || len(out) == 0 {
			return err
		}
	}
	return errors.New("the file is in use 10 s after it was unmounted")
}

// lose takes the power: nothing that is only in memory reaches the disk any more (EXT4_IOC_SHUTDOWN without a flush of the journal).
func (d *lossyDisk) lose() {
	d.t.Helper()
	f, err := os.Open(d.at)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	const shutdown, withoutFlush = 0x8004587d, 2
	how := uint32(withoutFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		d.t.Skipf("needs a file system that can be shut down: %v", errno)
	}
}

// TestServeLosesPower takes the disk of serve's data away at random moments, with all that was not synced. The logs are on another one: each
// of their lines counts once.
func TestServeLosesPower(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	disk := newLossyDisk(t, 2000)
	s := newKilledServe(t)
	s.data = filepath.Join(disk.at, "data")
	s.begin()
	for range *serveCuts {
		s.goOn(time.Duration(s.rnd.IntN(2000)) * time.Millisecond)
		disk.lose()
		s.goOn(time.Duration(s.rnd.IntN(100)) * time.Millisecond)
		s.kill()
		s.must(disk.unmount())
		s.must(disk.mount())
		s.start()
	}
	s.wantAll()
	s.must(disk.unmount())
	if out, err := exec.Command("e2fsck", "-fn", disk.image).CombinedOutput(); err != nil {
		t.Errorf("the file system is broken, so this proves nothing: %v %s", err, out)
	}
	s.must(disk.mount())
}
