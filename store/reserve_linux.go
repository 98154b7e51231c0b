package store

import (
	"errors"
	"sync"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// Badger makes a file long, maps it, and writes through the map. The file has no blocks on the disk until then. If the disk is full
// when a page is written first, the kernel sends SIGBUS, and the process ends: Badger writes on goroutines of its own, so that nobody
// can recover. Badger has no option for this. So the store wraps the function with which package unix maps files: it gives a file
// its blocks before the file is mapped for writing. If the disk has no room for them, the map fails with ENOSPC. Badger returns that
// error, or logs it and tries again each second. It leaves the file open, empty, until the garbage collector closes it.
//
// TestAFullDiskIsAnErrorAndNoSignal fails if a later version of Badger, or of package unix, maps files in another way.

// Tables get all their blocks: Badger writes them in the background, long after the store has asked for free space. A write-ahead
// file gets those of its start only. It is twice as long as what Badger writes to it, and each commit asks for free space just
// before it writes there. So one danger is left: others who take all of Options.MinFree within one commit.

// walStart is how many bytes of a new write-ahead file get blocks. Badger writes to the file's start when it makes the file.
const walStart = 64 << 10

// mmapper is the start of unix.mremapMmapper.
type mmapper struct {
	sync.Mutex
	_    map[*byte][]byte // active maps
	mmap mmapFunc
}

type mmapFunc func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error)

//go:linkname mapper golang.org/x/sys/unix.mapper
var mapper *mmapper //nolint:gochecknoglobals // it is the one of package unix

// The function is wrapped before main starts, so that no goroutine maps files meanwhile.
var _ = wrapMmap()

// wrapMmap makes package unix reserve the blocks of a file before it maps the file to be written. It returns the function that it
// has wrapped.
func wrapMmap() mmapFunc {
	mmap := mapper.mmap
	mapper.mmap = func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error) {
		if fd >= 0 && prot&unix.PROT_WRITE != 0 && flags&unix.MAP_TYPE == unix.MAP_SHARED {
			if err := reserve(fd, offset, int64(length)); err != nil {
				return 0, err
			}
		}
		return mmap(addr, length, prot, flags, fd, offset)
	}
	return mmap
}

// reserve gives part of a file the blocks that it lacks. It does nothing on filesystems that cannot reserve blocks. If there is no
// room, it returns ENOSPC or EDQUOT, and a file that had no blocks is empty afterwards.
func reserve(fd int, offset, length int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if length == 2*memTable {
		length = walStart
	}
	if length == 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Blocks*512 >= st.Size {
		return nil
	}
	err := unix.Fallocate(fd, 0, offset, length)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(fd, 0, offset, length)
	}
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return nil // reserved, or not possible here: then there is Options.MinFree only
	}
	if st.Blocks == 0 {
		_ = unix.Ftruncate(fd, 0) // what was reserved of it would be missed by others
	}
	return err
}
